package worker_test

import (
	"context"
	"sync"
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
						t.Errorf("job %s: %d failures, %d crashes, error %+v, due %s",
							id, j.Failures, j.Crashes, j.LastError, j.RunAt)
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
