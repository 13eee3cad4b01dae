package daybooktest

import (
	"context"
	"io"
	"log/slog"
	"sync"
	"testing"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/bell/local"
	"github.com/daybookdev/daybook/store/sqlite"
	"github.com/daybookdev/daybook/worker"
)

// Book is a book in memory that belongs to one test.
type Book struct {
	*daybook.Book
	t      testing.TB
	broken []string
}

// ExpectBroken names invariants that the test breaks on purpose, like
// effect-doubled: at its end they must be broken, and no other.
func (b *Book) ExpectBroken(invariants ...string) { b.broken = append(b.broken, invariants...) }

// New opens a book in memory with a bell of its own. When the test ends the
// book's invariants are checked, and a violation fails the test. The book logs
// warnings to the test's output. Inside a synctest bubble call it in the
// bubble, with the bubble's t.
func New(t testing.TB) *Book {
	t.Helper()
	out := &output{w: t.Output()}
	bell := local.New()
	log := slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: slog.LevelWarn}))
	book, err := sqlite.Open(t.Context(), sqlite.Memory,
		sqlite.Options{Book: daybook.Options{Bell: bell, Log: log}})
	if err != nil {
		t.Fatalf("opening a book in memory: %v", err)
	}
	b := &Book{Book: book, t: t}
	t.Cleanup(func() {
		Check(t, book, b.broken...)
		out.close()
		bell.Close()
		book.Close()
	})
	return b
}

// output is the test's, until the test is over: a handler that outlives it must
// not bring the process down by logging.
type output struct {
	mu sync.Mutex
	w  io.Writer // nil when the test is over
}

func (o *output) Write(line []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.w == nil {
		return len(line), nil
	}
	return o.w.Write(line)
}

func (o *output) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.w = nil
}

// RunUntilIdle runs the workers, one after the other and again, until none finds
// a job to run: also jobs that their handlers enqueued. Jobs that are due later
// stay; let the time pass and run again.
func (b *Book) RunUntilIdle(ctx context.Context, workers ...*worker.Worker) {
	b.t.Helper()
	for before := int64(-1); before != claimed(workers); {
		before = claimed(workers)
		for _, w := range workers {
			if err := w.Drain(ctx); err != nil {
				b.t.Fatalf("running until idle: %v", err)
			}
		}
		if ctx.Err() != nil {
			b.t.Fatalf("running until idle: %v; a handler doesn't return, or enqueues without end", ctx.Err())
		}
	}
}

func claimed(workers []*worker.Worker) (n int64) {
	for _, w := range workers {
		n += w.Stats().Claimed
	}
	return n
}
