package worker

import (
	"context"
	"time"

	"github.com/daybookdev/daybook"
)

const (
	// settleMost is how long handlers get to return, and outcomes to be
	// recorded, after the grace. byeMost is when the end of the session is over,
	// counted from there too: a session that isn't ended costs each of its jobs a
	// lease, so it gets what the handlers left. loopsMost is for the loops. All
	// are inside the second that Run may take after the grace.
	settleMost = 400 * time.Millisecond
	byeMost    = 850 * time.Millisecond
	loopsMost  = 100 * time.Millisecond
	// atOnce takes settleMost's place after Stop.
	atOnce = 50 * time.Millisecond
)

// shutDown ends what the worker holds: what hasn't begun is given back, what
// runs gets the grace, what is left after it is given back too. Claiming has
// ended already; renewals and outcomes go on meanwhile.
func (e *engine) shutDown() {
	e.giveBackQueue()
	settled := e.settled(max(0, e.cfg.Grace), e.stop)
	over := time.Now().Add(byeMost)
	if !settled {
		e.endHandlers()
		rest := settleMost
		if e.stopped() {
			rest = atOnce
		}
		e.settled(rest, nil)
	}
	e.abandon()
	e.sayGoodbye(time.Until(over))
}

func (e *engine) giveBackQueue() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.stopping = true
	for len(e.queue) > 0 {
		e.giveBack(e.queue[0])
	}
}

func (e *engine) stopped() bool {
	select {
	case <-e.stop:
		return true
	default:
		return false
	}
}

// settled waits until nothing is held: every handler returned, every outcome
// answered. It is false when the time was over first, or cut short.
func (e *engine) settled(most time.Duration, short <-chan struct{}) bool {
	over := time.NewTimer(most)
	defer over.Stop()
	for !e.empty() {
		select {
		case <-e.idle:
		case <-short:
			return false
		case <-over.C:
			return e.empty()
		}
	}
	return true
}

func (e *engine) endHandlers() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, r := range e.held {
		if r.place == placeRunning {
			e.endContext(r, ErrStopping)
		}
	}
}

// abandon counts the handlers that go on behind Run's back.
func (e *engine) abandon() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.watchdog != nil {
		e.watchdog.Stop()
	}
	n := 0
	for _, r := range e.held {
		if r.place != placeRunning {
			continue
		}
		n++
		if !r.leaked {
			r.leaked = true
			e.counters.leaked.Add(1)
		}
		if !r.lost {
			e.counters.released.Add(1)
		}
	}
	if n > 0 {
		e.log.Warn("handlers go on after the grace; their jobs are given back", "handlers", n)
	}
}

// sayGoodbye ends the session, which gives back what it still owns without
// blame. When the database is away the lease does that.
func (e *engine) sayGoodbye(most time.Duration) {
	e.mu.Lock()
	session := e.session.ID
	e.session = daybook.Session{}
	e.mu.Unlock()
	if session.IsZero() {
		return
	}
	within(most, func() {
		ctx, cancel := context.WithTimeout(e.hard, most)
		defer cancel()
		if err := e.book.EndSession(ctx, session); err != nil && !ended(err) {
			e.log.Warn("the session could not be ended; its lease will run out", "session", session, "err", err)
		}
	})
}
