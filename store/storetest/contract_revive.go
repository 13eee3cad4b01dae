package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/daybookdev/daybook"
)

var contractOfRevive = []test{
	{"ReviveSet is the pure move of each job", reviveSet},
	{"ReviveSet walks on behind the last job", reviveSetWalks},
	{"ReviveSet takes what its filter names", reviveSetFilters},
	{"ReviveSet leaves it to the steps where it can't tell", reviveSetSteps},
	{"a decision about many is that of each job", decideIsPure},
}

// asRevived revives by the store's own set, if it has one.
func (w *world) asRevived(q daybook.Finding) (set daybook.RevivedSet, plain, has bool) {
	w.Helper()
	q.What = daybook.FindMatching
	w.write(func(tx daybook.Tx) (err error) {
		var r daybook.Reviver
		if r, has = tx.(daybook.Reviver); has {
			set, plain, err = r.ReviveSet(w.ctx, q, someone)
		}
		return err
	})
	if !has {
		w.Logf("the store has no Reviver")
	}
	return set, plain, has
}

// atRest are jobs of a queue in every state that a person revives from, with all
// that a job can have.
func atRest(w *world, queue string) (ids []daybook.ID) {
	w.Helper()
	s := w.session("w")
	runs := func(r daybook.Request, end func(j daybook.Job) error) {
		r.Queue = queue
		id := w.enqueue(r)
		got, err := w.book.Claim(w.ctx, daybook.ClaimRequest{Session: s.ID, Queues: []string{queue}})
		w.ok(err)
		same(w, "the claimed job", got.Jobs[0].ID, id)
		w.ok(end(got.Jobs[0]))
		ids = append(ids, id)
	}
	forced := func(j daybook.Job) error {
		_, err := w.book.Cancel(w.ctx, j.ID, someone, true)
		return err
	}
	runs(daybook.Request{}, w.failedForGood)
	runs(daybook.Request{Kind: "other", Priority: 7, Key: "of " + queue, Timeout: time.Minute, MaxFailures: 1,
		ExpiresAt: w.clock.now().Add(time.Hour), OnLost: daybook.LostSetAside, Args: []byte(`{"a":1}`)},
		func(j daybook.Job) error {
			_, err := w.book.Fail(w.ctx, j.ID, owner(j), daybook.Failure{}, nil)
			return err
		})
	runs(daybook.Request{Priority: -3}, forced)
	runs(daybook.Request{}, w.withEffects(w.failedForGood, daybook.OutcomeDone, daybook.OutcomeAbsent))
	runs(daybook.Request{}, w.withEffects(w.failedForGood, daybook.OutcomeDone, daybook.OutcomeUnknown,
		daybook.OutcomeUnknown))
	runs(daybook.Request{}, w.withEffects(forced, daybook.OutcomeUnknown))
	runs(daybook.Request{OnLost: daybook.LostSetAside}, forced) // the handler is open
	runs(daybook.Request{OnLost: daybook.LostSetAside}, func(j daybook.Job) error {
		err := forced(j)
		w.ok(err)
		_, err = w.book.Settle(w.ctx, j.ID, daybook.HandlerEffect, daybook.Verdict{Happened: true}, someone)
		return err
	})
	never := w.enqueue(daybook.Request{Queue: queue})
	held := w.enqueue(daybook.Request{Queue: queue})
	w.hold(held, "a hold")
	for _, id := range []daybook.ID{never, held} {
		_, err := w.book.Cancel(w.ctx, id, someone, false)
		w.ok(err)
	}
	late := w.enqueue(daybook.Request{Queue: queue, ExpiresAt: w.clock.now().Add(time.Second)})
	w.clock.advance(2 * time.Second)
	w.reconcile(daybook.Sure)
	w.stands(late, daybook.Expired)
	return append(ids, never, held, late)
}

// withEffects begins effects, of which some end, before the attempt does.
func (w *world) withEffects(end func(j daybook.Job) error, outcomes ...daybook.EffectOutcome,
) func(j daybook.Job) error {
	return func(j daybook.Job) error {
		for i, outcome := range outcomes {
			name := string(rune('z' - i)) // the last one begun is the first by name
			_, err := w.book.BeginEffect(w.ctx, j.ID, owner(j), daybook.Begin{Name: name, Policy: daybook.PolicyAsk})
			w.ok(err)
			if outcome == daybook.OutcomeUnknown {
				continue
			}
			_, err = w.book.FinishEffect(w.ctx, j.ID, owner(j), daybook.EffectEnd{Name: name, Outcome: outcome})
			w.ok(err)
		}
		return end(j)
	}
}

// pure is what Job.Revive decides of each job by itself.
type pure struct {
	change  daybook.Change
	refused error
}

