// Package local is the bell inside one process: rings reach the listeners that
// share the value, and nobody else. It is the default beside SQLite, where most
// books live in one process; other processes on the same file find their work
// by polling.
package local

import (
	"context"
	"slices"
	"sync"

	"github.com/daybookdev/daybook"
)

// Bell rings listeners of the same process. One ring wakes one listener of its
// queue, the next one in turn that is waiting for rings just then. When none is
// waiting the ring stays for the first that comes, once per queue however often
// it was rung: a worker that reads rings only while it has free slots is never
// handed one that it can't use. The zero value isn't ready; see New.
type Bell struct {
	mu        sync.Mutex
	listeners []*listener
	next      int            // where the next ring begins to look
	pending   []string       // queues rung while nobody was waiting, oldest first
	changed   chan struct{}  // closed when pending changed
	closed    chan struct{}  // closed by Close
	done      sync.WaitGroup // one per listener
}

// listener is one Listen.
type listener struct {
	out    chan daybook.Heard
	queues map[string]bool // nil hears every queue
}

func (l *listener) hears(queue string) bool { return l.queues == nil || l.queues[queue] }

// New makes a bell without listeners.
func New() *Bell {
	return &Bell{changed: make(chan struct{}), closed: make(chan struct{})}
}

var _ daybook.Bell = (*Bell)(nil)

// Ring wakes one listener of the queue, or leaves the ring for the first that
// comes. It never blocks. A ring that nobody could ever hear is dropped.
func (b *Bell) Ring(_ context.Context, queue string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	heard := false
	for i := range b.listeners {
		at := (b.next + i) % len(b.listeners)
		l := b.listeners[at]
		if !l.hears(queue) {
			continue
		}
		heard = true
		select {
		case l.out <- daybook.Heard{Ring: daybook.Ring{Queue: queue}}:
			b.next = at + 1
			return
		default: // busy: it isn't waiting for rings
		}
	}
	if heard && !slices.Contains(b.pending, queue) {
		b.pending = append(b.pending, queue)
		b.tell()
	}
}

// tell makes every listener look at pending again. It wants the lock.
func (b *Bell) tell() {
	close(b.changed)
	b.changed = make(chan struct{})
}

// Listen returns a channel of queue names with work, until ctx ends or the bell
// is closed; then the channel is closed. An empty list listens to every queue.
func (b *Bell) Listen(ctx context.Context, queues []string) (<-chan daybook.Heard, error) {
	l := &listener{out: make(chan daybook.Heard)}
	if len(queues) > 0 {
		l.queues = make(map[string]bool, len(queues))
		for _, q := range queues {
			l.queues[q] = true
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case <-b.closed:
		return nil, daybook.Fail(daybook.CodeUnavailable, "the bell is closed; open the book again")
	default:
	}
	b.listeners = append(b.listeners, l)
	b.done.Go(func() { b.serve(ctx, l) })
	return l.out, nil
}

// serve offers rings that were left over to one listener.
func (b *Bell) serve(ctx context.Context, l *listener) {
	defer b.leave(l)
	for {
		queue, offer, changed := b.left(l)
		select {
		case <-ctx.Done():
			return
		case <-b.closed:
			return
		case <-changed:
		case offer <- daybook.Heard{Ring: daybook.Ring{Queue: queue}}:
			b.taken(queue)
		}
	}
}

// left is the oldest ring left over that l hears, and where to offer it; a nil
// channel when there is none.
func (b *Bell) left(l *listener) (queue string, offer chan<- daybook.Heard, changed <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if i := slices.IndexFunc(b.pending, l.hears); i >= 0 {
		return b.pending[i], l.out, b.changed
	}
	return "", nil, b.changed
}

// taken removes a ring that was left over, so that others stop offering it. Two
// that offer at the same moment double it, which rings may be.
func (b *Bell) taken(queue string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if i := slices.Index(b.pending, queue); i >= 0 {
		b.pending = slices.Delete(b.pending, i, i+1)
		b.tell()
	}
}

// leave takes a listener out, and the rings that nobody is left to hear.
func (b *Bell) leave(l *listener) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.listeners = slices.DeleteFunc(b.listeners, func(o *listener) bool { return o == l })
	b.pending = slices.DeleteFunc(b.pending, func(queue string) bool {
		return !slices.ContainsFunc(b.listeners, func(o *listener) bool { return o.hears(queue) })
	})
	close(l.out)
}

// Close ends all listening and waits for it. Twice is harmless.
func (b *Bell) Close() error {
	b.mu.Lock()
	select {
	case <-b.closed:
	default:
		close(b.closed)
	}
	b.mu.Unlock()
	b.done.Wait()
	return nil
}
