package ring

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/daybookdev/daybook"
)

// Ears are the listeners of one process at a bell. A ring goes to one that waits
// for rings just then (Try), or stays for the first that comes (Leave).
type Ears struct {
	changed func()                  // told, without the lock, when the queues listened to may have changed
	again   func(ring daybook.Ring) // gets what a listener couldn't act on
	heard   atomic.Int64

	mu        sync.Mutex
	listeners []*ear
	next      int            // where the next ring begins to look
	queues    map[string]int // how many listeners name each
	all       int            // how many listen to every queue
	left      map[string]*Left
	order     []*Left       // left, oldest first
	look      chan struct{} // closed when there is something new to offer
	closed    chan struct{}
	done      sync.WaitGroup // one per listener
}

// ear is one Listen.
type ear struct {
	out     chan daybook.Heard
	queues  map[string]bool // nil hears every queue
	catchUp bool            // it is to be told that rings were lost
}

func (l *ear) hears(queue string) bool { return l.queues == nil || l.queues[queue] }

// Left is a ring that waits for a listener.
type Left struct {
	ring  daybook.Ring
	heard daybook.Heard
	taken chan struct{}
	gone  chan struct{}
}

// Taken is closed when a listener took the ring.
func (l *Left) Taken() <-chan struct{} { return l.taken }

// Gone is closed when the ring waits no more: taken, withdrawn, or nobody here
// listens to its queue now.
func (l *Left) Gone() <-chan struct{} { return l.gone }

// NewEars makes ears without listeners. changed is called when a listener came
// or went, and again with a ring that its listener couldn't act on; neither may
// block.
func NewEars(changed func(), again func(daybook.Ring)) *Ears {
	return &Ears{changed: changed, again: again, queues: map[string]int{}, left: map[string]*Left{},
		look: make(chan struct{}), closed: make(chan struct{})}
}

// Listen is daybook.Bell's.
func (e *Ears) Listen(ctx context.Context, queues []string) (<-chan daybook.Heard, error) {
	l := &ear{out: make(chan daybook.Heard)}
	if len(queues) > 0 {
		l.queues = make(map[string]bool, len(queues))
		for _, q := range queues {
			l.queues[q] = true
		}
	}
	e.mu.Lock()
	select {
	case <-e.closed:
		e.mu.Unlock()
		return nil, Closed()
	default:
	}
	e.listeners = append(e.listeners, l)
	e.count(l, 1)
	e.done.Go(func() { e.serve(ctx, l) })
	e.mu.Unlock()
	e.changed()
	return l.out, nil
}

// Closed is the answer of a bell that was closed.
func Closed() error {
	return daybook.Fail(daybook.CodeUnavailable, "the bell is closed; open it again")
}

// count notes that a listener came or went. It wants the lock.
func (e *Ears) count(l *ear, by int) {
	if l.queues == nil {
		e.all += by
	}
	for q := range l.queues {
		if e.queues[q] += by; e.queues[q] == 0 {
			delete(e.queues, q)
		}
	}
}

// Any reports whether anybody listens.
func (e *Ears) Any() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.listeners) > 0
}

// Hears reports whether anybody here listens to the queue.
func (e *Ears) Hears(queue string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.all > 0 || e.queues[queue] > 0
}

// Queues are the queues that somebody here listens to, sorted. all is true where
// somebody listens to every queue; the list is then what others name.
func (e *Ears) Queues() (queues []string, all bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Sorted(maps.Keys(e.queues)), e.all > 0
}

// Heard counts the rings that listeners here took.
func (e *Ears) Heard() int64 { return e.heard.Load() }

// Ring gives a ring that comes from this process to a listener of it that waits for
// one now, and else to out. It needs no server then, and is true; what that listener
// can't act on goes out too, so that another process gets it.
func (e *Ears) Ring(ring daybook.Ring, out func(daybook.Ring)) (near bool) {
	if near = e.TryHeard(wrap(ring, out)); !near {
		out(ring)
	}
	return near
}

// Try gives the ring to a listener of its queue that waits for one now, the next
// in turn, and is false when none does. It never blocks.
func (e *Ears) Try(ring daybook.Ring) bool { return e.TryHeard(wrap(ring, e.again)) }

// TryHeard is Try for a ring that brings its own Done, which knows what to do
// with one that its listener couldn't act on.
func (e *Ears) TryHeard(heard daybook.Heard) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	for i := range e.listeners {
		at := (e.next + i) % len(e.listeners)
		l := e.listeners[at]
		if !l.hears(heard.Queue) {
			continue
		}
		select {
		case l.out <- heard:
			e.next = at + 1
			e.heard.Add(1)
			return true
		default: // busy
		}
	}
	return false
}

