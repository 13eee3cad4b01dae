package worker_test

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/daybooktest"
	"github.com/daybookdev/daybook/reconcile"
	"github.com/daybookdev/daybook/worker"
)

// hand is a bell that a test rings itself, and that tells how each ring was
// finished. What nobody receives just then is lost.
type hand struct {
	rings chan daybook.Heard

	mu       sync.Mutex
	finished []bool
}

func (h *hand) Ring(context.Context, string) {}
func (h *hand) Close() error                 { return nil }

func (h *hand) Listen(context.Context, []string) (<-chan daybook.Heard, error) { return h.rings, nil }

// ring rings, and is false when the worker isn't there to hear it.
func (h *hand) ring(r daybook.Ring, again bool) bool {
	synctest.Wait()
	select {
	case h.rings <- daybook.Heard{Ring: r, Again: again, Done: h.done}:
		synctest.Wait()
		return true
	default:
		return false
	}
}

func (h *hand) done(acted bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.finished = append(h.finished, acted)
}

// took is how the rings since the last call were finished.
func (h *hand) took() []bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	defer func() { h.finished = nil }()
	return h.finished
}

// rung is a worker that hears only what the test rings. It looks once at its
// start.
func rung(t *testing.T, book *daybooktest.Book, cfg worker.Config,
	handler func(context.Context, *worker.Claim[none]) error) (*process, *hand) {
	t.Helper()
	if cfg.Poll == 0 {
		cfg.Poll = -1
	}
	cfg.NoLoops = true
	p := newProcess(t, book, cfg)
	h := &hand{rings: make(chan daybook.Heard)}
	if cfg.Queues == nil {
		cfg.Queues = []string{"q"}
	}
	p.Worker = worker.New(daybook.New(p.cable, daybook.Options{Bell: h, Log: book.Log(), Hook: p.cable.gap}), cfg)
	worker.Handle(p.Worker, "job", handler)
	p.start(t)
	synctest.Wait()
	return p, h
}

func succeeds(context.Context, *worker.Claim[none]) error { return nil }

// Each ring is finished after one claim attempt, whatever that found; only where
// the book couldn't be asked another worker gets it.
func TestEveryRingIsFinished(t *testing.T) {
	inBubble(t, func(t *testing.T, book *daybooktest.Book) {
		p, h := rung(t, book, worker.Config{}, succeeds)
		step := func(what string, r daybook.Ring, again bool, calls int, want ...bool) {
			t.Helper()
			before := p.count("claiming")
			if !h.ring(r, again) {
				t.Fatalf("%s: the worker doesn't hear", what)
			}
			if got := h.took(); !slices.Equal(got, want) {
				t.Errorf("%s: finished %v, want %v", what, got, want)
			}
			if got := p.count("claiming") - before; got != calls {
				t.Errorf("%s: %d claim calls, want %d", what, got, calls)
			}
		}
		id := enqueue(t, book, daybook.Request{})
		step("work", daybook.Ring{Queue: "q"}, false, 1, true)
		book.RequireState(id, daybook.Succeeded)
		step("no work", daybook.Ring{Queue: "q"}, true, 1, true)
		step("look at all", daybook.Ring{}, false, 1, true)
		step("another's queue", daybook.Ring{Queue: "other"}, false, 0, true)
		if s := p.Stats(); s.Rings != 4 || s.Again != 1 || s.Stale != 1 || s.Polled != 0 {
			t.Errorf("stats %+v, want 4 rings, 1 again, 1 stale, none found by poll", s)
		}
		p.cut()
		id = enqueue(t, book, daybook.Request{})
		step("book away", daybook.Ring{Queue: "q"}, false, 1) // the book repeats its call before it gives up
		after(155 * time.Millisecond)                         // its two repeats
		if got := h.took(); !slices.Equal(got, []bool{false}) {
			t.Errorf("book away: finished %v, want false at once", got)
		}
		p.mend()
		after(10 * time.Second)
		book.RequireState(id, daybook.Succeeded) // it looked by itself when the book was back
		if got := h.took(); len(got) != 0 {
			t.Errorf("a ring was finished again: %v", got)
		}
	})
}

