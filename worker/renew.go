package worker

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/daybookdev/daybook"
)

// renewals renews the lease every third of it, for all claims at once, until
// the engine ends: also through the grace, while handlers still run.
func (e *engine) renewals() {
	again := retry{log: e.log, doing: "renewing the lease"}
	for pause := e.renewEvery(); sleep(e.hard, pause); {
		pause = e.renew(&again)
	}
}

// renewEvery is a third of the lease, or a little less: two more may fail before
// it runs out, and a fleet that started together doesn't renew together.
func (e *engine) renewEvery() time.Duration {
	return time.Duration(float64(e.cfg.Lease) / 3 * (1 - 0.1*rand.Float64()))
}

// renew makes one renewal and returns when to make the next.
func (e *engine) renew(again *retry) time.Duration {
	session, claims := e.list()
	if session.IsZero() {
		return e.renewEvery()
	}
	sent := time.Now()
	e.listings.Add(1)
	ctx, cancel := context.WithTimeout(e.hard, e.cfg.Lease/3)
	defer cancel()
	answer, err := e.book.Renew(ctx, session, claims)
	switch {
	case err == nil:
		again.healed()
		e.renewed(session, sent, answer)
		return max(0, e.renewEvery()-time.Since(sent))
	case ended(err):
		e.endSession(session, err)
		return e.renewEvery()
	case e.hard.Err() != nil:
		return 0
	}
	return min(again.after(err), e.cfg.Lease/10)
}

// list is what the session holds here: claims that wait, run, or ended and
// aren't recorded yet. What is missing from two lists the book takes back, so
// it must be everything.
func (e *engine) list() (session daybook.ID, claims []daybook.ClaimRef) {
	e.mu.Lock()
	defer e.mu.Unlock()
	claims = make([]daybook.ClaimRef, 0, len(e.held)) // not nil: nil would mean all
	for ref, r := range e.held {
		if r.owner.Session == e.session.ID && !r.lost {
			claims = append(claims, ref)
		}
	}
	return e.session.ID, claims
}

// renewed carries out what a renewal answered.
func (e *engine) renewed(session daybook.ID, sent time.Time, answer daybook.Renewal) {
	if answer.Quiet && !e.quiet.Swap(true) {
		e.log.Info("asked to claim no more")
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.session.ID != session {
		return
	}
	e.session.ExpiresAt = answer.LeaseUntil
	e.trustUntil(sent.Add(e.session.Lease))
	lost := 0
	for _, ref := range answer.Lost {
		if r := e.held[ref]; r != nil && e.loseOne(r) {
			lost++
		}
	}
	if lost > 0 {
		e.log.Warn("claims were taken back while this worker held them", "session", session, "claims", lost)
	}
	for _, ref := range answer.Cancel {
		if r := e.held[ref]; r != nil {
			e.askedToCancel(r)
		}
	}
	e.fill() // slots that closed while the lease was in doubt
}

// lose notes that a claim is the worker's no more.
func (e *engine) lose(ref daybook.ClaimRef) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if r := e.held[ref]; r != nil {
		e.loseOne(r)
	}
}

// loseOne ends what the worker does with a lost claim: one that waits for a slot
// never begins, a handler is told. One that ended is left to be answered by the
// book. It reports whether the claim was news. It wants the lock.
func (e *engine) loseOne(r *run) bool {
	if r.lost || r.place == placeReturned {
		return false
	}
	r.lost = true
	e.counters.lost.Add(1)
	if r.place == placeQueued {
		e.unqueue(r)
		e.drop(r)
		return true
	}
	e.endContext(r, ErrLeaseLost)
	if r.leaked {
		e.drop(r) // whenever it returns, nobody waits for it
	}
	return true
}

// askedToCancel tells a handler that a person wants the job cancelled; a claim
// that waits for a slot is given back, which makes it cancelled. It wants the
// lock.
func (e *engine) askedToCancel(r *run) {
	switch r.place {
	case placeQueued:
		e.giveBack(r)
	case placeRunning:
		e.endContext(r, ErrCancelRequested)
	}
}

// giveBack reports a claim that never began as released. It wants the lock.
func (e *engine) giveBack(r *run) {
	e.unqueue(r)
	r.place = placeReturned
	e.report(r, daybook.Outcome{Kind: daybook.OutcomeReleased})
}

func (e *engine) unqueue(r *run) {
	if i := slices.Index(e.queue, r); i >= 0 {
		e.queue = slices.Delete(e.queue, i, i+1)
	}
}

// drop forgets a claim: nothing is left to do for it. It wants the lock.
func (e *engine) drop(r *run) {
	if e.held[r.ref()] == r {
		delete(e.held, r.ref())
	}
	e.tellRoom()
	e.tellIdle()
}

// tellIdle tells that nothing is held any more, to who waits for it. It wants
// the lock.
func (e *engine) tellIdle() {
	if len(e.held) > 0 {
		return
	}
	if e.drain {
		e.look()
	}
	poke(e.idle)
}
