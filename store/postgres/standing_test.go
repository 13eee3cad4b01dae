package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/worker"
)

// stood leaves a claim call with the book, enqueues one job, and is what became of both.
func (h *hot) stood(s daybook.Session) (daybook.ID, daybook.Stood) {
	h.Helper()
	standing := h.book.Stand(daybook.ClaimRequest{Session: s.ID, Queues: []string{"q"}, Limit: 9, Call: daybook.NewID()},
		func() {})
	ids := enqueued(h.T, h.book, 1)
	return ids[0], <-standing.Answer()
}

// TestStandingIsOneTrip: the enqueue makes the call in the trip that it makes anyway.
func TestStandingIsOneTrip(t *testing.T) {
	trips := 0
	h := newHot(t, Options{Fault: func(_ string, did bool) error {
		if did {
			trips++
		}
		return nil
	}})
	s := session(t, h.book, time.Minute)
	for range 8 {
		trips = 0
		id, stood := h.stood(s)
		if !stood.Made || stood.Err != nil || len(stood.Jobs) != 1 || stood.Jobs[0].ID != id {
			t.Fatalf("got %+v, want job %s", stood, id)
		}
		same(t, "round trips", trips, 1)
	}
}

// TestStandingNeverWaits: an enqueue doesn't wait for who holds what the claim wants,
// nor fail with it; the job waits then.
func TestStandingNeverWaits(t *testing.T) {
	for name, lock := range map[string]string{
		"session": "SELECT FROM daybook.session FOR UPDATE",
		"pause":   "SELECT daybook.claims_exclusive()",
	} {
		t.Run(name, func(t *testing.T) {
			h := newHot(t, Options{Patience: 10 * time.Minute})
			s := session(t, h.book, time.Minute)
			h.stood(s)
			open := h.holds(lock)
			standing := h.book.Stand(daybook.ClaimRequest{Session: s.ID, Queues: []string{"q"}, Limit: 9,
				Call: daybook.NewID()}, func() {})
			var r daybook.Receipt
			enqueue := inBackground(func() (err error) {
				r, err = h.book.Enqueue(t.Context(), daybook.Request{Queue: "q", Kind: "k"})
				return err
			})
			h.waitFor("the enqueue ends", func() bool { return len(enqueue) > 0 })
			ok(t, <-enqueue)
			if stood := <-standing.Answer(); stood.Made || stood.Err == nil {
				t.Errorf("got %+v, want that nobody knows", stood)
			}
			ok(t, open.Rollback(t.Context()))
			j, err := h.book.Job(t.Context(), r.ID)
			ok(t, err)
			same(t, "state", j.State, daybook.Waiting)
		})
	}
}

// TestStandingWorker: a worker that waits gets a job of its own process with the
// enqueue, without a ring, also where the answer was lost.
func TestStandingWorker(t *testing.T) {
	var lose atomic.Bool
	h := newHot(t, Options{Fault: func(call string, did bool) error {
		if did && call == fewClaims[1] && lose.Swap(false) {
			return errors.New("cut")
		}
		return nil
	}})
	w := worker.New(h.book, worker.Config{Queues: []string{"q"}, NoLoops: true, Poll: -1})
	ran := make(chan daybook.ID)
	worker.Handle(w, "k", func(_ context.Context, c *worker.Claim[json.RawMessage]) error {
		ran <- c.Job().ID
		return nil
	})
	ctx, stop := context.WithCancel(t.Context())
	ended := inBackground(func() error { return w.Run(ctx) })
	n := 0
	for ; w.Stats().Stood < 20; n++ {
		lose.Store(n%5 == 4)
		id := enqueued(t, h.book, 1)[0]
		same(t, "the job that ran", <-ran, id)
	}
	stop()
	ok(t, <-ended)
	if s := w.Stats(); s.Claimed != int64(n) || s.Succeeded != int64(n) {
		t.Errorf("of %d jobs: %+v", n, s)
	}
	j, err := h.book.Job(t.Context(), enqueued(t, h.book, 1)[0])
	ok(t, err)
	same(t, "state, with nobody there", j.State, daybook.Waiting)
}
