package worker_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/daybooktest"
	"github.com/daybookdev/daybook/worker"
)

// riverqueue/river PR #1290: stopping counted as a failed attempt.
func TestL55_StoppingCostsNoAttempt(t *testing.T) {
	for _, c := range []struct {
		name string
		deaf bool // handlers ignore the end of their context
	}{{"handlers that listen", false}, {"handlers that don't", true}} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, book *daybooktest.Book) {
				p := newProcess(t, book, worker.Config{Concurrency: 20, Grace: time.Second})
				finish := make(chan struct{})
				defer close(finish)
				var causes sync.Map
				worker.Handle(p.Worker, "job", func(ctx context.Context, cl *worker.Claim[none]) error {
					if c.deaf {
						<-finish
						return nil
					}
					select {
					case <-ctx.Done():
						causes.Store(cl.Job().ID, context.Cause(ctx))
						return ctx.Err()
					case <-finish:
						return nil
					}
				})
				ids := make([]daybook.ID, 30) // ten never begin
				for i := range ids {
					ids[i] = enqueue(t, book, daybook.Request{})
				}
				p.start(t)
				after(10 * time.Second)
				begun := time.Now()
				p.end(t)
				if took := time.Since(begun); took > 2*time.Second {
					t.Errorf("stopped in %s, want the grace and a second", took)
				}
				for _, id := range ids {
					j := book.RequireState(id, daybook.Waiting)
					if j.Failures != 0 || j.Crashes != 0 || j.LastError != nil || j.RunAt.Std().After(time.Now()) {
						t.Errorf("job %s: %d failures, %d crashes, error %+v, due %s", id, j.Failures, j.Crashes, j.LastError, j.RunAt)
					}
					for _, outcome := range attempts(t, book, id) {
						if outcome != daybook.OutcomeReleased {
							t.Errorf("job %s has an attempt %s, want released", id, outcome)
						}
					}
				}
				causes.Range(func(id, cause any) bool {
					if cause != worker.ErrStopping {
						t.Errorf("job %s was told %v", id, cause)
					}
					return true
				})
				if s := p.Stats(); s.Released != 20 || (s.Leaked == 20) != c.deaf {
					t.Errorf("stats %+v; want 20 released, leaked only if deaf", s)
				}
				if live, err := book.Sessions(t.Context(), daybook.SessionFilter{}); err != nil || len(live) != 0 {
					t.Errorf("live sessions after stopping: %v, %v", live, err)
				}
			})
		})
	}
}

// Handlers that end within the grace are recorded, and Run waits no longer.
func TestStoppingWaitsForHandlersAndNoLonger(t *testing.T) {
	inBubble(t, func(t *testing.T, book *daybooktest.Book) {
		p := newProcess(t, book, worker.Config{Concurrency: 5})
		worker.Handle(p.Worker, "job", func(context.Context, *worker.Claim[none]) error {
			time.Sleep(10 * time.Second)
			return nil
		})
		ids := make([]daybook.ID, 5)
		for i := range ids {
			ids[i] = enqueue(t, book, daybook.Request{})
		}
		p.start(t)
		after(5 * time.Second)
		begun := time.Now()
		p.end(t)
		if took := time.Since(begun); took != 5*time.Second {
			t.Errorf("stopped after %s, want the 5s that the handlers took", took)
		}
		for _, id := range ids {
			book.RequireState(id, daybook.Succeeded)
		}
	})
}

func TestStopEndsAtOnce(t *testing.T) {
	for _, c := range []struct {
		name  string
		first bool // the context ended before
	}{{"as the second signal", true}, {"as the first", false}} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, book *daybooktest.Book) {
				p := newProcess(t, book, worker.Config{})
				finish := make(chan struct{})
				defer close(finish)
				worker.Handle(p.Worker, "job", func(context.Context, *worker.Claim[none]) error { <-finish; return nil })
				id := enqueue(t, book, daybook.Request{})
				p.start(t)
				after(time.Second)
				if c.first {
					p.stop()
					after(time.Second)
				}
				begun := time.Now()
				p.Stop()
				p.Stop()
				<-p.done
				if took := time.Since(begun); took > 100*time.Millisecond {
					t.Errorf("ended after %s, want at once", took)
				}
				if j := book.RequireState(id, daybook.Waiting); j.Failures != 0 {
					t.Errorf("%d failures, want none", j.Failures)
				}
			})
		})
	}
}

