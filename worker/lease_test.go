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

// hexpm/hexpm PR #1825: rescue by age ran a long job several times.
func TestL6_LongJobIsRenewedAndRunsOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, book *daybooktest.Book) {
		id := enqueue(t, book, daybook.Request{})
		reconciling(t, book)
		var runs atomic.Int32
		for range 2 {
			p := newProcess(t, book, worker.Config{Lease: 2 * time.Second, Poll: time.Second})
			worker.Handle(p.Worker, "job", func(ctx context.Context, _ *worker.Claim[none]) error {
				runs.Add(1)
				select {
				case <-ctx.Done():
					return context.Cause(ctx)
				case <-time.After(20 * time.Second):
					return nil
				}
			})
			p.start(t)
		}
		after(time.Minute)
		j := book.RequireState(id, daybook.Succeeded)
		if runs.Load() != 1 || j.Generation != 1 {
			t.Errorf("%d runs, generation %d; want 1 and 1", runs.Load(), j.Generation)
		}
	})
}

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

// The worker's own clock ends handlers when renewals don't get through, counted
// from before the last renewal was sent; the session lives on when they do.
func TestOwnClockEndsHandlersWhenRenewalsFail(t *testing.T) {
	inBubble(t, func(t *testing.T, book *daybooktest.Book) {
		id := enqueue(t, book, daybook.Request{})
		p := newProcess(t, book, worker.Config{Lease: 30 * time.Second})
		var told time.Time
		var cause error
		worker.Handle(p.Worker, "job", func(ctx context.Context, _ *worker.Claim[none]) error {
			if told.IsZero() {
				<-ctx.Done()
				told, cause = time.Now(), context.Cause(ctx)
				return ctx.Err()
			}
			return nil
		})
		p.start(t)
		after(time.Second)
		cut := time.Now()
		p.cut()
		after(40 * time.Second)
		if !errors.Is(cause, worker.ErrLeaseLost) || told.Sub(cut) < 20*time.Second || told.Sub(cut) > 30*time.Second {
			t.Errorf("told %v after %s; want the lost lease when it ran out", cause, told.Sub(cut))
		}
		if s := p.Stats(); s.Healthy {
			t.Errorf("stats %+v: healthy without a lease", s)
		}
		p.mend()
		after(time.Minute)
		// Nobody had ended the session: what was broken off costs no failure.
		j := book.RequireState(id, daybook.Succeeded)
		if got, want := attempts(t, book, id), []daybook.OutcomeKind{daybook.OutcomeReleased, daybook.OutcomeSucceeded}; !slices.Equal(got, want) {
			t.Errorf("attempts %v, want %v", got, want)
		}
		if s := p.Stats(); j.Failures != 0 || j.Crashes != 0 || s.Sessions != 1 || !s.Healthy {
			t.Errorf("%d failures, %d crashes, stats %+v; want none and one healthy session", j.Failures, j.Crashes, s)
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
		{"short", 10 * time.Second, false, 0, []daybook.OutcomeKind{daybook.OutcomeSucceeded}},
		{"past the lease", 2 * time.Minute, true, 1, []daybook.OutcomeKind{daybook.OutcomeLost, daybook.OutcomeSucceeded}},
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
				if got := attempts(t, book, id); !slices.Equal(got, c.outcome) {
					t.Errorf("attempts %v, want %v", got, c.outcome)
				}
				if s := p.Stats(); s.Fenced != c.fenced || s.Unrecorded != 0 {
					t.Errorf("stats %+v; want %d fenced and nothing unrecorded", s, c.fenced)
				}
			})
		})
	}
}

