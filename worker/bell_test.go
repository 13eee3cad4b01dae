package worker_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/daybooktest"
	"github.com/daybookdev/daybook/worker"
)

// A ring wakes an idle worker at once, and one ring wakes one worker.
func TestOneRingWakesOneWorker(t *testing.T) {
	inBubble(t, func(t *testing.T, book *daybooktest.Book) {
		fleet := make([]*process, 50)
		for i := range fleet {
			p := newProcess(t, book, worker.Config{Poll: -1, NoLoops: true})
			p.bell.Close()
			own := daybook.New(p.cable, daybook.Options{Bell: book.Bell(), Log: book.Log()})
			p.Worker = worker.New(own, worker.Config{Queues: []string{"q"}, Poll: -1, NoLoops: true})
			worker.Handle(p.Worker, "job", func(context.Context, *worker.Claim[none]) error { return nil })
			p.start(t)
			fleet[i] = p
		}
		calls := func() (n int) {
			synctest.Wait()
			for _, p := range fleet {
				n += p.count("claiming")
			}
			return n
		}
		before := calls()
		begun := time.Now()
		id := enqueue(t, book, daybook.Request{})
		got := calls() - before
		book.RequireState(id, daybook.Succeeded)
		if got != 1 || time.Since(begun) != 0 {
			t.Errorf("%d claim calls after %s for one ring to 50 workers, want one at once", got, time.Since(begun))
		}
	})
}

// One ring for many jobs wakes the fleet: a full claim rings once more.
func TestFullClaimRingsOn(t *testing.T) {
	inBubble(t, func(t *testing.T, book *daybooktest.Book) {
		var mu sync.Mutex
		by := map[string]int{}
		for _, name := range []string{"w1", "w2", "w3", "w4"} {
			w := worker.New(book.Book, worker.Config{Queues: []string{"q"}, Name: name,
				Concurrency: 5, Poll: -1, NoLoops: true})
			worker.Handle(w, "job", func(ctx context.Context, _ *worker.Claim[none]) error {
				mu.Lock()
				by[name]++
				mu.Unlock()
				<-ctx.Done()
				return ctx.Err()
			})
			ctx, stop := context.WithCancel(t.Context())
			done := make(chan error)
			go func() { done <- w.Run(ctx) }()
			t.Cleanup(func() { stop(); <-done })
		}
		synctest.Wait()
		requests := make([]daybook.Request, 20)
		for i := range requests {
			requests[i] = daybook.Request{Queue: "q", Kind: "job"}
		}
		if _, err := book.EnqueueMany(t.Context(), requests); err != nil {
			t.Fatal(err)
		}
		after(time.Second)
		mu.Lock()
		defer mu.Unlock()
		for name, n := range by {
			if n != 5 || len(by) != 4 {
				t.Errorf("worker %s of %d runs %d of 20 jobs, want 5 each of 4", name, len(by), n)
			}
		}
	})
}

// Without a bell the poll floor finds the work, jittered. A poll asks whether
// there is any, and claims only then.
func TestPollFloor(t *testing.T) {
	inBubble(t, func(t *testing.T, book *daybooktest.Book) {
		p := newProcess(t, book, worker.Config{Poll: 10 * time.Second, NoLoops: true})
		worker.Handle(p.Worker, "job", func(context.Context, *worker.Claim[none]) error { return nil })
		p.start(t)
		after(10 * time.Minute)
		if got := p.count("looking for the next due job"); got < 50 || got > 77 {
			t.Errorf("%d looks in 10 minutes, want one every 8 to 12s", got)
		}
		if got := p.count("claiming"); got != 1 {
			t.Errorf("%d claims of nothing, want the first", got)
		}
		id := enqueue(t, book, daybook.Request{})
		after(12 * time.Second)
		book.RequireState(id, daybook.Succeeded)
	})
}

// A quiet worker leaves rings to those that claim.
func TestQuietWorkerLeavesRingsToOthers(t *testing.T) {
	inBubble(t, func(t *testing.T, book *daybooktest.Book) {
		var quiet *worker.Worker
		for _, name := range []string{"w1", "w2"} {
			w := worker.New(book.Book, worker.Config{Queues: []string{"q"}, Name: name, Poll: -1, NoLoops: true})
			worker.Handle(w, "job", func(context.Context, *worker.Claim[none]) error { return nil })
			ctx, stop := context.WithCancel(t.Context())
			done := make(chan error)
			go func() { done <- w.Run(ctx) }()
			t.Cleanup(func() { stop(); <-done })
			quiet = w
		}
		synctest.Wait()
		quiet.Quiet()
		for range 6 {
			synctest.Wait()
			id := enqueue(t, book, daybook.Request{})
			synctest.Wait()
			book.RequireState(id, daybook.Succeeded)
		}
		if s := quiet.Stats(); s.Claimed != 0 {
			t.Errorf("the quiet worker claimed %d jobs", s.Claimed)
		}
	})
}
