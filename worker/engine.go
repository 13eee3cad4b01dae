package worker

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/reconcile"
	"github.com/daybookdev/daybook/relay"
)

// engine is one Run of a worker: what it holds, and the loops around it. The
// claim loop fills the queue, slots empty it, the flusher records how attempts
// ended, the renewer keeps the lease, the watch ends what takes too long.
type engine struct {
	*Worker
	log   *slog.Logger
	drain bool
	base  context.Context // of handlers: the values of Run's context, and never ends
	hard  context.Context // of the engine's own calls: ends when Run is about to return
	end   context.CancelFunc

	wake    chan struct{} // the claim loop looks again
	flush   chan struct{} // there are outcomes
	idle    chan struct{} // nothing runs and nothing is unrecorded; told while stopping
	quieted chan struct{} // the book is to be told that the worker is quiet
	starts  chan startAsk

	listings atomic.Int64 // renewals sent that listed the claims
	retries  atomic.Bool  // a job of this worker waits again: when it is due isn't known yet

	mu       sync.Mutex
	session  daybook.Session // zero between two
	trust    time.Time       // until when the lease holds by this process's clock
	watchdog *time.Timer     // fires at trust
	held     map[daybook.ClaimRef]*run
	queue    []*run // claims that wait for a slot, oldest first
	slots    int    // slots in use, also one that is about to take what waits
	starting bool   // there is such a one
	busy     int    // slots that run a handler
	cramped  bool   // the claim loop waits for room
	outbox   []ending
	sending  int // outcomes in the call that is under way
	stopping bool
	gaveUp   error // why a drain ended before its end
	pace     pace
}

// ending is an outcome on its way to the book.
type ending struct {
	run *run
	out daybook.Outcome
	// fallback: the first outcome was refused for what it says, and this one
	// stands in for it.
	fallback bool
}

func newEngine(ctx context.Context, w *Worker, drain bool) *engine {
	base := context.WithoutCancel(ctx)
	hard, end := context.WithCancel(base)
	return &engine{Worker: w, log: w.cfg.Log.With("worker", w.cfg.Name), drain: drain,
		base: base, hard: hard, end: end,
		wake: make(chan struct{}, 1), flush: make(chan struct{}, 1), idle: make(chan struct{}, 1),
		quieted: make(chan struct{}, 1), starts: make(chan startAsk), held: map[daybook.ClaimRef]*run{}}
}

// run is the life of one Run. Claiming ends first; renewals and outcomes go on
// until everything is said or the time for it is over. The error is that of a
// drain that gave up.
func (e *engine) run(ctx context.Context) error {
	claiming, stopClaiming := context.WithCancel(ctx)
	defer stopClaiming()
	var loops sync.WaitGroup
	loops.Go(func() {
		select {
		case <-e.stop:
			stopClaiming()
		case <-claiming.Done():
		}
	})
	if book := e.atHand(); book != nil && !e.cfg.NoLoops {
		loops.Go(func() { e.reconcile(claiming, book) })
		loops.Go(func() { e.relay(claiming, book) })
	}
	loops.Go(e.renewals)
	loops.Go(e.watch)
	loops.Go(e.recordStarts)
	loops.Go(e.recordOutcomes)
	loops.Go(e.tellQuiet)
	e.log.Info("worker starts", "queues", len(e.cfg.Queues), "concurrency", e.cfg.Concurrency)
	loops.Go(func() {
		defer stopClaiming()
		e.claims(claiming)
	})
	<-claiming.Done()
	e.shutDown()
	e.end()
	within(loopsMost, loops.Wait)
	e.log.Info("worker stopped")
	return e.failure()
}

// within waits for do, but no longer than most: a call that the database holds
// up must not keep a worker from stopping in its time.
func within(most time.Duration, do func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		do()
	}()
	over := time.NewTimer(most)
	defer over.Stop()
	select {
	case <-done:
	case <-over.C:
	}
}

func (e *engine) reconcile(ctx context.Context, book *daybook.Book) {
	if err := reconcile.New(book, e.cfg.Reconcile).Run(ctx); err != nil {
		e.log.Error("the reconciler can't run beside this worker", "err", err)
	}
}

// relay publishes what lies in the outbox, where there is a bell for it: rings of
// enqueues in a caller's transaction come from nowhere else.
func (e *engine) relay(ctx context.Context, book *daybook.Book) {
	if book.Outside() == nil {
		return
	}
	if err := relay.New(book, e.cfg.Relay).Run(ctx); err != nil {
		e.log.Error("the relay can't run beside this worker", "err", err)
	}
}

// look makes the claim loop look at what changed.
func (e *engine) look() { poke(e.wake) }

// poke leaves a signal, unless one is there already.
func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// sleep waits d, or less when ctx ends; then it is false.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
