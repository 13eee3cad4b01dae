package httpapi

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/daybookdev/daybook"
)

// hub is where calls wait for work: one ear at the bell and one slow look at the
// book for all of them, so that hundreds of clients cost about as much as one.
// A ring wakes one of them, the one that has waited longest for its queue.
type hub struct {
	book *daybook.Book

	mu      sync.Mutex
	waiters []*waiter            // the longest first
	joined  bool                 // somebody new, since the loop asked
	used    map[string]time.Time // queues that were waited for, and when last
	changed chan struct{}        // something to hear for; holds one
	stop    context.CancelFunc   // nil until somebody waited
	over    sync.WaitGroup
	closed  bool
}

// waiter is one call that waits.
type waiter struct {
	queues []string
	kinds  string     // which, as one word: those who take the same needn't all be asked
	wake   chan *ring // holds one
	woken  bool       // a ring lies in wake, or the call looks because of one
}

// ring is one reason to look, on its way from waiter to waiter.
type ring struct {
	daybook.Heard
	asked map[string]bool // kinds of those who looked for it in vain
}

// usedFor is how long the bell is listened to for a queue that nobody waits for:
// a client is back in a moment.
const usedFor = time.Minute

// lookEvery is the shortest pause between two looks at the book, but for a job
// that is known to become due.
const lookEvery = time.Second

func newHub(book *daybook.Book) *hub {
	return &hub{book: book, used: map[string]time.Time{}, changed: make(chan struct{}, 1)}
}

// join makes a call wait for a ring of these queues. leave it in the end.
func (h *hub) join(queues, kinds []string) *waiter {
	w := &waiter{queues: queues, kinds: strings.Join(slices.Sorted(slices.Values(kinds)), " "),
		wake: make(chan *ring, 1)}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return w
	}
	h.waiters, h.joined = append(h.waiters, w), true
	if h.stop == nil {
		ctx, stop := context.WithCancel(context.Background())
		h.stop = stop
		h.over.Go(func() { h.run(ctx) })
	}
	h.note()
	return w
}

// note tells the hub's loop that who waits has changed.
func (h *hub) note() {
	select {
	case h.changed <- struct{}{}:
	default:
	}
}

// leave ends a call's waiting. A ring that it was given and didn't act on goes
// to the next.
func (h *hub) leave(w *waiter) {
	h.mu.Lock()
	h.waiters = slices.DeleteFunc(h.waiters, func(other *waiter) bool { return other == w })
	h.note()
	h.mu.Unlock()
	select {
	case r := <-w.wake:
		h.give(r)
	default:
	}
}

// looked says that the waiter has looked because of the ring: got is that there
// was something. What it can't take another one may.
func (h *hub) looked(w *waiter, r *ring, acted, got bool) {
	if r == nil {
		return // it looked by itself; a ring that came meanwhile still lies there
	}
	h.mu.Lock()
	w.woken = false
	h.mu.Unlock()
	r.asked[w.kinds] = true
	if !acted || !got {
		h.give(r)
		return
	}
	r.Finish(true)
}

// give wakes the waiter that has waited longest for the ring's queue. If there
// is none that hasn't looked, it is over, for another process where nobody
// looked at all.
func (h *hub) give(r *ring) {
	h.mu.Lock()
	for _, w := range h.waiters {
		if !w.woken && !r.asked[w.kinds] && (r.Queue == "" || slices.Contains(w.queues, r.Queue)) {
			w.woken = true
			w.wake <- r
			h.mu.Unlock()
			return
		}
	}
	h.mu.Unlock()
	r.Finish(len(r.asked) > 0)
}

// more says that a queue has more than one client could take: the next one
// here, or else whoever hears the bell, takes on.
func (h *hub) more(ctx context.Context, queue string) {
	h.mu.Lock()
	here := slices.ContainsFunc(h.waiters, func(w *waiter) bool { return !w.woken && slices.Contains(w.queues, queue) })
	h.mu.Unlock()
	if here {
		h.give(&ring{Heard: daybook.Heard{Ring: daybook.Ring{Queue: queue}}, asked: map[string]bool{}})
	} else if bell := h.book.Bell(); bell != nil {
		bell.Ring(ctx, queue)
	}
}

