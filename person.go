package daybook

import "encoding/json"

// Cancel ends a job that nobody runs. A running one is asked to stop: after
// that every ending but success leads to cancelled. With force its claim is
// revoked at once, and the handler, if it still runs, is fenced.
func (j Job) Cancel(by By, force bool, now Time) (Change, error) {
	event := &Event{At: now, What: "cancelled", Generation: j.Generation, Actor: by.Actor, Reason: by.Reason}
	next := j
	switch {
	case j.State == Waiting || j.State == SetAside:
		return j.becomes(MoveCancel, next.ended(Cancelled, now), Change{Event: event}), nil
	case j.State == Running && force:
		return j.revokeToCancel(event, now), nil
	case j.State == Running:
		event.What = "cancel asked"
		if next.CancelRequestedAt == 0 {
			next.CancelRequestedAt = now
		}
		return j.becomes(MoveCancel, next, Change{Event: event}), nil
	}
	return Change{}, j.refuse("is %s already", j.State)
}

func (j Job) revokeToCancel(event *Event, now Time) Change {
	next := j.disowned()
	next.Generation++
	a := j.attempt(OutcomeCancelled, now)
	a.Through, a.Why = next.Generation, "cancelled by force"
	event.Detail = "claim revoked"
	c := Change{Attempt: a, Event: event}
	if j.OnLost == LostSetAside && !j.Ledger {
		c.Effect = handlerEffect(j, now)
		next.OpenEffect = HandlerEffect
	}
	return j.becomes(MoveCancel, next.ended(Cancelled, now), c)
}

// Revive sends a job that ended without success back to waiting: the same job,
// its failures forgiven, its generation and history never.
func (j Job) Revive(by By, now Time) (Change, error) {
	if err := j.revivable(); err != nil {
		return Change{}, err
	}
	if j.Happened {
		return Change{}, j.refuse("is not safe to retry: its work happened, a person said; " +
			"running again would do it again")
	}
	return j.ReviveUnsafe(by, now)
}

// revivable refuses what no person sends back.
func (j Job) revivable() error {
	switch j.State {
	case SetAside, Cancelled, Expired:
	default:
		return j.refuse("is %s; only set aside, cancelled and expired jobs can be revived", j.State)
	}
	if j.OpenEffect != "" {
		return Fail(CodeEffectOpen, "job %s: effect %s is open; settle it first", j.ID,
			quote(j.OpenEffect))
	}
	return nil
}

// ReviveUnsafe is Revive of a job whose work happened, as a person said, too.
func (j Job) ReviveUnsafe(by By, now Time) (Change, error) {
	if err := j.revivable(); err != nil {
		return Change{}, err
	}
	event := &Event{At: now, What: "revived", Generation: j.Generation, Actor: by.Actor, Reason: by.Reason,
		Detail: "was " + string(j.State)}
	if j.Reason != "" {
		event.Detail += " (" + string(j.Reason) + ")"
	}
	next := j.waitingAt(now)
	next.ExpiresAt, next.CancelRequestedAt, next.FirstClaimedAt = 0, 0, 0
	next.Failures, next.Crashes = 0, 0
	return j.becomes(MoveRevive, next, Change{Event: event}), nil
}

// Unhold lets claims see the job again.
func (j Job) Unhold(by By, now Time) (Change, error) {
	if j.State != Waiting || j.HeldBy == "" {
		return Change{}, j.refuse("is %s and not held", j.State)
	}
	event := &Event{At: now, What: "unheld", Actor: by.Actor, Reason: by.Reason,
		Detail: "was held by " + j.HeldBy}
	next := j
	next.HeldBy = ""
	next.RunAt = max(j.RunAt, now)
	return j.becomes(MoveUnhold, next, Change{Event: event}), nil
}

