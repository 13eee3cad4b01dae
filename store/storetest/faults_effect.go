package storetest

import (
	"errors"

	"github.com/daybookdev/daybook"
)

var faultyEffects = []operation{
	{name: "begin an effect", prepare: beginOne},
	{name: "begin an effect that is done", prepare: beginDone},
	{name: "begin an effect that a person must judge", prepare: beginAsks},
	{name: "begin an effect with other input", prepare: beginChanged},
	{name: "finish an effect", prepare: finishOne},
	{name: "a probe that can't tell", prepare: finishAsks},
	{name: "late evidence that an effect is doubled", prepare: lateEvidence},
}

// beginning makes begins of one call, and holds each answer to what it must be.
func (w *world) beginning(j daybook.Job, b daybook.Begin, want daybook.Decision) func() error {
	b.Call = daybook.NewID()
	return func() error {
		got, err := w.book.BeginEffect(w.ctx, j.ID, owner(j), b)
		if err == nil {
			same(w, "decision", got.Decision, want)
		}
		return err
	}
}

func (w *world) finished(j daybook.Job, outcome daybook.EffectOutcome) error {
	_, err := w.book.FinishEffect(w.ctx, j.ID, owner(j), daybook.EffectEnd{Name: "charge", Outcome: outcome})
	return err
}

// told is how often the timeline tells something of a job.
func (w *world) told(id daybook.ID, what string) (times int) {
	w.Helper()
	events, err := w.book.Timeline(w.ctx, id)
	w.ok(err)
	for _, e := range events {
		if e.What == what {
			times++
		}
	}
	return times
}

func beginOne(w *world) (func() error, func()) {
	j := w.owned(daybook.Request{})
	return w.beginning(j, askBegin, daybook.DecisionCall), func() {
		e, _ := w.ledger(j.ID, "charge")
		same(w, "state", e.State, daybook.EffectIsOpen)
		same(w, "calls", len(e.Calls), 1)
		same(w, "told", w.told(j.ID, "effect begun"), 1)
		w.ok(w.finished(j, daybook.OutcomeDone))
		w.complete(j)
		w.ended(j.ID, daybook.Succeeded, 1)
	}
}

// next ends an attempt in which the effect was begun, and claims the job again.
func (w *world) next(j daybook.Job, b daybook.Begin, said ...daybook.EffectOutcome) daybook.Job {
	w.Helper()
	_, err := w.book.BeginEffect(w.ctx, j.ID, owner(j), b)
	w.ok(err)
	for _, outcome := range said {
		w.ok(w.finished(j, outcome))
	}
	_, err = w.book.Release(w.ctx, j.ID, owner(j), 0)
	w.ok(err)
	got, err := w.book.Claim(w.ctx, daybook.ClaimRequest{Session: j.Session, Job: j.ID})
	w.ok(err)
	return got.Jobs[0]
}

func beginDone(w *world) (func() error, func()) {
	j := w.next(w.owned(daybook.Request{}), askBegin, daybook.OutcomeDone)
	return w.beginning(j, askBegin, daybook.DecisionDone), func() {
		same(w, "told", w.told(j.ID, "effect replayed"), 1)
		w.complete(j)
	}
}

func beginAsks(w *world) (func() error, func()) {
	j := w.next(w.owned(daybook.Request{}), askBegin)
	return w.beginning(j, askBegin, daybook.DecisionAsk), func() {
		w.ended(j.ID, daybook.SetAside, 2)
		same(w, "fenced", w.told(j.ID, "fenced"), 0)
		same(w, "set aside", w.told(j.ID, "set aside"), 1)
	}
}

func beginChanged(w *world) (func() error, func()) {
	b := askBegin
	b.Fingerprint = "a"
	j := w.next(w.owned(daybook.Request{}), b, daybook.OutcomeDone)
	b.Fingerprint = "b"
	return w.beginning(j, b, daybook.DecisionAsk), func() {
		got := w.ended(j.ID, daybook.SetAside, 2)
		same(w, "reason", got.Reason, daybook.ReasonEffectChanged)
		same(w, "failures", got.Failures, 1)
		same(w, "fenced", w.told(j.ID, "fenced"), 0)
	}
}

func finishOne(w *world) (func() error, func()) {
	j := w.owned(daybook.Request{})
	_, err := w.book.BeginEffect(w.ctx, j.ID, owner(j), askBegin)
	w.ok(err)
	do := func() error {
		_, err := w.book.FinishEffect(w.ctx, j.ID, owner(j), daybook.EffectEnd{Name: "charge",
			Outcome: daybook.OutcomeDone, Result: []byte(`{"n": 1.0}`)})
		return err
	}
	return do, func() {
		e, _ := w.ledger(j.ID, "charge")
		same(w, "state", string(e.State)+string(e.Result), `done{"n": 1.0}`)
		same(w, "told", w.told(j.ID, "effect done"), 1)
		w.complete(j)
	}
}

func finishAsks(w *world) (func() error, func()) {
	b := daybook.Begin{Name: "charge", Policy: daybook.PolicyChecked, Limit: 1}
	j := w.owned(daybook.Request{})
	_, err := w.book.BeginEffect(w.ctx, j.ID, owner(j), b)
	w.ok(err)
	w.clock.advance(daybook.LeaseMin)
	_, err = w.book.Release(w.ctx, j.ID, owner(j), 0)
	w.ok(err)
	got, err := w.book.Claim(w.ctx, daybook.ClaimRequest{Session: w.session("w").ID, Job: j.ID})
	w.ok(err)
	j = got.Jobs[0]
	w.ok(w.beginning(j, b, daybook.DecisionProbe)())
	do := func() error {
		got, err := w.book.FinishEffect(w.ctx, j.ID, owner(j), daybook.EffectEnd{Name: "charge",
			Outcome: daybook.OutcomeUnknown})
		if err == nil {
			same(w, "the job", got.Job, daybook.SetAside)
		}
		return err
	}
	return do, func() {
		w.ended(j.ID, daybook.SetAside, 2)
		same(w, "fenced", w.told(j.ID, "fenced"), 0)
	}
}

// lateEvidence is refused, kept once, and marks the effect once.
func lateEvidence(w *world) (func() error, func()) {
	w.broken = []string{"effect-doubled"}
	j := w.owned(daybook.Request{})
	w.write(w.begun(j))
	w.ok(w.failedForGood(j))
	_, err := w.book.Settle(w.ctx, j.ID, "charge", daybook.Verdict{}, someone)
	w.ok(err)
	_, err = w.book.Revive(w.ctx, j.ID, someone)
	w.ok(err)
	got, err := w.book.Claim(w.ctx, daybook.ClaimRequest{Session: j.Session, Job: j.ID})
	w.ok(err)
	again := got.Jobs[0]
	w.write(w.begun(again))
	w.ok(w.finished(again, daybook.OutcomeDone))
	do := func() error {
		err := w.finished(j, daybook.OutcomeDone)
		if errors.Is(err, daybook.ErrFenced) {
			return nil
		}
		if err == nil {
			w.Fatal("a late finish was accepted")
		}
		return err
	}
	return do, func() {
		e, _ := w.ledger(j.ID, "charge")
		same(w, "doubled", e.Doubled, true)
		same(w, "late words", len(e.Late), 1)
		same(w, "told", w.told(j.ID, "effect doubled"), 1)
		same(w, "fenced", w.told(j.ID, "fenced"), 1)
		w.complete(again)
	}
}