// The database is away while the worker stops: it ends in its time all the same.
func TestStoppingEndsWithoutTheDatabase(t *testing.T) {
	for _, c := range []struct {
		name string
		call func(ctx context.Context, doing string) error
	}{
		{"refused", func(_ context.Context, doing string) error { return away(doing) }},
		{"no answer", func(ctx context.Context, doing string) error { <-ctx.Done(); return ctx.Err() }},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, book *daybooktest.Book) {
				p := newProcess(t, book, worker.Config{Grace: 5 * time.Second})
				worker.Handle(p.Worker, "job", func(ctx context.Context, _ *worker.Claim[none]) error {
					<-ctx.Done()
					return ctx.Err()
				})
				id := enqueue(t, book, daybook.Request{})
				p.start(t)
				after(time.Second)
				p.set(c.call, nil)
				begun := time.Now()
				p.end(t)
				if took := time.Since(begun); took > 6*time.Second {
					t.Errorf("stopped after %s, want the grace and a second", took)
				}
				book.RequireState(id, daybook.Running)
				reconciling(t, book)
				after(time.Minute)
				book.RequireState(id, daybook.Waiting)
			})
		})
	}
}

// riverqueue/river #1258: handlers that ignore their context kept jobs running
// for ever, and nobody saw it.
func TestL16_HandlerThatIgnoresItsContext(t *testing.T) {
	limit := time.Second
	for _, c := range []struct {
		name    string
		request daybook.Request
		kind    worker.KindOptions
		cfg     worker.Config
		state   daybook.State
		reason  daybook.Reason
		leaves  time.Duration // when the job is no longer running
	}{
		{"the job's limit", daybook.Request{Timeout: limit, MaxFailures: 1}, worker.KindOptions{}, worker.Config{},
			daybook.SetAside, daybook.ReasonTimeout, 10 * time.Second},
		{"the kind's limit", daybook.Request{MaxFailures: 1}, worker.KindOptions{Timeout: limit}, worker.Config{},
			daybook.SetAside, daybook.ReasonFailures, 10 * time.Second},
		{"the worker's limit", daybook.Request{MaxFailures: 1}, worker.KindOptions{}, worker.Config{Timeout: limit},
			daybook.SetAside, daybook.ReasonFailures, 10 * time.Second},
		{"the kind's limit, set aside", daybook.Request{OnLost: daybook.LostSetAside}, worker.KindOptions{Timeout: limit},
			worker.Config{}, daybook.SetAside, daybook.ReasonTimeout, 10 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, book *daybooktest.Book) {
				cfg := c.cfg
				cfg.Concurrency, cfg.Grace = 2, 5*time.Second
				p := newProcess(t, book, cfg)
				hang := make(chan struct{})
				var err error
				worker.Handle(p.Worker, "job", func(ctx context.Context, _ *worker.Claim[none]) error {
					<-hang
					err = ctx.Err()
					return nil
				}, c.kind)
				worker.Handle(p.Worker, "next", func(context.Context, *worker.Claim[none]) error { return nil })
				id := enqueue(t, book, c.request)
				p.start(t)
				after(limit + c.leaves)
				if j := book.RequireState(id, c.state); j.Reason != c.reason {
					t.Errorf("reason %q, want %q", j.Reason, c.reason)
				}
				after(time.Minute)
				if s := p.Stats(); s.Leaked != 1 || s.Running != 1 {
					t.Errorf("stats %+v; want one leaked handler that still runs", s)
				}
				next := enqueue(t, book, daybook.Request{Kind: "next"}) // the other slot works on
				after(time.Minute)
				book.RequireState(next, daybook.Succeeded)
				begun := time.Now()
				p.end(t)
				if took := time.Since(begun); took > cfg.Grace+time.Second {
					t.Errorf("stopped after %s, want the grace and a second", took)
				}
				close(hang)
				after(time.Second)
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("the handler's context says %v, want the deadline", err)
				}
				if s := p.Stats(); s.Leaked != 0 {
					t.Errorf("%d leaked after the handler returned", s.Leaked)
				}
			})
		})
	}
}

// A handler that heeds its run limit fails, and is tried again.
func TestRunLimitFailsTheAttempt(t *testing.T) {
	inBubble(t, func(t *testing.T, book *daybooktest.Book) {
		id := enqueue(t, book, daybook.Request{Timeout: time.Hour})
		w := worker.New(book.Book, worker.Config{Queues: []string{"q"}})
		begun := time.Now()
		worker.Handle(w, "job", func(ctx context.Context, _ *worker.Claim[none]) error {
			if limit, ok := ctx.Deadline(); !ok || limit.Sub(begun) != time.Hour {
				t.Errorf("the deadline is after %s", limit.Sub(begun))
			}
			<-ctx.Done()
			return ctx.Err()
		})
		book.RunUntilIdle(t.Context(), w)
		j := book.RequireState(id, daybook.Waiting)
		if took := time.Since(begun); took != time.Hour || j.Failures != 1 || j.LastError.Kind != "timeout" {
			t.Errorf("after %s: %d failures, %+v; want the limit's failure", took, j.Failures, j.LastError)
		}
	})
}

