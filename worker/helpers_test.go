package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/bell/local"
	"github.com/daybookdev/daybook/daybooktest"
	"github.com/daybookdev/daybook/reconcile"
	"github.com/daybookdev/daybook/worker"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// none is for jobs without args.
type none struct{}

// inBubble runs a test in virtual time, with a book in memory.
func inBubble(t *testing.T, test func(t *testing.T, book *daybooktest.Book)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		book := daybooktest.New(t)
		test(t, book)
	})
}

// enqueue accepts a job of a kind in queue q.
func enqueue(t *testing.T, book *daybooktest.Book, r daybook.Request) daybook.ID {
	t.Helper()
	if r.Queue == "" {
		r.Queue = "q"
	}
	if r.Kind == "" {
		r.Kind = "job"
	}
	receipt, err := book.Enqueue(t.Context(), r)
	if err != nil {
		t.Fatalf("Enqueue: %v", err)
	}
	return receipt.ID
}

// process is a worker in a process of its own, as far as one process can play
// it: with its own bell, and with its own cable to the database, which a test
// may cut.
type process struct {
	*worker.Worker
	*cable
	bell *local.Bell
	stop context.CancelFunc
	done chan struct{} // closed when Run returned
	err  error         // of Run
}

// newProcess makes a worker over the book's store. Its cfg gets queue q, and
// looks for work by itself unless it says else.
func newProcess(t *testing.T, book *daybooktest.Book, cfg worker.Config) *process {
	t.Helper()
	p := &process{cable: &cable{Store: book.Store()}, bell: local.New(), done: make(chan struct{})}
	if cfg.Queues == nil {
		cfg.Queues = []string{"q"}
	}
	own := daybook.New(p.cable, daybook.Options{Bell: p.bell, Log: book.Log(), Hook: p.cable.gap})
	p.Worker = worker.New(own, cfg)
	return p
}

// start runs the worker until end, or the end of the test.
func (p *process) start(t *testing.T) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	p.stop = stop
	go func() {
		defer close(p.done)
		p.err = p.Run(ctx)
	}()
	t.Cleanup(func() { p.end(t) })
}

// end stops the worker and waits for it. Twice is harmless.
func (p *process) end(t *testing.T) {
	t.Helper()
	p.stop()
	<-p.done
	if p.err != nil {
		t.Errorf("Run: %v", p.err)
	}
	p.bell.Close()
}

// cable is a store whose calls a test may cut, slow down or watch. Every write
// goes on to the real store or fails like one that didn't get there.
type cable struct {
	daybook.Store

	mu     sync.Mutex
	before func(ctx context.Context, doing string) error // an error: it never got there
	after  func(doing string) error                      // an error: its answer was lost
	hook   func(gap string, job daybook.ID)
	calls  map[string]int
}

// set changes what the cable does.
func (c *cable) set(before func(context.Context, string) error, after func(string) error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.before, c.after = before, after
}

// cut lets no call through any more, like a process that is dead for the world.
func (c *cable) cut() { c.set(func(_ context.Context, doing string) error { return away(doing) }, nil) }

// cutAllBut lets only one kind of call through.
func cutAllBut(kind string) func(context.Context, string) error {
	return func(_ context.Context, doing string) error {
		if doing != kind {
			return away(doing)
		}
		return nil
	}
}

// mend lets all calls through again.
func (c *cable) mend() { c.set(nil, nil) }

func away(doing string) error { return daybook.Unavailable(doing, errors.New("the cable is cut")) }

// onGap calls fn in the gaps.
func (c *cable) onGap(fn func(gap string, job daybook.ID)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hook = fn
}

func (c *cable) gap(gap string, job daybook.ID) {
	c.mu.Lock()
	fn := c.hook
	c.mu.Unlock()
	if fn != nil {
		fn(gap, job)
	}
}

// count is how many calls of a kind were made.
func (c *cable) count(doing string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.calls[doing]
}

// tally wants the lock.
func (c *cable) tally(doing string) {
	if c.calls == nil {
		c.calls = map[string]int{}
	}
	c.calls[doing]++
}

func (c *cable) Write(ctx context.Context, doing string, fn func(daybook.Tx) error) error {
	c.mu.Lock()
	if c.calls == nil {
		c.calls = map[string]int{}
	}
	c.tally(doing)
	before, after := c.before, c.after
	c.mu.Unlock()
	if before != nil {
		if err := before(ctx, doing); err != nil {
			return err
		}
	}
	err := c.Store.Write(ctx, doing, fn)
	if err == nil && after != nil {
		err = after(doing)
	}
	return err
}

func (c *cable) Read(ctx context.Context, doing string, fn func(daybook.View) error) error {
	c.mu.Lock()
	before := c.before
	c.tally(doing)
	c.mu.Unlock()
	if before != nil {
		if err := before(ctx, doing); err != nil {
			return err
		}
	}
	return c.Store.Read(ctx, doing, fn)
}

// reconciling runs a reconciler over the book until the test ends.
func reconciling(t *testing.T, book *daybooktest.Book) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- reconcile.New(book.Book, reconcile.Options{}).Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("reconciler: %v", err)
		}
	})
}

// attempts are the outcomes of a job's attempts, the oldest first.
func attempts(t *testing.T, book *daybooktest.Book, id daybook.ID) []daybook.OutcomeKind {
	t.Helper()
	list, err := book.Attempts(t.Context(), id)
	if err != nil {
		t.Fatalf("Attempts: %v", err)
	}
	var outcomes []daybook.OutcomeKind
	for _, a := range list {
		outcomes = append(outcomes, a.Outcome)
	}
	return outcomes
}

// requireAttempts holds a job's attempts to these outcomes.
func requireAttempts(t *testing.T, book *daybooktest.Book, id daybook.ID, want ...daybook.OutcomeKind) {
	t.Helper()
	if got := attempts(t, book, id); !slices.Equal(got, want) {
		t.Errorf("job %s has attempts %v, want %v", id, got, want)
	}
}

// after waits in virtual time until the bubble has nothing else to do.
func after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func raw(doc string) json.RawMessage { return json.RawMessage(doc) }

// stateOf is where a job stands.
func stateOf(t *testing.T, book *daybooktest.Book, id daybook.ID) daybook.State {
	t.Helper()
	j, err := book.Job(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return j.State
}