func (w *world) pure(ids []daybook.ID, now daybook.Time) map[daybook.ID]pure {
	all := map[daybook.ID]pure{}
	for _, id := range ids {
		j := w.locked(id)
		c, err := j.Revive(someone, now)
		if c.Was = j; err != nil {
			c.Now = j
		}
		all[id] = pure{c, err}
	}
	return all
}

// asPure wants the book to be what the moves made, event and counts with it.
func (w *world) asPure(queue string, before daybook.Counts, all map[daybook.ID]pure) {
	w.Helper()
	for id, p := range all {
		if p.refused == nil {
			before.Add(p.change.Delta())
		}
		compareJobs(w, "revived", w.locked(id), p.change.Now)
		if events := w.events(id); p.refused == nil {
			same(w, "event", fmt.Sprintf("%+v", events[len(events)-1]), fmt.Sprintf("%+v", *p.change.Event))
		} else if len(events) > 0 {
			same(w, "no event", events[len(events)-1].What != "revived", true)
		}
	}
	same(w, "counts", w.counted(queue), before)
}

func (w *world) events(id daybook.ID) []daybook.Event {
	w.Helper()
	var h daybook.History
	j := w.locked(id)
	w.read(func(v daybook.View) (err error) {
		h, err = v.History(w.ctx, j)
		return err
	})
	return h.Events
}

var restingStates = []daybook.State{daybook.SetAside, daybook.Cancelled, daybook.Expired}

// reviveSet holds a set of each state to the moves, job by job.
func reviveSet(w *world) {
	queue := w.fresh()
	ids := atRest(w, queue)
	var held daybook.ID
	for _, state := range restingStates {
		all := w.pure(slices.DeleteFunc(slices.Clone(ids), func(id daybook.ID) bool {
			return w.job(id).State != state
		}), w.clock.time())
		before := w.counted(queue)
		set, plain, has := w.asRevived(daybook.Finding{Filter: daybook.Filter{Queue: queue, State: state}, Limit: 100})
		if !has {
			return
		}
		same(w, "plain", plain, true)
		same(w, "found", set.Found, len(all))
		same(w, "rings", fmt.Sprint(set.Ring), fmt.Sprint([]string{queue}))
		told, last := map[daybook.ID]bool{}, int64(0)
		for _, j := range set.Open {
			told[j.ID] = true
			_, err := j.Revive(someone, w.clock.time())
			same(w, "what is open", fmt.Sprint(err), fmt.Sprint(all[j.ID].refused))
			same(w, "its number", j.Ref, all[j.ID].change.Was.Ref)
		}
		for _, id := range set.Left {
			told[id] = true
			w.refused(all[id].refused, daybook.CodeRefused)
		}
		for id, p := range all {
			same(w, "told", told[id], p.refused != nil)
			if last = max(last, p.change.Was.Ref); p.change.Was.HeldBy != "" {
				held = id
			}
		}
		same(w, "moved", set.Moved, len(all)-len(told))
		same(w, "last", set.Last, last)
		w.asPure(queue, before, all)
	}
	waits := w.counted(queue).Waiting
	got, err := w.book.Claim(w.ctx, daybook.ClaimRequest{Session: w.session("w").ID, Queues: []string{queue}, Limit: 100})
	w.ok(err)
	same(w, "claimed", int64(len(got.Jobs)), waits-1)
	same(w, "the first", got.Jobs[0].Priority, 7)
	w.stands(held, daybook.Waiting)
}

func reviveSetWalks(w *world) {
	queue := w.fresh()
	ids := atRest(w, queue)
	var seen []daybook.ID
	for q := (daybook.Finding{Filter: daybook.Filter{State: daybook.Cancelled, Queue: queue}, Limit: 2}); ; {
		set, _, has := w.asRevived(q)
		if !has {
			return
		}
		for _, j := range set.Open {
			seen = append(seen, j.ID)
		}
		seen = append(seen, set.Left...)
		if set.Found < q.Limit {
			break
		}
		same(w, "goes on", set.Last > q.After, true)
		q.After = set.Last
	}
	want := slices.DeleteFunc(slices.Clone(ids), func(id daybook.ID) bool { return w.job(id).State != daybook.Cancelled })
	same(w, "left by all", fmt.Sprint(seen), fmt.Sprint(want))
	same(w, "left there", w.counted(queue).Cancelled, int64(len(want)))
}

