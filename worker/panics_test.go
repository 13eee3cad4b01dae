package worker_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/daybooktest"
	"github.com/daybookdev/daybook/worker"
)

// ring is a value that holds itself.
type ring []any

type grumpy struct{}

func (grumpy) Error() string { panic("no text for you") }

func TestPanicsAreFailures(t *testing.T) {
	self := ring{nil}
	self[0] = self
	for _, c := range []struct {
		name string
		end  func()
		kind string
		text string
	}{
		{"text", func() { panic("boom") }, "panic", "panic: boom"},
		{"error", func() { panic(errors.New("boom")) }, "panic", "panic: boom"},
		{"number", func() { panic(42) }, "panic", "panic: 42"},
		{"struct", func() { panic(struct{ Code int }{7}) }, "panic", "panic: {7}"},
		{"nil", func() { panic(nil) }, "panic", "panic: panic called with nil"},
		{"nil map", func() { var m map[string]int; m["a"] = 1 }, "panic", "panic: assignment to entry in nil map"},
		{"huge text", func() { panic(strings.Repeat("ä\x00", 8<<20)) }, "panic", "panic: ä"},
		{"huge bytes", func() { panic(make([]byte, 64<<20)) }, "panic", "panic: \uFFFD"},
		{"huge slice", func() { panic(make([]int, 8<<20)) }, "panic", "panic: a large []int"},
		{"holds itself", func() { panic(self) }, "panic", "panic: a large worker_test.ring"},
		{"error that panics", func() { panic(grumpy{}) }, "panic", "panic: an error of type worker_test.grumpy"},
		{"goexit", func() { runtime.Goexit() }, "goexit", "the handler ended its goroutine"},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, book *daybooktest.Book) {
				id := enqueue(t, book, daybook.Request{})
				next := enqueue(t, book, daybook.Request{Kind: "next"})
				w := worker.New(book.Book, worker.Config{Queues: []string{"q"}, Concurrency: 1})
				worker.Handle(w, "job", func(context.Context, *worker.Claim[none]) error { c.end(); return nil })
				worker.Handle(w, "next", func(context.Context, *worker.Claim[none]) error { return nil })
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				book.RunUntilIdle(ctx, w)
				j := book.RequireState(id, daybook.Waiting)
				book.RequireState(next, daybook.Succeeded) // the slot goes on
				p := j.LastError
				if p == nil || p.Kind != c.kind || !strings.HasPrefix(p.Text, c.text) {
					t.Fatalf("problem %+v, want kind %s and text %q", p, c.kind, c.text)
				}
				if len(p.Text) > daybook.ErrorMax || !strings.Contains(p.Trace, "worker_test") {
					t.Errorf("text of %d bytes; trace %q", len(p.Text), p.Trace)
				}
				if j.Failures != 1 {
					t.Errorf("%d failures, want 1", j.Failures)
				}
			})
		})
	}
}
