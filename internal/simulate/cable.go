package simulate

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/bell/local"
)

// cable is a process's way to the database.
type cable struct {
	daybook.Store
	dead chan struct{} // closed when the process is

	mu    sync.Mutex
	mode  kind
	until time.Time
	once  sync.Once
}

var errCut = errors.New("the cable is cut")

// spoil has the cable be in a mode for a while.
func (c *cable) spoil(mode kind, last time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mode, c.until = mode, time.Now().Add(last)
}

func (c *cable) kill() { c.once.Do(func() { close(c.dead) }) }

// now is the mode, and how long it will be that.
func (c *cable) now() (kind, time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	left := time.Until(c.until)
	if left <= 0 {
		return "", 0
	}
	return c.mode, left
}

// pass lets a call pass to the database, or says why not.
func (c *cable) pass(ctx context.Context, doing string) error {
	switch mode, left := c.now(); mode {
	case cutOff:
		wait(ctx, 200*time.Millisecond)
		return daybook.Unavailable(doing, errCut)
	case slow:
		wait(ctx, time.Second)
	case stop:
		wait(context.Background(), left) // nothing that ctx says reaches a process that stands still
	}
	select {
	case <-c.dead:
		return daybook.Unavailable(doing, errCut)
	default:
		return nil
	}
}

// Write writes, as the mode has it.
func (c *cable) Write(ctx context.Context, doing string, fn func(daybook.Tx) error) error {
	if err := c.pass(ctx, doing); err != nil {
		return err
	}
	err := c.Store.Write(ctx, doing, fn)
	if mode, _ := c.now(); mode == lost && err == nil {
		return daybook.Unavailable(doing, errCut)
	}
	return err
}

// Read reads, as the mode has it.
func (c *cable) Read(ctx context.Context, doing string, fn func(daybook.View) error) error {
	if err := c.pass(ctx, doing); err != nil {
		return err
	}
	return c.Store.Read(ctx, doing, fn)
}

// end is a process's end of the bell. What is rung reaches the ends of all.
type end struct {
	*local.Bell
	w *world

	mu    sync.Mutex
	mode  kind
	until time.Time
}

func (e *end) spoil(mode kind, last time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.mode, e.until = mode, time.Now().Add(last)
}

// Ring rings at one of the processes, in turn.
func (e *end) Ring(ctx context.Context, queue string) {
	_ = e.Publish(ctx, []daybook.Ring{{Queue: queue}}) // never fails
}

// Publish rings at one of the processes, in turn.
func (e *end) Publish(_ context.Context, rings []daybook.Ring) error {
	for _, r := range rings {
		if to := e.w.next(); to != nil {
			to.hear(r.Queue)
		}
	}
	return nil
}

// hear is a ring that has come to this process, as the mode has it.
func (e *end) hear(queue string) {
	e.mu.Lock()
	mode := e.mode
	if !time.Now().Before(e.until) {
		mode = ""
	}
	e.mu.Unlock()
	ring := func() { e.Bell.Ring(context.Background(), queue) }
	switch mode {
	case mute:
		return
	case late:
		time.AfterFunc(2*lease, ring)
		return
	case twice:
		ring()
	}
	ring()
}

// Depth, Peek and Stats show nothing: no ring lies anywhere.
func (e *end) Depth(context.Context) (map[string]int64, error) { return nil, nil }

// Peek shows nothing.
func (e *end) Peek(context.Context, int) ([]daybook.Ring, error) { return nil, nil }

// Stats says that somebody listens.
func (e *end) Stats() daybook.BellStats { return daybook.BellStats{Listening: true} }
