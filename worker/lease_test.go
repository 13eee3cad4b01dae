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
		took := told.Sub(cut)
		if !errors.Is(cause, worker.ErrLeaseLost) || took < 20*time.Second || took > 30*time.Second {
			t.Errorf("told %v after %s; want the lost lease when it ran out", cause, took)
		}
		if s := p.Stats(); s.Healthy {
			t.Errorf("stats %+v: healthy without a lease", s)
		}
		p.mend()
		after(time.Minute)
		// Nobody had ended the session: what was broken off costs no failure.
		j := book.RequireState(id, daybook.Succeeded)
		requireAttempts(t, book, id, daybook.OutcomeReleased, daybook.OutcomeSucceeded)
		if s := p.Stats(); j.Failures != 0 || j.Crashes != 0 || s.Sessions != 1 || !s.Healthy {
			t.Errorf("%d failures, %d crashes, stats %+v; want none and one healthy session", j.Failures, j.Crashes, s)
		}
	})
}

// The lease counts from before it was asked for, however long the answer took.
func TestLeaseCountsFromBeforeTheCall(t *testing.T) {
	for _, slow := range []string{"starting a session", "renewing a lease"} {
		t.Run(slow, func(t *testing.T) {
			inBubble(t, func(t *testing.T, book *daybooktest.Book) {
				p := newProcess(t, book, worker.Config{NoLoops: true})
				var sent, told time.Time
				p.set(func(_ context.Context, doing string) error {
					if doing == slow {
						sent = time.Now()
					}
					return nil
				}, func(doing string) error {
					if doing == slow {
						time.Sleep(8 * time.Second)
						p.cut()
						if slow == "starting a session" {
							p.set(cutAllBut("claiming"), nil)
						}
					}
					return nil
				})
				worker.Handle(p.Worker, "job", func(ctx context.Context, _ *worker.Claim[none]) error {
					<-ctx.Done()
					told = time.Now()
					return ctx.Err()
				})
				enqueue(t, book, daybook.Request{})
				p.start(t)
				after(2 * time.Minute)
				if got := told.Sub(sent); got != daybook.LeaseDefault {
					t.Errorf("the handler was told %s after the call, want the lease", got)
				}
			})
		})
	}
}

// Nothing begins while the lease is in doubt.
func TestNothingBeginsWithoutALease(t *testing.T) {
	inBubble(t, func(t *testing.T, book *daybooktest.Book) {
		p := newProcess(t, book, worker.Config{Concurrency: 1, Lease: time.Second, NoLoops: true})
		var slow atomic.Int32
		worker.Handle(p.Worker, "fast", func(context.Context, *worker.Claim[none]) error { return nil })
		worker.Handle(p.Worker, "slow", func(context.Context, *worker.Claim[none]) error {
			slow.Add(1)
			for range 300 { // others must wait for the slot before the book goes away
				if p.Stats().Waiting > 0 {
					break
				}
				time.Sleep(time.Millisecond)
			}
			p.cut()
			time.Sleep(3 * time.Second) // past the lease, deaf
			return nil
		})
		for range 50 { // fast ones make the worker take a few ahead
			enqueue(t, book, daybook.Request{Kind: "fast", Priority: 1})
		}
		for range 5 {
			enqueue(t, book, daybook.Request{Kind: "slow"})
		}
		p.start(t)
		after(500 * time.Millisecond)
		if s := p.Stats(); s.Waiting == 0 {
			t.Fatalf("stats %+v, want claims that wait for the slot", s)
		}
		after(4 * time.Second)
		if slow.Load() != 1 {
			t.Errorf("%d handlers began, want none after the lease ran out", slow.Load()-1)
		}
		p.mend()
		after(time.Minute)
	})
}

// oban-bg/oban #862: a restarted node of the same name "owned" its
// predecessor's jobs.
func TestL11_SameNameOwnsNothingOfItsPredecessor(t *testing.T) {
	inBubble(t, func(t *testing.T, book *daybooktest.Book) {
		id := enqueue(t, book, daybook.Request{})
		dead := newProcess(t, book, worker.Config{Name: "w1"})
		hang := make(chan struct{})
		defer close(hang)
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
		requireAttempts(t, book, id, daybook.OutcomeLost, daybook.OutcomeSucceeded)
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
