package storetest

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/daybookdev/daybook"
)

var contractOfComplete = []test{
	{"Complete as a set is the pure move", completeSet},
	{"Complete leaves what isn't plain as it is", func(w *world) { completeNotPlain(w, `1`, `2`) }},
	{"Complete without results leaves it too", func(w *world) { completeNotPlain(w, "", "") }},
	{"an open effect keeps its job from completing", completeOpenEffect},
}

// asSet completes jobs by the store's own set, if it has one, and tells which
// it left.
func (w *world) asSet(session daybook.ID, outcomes []daybook.Outcome) (left []int) {
	w.Helper()
	w.write(func(tx daybook.Tx) (err error) {
		left, err = tx.(daybook.Completer).Complete(w.ctx, session, outcomes)
		return err
	})
	return left
}

// hasSets reports whether the store completes jobs as a set. One that doesn't
// has them completed one by one, and nothing to be held to here.
func (w *world) hasSets() (has bool) {
	w.Helper()
	w.write(func(tx daybook.Tx) error {
		_, has = tx.(daybook.Completer)
		return nil
	})
	if !has {
		w.Logf("the store has no Completer")
	}
	return has
}

func success(j daybook.Job, result string) daybook.Outcome {
	return daybook.Outcome{Job: j.ID, Owner: owner(j), Kind: daybook.OutcomeSucceeded,
		Result: json.RawMessage(result)}
}

// completeSet completes more jobs than any batch size, some of them started,
// some asked to cancel, and compares each row and attempt with Job.Complete.
func completeSet(w *world) {
	if !w.hasSets() {
		return
	}
	w.many(150)
	s := w.session("w")
	jobs := w.claim(s, 150)
	var outcomes []daybook.Outcome
	want := map[daybook.ID]daybook.Change{}
	for i, j := range jobs {
		if i%3 == 0 {
			_, err := w.book.Started(w.ctx, s.ID, []daybook.ClaimRef{ref(j)})
			w.ok(err)
		}
		if i%5 == 0 {
			_, err := w.book.Cancel(w.ctx, j.ID, someone, false)
			w.ok(err)
		}
		outcomes = append(outcomes, success(j, fmt.Sprintf(`{"i": %d.0}`, i)))
	}
	w.clock.advance(time.Second)
	for i, j := range jobs {
		c, err := w.locked(j.ID).Complete(owner(j), outcomes[i].Result, w.clock.time())
		w.ok(err)
		want[j.ID] = c
	}
	same(w, "left", len(w.asSet(s.ID, outcomes)), 0)
	for id, c := range want {
		compareJobs(w, "completed", w.locked(id), c.Now)
		same(w, "result", string(w.job(id).Result), string(c.Now.Result))
		a := w.attempts(id)
		same(w, "attempts", len(a), 1)
		same(w, "attempt", fmt.Sprintf("%+v", a[0]), fmt.Sprintf("%+v", withoutResult(*c.Attempt)))
	}
	counts := w.counts()
	same(w, "running", counts.Running, 0)
	same(w, "succeeded", counts.Succeeded, 150)
}

// withoutResult is an attempt as History loads it.
func withoutResult(a daybook.Attempt) daybook.Attempt {
	a.Result = nil
	return a
}

func completeNotPlain(w *world, good, bad string) {
	if !w.hasSets() {
		return
	}
	s, other := w.session("w"), w.session("other")
	w.many(18)
	jobs := w.claim(s, 17)
	theirs := w.claimed(other)
	done, replaced := jobs[0], jobs[1]
	w.complete(done)
	again := w.replace(replaced, other, nil)
	older, younger := jobs[2], jobs[2]
	older.Generation--
	younger.Generation++
	stranger := theirs
	stranger.Session = s.ID
	unknown := jobs[3]
	unknown.ID = daybook.NewID()
	goods := jobs[5:]
	for i, c := range []struct {
		name string
		bad  daybook.Job
	}{{"completed", done}, {"replaced", replaced}, {"an older generation", older}, {"a younger generation",
		younger},
		{"another session's", stranger}, {"unknown", unknown}} {
		w.left(c.name, s, []daybook.Outcome{success(goods[2*i], good), success(c.bad, bad)}, 1)
		w.left(c.name+", first", s, []daybook.Outcome{success(c.bad, bad), success(goods[2*i+1], good)}, 0)
	}
	w.left("a session that nobody knows", daybook.Session{ID: daybook.NewID()},
		[]daybook.Outcome{success(jobs[4], good)}, 0)
	w.undisturbed("after the sets", again)
	same(w, "the others", len(w.asSet(s.ID, []daybook.Outcome{success(jobs[2], good), success(jobs[3], good)})), 0)
	w.complete(again)
	w.complete(theirs)
}

// left wants a set to leave at least the one at place bad, and to have carried
// out just those that it didn't leave.
func (w *world) left(what string, s daybook.Session, set []daybook.Outcome, bad int) {
	w.Helper()
	before := w.counts().Counts
	left := w.asSet(s.ID, set)
	same(w, what+": left", slices.Contains(left, bad), true)
	for i, o := range set {
		if i != bad {
			state := daybook.Succeeded
			if slices.Contains(left, i) {
				state = daybook.Running
			}
			w.stands(o.Job, state)
		}
	}
	same(w, what+": counted", w.counts().Succeeded-before.Succeeded, int64(len(set)-len(left)))
}

// effect writes an effect of a running job, as its owner does.
func (w *world) effect(j daybook.Job, state daybook.EffectState) {
	w.Helper()
	w.write(func(tx daybook.Tx) error {
		jobs, err := tx.Lock(w.ctx, []daybook.ID{j.ID})
		if err != nil {
			return err
		}
		e := daybook.Effect{Job: j.ID, Name: "charge", Policy: daybook.PolicyAsk, State: state,
			Generation: j.Generation,
			Key:        daybook.EffectKey(j.ID, "charge", 0), BegunAt: tx.Now(), Ref: jobs[0].Ref}
		if state != daybook.EffectIsOpen {
			e.EndedAt = tx.Now()
		}
		return tx.Save(w.ctx, []daybook.Change{{Move: daybook.MoveCancel, Was: jobs[0], Now: jobs[0], Effect: &e}})
	})
}

func completeOpenEffect(w *world) {
	s := w.session("w")
	w.many(3)
	jobs := w.claim(s, 3)
	w.effect(jobs[0], daybook.EffectIsOpen)
	j := w.locked(jobs[0].ID)
	same(w, "open effect", j.OpenEffect, "charge")
	same(w, "ledger", j.Ledger, true)
	if w.hasSets() {
		w.left("as a set", s, []daybook.Outcome{success(jobs[1], `1`), success(j, `1`)}, 1)
		w.left("without results", s, []daybook.Outcome{success(jobs[2], ""), success(j, "")}, 1)
	}
	answers, err := w.book.Finish(w.ctx, []daybook.Outcome{success(jobs[0], `1`), success(jobs[1], `1`)})
	w.ok(err)
	w.refused(answers[0].Err, daybook.CodeEffectOpen)
	w.ok(answers[1].Err)
	w.stands(jobs[0].ID, daybook.Running)
	w.effect(jobs[0], daybook.EffectDone)
	same(w, "open effect", w.locked(jobs[0].ID).OpenEffect, "")
	w.complete(jobs[0])
}
