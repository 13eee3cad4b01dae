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

// riverqueue/river #1258: handlers that ignore their context kept jobs running
// for ever, and nobody saw it.
func TestL16_HandlerThatIgnoresItsContext(t *testing.T) {
	limit := time.Second
	for _, c := range []struct {
		name    string
		request daybook.Request
		kind    worker.KindOptions
		cfg     worker.Config
		state   daybook.State
		reason  daybook.Reason
		leaves  time.Duration // when the job is no longer running
	}{
		{"the job's limit", daybook.Request{Timeout: limit, MaxFailures: 1}, worker.KindOptions{}, worker.Config{},
			daybook.SetAside, daybook.ReasonTimeout, 10 * time.Second},
		{"the kind's limit", daybook.Request{MaxFailures: 1}, worker.KindOptions{Timeout: limit}, worker.Config{},
			daybook.SetAside, daybook.ReasonFailures, 10 * time.Second},
		{"the worker's limit", daybook.Request{MaxFailures: 1}, worker.KindOptions{}, worker.Config{Timeout: limit},
			daybook.SetAside, daybook.ReasonFailures, 10 * time.Second},
		{"the kind's limit, set aside", daybook.Request{OnLost: daybook.LostSetAside},
			worker.KindOptions{Timeout: limit}, worker.Config{},
			daybook.SetAside, daybook.ReasonTimeout, 10 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, book *daybooktest.Book) {
				cfg := c.cfg
				cfg.Concurrency, cfg.Grace = 2, 5*time.Second
				p := newProcess(t, book, cfg)
				hang := make(chan struct{})
				var err error
				worker.Handle(p.Worker, "job", func(ctx context.Context, _ *worker.Claim[none]) error {
					<-hang
					err = ctx.Err()
					return nil
				}, c.kind)
				worker.Handle(p.Worker, "next", func(context.Context, *worker.Claim[none]) error { return nil })
				id := enqueue(t, book, c.request)
				p.start(t)
				after(limit + c.leaves)
				if j := book.RequireState(id, c.state); j.Reason != c.reason {
					t.Errorf("reason %q, want %q", j.Reason, c.reason)
				}
				after(time.Minute)
				if s := p.Stats(); s.Leaked != 1 || s.Running != 1 {
					t.Errorf("stats %+v; want one leaked handler that still runs", s)
				}
				next := enqueue(t, book, daybook.Request{Kind: "next"}) // the other slot works on
				after(time.Minute)
				book.RequireState(next, daybook.Succeeded)
				begun := time.Now()
				p.end(t)
				if took := time.Since(begun); took > cfg.Grace+time.Second {
					t.Errorf("stopped after %s, want the grace and a second", took)
				}
				close(hang)
				after(time.Second)
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("the handler's context says %v, want the deadline", err)
				}
				if s := p.Stats(); s.Leaked != 0 {
					t.Errorf("%d leaked after the handler returned", s.Leaked)
				}
			})
		})
	}
}

// A handler that heeds its run limit fails, and is tried again.
func TestRunLimitFailsTheAttempt(t *testing.T) {
	inBubble(t, func(t *testing.T, book *daybooktest.Book) {
		id := enqueue(t, book, daybook.Request{Timeout: time.Hour})
		w := worker.New(book.Book, worker.Config{Queues: []string{"q"}})
		begun := time.Now()
		worker.Handle(w, "job", func(ctx context.Context, _ *worker.Claim[none]) error {
			if limit, ok := ctx.Deadline(); !ok || limit.Sub(begun) != time.Hour {
				t.Errorf("the deadline is after %s", limit.Sub(begun))
			}
			<-ctx.Done()
			return ctx.Err()
		})
		book.RunUntilIdle(t.Context(), w)
		j := book.RequireState(id, daybook.Waiting)
		if took := time.Since(begun); took != time.Hour || j.Failures != 1 || j.LastError.Kind != "timeout" {
			t.Errorf("after %s: %d failures, %+v; want the limit's failure", took, j.Failures, j.LastError)
		}
	})
}
