package worker

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/daybookdev/daybook"
)

// Worker claims jobs and runs their handlers. Make it with New, register
// handlers, then Run it.
type Worker struct {
	book  Book
	cfg   Config
	kinds map[string]*kind // by name; "" takes every other kind
	wrong error            // the first wrong registration

	running  atomic.Pointer[engine]
	quiet    atomic.Bool
	stop     chan struct{} // closed by Stop
	stopOnce sync.Once
	counters counters
}

// New makes a worker on a [daybook.Book], or on a client of a server that has one
// (package client). What is wrong with its configuration is told by Run.
func New(book Book, cfg Config) *Worker {
	cfg.fill(book)
	return &Worker{book: book, cfg: cfg, kinds: map[string]*kind{}, stop: make(chan struct{})}
}

// Run claims jobs and runs their handlers until ctx ends. Then it claims no
// more, gives back what hasn't begun, waits Config.Grace for the handlers that
// run, ends their contexts (cause ErrStopping), gives back what still runs
// without counting a failure, ends its session and returns nil, within the
// grace and a second. With Config.Drain it also returns when nothing is
// eligible and nothing runs.
//
// A database that is away is waited for, by a worker that drains for
// Config.Lease but at least 10 s; then it returns the database's error. The
// other errors are those of the configuration, and of a worker that runs
// already or was stopped.
func (w *Worker) Run(ctx context.Context) error { return w.run(ctx, w.cfg.Drain) }

// Drain runs like Run with Config.Drain: until nothing is eligible and nothing
// runs. Jobs that are due later stay. Unless Config.NoLoops, it makes one pass
// of the reconciler before it ends: it marks the sessions whose lease is past,
// ends those that were marked a lease (at most 30 s) ago, and runs the jobs that
// this frees. So jobs of workers that died run though nothing but drains, one
// after the other, ever looks at the book.
func (w *Worker) Drain(ctx context.Context) error { return w.run(ctx, true) }

func (w *Worker) run(ctx context.Context, drain bool) error {
	if err := w.cfg.check(); err != nil {
		return err
	}
	if w.wrong != nil {
		return w.wrong
	}
	if len(w.kinds) == 0 {
		return daybook.Invalid("handlers", "none is registered; call worker.Handle first")
	}
	e := newEngine(ctx, w, drain)
	if !w.running.CompareAndSwap(nil, e) {
		return daybook.Fail(daybook.CodeRefused, "worker %s runs already", w.cfg.Name)
	}
	defer w.running.Store(nil)
	return e.run(ctx)
}

// Quiet stops claiming for good; what runs runs on, and Run returns when its
// context ends. The book is told in the background, so that people see it; that
// it can't be told changes nothing here.
func (w *Worker) Quiet() {
	w.quiet.Store(true)
	if e := w.running.Load(); e != nil {
		poke(e.quieted)
		e.look()
	}
}

// Stop ends Run at once: the grace is over, whatever is left of it. It doesn't
// wait. A stopped worker stays stopped.
func (w *Worker) Stop() { w.stopOnce.Do(func() { close(w.stop) }) }
