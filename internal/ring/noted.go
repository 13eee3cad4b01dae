package ring

import (
	"context"
	"sync"
	"time"
)

// Noted compares what this process wants to hear with what the server has noted
// of it. One goroutine of the bell makes them equal, woken by Wake.
type Noted struct {
	wake chan struct{} // holds one

	mu      sync.Mutex
	wanted  int           // counts changes of what is wanted
	have    int           // the change that the server has noted
	epoch   int           // the connection that it noted it on; 0 is none
	changed chan struct{} // closed when have or epoch changed
}

// NewNoted is one that nothing is wanted of yet.
func NewNoted() *Noted { return &Noted{wake: make(chan struct{}, 1), changed: make(chan struct{})} }

// Poke says that what is wanted may have changed. It never blocks.
func (n *Noted) Poke() {
	n.mu.Lock()
	n.wanted++
	n.mu.Unlock()
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

// Wake receives after a Poke.
func (n *Noted) Wake() <-chan struct{} { return n.wake }

// Wanted is the change that is wanted now, to be given to Set when it is made,
// and the connection of the last Set.
func (n *Noted) Wanted() (change, epoch int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.wanted, n.epoch
}

// Set says that the server has noted the change, on a connection.
func (n *Noted) Set(change, epoch int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.have, n.epoch = change, epoch
	close(n.changed)
	n.changed = make(chan struct{})
}

// Forget says that the server knows nothing any more.
func (n *Noted) Forget() { n.Set(0, 0) }

// Settled reports whether the server listens for this process. A queue that was
// wanted a moment ago may yet be missing.
func (n *Noted) Settled() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.epoch > 0
}

// Await waits until the server has noted what is wanted now, for as long as it
// is connected.
func (n *Noted) Await(ctx context.Context, connected func() bool) {
	until, _ := n.Wanted()
	look := time.NewTicker(50 * time.Millisecond) // whether it is still connected
	defer look.Stop()
	for connected() {
		n.mu.Lock()
		done, changed := n.have >= until, n.changed
		n.mu.Unlock()
		if done {
			return
		}
		select {
		case <-changed:
		case <-look.C:
		case <-ctx.Done():
			return
		}
	}
}
