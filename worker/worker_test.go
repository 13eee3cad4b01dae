package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"sync/atomic"
	"testing"
	"time"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/daybooktest"
	"github.com/daybookdev/daybook/worker"
)

func TestWrongConfigIsTold(t *testing.T) {
	handle := func(w *worker.Worker) {
		worker.Handle(w, "job", func(context.Context, *worker.Claim[none]) error { return nil })
	}
	q := []string{"q"}
	for _, c := range []struct {
		name  string
		cfg   worker.Config
		setup func(*worker.Worker)
		field string
	}{
		{"no queues", worker.Config{}, handle, "queues"},
		{"bad queue", worker.Config{Queues: []string{"a b"}}, handle, "queue"},
		{"queue twice", worker.Config{Queues: []string{"q", "q"}}, handle, "queues"},
		{"weight of nothing", worker.Config{Queues: q, Weights: map[string]int{"r": 1}}, handle, "weights"},
		{"weight 0", worker.Config{Queues: q, Weights: map[string]int{"q": 0}}, handle, "weights"},
		{"concurrency", worker.Config{Queues: q, Concurrency: -1}, handle, "concurrency"},
		{"lease", worker.Config{Queues: q, Lease: time.Millisecond}, handle, "lease"},
		{"timeout", worker.Config{Queues: q, Timeout: -1}, handle, "timeout"},
		{"no handlers", worker.Config{Queues: q}, func(*worker.Worker) {}, "handlers"},
		{"two handlers", worker.Config{Queues: q}, func(w *worker.Worker) { handle(w); handle(w) }, "kind"},
		{"bad kind", worker.Config{Queues: q}, func(w *worker.Worker) { w.HandleRaw("a b", nil) }, "kind"},
		{"bad options", worker.Config{Queues: q}, func(w *worker.Worker) {
			w.HandleRaw("job", nil, worker.KindOptions{MaxFailures: -1})
		}, "max_failures"},
	} {
		t.Run(c.name, func(t *testing.T) {
			book := daybooktest.New(t)
			w := worker.New(book.Book, c.cfg)
			c.setup(w)
			err := w.Run(t.Context())
			e, ok := errors.AsType[*daybook.Error](err)
			if !ok || e.Code != daybook.CodeInvalid || e.Field != c.field {
				t.Errorf("Run: %v, want invalid %s", err, c.field)
			}
		})
	}
}

func TestQuietClaimsNoMore(t *testing.T) {
	inBubble(t, func(t *testing.T, book *daybooktest.Book) {
		p := newProcess(t, book, worker.Config{Concurrency: 2, Name: "w1"})
		begun := make(chan daybook.ID, 10)
		finish := make(chan struct{})
		worker.Handle(p.Worker, "job", func(_ context.Context, c *worker.Claim[none]) error {
			begun <- c.Job().ID
			<-finish
			return nil
		})
		first := enqueue(t, book, daybook.Request{})
		p.start(t)
		<-begun
		if q, err := book.Quiet(t.Context(), "w1", daybook.By{Actor: "ada"}); q.Sessions != 1 || err != nil {
			t.Fatalf("Quiet asked %d sessions, %v", q.Sessions, err)
		}
		after(daybook.LeaseDefault / 3) // the next renewal says it
		second := enqueue(t, book, daybook.Request{})
		close(finish)
		after(time.Minute)
		book.RequireState(first, daybook.Succeeded)
		book.RequireState(second, daybook.Waiting)
		if s := p.Stats(); !s.Quiet || !s.Healthy {
			t.Errorf("stats %+v, want quiet and healthy", s)
		}
	})
}

func TestDrainReturnsWhenNothingIsEligible(t *testing.T) {
	inBubble(t, func(t *testing.T, book *daybooktest.Book) {
		w := worker.New(book.Book, worker.Config{Queues: []string{"q"}, Concurrency: 3, Drain: true})
		var runs atomic.Int32
		worker.Handle(w, "job", func(ctx context.Context, c *worker.Claim[int]) error {
			time.Sleep(time.Second)
			runs.Add(1)
			if c.Args > 0 { // a job that makes another one
				_, err := book.Enqueue(ctx, daybook.Request{Queue: "q", Kind: "job",
					Args: json.RawMessage(fmt.Sprint(c.Args - 1))})
				return err
			}
			return nil
		})
		for range 10 {
			enqueue(t, book, daybook.Request{Args: raw("2")})
		}
		later := enqueue(t, book, daybook.Request{Args: raw("0"), In: time.Hour})
		if err := w.Run(t.Context()); err != nil {
			t.Fatalf("Run: %v", err)
		}
		if runs.Load() != 30 {
			t.Errorf("%d runs, want 30", runs.Load())
		}
		book.RequireState(later, daybook.Waiting)
		if s := w.Stats(); s.Claimed != 30 || s.Succeeded != 30 || s.Running != 0 || s.Unrecorded != 0 {
			t.Errorf("stats after draining: %+v", s)
		}
	})
}

func TestRunTwiceAtOnceIsRefused(t *testing.T) {
	inBubble(t, func(t *testing.T, book *daybooktest.Book) {
		p := newProcess(t, book, worker.Config{})
		worker.Handle(p.Worker, "job", func(context.Context, *worker.Claim[none]) error { return nil })
		p.start(t)
		after(time.Second)
		if err := p.Run(t.Context()); !errors.Is(err, daybook.ErrRefused) {
			t.Errorf("a second Run: %v, want refused", err)
		}
		p.end(t)
		if err := p.Drain(t.Context()); err != nil {
			t.Errorf("Run again after it returned: %v", err)
		}
	})
}

func TestStatsOfAFreshWorkerAreZero(t *testing.T) {
	book := daybooktest.New(t)
	w := worker.New(book.Book, worker.Config{Queues: []string{"q"}})
	if got := w.Stats(); !reflect.DeepEqual(got, worker.Stats{}) {
		t.Errorf("stats %+v, want zero", got)
	}
}
