package drill

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/bell/local"
)

// hurting says what becomes of the rings for one queue.
type hurting struct {
	Queue string
	Mode  ringMode // "" is to ring them as they are
}

// ringMode is what a bell does wrong.
type ringMode string

const (
	ringTwice ringMode = "twice"
	ringLate  ringMode = "late"
	ringNever ringMode = "never"
)

// lateBy is how late a late ring is: past the leases.
const lateBy = 2 * leaseShort

// hurtBell is a bell that can be told to lie about one queue at a time.
type hurtBell struct {
	daybook.Outside

	mu    sync.Mutex
	modes map[string]ringMode
	hurt  int
}

func newHurtBell(b daybook.Outside) *hurtBell {
	return &hurtBell{Outside: b, modes: map[string]ringMode{}}
}

// set changes what becomes of a queue's rings, and begins to count anew.
func (h *hurtBell) set(w hurting) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.hurt = 0
	if h.modes[w.Queue] = w.Mode; w.Mode == "" {
		delete(h.modes, w.Queue)
	}
}

// spoiled counts since the last set.
func (h *hurtBell) spoiled() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.hurt
}

// Know hands on what the bell should know, if it wants to.
func (h *hurtBell) Know(queues ...string) {
	if k, ok := h.Outside.(daybook.Knower); ok {
		k.Know(queues...)
	}
}

func (h *hurtBell) mode(queue string) ringMode {
	h.mu.Lock()
	defer h.mu.Unlock()
	m := h.modes[queue]
	if m != "" {
		h.hurt++
	}
	return m
}

// Ring rings as the queue's mode has it.
func (h *hurtBell) Ring(ctx context.Context, queue string) {
	switch h.mode(queue) {
	case ringNever:
		return
	case ringLate:
		time.AfterFunc(lateBy, func() { h.Outside.Ring(context.WithoutCancel(ctx), queue) })
		return
	case ringTwice:
		h.Outside.Ring(ctx, queue)
	}
	h.Outside.Ring(ctx, queue)
}

// Publish publishes as the queues' modes have it. A ring that is dropped or late
// counts as published: that is the lie.
func (h *hurtBell) Publish(ctx context.Context, rings []daybook.Ring) error {
	var now, later []daybook.Ring
	for _, r := range rings {
		switch h.mode(r.Queue) {
		case ringNever:
		case ringLate:
			later = append(later, r)
		case ringTwice:
			now = append(now, r, r)
		default:
			now = append(now, r)
		}
	}
	if len(later) > 0 {
		time.AfterFunc(lateBy, func() {
			bounded, stop := context.WithTimeout(context.WithoutCancel(ctx), daybook.PublishMax)
			defer stop()
			_ = h.Outside.Publish(bounded, later) // late anyway
		})
	}
	if len(now) == 0 {
		return nil
	}
	return h.Outside.Publish(ctx, now)
}

// carried is a bell whose rings the parent carries between the processes of a
// drill, where the book's own bell stays inside one.
type carried struct {
	*local.Bell
	say func(report)

	mu    sync.Mutex
	stats daybook.BellStats
}

func newCarried(say func(report)) *carried { return &carried{Bell: local.New(), say: say} }

// Ring gives the ring to the parent.
func (c *carried) Ring(ctx context.Context, queue string) {
	_ = c.Publish(ctx, []daybook.Ring{{Queue: queue}})
}

// Publish gives rings to the parent.
func (c *carried) Publish(_ context.Context, rings []daybook.Ring) error {
	queues := make([]string, len(rings))
	for i, r := range rings {
		queues[i] = r.Queue
	}
	c.say(report{Rings: queues})
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stats.Published += int64(len(rings))
	return nil
}

// Listen tells the parent too.
func (c *carried) Listen(ctx context.Context, queues []string) (<-chan daybook.Heard, error) {
	c.say(report{Listen: queues})
	return c.Bell.Listen(ctx, queues)
}

// hear is a ring that the parent brings.
func (c *carried) hear(queue string) {
	c.mu.Lock()
	c.stats.Heard++
	c.mu.Unlock()
	c.Bell.Ring(context.Background(), queue)
}

// Depth and Peek know nothing: the parent keeps no rings.
func (c *carried) Depth(context.Context) (map[string]int64, error) { return nil, nil }

// Peek shows nothing.
func (c *carried) Peek(context.Context, int) ([]daybook.Ring, error) { return nil, nil }

// Stats says what was rung and heard.
func (c *carried) Stats() daybook.BellStats {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.stats
	s.Listening = true
	return s
}

// hub carries the rings of children whose bells are carried: each to one of those
// who listen to its queue.
type hub struct {
	mu        sync.Mutex
	listeners []*process
}

// listens adds a listener; those that have ended are forgotten.
func (h *hub) listens(p *process) {
	h.mu.Lock()
	defer h.mu.Unlock()
	kept := h.listeners[:0]
	for _, l := range h.listeners {
		if l != p && l.running() {
			kept = append(kept, l)
		}
	}
	h.listeners = append(kept, p)
}

// carry brings rings to listeners. A ring that finds nobody, or one with too many
// to be brought, is lost, as rings may be.
func (h *hub) carry(queues []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, queue := range queues {
		for _, i := range rand.Perm(len(h.listeners)) {
			if l := h.listeners[i]; l.Queue == queue && l.running() {
				push(l.rings, queue)
				break
			}
		}
	}
}