// The worker finishes with false what it hears and can't ask for any more.
func TestStoppingWorkerGivesItsRingBack(t *testing.T) {
	inBubble(t, func(t *testing.T, book *daybooktest.Book) {
		p, h := rung(t, book, worker.Config{}, succeeds)
		p.set(func(ctx context.Context, doing string) error {
			if doing != "claiming" {
				return nil
			}
			<-ctx.Done()
			return away(doing)
		}, nil)
		if !h.ring(daybook.Ring{Queue: "q"}, false) || len(h.took()) != 0 {
			t.Fatal("the worker doesn't hold its ring while it asks")
		}
		p.end(t)
		if got := h.took(); !slices.Equal(got, []bool{false}) {
			t.Errorf("finished %v, want it given back", got)
		}
	})
}

// A ring that names a job claims that one, and never one that isn't there to be
// had.
func TestRingThatNamesAJob(t *testing.T) {
	inBubble(t, func(t *testing.T, book *daybooktest.Book) {
		var mu sync.Mutex
		ran := map[daybook.ID]int{}
		hold := make(chan struct{})
		p, h := rung(t, book, worker.Config{Concurrency: 2}, func(_ context.Context, c *worker.Claim[none]) error {
			mu.Lock()
			ran[c.Job().ID]++
			mu.Unlock()
			if c.Job().Priority == 1 {
				<-hold
			}
			return nil
		})
		first, named := enqueue(t, book, daybook.Request{}), enqueue(t, book, daybook.Request{})
		holds := enqueue(t, book, daybook.Request{Priority: 1})
		otherQueue := enqueue(t, book, daybook.Request{Queue: "other"})
		otherKind := enqueue(t, book, daybook.Request{Kind: "other"})
		for _, id := range []daybook.ID{named, holds, named, holds, otherQueue, otherKind, daybook.NewID()} {
			if !h.ring(daybook.Ring{Queue: "q", Job: id}, false) {
				t.Fatal("the worker doesn't hear")
			}
			if got := h.took(); !slices.Equal(got, []bool{true}) {
				t.Errorf("job %s: finished %v, want true", id, got)
			}
		}
		close(hold)
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		if len(ran) != 2 || ran[named] != 1 || ran[holds] != 1 {
			t.Errorf("ran %v, want the two jobs that were named, once each", ran)
		}
		if s := p.Stats(); s.Rings != 7 || s.Stale != 5 || s.Claimed != 2 {
			t.Errorf("stats %+v, want 7 rings, 5 of them stale, 2 claims", s)
		}
		for _, id := range []daybook.ID{first, otherQueue, otherKind} {
			book.RequireState(id, daybook.Waiting)
		}
	})
}

// A worker without room leaves rings to others, and looks when it has room again:
// what was rung meanwhile may be lost.
func TestWorkerTakesNoMoreRingsThanItHasRoom(t *testing.T) {
	inBubble(t, func(t *testing.T, book *daybooktest.Book) {
		hold := make(chan struct{})
		p, h := rung(t, book, worker.Config{Concurrency: 2}, func(_ context.Context, c *worker.Claim[none]) error {
			<-hold
			return nil
		})
		for range 2 {
			id := enqueue(t, book, daybook.Request{})
			if !h.ring(daybook.Ring{Queue: "q", Job: id}, false) {
				t.Fatal("a worker with room doesn't hear")
			}
		}
		late := enqueue(t, book, daybook.Request{})
		if h.ring(daybook.Ring{Queue: "q"}, false) {
			t.Error("a worker with full slots took a ring")
		}
		if got := h.took(); !slices.Equal(got, []bool{true, true}) {
			t.Errorf("finished %v, want both rings", got)
		}
		close(hold)
		synctest.Wait()
		book.RequireState(late, daybook.Succeeded)
		if s := p.Stats(); s.Rings != 2 || s.Claimed != 3 {
			t.Errorf("stats %+v, want 2 rings and 3 claims", s)
		}
	})
}

