package worker_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/daybooktest"
	"github.com/daybookdev/daybook/worker"
)

// hibiken/asynq #532: a cancelled job went to retry. riverqueue/river PR #1245:
// the signal was dropped when nothing was claimed.
func TestL56_CancelOfARunningJobIsForGood(t *testing.T) {
	stopped, outcome := daybook.Cancelled, daybook.OutcomeCancelled
	for _, c := range []struct {
		name    string
		end     func(ctx context.Context) error
		state   daybook.State
		outcome daybook.OutcomeKind
	}{
		{"it stops", func(ctx context.Context) error { return ctx.Err() }, stopped, outcome},
		{"it says why", func(ctx context.Context) error { return context.Cause(ctx) }, stopped, outcome},
		{"it fails", func(context.Context) error { return errors.New("boom") }, stopped, outcome},
		{"it snoozes", func(context.Context) error { return worker.Snooze(time.Minute) }, stopped, outcome},
		{"it succeeds", func(context.Context) error { return nil }, daybook.Succeeded, daybook.OutcomeSucceeded},
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
				requireAttempts(t, book, id, c.outcome)
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
		p := newProcess(t, book, worker.Config{Concurrency: 1, Lease: 3 * time.Second})
		finish := make(chan struct{})
		defer close(finish)
		var fast, slow atomic.Int32
		worker.Handle(p.Worker, "fast", func(context.Context, *worker.Claim[none]) error {
			fast.Add(1)
			return nil
		})
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
		after(time.Second) // the next renewal says it
		book.RequireState(last, daybook.Cancelled)
		book.RequireState(ids[1], daybook.Running)
		after(15 * time.Second)
		// What waited too long behind the slow handler went back to the others.
		for _, id := range ids[1 : len(ids)-1] {
			if j := book.RequireState(id, daybook.Waiting); j.Failures != 0 {
				t.Errorf("job %s has %d failures", id, j.Failures)
			}
		}
		if s := p.Stats(); s.Waiting != 0 || slow.Load() != 1 {
			t.Errorf("stats %+v and %d slow runs; want none waiting and one run", s, slow.Load())
		}
	})
}
