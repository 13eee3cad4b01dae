package rabbitmq

import (
	"sync"
	"time"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/internal/ring"
	amqp "github.com/rabbitmq/amqp091-go"
)

const (
	// grace is how long a ring is offered here before others get it: a worker
	// that just claims is back by then.
	grace = 25 * time.Millisecond
	// standAside is how long a process leaves a ring to others that its worker
	// couldn't act on.
	standAside = time.Second
)

// hand is a ring that a listener has, or will have.
type hand struct {
	id    string
	once  sync.Once
	acted bool
	done  chan struct{} // closed when the listener said how it went
}

func (h *hand) finish(acted bool) {
	h.once.Do(func() {
		h.acted = acted
		close(h.done)
	})
}

// run hears one queue, until it shall stop or the channel ends.
//
// A worker without room doesn't receive. Then the ring goes back to the server
// and this process stops consuming, so that it comes to another. When its worker
// is free can only be seen by offering a ring: the same one, which is thereby
// doubled. If nobody else took it, the server delivers it here again, where it is
// recognised and not rung a second time.
func (c *consumer) run(deliveries <-chan amqp.Delivery) {
	defer c.h.ended(c)
	var rung *hand
	for deliveries != nil {
		paused := false
		for d := range deliveries {
			if paused = !c.deliver(d, deliveries, &rung); paused {
				break
			}
		}
		if !paused { // the end: ours, the channel's, or the queue was deleted
			for d := range deliveries {
				d.Reject(true)
			}
			c.h.lost.Store(!c.stops())
			return
		}
		select {
		case <-c.h.over:
			return
		default:
		}
		var err error
		if deliveries, err = c.consume(); err != nil {
			return
		}
	}
}

// deliver brings one ring to a listener here and to its end. It is false when
// the ring went back to the server and the consumer was stopped for a while.
func (c *consumer) deliver(d amqp.Delivery, more <-chan amqp.Delivery, rung **hand) bool {
	b := c.h.s.b
	b.counts.heard.Add(1)
	if d.Redelivered {
		b.counts.doubled.Add(1)
	}
	heard := daybook.Heard{Ring: daybook.Ring{Queue: c.queue}, Again: d.Redelivered}
	if c.queue == everyQueue {
		heard.Queue = string(d.Body)
		if daybook.CheckName("queue", heard.Queue) != nil {
			d.Ack(false) // not ours: whoever publishes here may send anything
			return true
		}
	}
	if id, err := daybook.ParseID(d.CorrelationId); err == nil {
		heard.Job = id
	}
	mine := *rung
	*rung = nil
	if mine == nil || d.MessageId == "" || mine.id != d.MessageId {
		mine = &hand{id: d.MessageId, done: make(chan struct{})}
		heard.Done = mine.finish
		if !b.ears.TryHeard(heard) {
			left, joined := b.ears.LeaveHeard(heard)
			if taken := left != nil && !joined && c.waits(left, grace); !taken {
				c.pause(more)
				d.Reject(true)
				b.counts.passed.Add(1)
				if c.comesFree(left) && !joined {
					*rung = mine
				}
				return false
			}
		}
	}
	return c.ends(d, more, mine)
}

// waits reports whether a listener takes the ring in time.
func (c *consumer) waits(left *ring.Left, most time.Duration) bool {
	late := time.NewTimer(most)
	defer late.Stop()
	select {
	case <-left.Gone():
		return isClosed(left.Taken())
	case <-c.h.over:
	case <-late.C:
	}
	return false
}

// comesFree waits until a listener here is free, and reports whether it took the
// ring.
func (c *consumer) comesFree(left *ring.Left) bool {
	if left == nil { // nobody listens just now: soon this consumer stops, or somebody comes
		c.rest(2 * grace)
		return false
	}
	select {
	case <-left.Gone():
		return isClosed(left.Taken())
	case <-c.h.over:
		return false
	}
}

// ends waits for the listener's word and passes it on.
func (c *consumer) ends(d amqp.Delivery, more <-chan amqp.Delivery, mine *hand) bool {
	late := time.NewTimer(c.h.s.b.acknowledge)
	defer late.Stop()
	select {
	case <-mine.done:
		if mine.acted {
			d.Ack(false) // one that is lost rings again
			return true
		}
		c.pause(more)
		d.Reject(true)
		c.rest(standAside)
		return false
	case <-late.C:
		d.Reject(true)
		return true
	case <-c.h.over:
		return true // the server delivers it again
	}
}

func (c *consumer) rest(d time.Duration) {
	over := time.NewTimer(d)
	defer over.Stop()
	select {
	case <-over.C:
	case <-c.h.over:
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
