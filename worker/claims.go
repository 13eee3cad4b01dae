package worker

import (
	"context"
	"errors"
	"runtime"
	"time"

	"github.com/daybookdev/daybook"
)

// batchMost bounds one claim call: its jobs' args must fit in memory, and its
// transaction must stay short.
const batchMost = 1000

// claimer is the claim loop's own state: nobody else touches it.
type claimer struct {
	*engine
	rota  *rota
	kinds []string
	bell  listening
	poll  *time.Timer // nil never polls
	polls bool        // nothing but the poll is the reason of the next look
	alarm alarm
	calls int
	call  call // whose answer never came, or that none was made with yet
	again retry

	repaired bool // the pass of a drain was made
}

// call is one claim call. Until its answer came it is repeated by its id, and
// gives the same claims.
type call struct {
	request  daybook.ClaimRequest
	first    time.Time // before it was first sent
	listings int64     // renewals that had listed claims by then
	repeated bool
	stood    bool // it was left with the book, which didn't make it
}

func (e *engine) newClaimer() *claimer {
	c := &claimer{engine: e, rota: newRota(e.cfg.Queues, e.cfg.Weights), kinds: e.claimKinds(),
		again: retry{log: e.log, doing: "claiming"}}
	c.bell = newListening(e)
	if e.cfg.Poll > 0 {
		c.poll = time.NewTimer(first(jittered(e.cfg.Poll)))
	}
	return c
}

// claims is the claim loop, until ctx ends or the worker has drained. It claims
// when there is room and a reason to look: a ring, a job that becomes due, the
// poll floor, or a last call that came back full.
func (e *engine) claims(ctx context.Context) {
	c := e.newClaimer()
	defer c.bell.finish(false)
	due := true
	for ctx.Err() == nil && c.failure() == nil {
		c.bell.open(ctx) // first listen, then look: no ring falls between
		quiet, empty := e.quiet.Load(), e.empty()
		if e.drain && empty {
			if quiet {
				return
			}
			due = true // what failed or was given back may be eligible again
		}
		room := 0
		if due && !quiet {
			room = c.waitingRoom()
		}
		if room == 0 {
			c.bell.finish(false) // another can look sooner
			due = c.wait(ctx, due)
			continue
		}
		var got int
		got, due = c.claim(ctx, room)
		switch {
		case e.drain && empty && got == 0 && !due:
			if due = c.repair(ctx); !due {
				return
			}
		case !due:
			c.setAlarm(ctx, true)
		}
	}
}

// empty reports whether the worker holds no claim.
func (e *engine) empty() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.held) == 0
}

// waitingRoom is how much to claim now. When it isn't worth a call yet it is 0,
// and the loop is woken when it is.
func (e *engine) waitingRoom() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.cramped = !e.worthACall(); e.cramped {
		return 0
	}
	return min(e.room(), batchMost)
}

// mayHear reports whether the worker could look at once when it hears a ring; if
// not, the loop is woken when it could. A worker without room leaves rings to
// others.
func (e *engine) mayHear() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.cramped = !e.worthACall()
	return !e.cramped
}

// wait waits until there is something to look at, and reports whether a look is
// due.
func (c *claimer) wait(ctx context.Context, due bool) (next bool) {
	var rings <-chan daybook.Heard
	if !due && !c.quiet.Load() {
		if !c.mayHear() {
			c.bell.deaf = true
		} else if rings = c.bell.rings; c.bell.deaf {
			c.bell.deaf = false // what was rung meanwhile may be lost
			return true
		}
	}
	var poll <-chan time.Time
	if c.poll != nil {
		poll = c.poll.C
	}
	standing := c.stand(rings != nil)
	defer func() { next = c.stood(standing) || next }()
	select {
	case <-ctx.Done():
	case stood := <-standing.Answer():
		standing = nil
		return c.tookOver(stood) || due
	case <-c.wake:
		if c.retries.Swap(false) {
			c.setAlarm(ctx, false)
		}
	case <-c.alarm.ring():
		return c.alarmed(ctx) || due
	case heard, open := <-rings:
		if !open {
			c.bell.lost()
			return true
		}
		return c.hear(heard)
	case <-poll:
		c.poll.Reset(jittered(c.cfg.Poll))
		c.alarm.vain = 0
		if !due {
			c.polls = c.polled(ctx)
			return c.polls
		}
	case <-c.bell.retry:
		c.bell.retry = nil
	}
	return due
}