func reviveSetFilters(w *world) {
	one, two := w.fresh(), w.fresh()
	atRest(w, one)
	atRest(w, two)
	for _, c := range []struct {
		filter              daybook.Filter
		found, moved, rings int
	}{
		{daybook.Filter{Queue: one, State: daybook.SetAside, Kind: "other"}, 1, 1, 1},
		{daybook.Filter{Queue: one, State: daybook.SetAside, Kind: "nothing"}, 0, 0, 0},
		{daybook.Filter{Queue: "nobody", State: daybook.SetAside}, 0, 0, 0},
		{daybook.Filter{Queue: one, State: daybook.Cancelled, HeldBy: "a hold"}, 1, 1, 0},
		{daybook.Filter{Queue: one, Reason: daybook.ReasonPermanent}, 3, 2, 1},
		{daybook.Filter{Queue: one, Reason: daybook.ReasonPermanent}, 1, 0, 0}, // by then
		{daybook.Filter{Kind: "other", Reason: daybook.ReasonFailures}, 1, 1, 1},
	} {
		set, plain, has := w.asRevived(daybook.Finding{Filter: c.filter, Limit: 100})
		if !has {
			return
		}
		what := fmt.Sprintf("%+v", c.filter)
		same(w, what+": plain", plain, true)
		same(w, what+": found", set.Found, c.found)
		same(w, what+": moved", set.Moved, c.moved)
		same(w, what+": rings", len(set.Ring), c.rings)
	}
	same(w, "of the other queue", w.counted(two).Waiting, 1)
	set, _, _ := w.asRevived(daybook.Finding{Filter: daybook.Filter{State: daybook.Expired}, Limit: 100})
	slices.Sort(set.Ring)
	want := []string{one, two}
	slices.Sort(want)
	same(w, "rings", fmt.Sprint(set.Ring), fmt.Sprint(want))
}

func reviveSetSteps(w *world) {
	queue := w.fresh()
	atRest(w, queue)
	waits := w.enqueue(daybook.Request{Queue: queue})
	before := w.counted(queue)
	for _, f := range []daybook.Filter{{Queue: queue}, {Queue: queue, State: daybook.Waiting},
		{Queue: queue, State: daybook.SetAside, Held: true}, {State: daybook.SetAside, Key: "of " + queue}} {
		if set, plain, _ := w.asRevived(daybook.Finding{Filter: f, Limit: 100}); plain {
			w.Errorf("%+v: %+v", f, set)
		}
	}
	w.stands(waits, daybook.Waiting)
	same(w, "counts", w.counted(queue), before)
	answer, err := w.book.Decide(w.ctx, daybook.Bulk{Move: daybook.MoveRevive, By: someone,
		Filter: daybook.Filter{State: daybook.SetAside, Key: "of " + queue}})
	w.ok(err)
	same(w, "by its key", answer.Done, int64(1))
}

// decideIsPure holds a person's decision about many to the moves: what was done,
// what refused, the first refusal, and how it was told.
func decideIsPure(w *world) {
	queue := w.fresh()
	ids := atRest(w, queue)
	for _, state := range restingStates {
		all := w.pure(slices.DeleteFunc(slices.Clone(ids), func(id daybook.ID) bool {
			return w.job(id).State != state
		}), w.clock.time())
		before, refused := w.counted(queue), map[daybook.Code]int64{}
		first := map[string]bool{"": true}
		done := int64(len(all))
		for _, p := range all {
			if p.refused != nil {
				refused[daybook.CodeOf(p.refused)]++
				first[p.refused.Error()], first[""] = true, false
				done--
			}
		}
		var seen int64
		answer, err := w.book.Decide(w.ctx, daybook.Bulk{Move: daybook.MoveRevive, By: someone,
			Filter: daybook.Filter{Queue: queue, State: state}, Seen: func(n int64) { seen = n }})
		w.ok(err)
		same(w, "done", answer.Done, done)
		same(w, "matched", answer.Matched, int64(len(all)))
		same(w, "seen", seen, answer.Matched)
		same(w, "refused", fmt.Sprint(answer.Refused), fmt.Sprint(refused))
		same(w, "one of the refusals: "+answer.First, first[answer.First], true)
		w.asPure(queue, before, all)
	}
	other := w.fresh()
	atRest(w, other)
	for _, move := range []daybook.Move{daybook.MoveUnhold, daybook.MoveCancel} {
		for _, state := range restingStates {
			_, err := w.book.Decide(w.ctx, daybook.Bulk{Move: move, By: someone,
				Filter: daybook.Filter{Queue: other, State: state}})
			w.ok(err)
		}
	}
	same(w, "revived by another decision", w.counted(other).Revived, 0)
	answer, err := w.book.Decide(w.ctx, daybook.Bulk{Move: daybook.MoveRevive, By: someone, Unsafe: true,
		Filter: daybook.Filter{Queue: queue, State: daybook.Cancelled}})
	w.ok(err)
	same(w, "whose work happened, when told to", fmt.Sprint(answer.Done > 0, answer.Refused[daybook.CodeRefused]),
		"true 0")
}
