package daybook

import (
	"encoding/json"
	"time"
)

// Grant is what a session brings to a claim.
type Grant struct {
	Session     Session
	Incarnation int64 // how often the book may have lost commits
	Paused      bool  // the job's queue takes no claims
	Suspects    int   // suspects that the session already has
}

// GenerationStep is by how much each incarnation lifts generations: far above
// what any job reached before the commits were lost.
const GenerationStep = int64(1) << 32

// Claim gives a waiting job to a session: the one move that makes an owner.
func (j Job) Claim(g Grant, now Time) (Change, error) {
	switch {
	case j.State != Waiting:
		return Change{}, j.refuse("is %s, not waiting", j.State)
	case j.HeldBy != "":
		return Change{}, j.refuse("is held by %s", quote(j.HeldBy))
	case g.Paused:
		return Change{}, j.refuse("waits in a paused queue")
	case j.RunAt > now:
		return Change{}, j.refuse("is not due before %s", j.RunAt)
	case j.ExpiresAt != 0 && j.ExpiresAt <= now:
		return Change{}, j.refuse("expired at %s", j.ExpiresAt)
	case !g.Session.Live():
		return Change{}, Fail(CodeFenced, "session %s has ended; start a new one", g.Session.ID)
	case j.Suspect() && g.Suspects > 0:
		return Change{}, j.refuse("crashed before, and the session already has such a job")
	}
	next := j
	next.State = Running
	next.Generation = max(j.Generation+1, g.Incarnation*GenerationStep)
	next.Session, next.Worker = g.Session.ID, g.Session.Worker
	next.LeaseUntil = g.Session.ExpiresAt
	next.ClaimedAt, next.StartedAt, next.EndedAt = now, 0, 0
	next.GrantedAt = g.Session.Renewals
	if next.FirstClaimedAt == 0 {
		next.FirstClaimedAt = now
	}
	return j.becomes(MoveClaim, next, Change{}), nil
}

// owner checks that o is the claim that holds the job now.
func (j Job) owner(o Owner) error {
	switch {
	case j.State != Running:
		return Fail(CodeFenced, "job %s is %s at generation %d; generation %d no longer owns it",
			j.ID, j.State, j.Generation, o.Generation)
	case j.Generation != o.Generation:
		return Fail(CodeFenced, "job %s is at generation %d; generation %d doesn't own it",
			j.ID, j.Generation, o.Generation)
	case j.Session != o.Session:
		return Fail(CodeFenced, "job %s is owned by another session at generation %d", j.ID, j.Generation)
	}
	return nil
}

// attempt is the history of the claim that now ends.
func (j Job) attempt(outcome OutcomeKind, now Time) *Attempt {
	return &Attempt{Generation: j.Generation, Through: j.Generation, Session: j.Session, Worker: j.Worker,
		ClaimedAt: j.ClaimedAt, StartedAt: j.StartedAt, EndedAt: now, Outcome: outcome}
}

// Complete ends the job well. A cancel that was asked for comes too late.
func (j Job) Complete(o Owner, result json.RawMessage, now Time) (Change, error) {
	if err := j.owner(o); err != nil {
		return Change{}, err
	}
	if j.OpenEffect != "" {
		return Change{}, Fail(CodeEffectOpen, "job %s: effect %s is open; finish it before completing", j.ID,
			quote(j.OpenEffect))
	}
	next := j.disowned().ended(Succeeded, now)
	next.Result = result
	a := j.attempt(OutcomeSucceeded, now)
	a.Result = result
	return j.becomes(MoveComplete, next, Change{Attempt: a}), nil
}

// Failure is what an owner says of an attempt that failed.
type Failure struct {
	Problem   *Problem
	Permanent bool          // trying again is useless
	Reason    Reason        // of a permanent failure; ReasonPermanent by default
	Delay     time.Duration // until the next attempt, when there is one
}

// Fail counts a failure: back to waiting, or set aside at the limit.
func (j Job) Fail(o Owner, f Failure, now Time) (Change, error) {
	if err := j.owner(o); err != nil {
		return Change{}, err
	}
	next := j.disowned()
	next.Failures++
	a := j.attempt(OutcomeFailed, now)
	a.Error = f.Problem
	next.LastError = f.Problem
	switch {
	case j.CancelRequestedAt != 0:
		a.Outcome = OutcomeCancelled
		next = next.ended(Cancelled, now)
	case f.Permanent && f.Reason != "":
		next = next.setAside(f.Reason, now)
	case f.Permanent:
		next = next.setAside(ReasonPermanent, now)
	case next.Failures >= j.MaxFailures:
		next = next.setAside(ReasonFailures, now)
	default:
		next = next.waitingAt(now.Add(max(0, f.Delay)))
	}
	return j.becomes(MoveFail, next, Change{Attempt: a}), nil
}

// Ask sets the job aside because its owner met an open effect that only a
// person can judge.
func (j Job) Ask(o Owner, effect string, now Time) (Change, error) {
	if err := j.owner(o); err != nil {
		return Change{}, err
	}
	next := j.disowned()
	a := j.attempt(OutcomeAsked, now)
	a.Why = "effect " + effect + " is open"
	if j.CancelRequestedAt != 0 {
		next = next.ended(Cancelled, now)
	} else {
		next = next.setAside(ReasonEffectOpen, now)
	}
	return j.becomes(MoveAsk, next, Change{Attempt: a}), nil
}

// Release gives the claim back without blame, now or after a delay (snooze).
// Endless snoozing ends: see SnoozeMax.
func (j Job) Release(o Owner, delay time.Duration, now Time) (Change, error) {
	if err := j.owner(o); err != nil {
		return Change{}, err
	}
	next := j.disowned()
	a := j.attempt(OutcomeReleased, now)
	switch {
	case j.CancelRequestedAt != 0:
		a.Outcome = OutcomeCancelled
		next = next.ended(Cancelled, now)
	case delay > 0 && now.Sub(j.FirstClaimedAt) >= SnoozeMax:
		a.Why = "snoozed since " + j.FirstClaimedAt.String()
		next = next.setAside(ReasonGaveUp, now)
	default:
		next = next.waitingAt(now.Add(max(0, delay)))
	}
	return j.becomes(MoveRelease, next, Change{Attempt: a}), nil
}

// Started records that the handler begins. Repeating it changes nothing.
func (j Job) Started(o Owner, now Time) (Job, error) {
	if err := j.owner(o); err != nil {
		return Job{}, err
	}
	if j.StartedAt == 0 {
		j.StartedAt = now
	}
	return j, nil
}
