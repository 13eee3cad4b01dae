package worker

import (
	"context"
	"time"

	"github.com/daybookdev/daybook"
)

// ensureSession is the session to claim for. It starts one where there is none:
// at the beginning, and after the book ended the last one.
func (c *claimer) ensureSession(ctx context.Context) (daybook.ID, bool) {
	c.mu.Lock()
	id := c.session.ID
	c.mu.Unlock()
	if !id.IsZero() {
		return id, true
	}
	sent := time.Now()
	bounded, cancel := context.WithTimeout(ctx, c.patience())
	defer cancel()
	s, err := c.book.StartSession(bounded, daybook.SessionRequest{Worker: c.cfg.Name, Lease: c.cfg.Lease,
		Starts: true, Queues: c.cfg.Queues, Kinds: c.kinds})
	if err != nil {
		c.failed(ctx, err)
		return daybook.ID{}, false
	}
	c.again.healed()
	c.adopt(s, sent)
	return s.ID, true
}

// adopt makes s the worker's session. The lease counts from before it was asked
// for: the answer may have been long on its way.
func (e *engine) adopt(s daybook.Session, sent time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.session = s
	e.trustUntil(sent.Add(s.Lease))
	e.counters.sessions.Add(1)
	e.log.Info("session starts", "session", s.ID, "lease", s.Lease)
	if e.quiet.Load() { // meanwhile
		poke(e.quieted)
	}
}

// tellQuiet notes in the book that the worker's session claims no more, when
// that is so: for people to see, and so tried once.
func (e *engine) tellQuiet() {
	for {
		select {
		case <-e.hard.Done():
			return
		case <-e.quieted:
		}
		e.mu.Lock()
		id := e.session.ID
		e.mu.Unlock()
		if id.IsZero() {
			continue
		}
		ctx, cancel := context.WithTimeout(e.hard, e.patience())
		if err := e.book.QuietSession(ctx, id); err != nil && e.hard.Err() == nil {
			e.log.Warn("the book could not be told that this worker claims no more", "session", id, "err", err)
		}
		cancel()
	}
}

// trustUntil moves the end of the lease by this process's clock. It wants the
// lock.
func (e *engine) trustUntil(t time.Time) {
	e.trust = t
	if e.watchdog == nil {
		e.watchdog = time.AfterFunc(time.Until(t), e.distrust)
		return
	}
	e.watchdog.Reset(time.Until(t))
}

// distrust ends the contexts of all handlers when the lease ran out by this
// process's clock: the book may give their jobs away from here on. What they
// report is sent all the same, and a late renewal may still find them owned.
func (e *engine) distrust() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.session.ID.IsZero() || e.trusted() {
		return
	}
	n := 0
	for _, r := range e.held {
		if r.place == placeRunning && r.owner.Session == e.session.ID && !r.ended {
			e.endContext(r, ErrLeaseLost)
			n++
		}
	}
	e.log.Warn("the lease could not be renewed in time; handlers are told to stop",
		"session", e.session.ID, "handlers", n)
}

// endSession lets go of a session that the book ended. Its claims are lost; a
// new session is started by the claim loop.
func (e *engine) endSession(id daybook.ID, why error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.session.ID != id {
		return
	}
	e.session, e.trust = daybook.Session{}, time.Time{}
	n := 0
	for _, r := range e.held {
		if r.owner.Session == id && e.loseOne(r) {
			n++
		}
	}
	e.log.Warn("the book ended this worker's session; it starts a new one",
		"session", id, "claims_lost", n, "err", why)
	e.look()
}

// leaseOf is until when the book keeps the session's lease, as it last said; 0
// when the session isn't this worker's any more.
func (e *engine) leaseOf(session daybook.ID) daybook.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.session.ID != session {
		return 0
	}
	return e.session.ExpiresAt
}
