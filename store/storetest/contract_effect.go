package storetest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/daybookdev/daybook"
)

var contractOfEffects = []test{
	{"SaveEffect keeps every field", effectFields},
	{"SaveEffect refuses who isn't the owner", effectOwners},
	{"SaveEffect keeps each call once", effectCalls},
	{"Effect loads what came too late", effectLate},
	{"Effect answers not found", effectMissing},
	{"a job has a thousand effects", effectThousand},
	{"Complete names the effect that is open", effectCompletes},
	{"retention spares open effects and what is set aside", effectRetention},
	{"sums hold over settling and reviving", effectSums},
}

// charged gives an effect that was begun by the job's owner, unlike any default.
func charged(j daybook.Job, now daybook.Time) daybook.Effect {
	return daybook.Effect{Job: j.ID, Name: "charge", Policy: daybook.PolicyKeyed, State: daybook.EffectIsOpen,
		Generation: j.Generation, Round: 3, Key: daybook.EffectKey(j.ID, "charge", 3), BegunAt: now,
		CallUntil: now.Add(1), SafeUntil: now.Add(2 * time.Microsecond), Quiet: 5 * time.Microsecond, Fingerprint: "é",
		Call: daybook.NewID(), Used: 8, Probed: 9, Unsure: 10, Ref: j.Ref}
}

// saved writes one row of the ledger, as a decision does.
func (w *world) saved(j daybook.Job, write daybook.EffectWrite) {
	w.Helper()
	w.ok(w.trySaved(j, write))
}

func (w *world) trySaved(j daybook.Job, write daybook.EffectWrite) error {
	return w.try(func(tx daybook.Tx) error {
		if _, err := tx.Lock(w.ctx, []daybook.ID{j.ID}); err != nil {
			return err
		}
		return tx.SaveEffect(w.ctx, j, write)
	})
}

// ledger loads one effect of a job.
func (w *world) ledger(id daybook.ID, name string) (e daybook.Effect, found bool) {
	w.Helper()
	w.read(func(v daybook.View) (err error) {
		j, _, err := v.Job(w.ctx, id)
		if err == nil {
			e, found, err = v.Effect(w.ctx, j, name)
		}
		return err
	})
	return e, found
}

