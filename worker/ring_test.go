package worker_test

import (
	"context"
	"database/sql"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/bell/local"
	"github.com/daybookdev/daybook/daybooktest"
	"github.com/daybookdev/daybook/store/sqlite"
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
		after(time.Second)
		if got := h.took(); !slices.Equal(got, []bool{false}) {
			t.Errorf("book away: finished %v, want false", got)
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

// fleetOf starts idle workers that share a bell, each with a cable of its own.
func fleetOf(t *testing.T, book *daybooktest.Book, n int) []*process {
	t.Helper()
	fleet := make([]*process, n)
	for i := range fleet {
		p := newProcess(t, book, worker.Config{})
		p.bell.Close()
		own := daybook.New(p.cable, daybook.Options{Bell: book.Bell(), Log: book.Log()})
		p.Worker = worker.New(own, worker.Config{Queues: []string{"q"}})
		worker.Handle(p.Worker, "job", succeeds)
		p.start(t)
		fleet[i] = p
	}
	return fleet
}

// L72 (riverqueue/river PR 1150): 300 idle workers at their defaults, and one
// enqueue wakes one of them, not the fleet.
func TestL72OneEnqueueAmong300IdleWorkers(t *testing.T) {
	inBubble(t, func(t *testing.T, book *daybooktest.Book) {
		fleet := fleetOf(t, book, 300)
		looks := func() (n int) {
			for _, p := range fleet {
				n += p.count("claiming")
			}
			return n
		}
		after(time.Minute) // so that the polls are spread
		const window, rounds = 200 * time.Millisecond, 100
		before := looks()
		after(rounds * window)
		polls := looks() - before
		if most := rounds * 300 * int(window/time.Millisecond) / 4000; polls > most {
			t.Errorf("%d looks of idle workers in %s, want %d at most", polls, rounds*window, most)
		}
		before = looks()
		for range rounds {
			id := enqueue(t, book, daybook.Request{})
			synctest.Wait()
			book.RequireState(id, daybook.Succeeded) // at once
			after(window)
		}
		// The polls' jitter gives and takes a few: three times their spread.
		if more := looks() - before - polls; more > 3*rounds+100 {
			t.Errorf("%d enqueues made %d looks beyond the %d of the poll, want 3 each at most", rounds, more, polls)
		}
	})
}

// L40 (sidekiq 5239): a bell that rings before the commit makes nothing seen, and
// what rolls back never was.
func TestL40EarlyRing(t *testing.T) {
	path, bell := filepath.Join(t.TempDir(), "shop.db"), local.New()
	defer bell.Close()
	var acted atomic.Int64
	hook := func(gap string, _ daybook.ID) {
		if gap == daybook.GapAck {
			acted.Add(1)
		}
	}
	book, err := sqlite.Open(t.Context(), path, sqlite.Options{Book: daybook.Options{Bell: bell, Hook: hook}})
	if err != nil {
		t.Fatal(err)
	}
	defer book.Close()
	defer daybooktest.Check(t, book)
	db, err := sql.Open("sqlite", "file:"+path+"?_txlock=immediate&_pragma=busy_timeout(5000)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var ended atomic.Bool
	ran := make(chan daybook.ID, 10)
	w := worker.New(book, worker.Config{Queues: []string{"q"}, Poll: -1, NoLoops: true})
	worker.Handle(w, "job", func(_ context.Context, c *worker.Claim[none]) error {
		if !ended.Load() {
			t.Errorf("job %s runs before its transaction has ended", c.Job().ID)
		}
		ran <- c.Job().ID
		return nil
	})
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- w.Run(ctx) }()
	defer func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	}()
	until(t, "the worker to listen", func() bool { return !w.Stats().Session.IsZero() })
	for _, commit := range []bool{false, true} {
		ended.Store(false)
		acted.Store(0)
		bell.Ring(t.Context(), "q")
		until(t, "an idle worker", func() bool { return acted.Swap(0) > 0 })
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		receipts, err := sqlite.EnqueueSQL(t.Context(), tx, daybook.Request{Queue: "q", Kind: "job"})
		if err != nil {
			t.Fatal(err)
		}
		heard := w.Stats().Rings
		bell.Ring(t.Context(), "q")
		until(t, "the early ring to be heard", func() bool { return w.Stats().Rings > heard })
		ended.Store(true)
		if !commit {
			if err := tx.Rollback(); err != nil {
				t.Fatal(err)
			}
			until(t, "the claim to be answered", func() bool { return acted.Load() > 0 })
			continue
		}
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
		if got := <-ran; got != receipts[0].ID {
			t.Errorf("ran job %s, want %s", got, receipts[0].ID)
		}
	}
	if s := w.Stats(); s.Claimed != 1 {
		t.Errorf("%d claims, want the one of the job that was committed", s.Claimed)
	}
}

// until polls a condition.
func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited 30s for %s", what)
		}
	}
}
