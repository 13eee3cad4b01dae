package worker

import (
	"context"
	"time"

	"github.com/daybookdev/daybook"
)

// listening is the worker's ear at the bell. A bell that can't be heard costs
// latency and nothing else: the poll floor finds the work.
type listening struct {
	bell   daybook.Bell // nil when the book rings none
	queues []string
	known  map[string]bool      // the queues
	rings  <-chan daybook.Heard // nil while it isn't heard
	retry  <-chan time.Time     // when to listen again
	again  retry
	deaf   bool           // rings were left to others for want of room
	ring   *daybook.Heard // what makes the worker look, until the book has answered
}

func newListening(e *engine) listening {
	l := listening{bell: e.book.Bell(), queues: e.cfg.Queues, known: make(map[string]bool, len(e.cfg.Queues)),
		again: retry{log: e.log, doing: "listening to the bell"}}
	for _, q := range l.queues {
		l.known[q] = true
	}
	return l
}

// open begins to listen, where it doesn't already and isn't waiting to.
func (l *listening) open(ctx context.Context) {
	if l.bell == nil || l.rings != nil || l.retry != nil {
		return
	}
	rings, err := l.bell.Listen(ctx, l.queues)
	if err != nil {
		l.retry = time.After(l.again.after(err))
		return
	}
	l.rings = rings
}

// lost notes that the bell ended the listening; it begins again after a pause.
func (l *listening) lost() {
	l.rings = nil
	l.retry = time.After(l.again.after(daybook.Fail(daybook.CodeUnavailable, "the bell stopped ringing")))
}

// hear takes a ring and reports whether it is a reason to look. The ring is held
// until the book has answered. One for another's queue is over at once: a
// message that was misled must not come again and again.
func (c *claimer) hear(r daybook.Heard) bool {
	c.book.Reached(daybook.GapDeliver, r.Job)
	c.counters.rings.Add(1)
	if r.Again {
		c.counters.again.Add(1)
	}
	if r.Queue != "" && !c.bell.known[r.Queue] {
		c.counters.stale.Add(1)
		r.Finish(true)
		return false
	}
	c.bell.ring = &r
	return true
}

// job is the one that the ring names, or zero.
func (l *listening) job() daybook.ID {
	if l.ring == nil {
		return daybook.ID{}
	}
	return l.ring.Job
}

// finish is done with the ring, if there is one: acted says whether the book was
// asked. If not, another worker gets it where the bell keeps rings.
func (l *listening) finish(acted bool) {
	if l.ring != nil {
		l.ring.Finish(acted)
		l.ring = nil
	}
}
