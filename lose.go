package daybook

// LossCause is why the book takes a claim away.
type LossCause string

// The causes.
const (
	LossSession  LossCause = "session ended" // its lease ran out, or nobody knows it
	LossUnlisted LossCause = "never received"
	LossTimeout  LossCause = "run limit"
)

// Loss is what the reconciler read before it revokes a claim.
type Loss struct {
	Cause LossCause
	Owner Owner // generation and session as read: it must still be them
	// Starts says that the session records starts, so that a claim without
	// one never began.
	Starts bool
}

// HandlerEffect is the name of the open effect that a lost attempt leaves when
// its job says on_lost: set_aside and used no ledger.
const HandlerEffect = "handler"

// Lose revokes a claim: the generation rises, so that the old owner is fenced
// from here on, and the loss is blamed where blame is due.
func (j Job) Lose(l Loss, now Time) (Change, error) {
	if err := j.owner(l.Owner); err != nil {
		return Change{}, err
	}
	next := j.disowned()
	next.Generation++
	a := j.attempt(OutcomeLost, now)
	a.Through, a.Why = next.Generation, string(l.Cause)
	c := Change{Attempt: a}

	began := !(l.Starts && j.OnLost == LostSetAside && j.StartedAt == 0 && !j.Ledger)
	if l.Cause == LossUnlisted && j.StartedAt == 0 && !j.Ledger {
		began = false
		a.Outcome = OutcomeReleased
	}
	reason := ReasonLost
	switch {
	case l.Cause == LossTimeout:
		next.Failures++
		began, reason = true, ReasonTimeout
	case began:
		next.Crashes++
	}
	if began && j.OnLost == LostSetAside && !j.Ledger {
		c.Effect = handlerEffect(j, now)
		next.OpenEffect = HandlerEffect
	}
	switch {
	case j.CancelRequestedAt != 0:
		a.Outcome = OutcomeCancelled
		next = next.ended(Cancelled, now)
	case began && j.OnLost == LostSetAside:
		next = next.setAside(reason, now)
	case next.Failures >= j.MaxFailures && l.Cause == LossTimeout:
		next = next.setAside(ReasonTimeout, now)
	case began && l.Cause != LossTimeout && next.Crashes >= j.CrashLimit():
		next = next.setAside(ReasonCrashes, now)
	default:
		next = next.waitingAt(now)
	}
	return j.becomes(MoveLose, next, c), nil
}
