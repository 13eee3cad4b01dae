package worker_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/bell/local"
	"github.com/daybookdev/daybook/store/sqlite"
	"github.com/daybookdev/daybook/worker"
)

// BenchmarkNoOp measures what the worker costs a job that does nothing, on a
// file with full durability.
func BenchmarkNoOp(b *testing.B) {
	for _, c := range []struct {
		name        string
		concurrency int
	}{{"slots=10", 10}, {"slots=100", 100}, {"slots=1000", 1000}} {
		b.Run(c.name, func(b *testing.B) {
			ctx := context.Background()
			quiet := slog.New(slog.DiscardHandler)
			book, err := sqlite.Open(ctx, filepath.Join(b.TempDir(), "book.db"),
				sqlite.Options{Book: daybook.Options{Bell: local.New(), Log: quiet}})
			if err != nil {
				b.Fatal(err)
			}
			defer book.Close()
			preload(b, book, b.N)
			w := worker.New(book, worker.Config{Queues: []string{"q"}, Concurrency: c.concurrency})
			worker.Handle(w, "noop", func(context.Context, *worker.Claim[struct{}]) error { return nil })
			b.ResetTimer()
			begun := time.Now()
			if err := w.Drain(ctx); err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(b.N)/time.Since(begun).Seconds(), "jobs/s")
			if got := w.Stats().Succeeded; got != int64(b.N) {
				b.Errorf("%d succeeded, want %d", got, b.N)
			}
		})
	}
}

func preload(b *testing.B, book *daybook.Book, n int) {
	b.Helper()
	for n > 0 {
		batch := make([]daybook.Request, min(n, 5000))
		for i := range batch {
			batch[i] = daybook.Request{Queue: "q", Kind: "noop", Args: json.RawMessage("{}")}
		}
		if _, err := book.EnqueueMany(context.Background(), batch); err != nil {
			b.Fatal(err)
		}
		n -= len(batch)
	}
}
