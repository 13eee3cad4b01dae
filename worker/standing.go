package worker

import (
	"time"

	"github.com/daybookdev/daybook"
)

// stand leaves the next claim call with the book while the worker waits for rings: an
// enqueue in this process makes it then. None is nil.
func (c *claimer) stand(idle bool) *daybook.Standing {
	book := c.atHand()
	if !idle || book == nil || c.call.repeated || c.cfg.NoStanding {
		return nil
	}
	c.mu.Lock()
	session := c.session.ID
	c.mu.Unlock()
	room := c.waitingRoom()
	if session.IsZero() || room == 0 {
		return nil
	}
	c.aim(session, room)
	c.call.stood = true
	call := &c.call
	return book.Stand(call.request, func() { call.first, call.listings = time.Now(), c.listings.Load() })
}

// stood is done waiting beside a standing call, and reports whether a look is due: one
// that was taken meanwhile is answered first.
func (c *claimer) stood(s *daybook.Standing) bool {
	if s == nil || s.Withdraw() {
		return false
	}
	return c.tookOver(<-s.Answer())
}

// tookOver takes what a standing call gave, and reports whether a look is due. The ring
// that is held, if one is, is for later than the call.
func (c *claimer) tookOver(s daybook.Stood) bool {
	c.call.stood = !s.Made && s.Err == nil
	switch {
	case s.Err != nil, c.listings.Load()-c.call.listings >= 2:
		c.call.repeated = true
		return true
	case !s.Made:
		return false
	}
	ring := c.bell.ring
	c.bell.ring = nil
	c.counters.stood.Add(1)
	_, due := c.answered(s.Claimed)
	c.bell.ring = ring
	return due
}