// stroppy-io/stroppy #167: a lost answer was taken for a failure, or applied
// twice. Every call's answer is lost once.
func TestLostAnswersChangeNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, book *daybooktest.Book) {
		ids := make([]daybook.ID, 20)
		for i := range ids {
			ids[i] = enqueue(t, book, daybook.Request{OnLost: daybook.LostSetAside})
		}
		p := newProcess(t, book, worker.Config{Concurrency: 3})
		var n atomic.Int32
		p.set(nil, func(doing string) error { // the book itself repeats three times
			if n.Add(1)%5 != 0 {
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

// oban-bg/oban #862: a restarted node of the same name "owned" its
// predecessor's jobs.
func TestL11_SameNameOwnsNothingOfItsPredecessor(t *testing.T) {
	inBubble(t, func(t *testing.T, book *daybooktest.Book) {
		id := enqueue(t, book, daybook.Request{})
		dead := newProcess(t, book, worker.Config{Name: "w1"})
		hang := make(chan struct{})
		worker.Handle(dead.Worker, "job", func(context.Context, *worker.Claim[none]) error { <-hang; return nil })
		dead.start(t)
		after(time.Second)
		dead.cut() // kill -9, as far as anybody can see
		killed := time.Now()

		next := newProcess(t, book, worker.Config{Name: "w1"})
		var begun time.Time
		worker.Handle(next.Worker, "job", func(context.Context, *worker.Claim[none]) error {
			begun = time.Now()
			return nil
		})
		next.start(t)
		after(2 * time.Minute)
		book.RequireState(id, daybook.Succeeded)
		if took := begun.Sub(killed); took < 20*time.Second || took > 45*time.Second {
			t.Errorf("recovered after %s, want a lease of 30s and at most a pass or two", took)
		}
		if got, want := attempts(t, book, id), []daybook.OutcomeKind{daybook.OutcomeLost, daybook.OutcomeSucceeded}; !slices.Equal(got, want) {
			t.Errorf("attempts %v, want %v", got, want)
		}
		close(hang)
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
		worker.Handle(q.Worker, "job", func(_ context.Context, c *worker.Claim[none]) error { return c.SetResult("new") })
		q.start(t)
		after(time.Minute)
		close(resume)
		p.mend()
		after(time.Minute)
		j := book.RequireState(id, daybook.Succeeded)
		if string(j.Result) != `"new"` || j.Generation <= 1 {
			t.Errorf("result %s at generation %d, want the new owner's", j.Result, j.Generation)
		}
		if got, want := attempts(t, book, id), []daybook.OutcomeKind{daybook.OutcomeLost, daybook.OutcomeSucceeded}; !slices.Equal(got, want) {
			t.Errorf("attempts %v, want %v", got, want)
		}
		if s := p.Stats(); s.Fenced != 1 || s.Sessions != 2 {
			t.Errorf("old owner's stats %+v; want 1 fenced and a second session", s)
		}
	})
}

// sidekiq/sidekiq #4611: a booting process "recovered" jobs that ran.
func TestL13_StartingWorkersReclaimNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, book *daybooktest.Book) {
		var runs atomic.Int32
		start := func() {
			p := newProcess(t, book, worker.Config{Concurrency: 5})
			worker.Handle(p.Worker, "job", func(context.Context, *worker.Claim[none]) error {
				runs.Add(1)
				time.Sleep(5 * time.Second)
				return nil
			})
			p.start(t)
		}
		start()
		ids := make([]daybook.ID, 100)
		for i := range ids {
			ids[i] = enqueue(t, book, daybook.Request{})
		}
		for range 20 {
			after(time.Second)
			start()
		}
		after(2 * time.Minute)
		for _, id := range ids {
			if j := book.RequireState(id, daybook.Succeeded); j.Generation != 1 {
				t.Errorf("job %s has generation %d, want 1", id, j.Generation)
			}
		}
		if runs.Load() != 100 {
			t.Errorf("%d runs of 100 jobs", runs.Load())
		}
	})
}

// celery/kombu #337: a delay longer than the visibility timeout made copies.
func TestL52_DelayLongerThanLeasesIsOneRun(t *testing.T) {
	inBubble(t, func(t *testing.T, book *daybooktest.Book) {
		lease := 2 * time.Second
		due := time.Now().Add(5 * lease)
		id := enqueue(t, book, daybook.Request{RunAt: due})
		var begun []time.Time
		for range 3 {
			p := newProcess(t, book, worker.Config{Lease: lease, Poll: time.Second})
			worker.Handle(p.Worker, "job", func(context.Context, *worker.Claim[none]) error {
				begun = append(begun, time.Now())
				return nil
			})
			p.start(t)
		}
		after(time.Minute)
		j := book.RequireState(id, daybook.Succeeded)
		if len(begun) != 1 || j.Generation != 1 {
			t.Fatalf("%d runs at generation %d, want one", len(begun), j.Generation)
		}
		if late := begun[0].Sub(due); late < 0 || late > 2*time.Second {
			t.Errorf("began %s after it was due, want within the poll floor", late)
		}
	})
}

// A session that the book ended is replaced, and work goes on.
func TestEndedSessionIsReplaced(t *testing.T) {
	inBubble(t, func(t *testing.T, book *daybooktest.Book) {
		p := newProcess(t, book, worker.Config{})
		worker.Handle(p.Worker, "job", func(context.Context, *worker.Claim[none]) error { return nil })
		p.start(t)
		after(time.Second)
		if err := book.EndSession(t.Context(), p.Stats().Session); err != nil {
			t.Fatal(err)
		}
		id := enqueue(t, book, daybook.Request{})
		after(time.Minute)
		book.RequireState(id, daybook.Succeeded)
		if s := p.Stats(); s.Sessions != 2 || !s.Healthy {
			t.Errorf("stats %+v; want a second, healthy session", s)
		}
	})
}