// claim makes one claim call, or repeats the one whose answer never came. It
// reports how many claims came, and whether another look is due: there may be
// more, or the book didn't answer.
func (c *claimer) claim(ctx context.Context, room int) (got int, due bool) {
	session, ok := c.ensureSession(ctx)
	if !ok {
		c.bell.finish(false)
		return 0, true
	}
	c.aim(session, room)
	c.book.Reached(daybook.GapClaim, daybook.ID{})
	listings := c.listings.Load()
	bounded, cancel := context.WithTimeout(ctx, c.patience())
	claimed, err := c.book.Claim(bounded, c.call.request)
	cancel()
	switch {
	case err == nil && (c.listings.Load() == listings || c.listings.Load()-c.call.listings < 2):
		return c.answered(claimed)
	case err == nil:
		// Two renewals that didn't list the claims may have given them back
		// meanwhile. The repeat answers what is still owned.
	case c.call.names() && stale(err):
		c.counters.stale.Add(1)
		return c.answered(daybook.Claimed{})
	case ended(err):
		c.endSession(session, err)
	default:
		c.bell.finish(false) // before the pause
		c.failed(ctx, err)
	}
	c.bell.finish(false)
	c.call.repeated = true
	return 0, true
}

// aim makes the next call ready: a new one, unless one is to be repeated, or was left
// with the book in vain.
func (c *claimer) aim(session daybook.ID, room int) {
	if c.call.request.Session != session || c.call.stood && !c.bell.job().IsZero() {
		c.call = c.newCall(session, room)
	}
	if c.call.stood {
		c.call.stood, c.call.request.Limit, c.call.first, c.call.listings = false, room, time.Now(), c.listings.Load()
	}
}

// answered takes what the book gave, and is done with the ring that made it
// look, whatever that was.
func (c *claimer) answered(claimed daybook.Claimed) (got int, due bool) {
	c.again.healed()
	if c.cfg.Tracer != nil && len(claimed.Jobs) > 0 {
		c.cfg.Tracer.Claimed(c.call.first, claimed.Jobs)
	}
	due = claimed.Full || c.call.repeated // of a repeated call nobody knows
	got = c.accept(c.call, claimed)
	if c.polls {
		c.counters.polled.Add(int64(got))
	}
	c.call, c.polls = call{}, false
	if got > 0 {
		c.alarm.vain = 0
	}
	if c.bell.ring != nil {
		c.book.Reached(daybook.GapAck, c.bell.ring.Job)
		c.bell.finish(true)
	}
	return got, due
}

// ended reports that the book knows the session, or the claim, no more.
func ended(err error) bool {
	return errors.Is(err, daybook.ErrFenced) || errors.Is(err, daybook.ErrNotFound)
}

// newCall asks for as much as there is room for, or for the job that a ring
// names: of these queues and kinds, all the same.
func (c *claimer) newCall(session daybook.ID, room int) call {
	r := daybook.ClaimRequest{Session: session, Call: daybook.NewID(), Kinds: c.kinds, Limit: room}
	if r.Job = c.bell.job(); !r.Job.IsZero() {
		r.Queues, r.Limit = c.cfg.Queues, 1
	} else {
		c.calls++
		r.Queues, r.Oldest = c.rota.order(), c.calls%daybook.OldestEvery == 0
	}
	return call{first: time.Now(), listings: c.listings.Load(), request: r}
}

// names reports whether the call asks for one job that a ring named.
func (c *call) names() bool { return !c.request.Job.IsZero() }

// stale reports that the job which a ring named isn't there to be claimed: it
// has ended, somebody owns it or writes it just now, it isn't due, or nobody
// knows it. The record decides, and the ring is over.
func stale(err error) bool {
	return errors.Is(err, daybook.ErrRefused) || errors.Is(err, daybook.ErrNotFound) || errors.Is(err, daybook.ErrBusy)
}

// accept takes claims over, now that their commit is known. Those of a session
// that ended meanwhile are nobody's, and a worker that stops begins none: the
// end of its session gives them back.
func (e *engine) accept(c call, claimed daybook.Claimed) int {
	jobs := claimed.Jobs
	now := time.Now()
	e.mu.Lock()
	if e.session.ID != c.request.Session || e.stopping {
		e.mu.Unlock()
		return 0
	}
	for i := range jobs {
		r := &run{engine: e, job: jobs[i], kind: e.kindOf(jobs[i].Kind), asked: c.first, got: now,
			owner: daybook.Owner{Session: c.request.Session, Generation: jobs[i].Generation}}
		e.held[r.ref()] = r
		e.queue = append(e.queue, r)
	}
	e.fill()
	e.mu.Unlock()
	e.counters.claimed.Add(int64(len(jobs)))
	runtime.Gosched() // to the first handler: this loop has a call to make before it waits
	if bell := e.book.Bell(); claimed.Full && bell != nil {
		// One ring for ten thousand jobs wakes the fleet in doublings.
		bell.Ring(e.hard, jobs[len(jobs)-1].Queue)
	}
	return len(jobs)
}
