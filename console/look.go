package console

import (
	"context"
	"sync"
	"time"

	"github.com/daybookdev/daybook"
)

// looks are shared: whoever wants to see the same thing at the same time sees one
// look at the book, so that a hundred watchers cost it what one does.
type looks struct {
	mu    sync.Mutex
	all   map[string]*look
	least time.Duration // how long a look is good for
}

// look is one look at the book, under way or made.
type look struct {
	done  chan struct{} // closed when it was made
	value any
	err   error
	at    time.Time // when it was made
	cost  time.Duration
}

const (
	// freshLeast is how long a look is good for; one that was dear is good for so
	// many times what it cost, up to freshMost.
	freshLeast, freshMost = time.Second, 30 * time.Second
	freshCosts            = 60
	// lookMax bounds the time of one look, and looksMost how many are remembered.
	lookMax   = 10 * time.Second
	looksMost = 256
)

// fresh reports whether the look can be shown, or will be.
func (l *look) fresh(least time.Duration) bool {
	select {
	case <-l.done:
	default:
		return true
	}
	if l.err != nil {
		return time.Since(l.at) < least/4
	}
	return time.Since(l.at) < max(least, min(freshCosts*l.cost, freshMost))
}

// see answers what a look that is fresh saw, or looks.
func see[T any](ctx context.Context, c *Console, key string, read func(ctx context.Context) (T, error)) (T, error) {
	l := c.lookAt(key, func(ctx context.Context) (any, error) { return read(ctx) })
	var none T
	select {
	case <-l.done:
	case <-ctx.Done():
		return none, daybook.Unavailable("making a page", ctx.Err())
	}
	if l.err != nil {
		return none, l.err
	}
	return l.value.(T), nil
}

func (c *Console) lookAt(key string, read func(ctx context.Context) (any, error)) *look {
	c.looks.mu.Lock()
	if l := c.looks.all[key]; l != nil && l.fresh(c.looks.least) {
		c.looks.mu.Unlock()
		return l
	}
	if len(c.looks.all) >= looksMost {
		c.looks.shrink()
	}
	l := &look{done: make(chan struct{})}
	c.looks.all[key] = l
	c.looks.mu.Unlock() // a closed console looks here and now
	// It serves others too, so it doesn't end with the request that began it.
	c.background(func() {
		ctx, cancel := context.WithTimeout(context.Background(), lookMax)
		defer cancel()
		begun := time.Now()
		value, err := read(ctx)
		if err != nil && ctx.Err() != nil {
			err = ctx.Err()
		}
		l.value, l.err, l.at, l.cost = value, err, time.Now(), time.Since(begun)
		close(l.done)
	})
	return l
}

// shrink forgets what isn't fresh any more, or all of it.
func (l *looks) shrink() {
	for key, old := range l.all {
		if !old.fresh(l.least) {
			delete(l.all, key)
		}
	}
	if len(l.all) >= looksMost {
		clear(l.all)
	}
}

// forget makes everybody look again: a person changed something and wants to see
// it.
func (c *Console) forget() {
	c.looks.mu.Lock()
	clear(c.looks.all)
	c.looks.mu.Unlock()
	c.hub.wake()
}
