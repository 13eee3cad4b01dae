package worker_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/daybooktest"
	"github.com/daybookdev/daybook/worker"
)

// timgit/pg-boss #555: the first handler wasn't told that its job was given
// away.
func TestL7_LostLeaseEndsTheHandlerAndFencesItsResult(t *testing.T) {
	inBubble(t, func(t *testing.T, book *daybooktest.Book) {
		id := enqueue(t, book, daybook.Request{})
		p := newProcess(t, book, worker.Config{Lease: 30 * time.Second})
		var told time.Time
		var cause error
		worker.Handle(p.Worker, "job", func(ctx context.Context, c *worker.Claim[none]) error {
			<-ctx.Done()
			told, cause = time.Now(), context.Cause(ctx)
			return c.SetResult("late")
		})
		p.start(t)
		after(time.Second)
		taken := time.Now()
		if _, err := book.Cancel(t.Context(), id, daybook.By{Actor: "ada"}, true); err != nil { // revokes
			t.Fatal(err)
		}
		after(time.Minute)
		if !errors.Is(cause, worker.ErrLeaseLost) || told.Sub(taken) > 10*time.Second {
			t.Errorf("told %v after %s; want the lost lease within a renewal", cause, told.Sub(taken))
		}
		if j := book.RequireState(id, daybook.Cancelled); j.Result != nil {
			t.Errorf("the late result %s landed", j.Result)
		}
		if s := p.Stats(); s.Lost != 1 || s.Fenced != 1 || s.Succeeded != 0 {
			t.Errorf("stats %+v; want 1 lost, 1 fenced, 0 succeeded", s)
		}
		events, err := book.Timeline(t.Context(), id)
		if err != nil || !slices.ContainsFunc(events, func(e daybook.Event) bool { return e.What == "fenced" }) {
			t.Errorf("the timeline doesn't show the fenced outcome: %v, %v", events, err)
		}
	})
}

// rails/solid_queue #748: a completion that couldn't be written stayed claimed
// for ever.
func TestL9_CompletionIsRepeatedUntilTheBookAnswers(t *testing.T) {
	for _, c := range []struct {
		name    string
		away    time.Duration
		ended   bool // the book gave the job away meanwhile
		fenced  int64
		outcome []daybook.OutcomeKind
	}{
		{"short", 25 * time.Second, false, 0, []daybook.OutcomeKind{daybook.OutcomeSucceeded}},
		{"past the lease", 2 * time.Minute, true, 1,
			[]daybook.OutcomeKind{daybook.OutcomeLost, daybook.OutcomeSucceeded}},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, book *daybooktest.Book) {
				id := enqueue(t, book, daybook.Request{})
				reconciling(t, book)
				p := newProcess(t, book, worker.Config{Lease: 30 * time.Second, NoLoops: true})
				var runs atomic.Int32
				worker.Handle(p.Worker, "job", func(context.Context, *worker.Claim[none]) error {
					if runs.Add(1) == 1 {
						p.set(func(_ context.Context, doing string) error { // renewals get through while it's short
							if c.ended || doing == "recording outcomes" {
								return away(doing)
							}
							return nil
						}, nil)
					}
					return nil
				})
				p.start(t)
				after(c.away)
				book.RequireState(id, map[bool]daybook.State{false: daybook.Running, true: daybook.Waiting}[c.ended])
				p.mend()
				after(time.Minute)
				book.RequireState(id, daybook.Succeeded)
				requireAttempts(t, book, id, c.outcome...)
				if s := p.Stats(); s.Fenced != c.fenced || s.Unrecorded != 0 {
					t.Errorf("stats %+v; want %d fenced and nothing unrecorded", s, c.fenced)
				}
			})
		})
	}
}

// stroppy-io/stroppy #167: a lost answer was taken for a failure, or applied
// twice. Of each kind of call four answers in five are lost; the book itself
// makes a call three times before it gives up.
func TestLostAnswersChangeNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, book *daybooktest.Book) {
		ids := make([]daybook.ID, 20)
		for i := range ids {
			ids[i] = enqueue(t, book, daybook.Request{OnLost: daybook.LostSetAside})
		}
		p := newProcess(t, book, worker.Config{Concurrency: 3})
		p.set(nil, func(doing string) error {
			if p.count(doing)%5 != 0 {
				return away(doing)
			}
			return nil
		})
		var runs atomic.Int32
		worker.Handle(p.Worker, "job", func(context.Context, *worker.Claim[none]) error {
			runs.Add(1)
			return nil
		})
		p.start(t)
		after(5 * time.Minute)
		for _, id := range ids {
			if j := book.RequireState(id, daybook.Succeeded); j.Generation != 1 {
				t.Errorf("job %s took %d attempts", id, j.Generation)
			}
		}
		if s := p.Stats(); runs.Load() != 20 || s.Fenced != 0 || s.Succeeded != 20 {
			t.Errorf("%d runs, stats %+v; want each once and nothing fenced", runs.Load(), s)
		}
	})
}

// digitaldrywood/detent #1433: renewals starved and live work was reclaimed.
// Here every call of the worker takes a quarter of its lease.
func TestL12_SlowRenewalsLoseNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, book *daybooktest.Book) {
		reconciling(t, book)
		p := newProcess(t, book, worker.Config{Concurrency: 4, NoLoops: true})
		p.set(func(ctx context.Context, doing string) error {
			select {
			case <-ctx.Done():
				return away(doing)
			case <-time.After(daybook.LeaseDefault / 4):
				return nil
			}
		}, nil)
		worker.Handle(p.Worker, "job", func(ctx context.Context, _ *worker.Claim[none]) error {
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-time.After(2 * time.Minute):
				return nil
			}
		})
		ids := make([]daybook.ID, 4)
		for i := range ids {
			ids[i] = enqueue(t, book, daybook.Request{})
		}
		p.start(t)
		after(5 * time.Minute)
		for _, id := range ids {
			if j := book.RequireState(id, daybook.Succeeded); j.Generation != 1 {
				t.Errorf("job %s has generation %d, want 1", id, j.Generation)
			}
		}
		p.mend()
	})
}

// The same report: a process that is stopped past its lease and goes on.
func TestL12_PausedProcessIsFenced(t *testing.T) {
	inBubble(t, func(t *testing.T, book *daybooktest.Book) {
		id := enqueue(t, book, daybook.Request{})
		p := newProcess(t, book, worker.Config{})
		resume := make(chan struct{})
		worker.Handle(p.Worker, "job", func(_ context.Context, c *worker.Claim[none]) error {
			<-resume // deaf, like a stopped process
			return c.SetResult("old")
		})
		p.start(t)
		after(time.Second)
		p.set(func(ctx context.Context, _ string) error { // its calls stand still with it
			select {
			case <-ctx.Done():
			case <-resume:
			}
			return nil
		}, nil)
		q := newProcess(t, book, worker.Config{})
		worker.Handle(q.Worker, "job", func(_ context.Context, c *worker.Claim[none]) error {
			return c.SetResult("new")
		})
		q.start(t)
		after(time.Minute)
		close(resume)
		p.mend()
		after(time.Minute)
		j := book.RequireState(id, daybook.Succeeded)
		if string(j.Result) != `"new"` || j.Generation <= 1 {
			t.Errorf("result %s at generation %d, want the new owner's", j.Result, j.Generation)
		}
		requireAttempts(t, book, id, daybook.OutcomeLost, daybook.OutcomeSucceeded)
		if s := p.Stats(); s.Fenced != 1 || s.Sessions != 2 {
			t.Errorf("old owner's stats %+v; want 1 fenced and a second session", s)
		}
	})
}