func effectFields(w *world) {
	j := w.running(daybook.Request{})
	want := charged(j, w.clock.time())
	event := &daybook.Event{At: want.BegunAt, What: "effect begun", Generation: 1, Detail: "charge"}
	w.saved(j, daybook.EffectWrite{Effect: want, Event: event})
	got, _ := w.ledger(j.ID, "charge")
	same(w, "begun", fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", want))
	want.State, want.EndedAt, want.SettledBy = daybook.EffectDone, want.BegunAt.Add(time.Second), "ada"
	want.Doubled, want.Result = true, []byte(`{"n": 1.0, "id": 9007199254740993, "é": "😀"}`)
	want.Policy, want.Round, want.Key, want.Generation = daybook.PolicyAsk, 4, "k", 2
	want.Fingerprint, want.Call, want.Used, want.Probed, want.Unsure = "f", daybook.NewID(), 1, 2, 3
	want.CallUntil, want.SafeUntil, want.Quiet, want.BegunAt = 4, 5, time.Hour, want.BegunAt.Add(7)
	w.saved(j, daybook.EffectWrite{Effect: want})
	got, _ = w.ledger(j.ID, "charge")
	same(w, "ended", fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", want))
	want.EndedAt, want.SettledBy, want.Doubled, want.Result = 0, "", false, nil
	want.Fingerprint, want.Call, want.Used, want.Probed, want.Unsure = "", daybook.ID{}, 0, 0, 0
	want.CallUntil, want.SafeUntil, want.Quiet, want.Generation = 0, 0, 0, 1
	w.saved(j, daybook.EffectWrite{Effect: want})
	got, _ = w.ledger(j.ID, "charge")
	same(w, "emptied", fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", want))
	want.Result = []byte(`"` + strings.Repeat("é", daybook.ResultMax/2-1) + `"`)
	w.saved(j, daybook.EffectWrite{Effect: want})
	page, err := w.book.Effects(w.ctx, daybook.EffectFilter{Job: j.ID})
	w.ok(err)
	same(w, "a large result", string(page.Items[0].Result) == string(want.Result), true)
	w.read(func(v daybook.View) error {
		h, err := v.History(w.ctx, j)
		same(w, "events", len(h.Events), 1)
		same(w, "the event", h.Events[0], *event)
		return err
	})
	w.complete(j)
}

func effectOwners(w *world) {
	id := w.enqueue(daybook.Request{})
	s := w.session("w")
	first := w.claimed(s)
	refuse := func(what string, j daybook.Job) {
		w.Helper()
		for _, write := range []daybook.EffectWrite{
			{Effect: charged(j, w.clock.time()), Called: true},
			{Event: &daybook.Event{At: w.clock.time(), What: "effect left open", Detail: "charge"}},
		} {
			if err := w.trySaved(j, write); daybook.CodeOf(err) != daybook.CodeFenced {
				w.Errorf("%s: got %v, want fenced", what, err)
			}
		}
		if _, found := w.ledger(id, "charge"); found {
			w.Errorf("%s: the effect is there", what)
		}
	}
	other := first
	other.Session = w.session("other").ID
	refuse("another session", other)
	_, err := w.book.Release(w.ctx, id, owner(first), 0)
	w.ok(err)
	refuse("nobody owns it", first)
	j := w.claimed(s)
	refuse("an old generation", first)
	w.complete(j)
	refuse("it has ended", w.withOwner(id, j))
}

func effectCalls(w *world) {
	j := w.running(daybook.Request{})
	e := charged(j, w.clock.time())
	var want []daybook.EffectCall
	for n := range 3 {
		e.Generation, e.Round, e.BegunAt = int64(n+1), n/2, e.BegunAt.Add(time.Second)
		want = append(want, daybook.EffectCall{Generation: e.Generation, Round: e.Round, At: e.BegunAt})
		w.saved(j, daybook.EffectWrite{Effect: e, Called: true})
		w.saved(j, daybook.EffectWrite{Effect: e})
	}
	e.BegunAt = e.BegunAt.Add(time.Second)
	w.saved(j, daybook.EffectWrite{Effect: e, Called: true}) // the first time counts
	got, _ := w.ledger(j.ID, "charge")
	same(w, "calls", fmt.Sprint(got.Calls), fmt.Sprint(want))
	e.Name, e.Generation, e.State = "mail", 1, daybook.EffectAbsent
	w.saved(j, daybook.EffectWrite{Effect: e})
	got, _ = w.ledger(j.ID, "mail")
	same(w, "calls of another effect", len(got.Calls), 0)
	e.Name = "charge"
	w.saved(j, daybook.EffectWrite{Effect: e})
	w.complete(j)
}

func effectLate(w *world) {
	j := w.running(daybook.Request{})
	for _, name := range []string{"charge", "charge2"} {
		e := charged(j, w.clock.time())
		e.Name, e.State = name, daybook.EffectAbsent
		w.saved(j, daybook.EffectWrite{Effect: e})
	}
	refusals := []daybook.Refusal{{Operation: "effect_finish:charge", Said: `done {"a b": 1}`},
		{Operation: "effect_finish:charge2", Said: "absent"}, {Operation: "effect_begin:charge", Said: "ask"},
		{Operation: "complete", Said: "done"}}
	for i := range refusals {
		r := &refusals[i]
		r.Job, r.Generation, r.Session, r.At = j.ID, int64(i+1), j.Session, w.clock.time().Add(time.Duration(i)*time.Second)
	}
	w.write(func(tx daybook.Tx) error { return tx.SaveRefusals(w.ctx, refusals) })
	want := map[string]daybook.Late{
		"charge":  {Generation: 1, At: refusals[0].At, Outcome: daybook.OutcomeDone, Said: `{"a b": 1}`},
		"charge2": {Generation: 2, At: refusals[1].At, Outcome: daybook.OutcomeAbsent}}
	page, err := w.book.Effects(w.ctx, daybook.EffectFilter{Job: j.ID})
	w.ok(err)
	h := daybook.History{}
	w.read(func(v daybook.View) (err error) {
		h, err = v.History(w.ctx, j)
		return err
	})
	for name, late := range want {
		one, _ := w.ledger(j.ID, name)
		of := func(list []daybook.Effect) daybook.Effect {
			return list[slices.IndexFunc(list, func(e daybook.Effect) bool { return e.Name == name })]
		}
		for i, e := range []daybook.Effect{one, of(page.Items), of(h.Effects)} {
			same(w, fmt.Sprint("late words of ", name, " in list ", i), fmt.Sprint(e.Late), fmt.Sprint([]daybook.Late{late}))
		}
	}
	w.complete(j)
}

func effectMissing(w *world) {
	j := w.running(daybook.Request{})
	for _, of := range []daybook.ID{j.ID, daybook.NewID()} {
		if e, found := w.ledger(of, "charge"); found || e.Name != "" {
			w.Errorf("found %+v", e)
		}
	}
	w.complete(j)
}

func effectThousand(w *world) {
	j := w.running(daybook.Request{})
	w.write(func(tx daybook.Tx) error {
		for n := range daybook.EffectsMax - 1 {
			e := charged(j, w.clock.time())
			e.Name, e.State = fmt.Sprintf("item-%03d", n), daybook.EffectDone
			if err := tx.SaveEffect(w.ctx, j, daybook.EffectWrite{Effect: e, Called: true}); err != nil {
				return err
			}
		}
		return nil
	})
	same(w, "effects", w.locked(j.ID).Effects, daybook.EffectsMax-1)
	ask := func(name string) error {
		_, err := w.book.BeginEffect(w.ctx, j.ID, owner(j), daybook.Begin{Name: name, Policy: daybook.PolicyAsk})
		return err
	}
	w.ok(ask("the-last"))
	w.refused(ask("one-too-many"), daybook.CodeRefused)
	w.ok(ask("item-500"))
	var names []string
	for f := (daybook.EffectFilter{Job: j.ID, Limit: 300}); ; {
		page, err := w.book.Effects(w.ctx, f)
		w.ok(err)
		for _, e := range page.Items {
			names = append(names, e.Name)
		}
		if f.Cursor = page.Cursor; f.Cursor == "" {
			break
		}
	}
	same(w, "listed", len(names), daybook.EffectsMax)
	same(w, "in order and once each", slices.IsSorted(names) && len(slices.Compact(names)) == daybook.EffectsMax, true)
	end := daybook.EffectEnd{Name: "the-last", Outcome: daybook.OutcomeAbsent}
	_, err := w.book.FinishEffect(w.ctx, j.ID, owner(j), end)
	w.ok(err)
	w.complete(j)
}

func effectCompletes(w *world) {
	j := w.running(daybook.Request{})
	for _, name := range []string{"two", "one"} {
		_, err := w.book.BeginEffect(w.ctx, j.ID, owner(j), daybook.Begin{Name: name, Policy: daybook.PolicyAsk})
		w.ok(err)
	}
	for _, name := range []string{"one", "two"} {
		_, err := w.book.Complete(w.ctx, j.ID, owner(j), nil)
		w.refused(err, daybook.CodeEffectOpen)
		same(w, "names effect "+name, strings.Contains(err.Error(), `"`+name+`"`), true)
		_, err = w.book.FinishEffect(w.ctx, j.ID, owner(j), daybook.EffectEnd{Name: name, Outcome: daybook.OutcomeDone})
		w.ok(err)
	}
	w.complete(j)
	w.stands(j.ID, daybook.Succeeded)
}

// openEffect runs a job until an effect of it was begun and its attempt is over.
func (w *world) openEffect(end func(j daybook.Job) error) daybook.ID {
	w.Helper()
	j := w.running(daybook.Request{})
	_, err := w.book.BeginEffect(w.ctx, j.ID, owner(j), daybook.Begin{Name: "charge", Policy: daybook.PolicyAsk})
	w.ok(err)
	w.ok(end(j))
	return j.ID
}

func (w *world) failedForGood(j daybook.Job) error {
	_, err := w.book.Fail(w.ctx, j.ID, owner(j), daybook.Failure{Permanent: true}, nil)
	return err
}

func effectRetention(w *world) {
	aside := w.openEffect(w.failedForGood)
	cancelled := w.openEffect(w.failedForGood)
	_, err := w.book.Cancel(w.ctx, cancelled, someone, false)
	w.ok(err)
	forced := w.openEffect(func(j daybook.Job) error {
		_, err := w.book.Cancel(w.ctx, j.ID, someone, true)
		return err
	})
	done := w.running(daybook.Request{})
	_, err = w.book.BeginEffect(w.ctx, done.ID, owner(done), daybook.Begin{Name: "charge", Policy: daybook.PolicyAsk})
	w.ok(err)
	_, err = w.book.FinishEffect(w.ctx, done.ID, owner(done), daybook.EffectEnd{Name: "charge",
		Outcome: daybook.OutcomeDone})
	w.ok(err)
	w.complete(done)
	prune := func(want int) {
		w.Helper()
		w.clock.advance(daybook.KeyRetention + daybook.RetentionDefault)
		n, err := w.book.Prune(w.ctx, daybook.PruneOptions{})
		w.ok(err)
		same(w, "pruned", n, want)
	}
	prune(1)
	_, err = w.book.Job(w.ctx, done.ID)
	w.refused(err, daybook.CodeNotFound)
	for _, id := range []daybook.ID{aside, cancelled, forced} {
		_, err := w.book.Settle(w.ctx, id, "charge", daybook.Verdict{}, someone)
		w.ok(err)
	}
	w.stands(aside, daybook.SetAside)
	prune(2) // their ends are long ago, and nobody has to decide any more
	w.stands(aside, daybook.SetAside)
}

func effectSums(w *world) {
	check := func(what string, waiting, aside int64) {
		w.Helper()
		c := w.counts().Counts
		same(w, what+": balanced", c.Balanced(), true)
		same(w, what+": accepted", c.Accepted, 6)
		same(w, what+": waiting", c.Waiting, waiting)
		same(w, what+": set aside", c.SetAside, aside)
	}
	var open []daybook.ID
	for range 3 {
		open = append(open, w.openEffect(w.failedForGood))
	}
	asked := w.openEffect(func(j daybook.Job) error {
		_, err := w.book.Release(w.ctx, j.ID, owner(j), 0)
		return err
	})
	j := w.claimed(w.session("w"))
	got, err := w.book.BeginEffect(w.ctx, j.ID, owner(j), daybook.Begin{Name: "charge", Policy: daybook.PolicyAsk})
	w.ok(err)
	same(w, "decision", got.Decision, daybook.DecisionAsk)
	for range 2 {
		w.ok(w.failedForGood(w.running(daybook.Request{})))
	}
	check("set aside", 0, 6)
	_, err = w.book.Settle(w.ctx, asked, "charge", daybook.Verdict{}, someone)
	w.ok(err)
	check("one asked about is settled", 1, 5)
	_, err = w.book.Settle(w.ctx, open[0], "charge", daybook.Verdict{Happened: true}, someone)
	w.ok(err)
	check("one that failed is settled", 1, 5)
	answer, err := w.book.Decide(w.ctx, daybook.Bulk{Move: daybook.MoveRevive, By: someone,
		Filter: daybook.Filter{State: daybook.SetAside}})
	w.ok(err)
	same(w, "revived", answer.Done, 3)
	same(w, "refused", answer.Refused[daybook.CodeEffectOpen], 2)
	check("revived in bulk", 4, 2)
	same(w, "revivals", w.counts().Revived, 3)
}