// wanted are the queues that are waited for, and those that lately were.
func (h *hub) wanted() (now, lately []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	at := time.Now()
	for _, w := range h.waiters {
		for _, q := range w.queues {
			if !slices.Contains(now, q) {
				now = append(now, q)
			}
			h.used[q] = at
		}
	}
	for q, last := range h.used {
		if at.Sub(last) > usedFor {
			delete(h.used, q)
			continue
		}
		lately = append(lately, q)
	}
	slices.Sort(lately)
	return now, lately
}

// someNew reports, once, that somebody began to wait.
func (h *hub) someNew() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	joined := h.joined
	h.joined = false
	return joined
}

// ear is one listening.
type ear struct {
	queues []string
	rings  <-chan daybook.Heard // nil while it isn't heard
	stop   context.CancelFunc
}

// follow makes the ear hear all of the queues. One that hears more stays: to
// listen anew may cost the bell's server something.
func (e *ear) follow(ctx context.Context, book *daybook.Book, queues []string) {
	missing := func(q string) bool { return !slices.Contains(e.queues, q) }
	if book.Bell() == nil || e.rings != nil && !slices.ContainsFunc(queues, missing) {
		return
	}
	if e.stop != nil {
		e.stop()
	}
	listening, stop := context.WithCancel(ctx)
	rings, err := book.Bell().Listen(listening, queues)
	if err != nil {
		stop()
		book.Log().Warn("the bell can't be heard; work is found by looking", "error", sayable(err))
		rings, stop = nil, nil
	}
	*e = ear{queues, rings, stop}
}

// run hears and looks for all who wait, until ctx ends.
func (h *hub) run(ctx context.Context) {
	var e ear
	var passed daybook.Time // see NextDue
	var last time.Time      // when it was asked
	look := time.NewTimer(0)
	defer look.Stop()
	for {
		now, lately := h.wanted()
		var rings <-chan daybook.Heard // nobody is free: others may have them
		if len(now) > 0 {
			e.follow(ctx, h.book, lately)
			rings = e.rings
		}
		select {
		case <-ctx.Done():
			if e.stop != nil {
				e.stop()
			}
			return
		case <-h.changed:
			// Who is new may wait for queues of which nobody knows what comes next.
			if h.someNew() {
				look.Reset(max(0, lookEvery-time.Since(last)))
			}
		case heard, ok := <-rings:
			if !ok {
				e.rings = nil
				continue
			}
			h.hear(heard)
		case <-look.C:
			pause := daybook.PollDefault
			if len(now) > 0 {
				last = time.Now()
				passed, pause = h.look(ctx, now, passed)
			}
			look.Reset(pause)
		}
	}
}

// hear takes a ring. One that speaks of every queue is one for each.
func (h *hub) hear(heard daybook.Heard) {
	if heard.Queue != "" {
		h.give(&ring{Heard: heard, asked: map[string]bool{}})
		return
	}
	queues, _ := h.wanted()
	h.wakeEach(queues)
	heard.Finish(true)
}

func (h *hub) wakeEach(queues []string) {
	for _, q := range queues {
		h.give(&ring{Heard: daybook.Heard{Ring: daybook.Ring{Queue: q}}, asked: map[string]bool{}})
	}
}

// look asks the book once for all who wait, and says when to look next: rings
// may be lost, and jobs become due.
func (h *hub) look(ctx context.Context, queues []string, passed daybook.Time) (daybook.Time, time.Duration) {
	due, at, err := h.book.NextDue(ctx, queues, passed)
	switch {
	case err != nil || due == 0:
		return 0, daybook.PollDefault
	case due <= at:
		h.wakeEach(queues)
		return at, lookEvery
	}
	return at, min(max(due.Sub(at), 10*time.Millisecond), daybook.PollDefault)
}

// close ends the hub's loop. Twice is harmless.
func (h *hub) close() {
	h.mu.Lock()
	h.closed = true
	if h.stop != nil {
		h.stop()
	}
	h.mu.Unlock()
	h.over.Wait()
}
