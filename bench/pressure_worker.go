package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/bell/local"
	"github.com/daybookdev/daybook/bench/raw"
	"github.com/daybookdev/daybook/store/postgres"
	"github.com/daybookdev/daybook/worker"
)

const (
	// pressedSystem is the program that is Daybook with its claims timed.
	pressedSystem = "daybook pressed"
	// idleConns is how many connections all idle workers share.
	idleConns = 20
	idleQueue = "idle"
)

// claimClock is a store that times its claims, from asking for a connection to
// the commit.
type claimClock struct {
	*postgres.Store
	mu   sync.Mutex
	took []float64 // ms
}

func (c *claimClock) Write(ctx context.Context, doing string, fn func(daybook.Tx) error) error {
	if doing != "claiming" {
		return c.Store.Write(ctx, doing, fn)
	}
	begun := time.Now()
	err := c.Store.Write(ctx, doing, fn)
	took := time.Since(begun)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.took = append(c.took, float64(took.Microseconds())/1000)
	return err
}

// take is what was timed since the last call.
func (c *claimClock) take() []float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	took := c.took
	c.took = nil
	return took
}

// pressed carries out one step of a pressure.
func (o order) pressed(ctx context.Context, in io.Reader) (r report, err error) {
	options := postgres.Options{Book: daybook.Options{Bell: local.New(), Log: quiet()}}
	switch o.Step {
	case "migrate":
		_, err := postgres.Up(ctx, o.Place, options, nil)
		return r, err
	case "idle":
		options.Conns = idleConns
	}
	book, err := postgres.Open(ctx, o.Place, options)
	if err != nil {
		return r, err
	}
	defer book.Close()
	switch o.Step {
	case "fill":
		return r, o.fillQueues(ctx, book)
	case "work":
		clock := &claimClock{Store: book.Store().(*postgres.Store)}
		s := &stopwatch{profile: o.Profile}
		err = s.time(o.Jobs, func() (err error) {
			r, err = o.stretch(ctx, daybook.New(clock, options.Book), clock)
			return err
		})
		for _, read := range s.readings {
			if read.unit == perJob {
				r.Micros = read.value
			}
		}
		return r, err
	case "idle":
		return r, o.idle(ctx, book, in)
	}
	return r, fmt.Errorf("there is no step %q", o.Step)
}

// queueNames are those of the order's queues.
func (o order) queueNames() []string {
	if o.Queues <= 1 {
		return []string{queue}
	}
	names := make([]string, o.Queues)
	for i := range names {
		names[i] = fmt.Sprintf("%s-%d", queue, i)
	}
	return names
}

// fillQueues enqueues the jobs, each into the next queue.
func (o order) fillQueues(ctx context.Context, book *daybook.Book) error {
	names, done := o.queueNames(), 0
	return inBulk(o.Jobs, func(size int) error {
		requests := make([]daybook.Request, size)
		for i := range requests {
			requests[i] = request(raw.Args)
			requests[i].Queue = names[(done+i)%len(names)]
		}
		done += size
		_, err := book.EnqueueMany(ctx, requests)
		return err
	})
}

// stretch runs so many handlers and measures from a tenth of them on, when the
// worker knows its way.
func (o order) stretch(ctx context.Context, book *daybook.Book, clock *claimClock) (r report, err error) {
	var handled atomic.Int64
	var begun time.Time
	all := make(chan time.Time, 1)
	warm, last := int64(o.Jobs/10), int64(o.Jobs)
	w := worker.New(book, worker.Config{Queues: o.queueNames(), Concurrency: bookHandlers})
	worker.Handle(w, kind, func(context.Context, *worker.Claim[json.RawMessage]) error {
		switch handled.Add(1) {
		case warm:
			begun = time.Now()
			if first := clock.take(); len(first) > 0 {
				r.First = first[0]
			}
		case last:
			all <- time.Now()
		}
		return nil
	})
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	done, err := awaitAll(ctx, all, &handled)
	r.Millis = clock.take()
	stop()
	if err := errors.Join(err, <-ended); err != nil {
		return r, err
	}
	r.PerSecond = float64(last-warm) / done.Sub(begun).Seconds()
	switch {
	case r.First == 0:
		return r, errors.New("no claim was timed")
	case len(r.Millis) == 0: // so few jobs that the first took them all
		r.Millis = []float64{r.First}
	}
	return r, o.allDone(context.WithoutCancel(ctx))
}

// awaitAll waits for the last handler, as long as there is one from time to
// time.
func awaitAll(ctx context.Context, all <-chan time.Time, handled *atomic.Int64) (time.Time, error) {
	for before := int64(-1); ; {
		select {
		case at := <-all:
			return at, nil
		case <-ctx.Done():
			return time.Time{}, context.Cause(ctx)
		case <-time.After(patience):
		}
		now := handled.Load()
		if now == before {
			return time.Time{}, fmt.Errorf("no more than %d handlers began", now)
		}
		before = now
	}
}

// allDone fails when the worker left something undone: a claim, or a job of a
// side that has no backlog.
func (o order) allDone(ctx context.Context) error {
	query := "SELECT count(*) FROM daybook.owned"
	if !o.Backlog {
		query = "SELECT (SELECT count(*) FROM daybook.ready) + (SELECT count(*) FROM daybook.owned)"
	}
	rest, err := newRemainder(ctx, o.Place, query)
	if err != nil {
		return err
	}
	defer rest.pool.Close()
	left, err := rest.left(ctx)
	if err == nil && left > 0 {
		err = fmt.Errorf("%d jobs were left undone", left)
	}
	return err
}

// idle runs as many workers as the order has jobs, on a queue that has none,
// until the input ends.
func (o order) idle(ctx context.Context, book *daybook.Book, in io.Reader) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		io.Copy(io.Discard, in)
		stop()
	}()
	errs := make([]error, o.Jobs)
	var all sync.WaitGroup
	for i := range errs {
		w := worker.New(book, worker.Config{Queues: []string{idleQueue}, Name: fmt.Sprintf("idle %d", i)})
		worker.Handle(w, kind, func(context.Context, *worker.Claim[json.RawMessage]) error { return nil })
		all.Go(func() { errs[i] = w.Run(ctx) })
	}
	all.Wait()
	return errors.Join(errs...)
}
