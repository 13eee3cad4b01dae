package worker_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/daybooktest"
	"github.com/daybookdev/daybook/worker"
)

// Records of a handler say whose they are, beside what they say themselves and
// outside of its groups; others stay as they are.
func TestLogHandler(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(worker.NewLogHandler(slog.NewJSONHandler(&out, &slog.HandlerOptions{Level: slog.LevelInfo}), nil))
	book := daybooktest.New(t)
	const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	var id daybook.ID
	w := worker.New(book.Book, worker.Config{Queues: []string{"q"}, NoLoops: true})
	worker.Handle(w, "k", func(ctx context.Context, c *worker.Claim[json.RawMessage]) error {
		log.InfoContext(ctx, "plain", "n", 1)
		log.With("a", 1).WithGroup("g").With("b", 2).InfoContext(ctx, "grouped", "n", 1)
		log.DebugContext(ctx, "not wanted")
		receipt, err := book.Enqueue(ctx, daybook.Request{Queue: "next", Kind: "k"})
		id = receipt.ID
		return err
	})
	receipt, err := book.Enqueue(t.Context(), daybook.Request{Queue: "q", Kind: "k", Traceparent: parent})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	log.WithGroup("g").InfoContext(t.Context(), "outside", "n", 1)
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 3 {
		t.Fatalf("got %d lines: %s", len(lines), out.String())
	}
	for i, line := range lines[:2] {
		var said map[string]any
		if err := json.Unmarshal([]byte(line), &said); err != nil {
			t.Fatal(err)
		}
		for key, want := range map[string]any{"job": receipt.ID.String(), "queue": "q", "kind": "k", "attempt": 1.0,
			"generation": 1.0, "trace_id": parent[3:35]} {
			if said[key] != want {
				t.Errorf("line %d: %s is %v, want %v", i, key, said[key], want)
			}
		}
		if said["session"] == nil || said["span_id"] != nil {
			t.Errorf("line %d: session %v, span %v", i, said["session"], said["span_id"])
		}
	}
	for i, want := range []string{`"n":1`, `"g":{"b":2,"n":1}`, `"msg":"outside","g":{"n":1}}`} {
		if !strings.Contains(lines[i], want) {
			t.Errorf("line %d is %s, want %s in it", i, lines[i], want)
		}
	}
	next, err := book.Job(t.Context(), id)
	if err != nil || next.Traceparent != parent {
		t.Errorf("the job that the handler enqueued has trace %q, want the handler's job's: %v", next.Traceparent, err)
	}
}
