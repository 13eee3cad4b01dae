package daybook

import (
	"encoding/json"
	"time"
)

// A tried move is one way to call a move.
type triedMove struct {
	name string
	try  func(Job) (Change, error)
}

// safely tries the move. A panic, which says that the move broke the lifecycle,
// is an answer too: a wrong one.
func (m triedMove) safely(j Job) (c Change, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = Fail("panic", "job %s: %v", j.ID, p)
		}
	}()
	return m.try(j)
}

func triedMoves() []triedMove {
	moves := []triedMove{
		{"claim", claimMove(Grant{Session: testLive})},
		{"claim paused", claimMove(Grant{Session: testLive, Paused: true})},
		{"claim ended-session", claimMove(Grant{Session: testLive.End(testNow)})},
		{"claim second-suspect", claimMove(Grant{Session: testLive, Suspects: 1})},
		{"claim incarnation", claimMove(Grant{Session: testLive, Incarnation: 1})},
		{"lose session", loseMove(LossSession, testOwner, false)},
		{"lose unstarted", loseMove(LossSession, testOwner, true)},
		{"lose unlisted", loseMove(LossUnlisted, testOwner, false)},
		{"lose timeout", loseMove(LossTimeout, testOwner, false)},
		{"lose stale", loseMove(LossSession, Owner{testSession, 3}, false)},
		{"lose other-session", loseMove(LossSession, Owner{otherOwner, 4}, false)},
		{"cancel", func(j Job) (Change, error) { return j.Cancel(testBy, false, testNow) }},
		{"cancel force", func(j Job) (Change, error) { return j.Cancel(testBy, true, testNow) }},
		{"expire", func(j Job) (Change, error) { return j.Expire(testNow) }},
		{"settle happened", settleMove("charge", Verdict{Happened: true, Result: json.RawMessage(`7`)})},
		{"settle absent", settleMove("charge", Verdict{Generation: 4})},
		{"settle stay", settleMove("charge", Verdict{Happened: true, Stay: true})},
		{"settle more", settleMove("charge", Verdict{More: true})},
		{"settle elder", settleMove("charge", Verdict{Generation: 3})},
		{"settle handler happened",
			settleMove(HandlerEffect, Verdict{Happened: true, Result: json.RawMessage(`7`)})},
		{"settle handler absent", settleMove(HandlerEffect, Verdict{})},
		{"settle handler stay", settleMove(HandlerEffect, Verdict{Happened: true, Stay: true})},
		{"settle done", func(j Job) (Change, error) {
			return j.Settle(Effect{Name: "charge", State: EffectDone, Generation: 4}, Verdict{}, testBy, testNow)
		}},
		{"revive", func(j Job) (Change, error) { return j.Revive(testBy, testNow) }},
		{"unhold", func(j Job) (Change, error) { return j.Unhold(testBy, testNow) }},
		{"move out", func(j Job) (Change, error) { return j.MoveOut(testBy, testNow) }},
		{"prune", pruneMove(testNow.Add(-time.Hour))},
		{"prune young", pruneMove(testNow.Add(-time.Hour - time.Microsecond))},
	}
	for _, o := range []struct {
		name  string
		owner Owner
	}{{"", testOwner}, {" stale", Owner{testSession, 3}}, {" ahead", Owner{testSession, 5}},
		{" other-session", Owner{otherOwner, 4}}, {" nobody", Owner{ID{}, 4}}} {
		moves = append(moves, ownerMoves(o.name, o.owner)...)
	}
	return moves
}

func ownerMoves(suffix string, o Owner) []triedMove {
	fail := func(f Failure) func(Job) (Change, error) {
		f.Problem = testProblem
		return func(j Job) (Change, error) { return j.Fail(o, f, testNow) }
	}
	return []triedMove{
		{"complete" + suffix, func(j Job) (Change, error) {
			return j.Complete(o, json.RawMessage(`{"ok":true}`), testNow)
		}},
		{"fail" + suffix, fail(Failure{})},
		{"fail in-10s" + suffix, fail(Failure{Delay: 10 * time.Second})},
		{"fail permanent" + suffix, fail(Failure{Permanent: true})},
		{"fail undecodable" + suffix, fail(Failure{Permanent: true, Reason: ReasonUndecodable})},
		{"ask" + suffix, func(j Job) (Change, error) { return j.Ask(o, "charge", testNow) }},
		{"release" + suffix, func(j Job) (Change, error) { return j.Release(o, 0, testNow) }},
		{"release in-10s" + suffix, func(j Job) (Change, error) { return j.Release(o, 10*time.Second, testNow) }},
		{"start" + suffix, func(j Job) (Change, error) {
			next, err := j.Started(o, testNow)
			return Change{Was: j, Now: next}, err
		}},
	}
}

func claimMove(g Grant) func(Job) (Change, error) {
	return func(j Job) (Change, error) { return j.Claim(g, testNow) }
}

func loseMove(cause LossCause, o Owner, starts bool) func(Job) (Change, error) {
	return func(j Job) (Change, error) {
		return j.Lose(Loss{Cause: cause, Owner: o, Starts: starts}, testNow)
	}
}

func settleMove(name string, v Verdict) func(Job) (Change, error) {
	return func(j Job) (Change, error) {
		e := Effect{Job: j.ID, Name: name, Policy: PolicyAsk, State: EffectIsOpen, Generation: 4}
		return j.Settle(e, v, testBy, testNow)
	}
}

func pruneMove(cutoff Time) func(Job) (Change, error) {
	return func(j Job) (Change, error) {
		if !j.Prunable(cutoff) {
			return Change{}, ErrRefused
		}
		return Change{Move: MovePrune, Was: j}, nil
	}
}