// hibiken/asynq #532: a cancelled job went to retry. riverqueue/river PR #1245:
// the signal was dropped when nothing was claimed.
func TestL56_CancelOfARunningJobIsForGood(t *testing.T) {
	for _, c := range []struct {
		name    string
		end     func(ctx context.Context) error
		state   daybook.State
		outcome daybook.OutcomeKind
	}{
		{"it stops", func(ctx context.Context) error { return ctx.Err() }, daybook.Cancelled, daybook.OutcomeCancelled},
		{"it says why", func(ctx context.Context) error { return context.Cause(ctx) }, daybook.Cancelled, daybook.OutcomeCancelled},
		{"it fails", func(context.Context) error { return errors.New("boom") }, daybook.Cancelled, daybook.OutcomeCancelled},
		{"it snoozes", func(context.Context) error { return worker.Snooze(time.Minute) }, daybook.Cancelled, daybook.OutcomeCancelled},
		{"it succeeds all the same", func(context.Context) error { return nil }, daybook.Succeeded, daybook.OutcomeSucceeded},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, book *daybooktest.Book) {
				id := enqueue(t, book, daybook.Request{})
				p := newProcess(t, book, worker.Config{})
				var cause error
				worker.Handle(p.Worker, "job", func(ctx context.Context, _ *worker.Claim[none]) error {
					<-ctx.Done()
					cause = context.Cause(ctx)
					return c.end(ctx)
				})
				p.start(t)
				after(time.Second)
				if _, err := book.Cancel(t.Context(), id, daybook.By{Actor: "ada"}, false); err != nil {
					t.Fatal(err)
				}
				after(time.Minute)
				book.RequireState(id, c.state)
				if !errors.Is(cause, worker.ErrCancelRequested) {
					t.Errorf("the handler was told %v", cause)
				}
				after(5 * time.Minute)
				if got := attempts(t, book, id); !slices.Equal(got, []daybook.OutcomeKind{c.outcome}) {
					t.Errorf("attempts %v, want one %s", got, c.outcome)
				}
			})
		})
	}
}

// riverqueue/river PR #678: seen only at the next fetch. Here no slot is free, no
// bell rings, and the cancel comes from another process.
func TestL58_CancelReachesABusyWorkerWithoutABell(t *testing.T) {
	inBubble(t, func(t *testing.T, book *daybooktest.Book) {
		p := newProcess(t, book, worker.Config{Concurrency: 2})
		var told atomic.Int64
		worker.Handle(p.Worker, "job", func(ctx context.Context, _ *worker.Claim[none]) error {
			<-ctx.Done()
			told.Store(time.Now().UnixNano())
			return ctx.Err()
		})
		first := enqueue(t, book, daybook.Request{})
		enqueue(t, book, daybook.Request{})
		p.start(t)
		after(20 * time.Second)
		if s := p.Stats(); s.Running != 2 {
			t.Fatalf("stats %+v, want both slots busy", s)
		}
		asked := time.Now()
		if _, err := book.Cancel(t.Context(), first, daybook.By{Actor: "ada"}, false); err != nil {
			t.Fatal(err)
		}
		after(daybook.LeaseDefault / 3)
		book.RequireState(first, daybook.Cancelled)
		if took := time.Unix(0, told.Load()).Sub(asked); took > daybook.LeaseDefault/3 {
			t.Errorf("told after %s, want within a renewal", took)
		}
		p.Stop()
	})
}

// A cancel of a claim that waits for a slot ends it without running it.
func TestCancelBeforeTheHandlerBegan(t *testing.T) {
	inBubble(t, func(t *testing.T, book *daybooktest.Book) {
		p := newProcess(t, book, worker.Config{Concurrency: 1})
		finish := make(chan struct{})
		var fast, slow atomic.Int32
		worker.Handle(p.Worker, "fast", func(context.Context, *worker.Claim[none]) error { fast.Add(1); return nil })
		worker.Handle(p.Worker, "slow", func(context.Context, *worker.Claim[none]) error {
			slow.Add(1)
			<-finish
			return nil
		})
		for range 50 { // fast ones make the worker take a few ahead
			enqueue(t, book, daybook.Request{Kind: "fast", Priority: 1})
		}
		ids := make([]daybook.ID, 5)
		for i := range ids {
			ids[i] = enqueue(t, book, daybook.Request{Kind: "slow"})
		}
		p.start(t)
		after(time.Second)
		if s := p.Stats(); s.Waiting == 0 {
			t.Fatalf("stats %+v, want claims that wait for the slot", s)
		}
		last := ids[len(ids)-1]
		book.RequireState(last, daybook.Running)
		if _, err := book.Cancel(t.Context(), last, daybook.By{Actor: "ada"}, false); err != nil {
			t.Fatal(err)
		}
		after(15 * time.Second)
		book.RequireState(last, daybook.Cancelled)
		// What waited too long behind the slow handler went back to the others.
		for _, id := range ids[1 : len(ids)-1] {
			if j := book.RequireState(id, daybook.Waiting); j.Failures != 0 {
				t.Errorf("job %s has %d failures", id, j.Failures)
			}
		}
		if s := p.Stats(); s.Waiting != 0 || slow.Load() != 1 {
			t.Errorf("stats %+v and %d slow runs; want none waiting and one run", s, slow.Load())
		}
		close(finish)
	})
}