// wrap makes a ring that can be given back.
func wrap(ring daybook.Ring, again func(daybook.Ring)) daybook.Heard {
	var once sync.Once
	return daybook.Heard{Ring: ring, Done: func(acted bool) {
		once.Do(func() {
			if !acted {
				again(ring)
			}
		})
	}}
}

// Leave keeps the ring for the first listener of its queue that comes, once per
// queue: a second one joins the first. It is nil when nobody here listens to the
// queue.
func (e *Ears) Leave(ring daybook.Ring) *Left {
	left, _ := e.LeaveHeard(wrap(ring, e.again))
	return left
}

// LeaveHeard is Leave for a ring that brings its own Done. joined reports that
// one of the queue waits already: this one's Done is never called.
func (e *Ears) LeaveHeard(heard daybook.Heard) (left *Left, joined bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	ring := heard.Ring
	if e.all == 0 && e.queues[ring.Queue] == 0 {
		return nil, false
	}
	if l := e.left[ring.Queue]; l != nil {
		if l.heard.Job != ring.Job {
			l.heard.Job = daybook.ID{} // for several jobs: any of the queue
		}
		return l, true
	}
	l := &Left{ring: ring, heard: heard, taken: make(chan struct{}), gone: make(chan struct{})}
	e.left[ring.Queue] = l
	e.order = append(e.order, l)
	e.tell()
	return l, false
}

// Withdraw takes a ring back that was left, and is false when a listener has it.
func (e *Ears) Withdraw(l *Left) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.remove(l)
}

// remove wants the lock.
func (e *Ears) remove(l *Left) bool {
	if e.left[l.ring.Queue] != l {
		return false
	}
	delete(e.left, l.ring.Queue)
	close(l.gone)
	at := slices.Index(e.order, l)
	e.order = slices.Delete(e.order, at, at+1)
	e.tell()
	return true
}

// CatchUp tells every listener to look at all of its queues, each once: rings
// were lost.
func (e *Ears) CatchUp() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, l := range e.listeners {
		l.catchUp = true
	}
	e.tell()
}

// tell makes every listener look at what there is. It wants the lock.
func (e *Ears) tell() {
	close(e.look)
	e.look = make(chan struct{})
}

// serve offers one listener what was left over.
func (e *Ears) serve(ctx context.Context, l *ear) {
	defer e.leave(l)
	for {
		heard, left, offer, look := e.offer(l)
		select {
		case <-ctx.Done():
			return
		case <-e.closed:
			return
		case <-look:
		case offer <- heard:
			e.took(l, left)
		}
	}
}

// offer is the oldest that l could take, and where: a nil channel when there is
// nothing.
func (e *Ears) offer(l *ear) (heard daybook.Heard, left *Left, to chan<- daybook.Heard, look <-chan struct{}) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if l.catchUp {
		return wrap(daybook.Ring{}, e.again), nil, l.out, e.look
	}
	for _, left := range e.order {
		if l.hears(left.ring.Queue) {
			return left.heard, left, l.out, e.look
		}
	}
	return daybook.Heard{}, nil, nil, e.look
}

// took notes that l took what it was offered. Two that were offered the same
// ring at the same moment double it, which rings may be.
func (e *Ears) took(l *ear, left *Left) {
	e.heard.Add(1)
	e.mu.Lock()
	defer e.mu.Unlock()
	if left == nil {
		l.catchUp = false
		return
	}
	if e.left[left.ring.Queue] == left {
		close(left.taken)
		e.remove(left)
	}
}

// leave takes a listener out, with the rings that nobody is left to hear.
func (e *Ears) leave(l *ear) {
	e.mu.Lock()
	e.listeners = slices.DeleteFunc(e.listeners, func(o *ear) bool { return o == l })
	e.count(l, -1)
	for _, left := range slices.Clone(e.order) {
		if e.all == 0 && e.queues[left.ring.Queue] == 0 {
			e.remove(left)
		}
	}
	close(l.out)
	e.mu.Unlock()
	e.changed()
}

// Close ends all listening and waits for it. Twice is harmless.
func (e *Ears) Close() {
	e.mu.Lock()
	select {
	case <-e.closed:
	default:
		close(e.closed)
	}
	e.mu.Unlock()
	e.done.Wait()
}