// What only the poll found is counted, and what a ring announced isn't.
func TestFoundByPollIsCounted(t *testing.T) {
	inBubble(t, func(t *testing.T, book *daybooktest.Book) {
		p, h := rung(t, book, worker.Config{Poll: 10 * time.Second}, succeeds)
		for range 3 {
			enqueue(t, book, daybook.Request{})
		}
		h.ring(daybook.Ring{Queue: "q"}, false)
		if s := p.Stats(); s.Claimed != 3 || s.Polled != 0 {
			t.Errorf("after a ring: %+v, want 3 claims, none found by poll", s)
		}
		for range 2 {
			enqueue(t, book, daybook.Request{})
		}
		after(15 * time.Second)
		if s := p.Stats(); s.Claimed != 5 || s.Polled != 2 {
			t.Errorf("after a poll: %+v, want 5 claims, 2 found by poll", s)
		}
		enqueue(t, book, daybook.Request{In: time.Second})
		h.ring(daybook.Ring{Queue: "q"}, false) // it learns when to look
		after(3 * time.Second)
		if s := p.Stats(); s.Claimed != 6 || s.Polled != 2 {
			t.Errorf("after a due time: %+v, want 6 claims, 2 found by poll", s)
		}
	})
}

// outsideHand is a bell that other processes would hear, and that hands what is
// published to its own listener.
type outsideHand struct {
	hand
	published atomic.Int64
}

func (h *outsideHand) Publish(_ context.Context, rings []daybook.Ring) error {
	h.published.Add(int64(len(rings)))
	for _, r := range rings {
		h.ring(r, false)
	}
	return nil
}

func (h *outsideHand) ring(r daybook.Ring, again bool) {
	select {
	case h.rings <- daybook.Heard{Ring: r, Again: again, Done: h.done}:
	default:
	}
}

func (h *outsideHand) Depth(context.Context) (map[string]int64, error)   { return nil, nil }
func (h *outsideHand) Peek(context.Context, int) ([]daybook.Ring, error) { return nil, nil }
func (h *outsideHand) Stats() daybook.BellStats {
	return daybook.BellStats{Published: h.published.Load(), Listening: true, Reconnects: 3,
		Echo: 2 * time.Millisecond, EchoAt: time.Now()}
}

// Beside its handlers a worker runs the relay, so that a job whose enqueuer rang
// nobody is heard of all the same.
func TestWorkerRunsTheRelay(t *testing.T) {
	for _, alone := range []bool{false, true} {
		inBubble(t, func(t *testing.T, book *daybooktest.Book) {
			h := &outsideHand{hand: hand{rings: make(chan daybook.Heard)}}
			p := newProcess(t, book, worker.Config{})
			p.bell.Close()
			own := daybook.New(p.cable, daybook.Options{Bell: h, Log: book.Log()})
			p.Worker = worker.New(own, worker.Config{Queues: []string{"q"}, Poll: -1, NoLoops: alone,
				Reconcile: reconcile.Options{Every: time.Hour}}) // which would find the job too
			worker.Handle(p.Worker, "job", succeeds)
			p.start(t)
			after(time.Minute)
			id := enqueue(t, book, daybook.Request{})
			after(10 * time.Second)
			if got, want := stateOf(t, book, id) == daybook.Succeeded, !alone; got != want {
				t.Errorf("without loops %v: the job is done %v, want %v", alone, got, want)
			}
			s := p.Stats()
			if s.Bell == nil || !s.Bell.Listening || s.Bell.Reconnects != 3 || s.Bell.EchoSeconds != 0.002 {
				t.Errorf("the bell's end is %+v, want what it says of itself", s.Bell)
			}
			if s.Bell.Published > 0 == alone {
				t.Errorf("without loops %v: %d rings published", alone, s.Bell.Published)
			}
		})
	}
}
