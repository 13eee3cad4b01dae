package worker_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/daybooktest"
	"github.com/daybookdev/daybook/worker"
)

const soon = 50 * time.Millisecond

// What is due later begins when it is due, and not at the next poll.
func TestDueJobsBeginInTime(t *testing.T) {
	for _, c := range []struct {
		name  string
		poll  time.Duration
		setup func(t *testing.T, book *daybooktest.Book)
	}{
		{"alone", 0, nil},
		{"without polls", -1, nil},
		{"behind one that nobody takes", 0, func(t *testing.T, book *daybooktest.Book) {
			enqueue(t, book, daybook.Request{Kind: "other"})
		}},
		{"beside many that nobody takes", 0, func(t *testing.T, book *daybooktest.Book) {
			for i := range 20 {
				enqueue(t, book, daybook.Request{Kind: "other", In: time.Duration(i) * time.Hour})
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, book *daybooktest.Book) {
				if c.setup != nil {
					c.setup(t, book)
				}
				w := worker.New(book.Book, worker.Config{Queues: []string{"q"}, Poll: c.poll, NoLoops: true})
				var begun []time.Time
				worker.Handle(w, "job", func(context.Context, *worker.Claim[none]) error {
					begun = append(begun, time.Now())
					if len(begun) == 1 {
						return errors.New("boom")
					}
					return nil
				})
				runs(t, w)
				after(12 * time.Second)
				due := time.Now().Add(time.Second)
				id := enqueue(t, book, daybook.Request{RunAt: due})
				after(time.Second + soon)
				retry := book.RequireState(id, daybook.Waiting).RunAt.Std()
				after(2 * time.Second)
				book.RequireState(id, daybook.Succeeded)
				for i, want := range []time.Time{due, retry} {
					if late := begun[i].Sub(want); late < 0 || late > soon {
						t.Errorf("attempt %d began %s late, want at most %s", i+1, late, soon)
					}
				}
			})
		})
	}
}

// Jobs that become due and that this worker doesn't take cost about a poll, and
// a paused queue nothing.
func TestDueJobsOfOthersKeepNobodyBusy(t *testing.T) {
	for _, paused := range []bool{false, true} {
		inBubble(t, func(t *testing.T, book *daybooktest.Book) {
			requests := make([]daybook.Request, 6000) // one every 10 ms
			for i := range requests {
				requests[i] = daybook.Request{Queue: "q", Kind: "other", In: time.Duration(i) * 10 * time.Millisecond}
			}
			if _, err := book.EnqueueMany(t.Context(), requests); err != nil {
				t.Fatal(err)
			}
			most, what := 180, "claiming" // a poll begins with short pauses again
			if paused {
				most, what = 17, "looking for the next due job"
				if err := book.Pause(t.Context(), "q", daybook.By{Actor: "ada"}); err != nil {
					t.Fatal(err)
				}
			}
			p := newProcess(t, book, worker.Config{NoLoops: true})
			worker.Handle(p.Worker, "job", func(context.Context, *worker.Claim[none]) error { return nil })
			p.start(t)
			after(time.Minute)
			if got := p.count(what); got > most || got < 10 {
				t.Errorf("paused %v: %d looks in a minute, want 10 to %d", paused, got, most)
			}
		})
	}
}

// runs runs a worker until the test ends.
func runs(t *testing.T, w *worker.Worker) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- w.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

// People see that a worker was quieted by its own signal.
func TestQuietIsRecorded(t *testing.T) {
	inBubble(t, func(t *testing.T, book *daybooktest.Book) {
		w := worker.New(book.Book, worker.Config{Queues: []string{"q"}, NoLoops: true})
		worker.Handle(w, "job", func(context.Context, *worker.Claim[none]) error { return nil })
		runs(t, w)
		after(time.Second)
		for _, want := range []bool{false, true} {
			live, err := book.Sessions(t.Context(), daybook.SessionFilter{})
			if err != nil || len(live) != 1 || live[0].Quiet != want {
				t.Errorf("sessions %+v, %v; want one, quiet %v", live, err, want)
			}
			w.Quiet()
			after(0)
		}
		session := w.Stats().Session
		if err := book.EndSession(t.Context(), session); err != nil {
			t.Fatal(err)
		}
		if err := book.QuietSession(t.Context(), session); !errors.Is(err, daybook.ErrFenced) {
			t.Errorf("quieting an ended session: %v, want fenced", err)
		}
		if err := book.QuietSession(t.Context(), daybook.NewID()); !errors.Is(err, daybook.ErrNotFound) {
			t.Errorf("quieting an unknown session: %v, want not found", err)
		}
	})
}
