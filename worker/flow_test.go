package worker_test

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/daybooktest"
	"github.com/daybookdev/daybook/worker"
)

// A database that is away for two leases costs nobody's work: the sessions live
// on when it is back, and what handlers did is recorded.
func TestDatabaseAwayForTwoLeasesLosesNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, book *daybooktest.Book) {
		fleet := make([]*process, 5)
		for i := range fleet {
			p := newProcess(t, book, worker.Config{Concurrency: 4})
			worker.Handle(p.Worker, "job", func(context.Context, *worker.Claim[none]) error {
				time.Sleep(90 * time.Second)
				return nil
			})
			fleet[i] = p
		}
		ids := make([]daybook.ID, 20)
		for i := range ids {
			ids[i] = enqueue(t, book, daybook.Request{})
		}
		for _, p := range fleet {
			p.start(t)
		}
		after(20 * time.Second)
		for _, p := range fleet {
			p.cut()
		}
		after(2 * daybook.LeaseDefault)
		for _, p := range fleet {
			p.mend()
		}
		after(5 * time.Minute)
		for _, id := range ids {
			if j := book.RequireState(id, daybook.Succeeded); j.Generation != 1 {
				t.Errorf("job %s has generation %d, want 1", id, j.Generation)
			}
		}
		for i, p := range fleet {
			if s := p.Stats(); s.Sessions != 1 || s.Lost != 0 || s.Fenced != 0 {
				t.Errorf("worker %d: %+v; want one session, nothing lost or fenced", i, s)
			}
		}
	})
}

// A claim's answer that comes too late to be trusted is asked for again.
func TestLateClaimAnswerStartsNothingTwice(t *testing.T) {
	inBubble(t, func(t *testing.T, book *daybooktest.Book) {
		p := newProcess(t, book, worker.Config{})
		var late atomic.Bool
		p.set(nil, func(doing string) error {
			if doing == "claiming" && !late.Swap(true) {
				time.Sleep(25 * time.Second)
			}
			return nil
		})
		var runs atomic.Int32
		worker.Handle(p.Worker, "job", func(context.Context, *worker.Claim[none]) error { runs.Add(1); return nil })
		id := enqueue(t, book, daybook.Request{})
		p.start(t)
		after(2 * time.Minute)
		j := book.RequireState(id, daybook.Succeeded)
		if s := p.Stats(); runs.Load() != 1 || s.Fenced != 0 || j.Failures+j.Crashes != 0 {
			t.Errorf("%d runs, stats %+v, %d failures, %d crashes; want one run and no blame",
				runs.Load(), s, j.Failures, j.Crashes)
		}
	})
}

// Claims come in batches: a thousand jobs must not cost a thousand calls.
func TestClaimsComeInBatches(t *testing.T) {
	inBubble(t, func(t *testing.T, book *daybooktest.Book) {
		requests := make([]daybook.Request, 2000)
		for i := range requests {
			requests[i] = daybook.Request{Queue: "q", Kind: "job"}
		}
		if _, err := book.EnqueueMany(t.Context(), requests); err != nil {
			t.Fatal(err)
		}
		p := newProcess(t, book, worker.Config{Concurrency: 100})
		p.bell.Close()
		var running, most atomic.Int32
		worker.Handle(p.Worker, "job", func(context.Context, *worker.Claim[none]) error {
			n := running.Add(1)
			for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
			}
			time.Sleep(time.Millisecond)
			running.Add(-1)
			return nil
		})
		if err := p.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := p.count("claiming"); got > 40 {
			t.Errorf("%d claim calls for 2000 jobs in 100 slots", got)
		}
		if most.Load() != 100 {
			t.Errorf("%d handlers ran at once, want all 100 slots", most.Load())
		}
	})
}

// The gaps of the worker are marked in order.
func TestGapsAreMarked(t *testing.T) {
	inBubble(t, func(t *testing.T, book *daybooktest.Book) {
		p := newProcess(t, book, worker.Config{})
		p.bell.Close()
		id := enqueue(t, book, daybook.Request{})
		var mu sync.Mutex
		var gaps []string
		p.onGap(func(gap string, job daybook.ID) {
			mu.Lock()
			defer mu.Unlock()
			if job == id {
				gaps = append(gaps, gap)
			} else if gap == daybook.GapClaim && len(gaps) == 0 {
				gaps = append(gaps, gap)
			}
		})
		worker.Handle(p.Worker, "job", func(context.Context, *worker.Claim[none]) error { return nil })
		if err := p.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		want := []string{daybook.GapClaim, daybook.GapGrant, daybook.GapStart, daybook.GapPause,
			daybook.GapComplete, daybook.GapReply}
		if !slices.Equal(gaps, want) {
			t.Errorf("gaps %v, want %v", gaps, want)
		}
	})
}