// Expire ends a waiting job whose time is over, whatever attempts it had. One
// with an open effect needs a person instead.
func (j Job) Expire(now Time) (Change, error) {
	switch {
	case j.State != Waiting:
		return Change{}, j.refuse("is %s, not waiting", j.State)
	case j.HeldBy != "":
		return Change{}, j.refuse("is held by %s", quote(j.HeldBy))
	case j.ExpiresAt == 0 || j.ExpiresAt > now:
		return Change{}, j.refuse("has not expired")
	}
	event := &Event{At: now, What: "expired", Generation: j.Generation,
		Detail: "expires_at " + j.ExpiresAt.String()}
	next := j.ended(Expired, now)
	if j.OpenEffect != "" {
		next = j.setAside(ReasonEffectOpen, now)
		event.What = "set aside"
		event.Detail = string(ReasonEffectOpen) + ", " + event.Detail
	}
	return j.becomes(MoveExpire, next, Change{Event: event}), nil
}

// MoveOut marks a job as gone back to the system it came from.
func (j Job) MoveOut(by By, now Time) (Change, error) {
	switch {
	case j.State != Waiting:
		return Change{}, j.refuse("is %s, not waiting", j.State)
	case j.Origin == nil:
		return Change{}, j.refuse("was born here and has no origin to go back to")
	case j.Attempted():
		return Change{}, j.refuse("was attempted here and stays")
	}
	event := &Event{At: now, What: "moved out", Actor: by.Actor, Reason: by.Reason, Detail: j.Origin.System}
	next := j.ended(Moved, now)
	next.HeldBy = ""
	return j.becomes(MoveOut, next, Change{Event: event}), nil
}

// GoBack is what a rollback does to a job that moved in: a waiting one moves
// out, and one that the old system had given up is cancelled here. What ran here,
// or is open, stays.
func (j Job) GoBack(by By, now Time) (Change, error) {
	open := j.OpenEffect != ""
	if j.State == SetAside && !open && j.Origin != nil && !j.Attempted() {
		return j.Cancel(by, false, now)
	}
	return j.MoveOut(by, now)
}

// Prunable reports whether retention may take the job: final, past retention,
// and no effect open. Nothing else of the rule is anywhere else.
func (j Job) Prunable(cutoff Time) bool {
	return j.State.Final() && j.OpenEffect == "" && j.EndedAt != 0 && j.EndedAt <= cutoff
}

// Verdict is what a person says an open effect did.
type Verdict struct {
	Generation int64 // of the begin that it judges; 0 is the newest
	Happened   bool
	Result     json.RawMessage // of an effect that happened
	Stay       bool            // leave the job set aside
	More       bool            // other effects of the job are still open
}

// Settle judges an open effect. By the last one a job that waited for the
// judgement goes on; one that waits for another reason stays, now revivable.
func (j Job) Settle(e Effect, v Verdict, by By, now Time) (Change, error) {
	switch {
	case j.State == Running:
		return Change{}, j.refuse("is running; its owner decides about effect %s", quote(e.Name))
	case !Allowed(MoveSettle, j.State, j.State):
		return Change{}, j.refuse("is %s; nothing to settle", j.State)
	case e.State != EffectIsOpen:
		return Change{}, j.refuse("has effect %s %s already", quote(e.Name), e.State)
	case v.Generation != 0 && v.Generation != e.Generation:
		return Change{}, Fail(CodeRefused, "job %s: effect %s was begun by generation %d since; look again",
			j.ID, quote(e.Name), e.Generation)
	}
	e.State, e.EndedAt, e.SettledBy = EffectAbsent, now, by.Actor
	said := "didn't happen"
	if v.Happened {
		e.State, e.Result, said = EffectDone, v.Result, "happened"
	}
	e.Doubled = e.Doubled || e.CalledTwice()
	c := Change{Effect: &e, Event: &Event{At: now, What: "settled", Generation: e.Generation,
		Actor: by.Actor, Reason: by.Reason, Detail: e.Name + " " + said}}
	next := j
	if !v.More {
		next.OpenEffect = ""
	}
	switch {
	case v.More || v.Stay || j.State != SetAside:
	case e.Name == HandlerEffect && v.Happened: // the whole work happened, whatever it was set aside for
		next = next.ended(Succeeded, now)
		next.Result = v.Result
	case j.Reason == ReasonEffectOpen || j.Reason == ReasonLost:
		next = next.waitingAt(now)
	}
	return j.becomes(MoveSettle, next, c), nil
}
