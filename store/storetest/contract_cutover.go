package storetest

import (
	"fmt"
	"strings"
	"time"

	"github.com/daybookdev/daybook"
)

var contractOfCutovers = []test{
	{"SaveCutover changes only what nobody changed meanwhile", cutoverSaves},
	{"A cutover closes its queue until the book may claim", cutoverCloses},
	{"SaveItems inserts, then overwrites by id and occurrence", itemsSave},
	{"Items filters, pages, and walks backward by place", itemsList},
	{"ItemCounts counts what is alike", itemsCount},
	{"MissOld notes what a look didn't find", missesOld},
	{"JudgeOld judges what no newer look has seen", judgesOld},
	{"ImportOld takes a job in once", importsOnce},
	{"ImportOld carries attempts, due time and what it was set aside for", importsWhole},
	{"An origin moves in once", originOnce},
	{"ImportOld knows what a producer wrote to both systems", importsTwins},
	{"ReturnOld gives back what never ran, and keeps the rest", returnsWhatNeverRan},
	{"What went back can move in again", movesInAgain},
}

// cutover begins one and takes it to a phase.
func (w *world) cutover(to daybook.Phase) daybook.Cutover {
	w.Helper()
	c, err := w.book.PlanCutover(w.ctx, daybook.Cutover{Name: "c", System: "sidekiq", Store: "redis://there",
		OldQueue: "old", Queue: "q"}, someone)
	w.ok(err)
	for _, p := range []daybook.Phase{daybook.PhaseShadow, daybook.PhaseGate, daybook.PhaseMove, daybook.PhaseSettle,
		daybook.PhaseRun} {
		if c.Phase == to {
			break
		}
		c, err = w.book.AdvanceCutover(w.ctx, "c", p, someone)
		w.ok(err)
	}
	same(w, "phase", c.Phase, to)
	return c
}

func (w *world) cutoverTx(fn func(tx daybook.Tx, ct daybook.CutoverTx) error) error {
	return w.book.Store().Write(w.ctx, "a test", func(tx daybook.Tx) error {
		ct, ok := tx.(daybook.CutoverTx)
		if !ok {
			return fmt.Errorf("this store keeps no cutovers")
		}
		return fn(tx, ct)
	})
}

func cutoverSaves(w *world) {
	w.cutover(daybook.PhasePlan)
	read, err := w.book.Cutover(w.ctx, "c")
	w.ok(err)
	read.Plan = []byte(`{"intake":"deploy"}`)
	save := func(tx daybook.Tx, ct daybook.CutoverTx) error { return ct.SaveCutover(w.ctx, read) }
	w.ok(w.cutoverTx(save))
	w.refused(w.cutoverTx(save), daybook.CodeFenced)
	fresh := read
	fresh.Changes = 0
	w.refused(w.cutoverTx(func(tx daybook.Tx, ct daybook.CutoverTx) error { return ct.SaveCutover(w.ctx, fresh) }),
		daybook.CodeFenced)
	now, err := w.book.Cutover(w.ctx, "c")
	w.ok(err)
	same(w, "plan", string(now.Plan), `{"intake":"deploy"}`)
	same(w, "changes", now.Changes, read.Changes+1)
	_, err = w.book.Cutover(w.ctx, "other")
	w.refused(err, daybook.CodeNotFound)
	list, err := w.book.Cutovers(w.ctx)
	w.ok(err)
	same(w, "cutovers", len(list), 1)
}

func cutoverCloses(w *world) {
	w.cutover(daybook.PhasePlan)
	_, twice := w.book.PlanCutover(w.ctx, daybook.Cutover{Name: "d", System: "rq", Store: "x", OldQueue: "y", Queue: "q"},
		someone)
	w.refused(twice, daybook.CodeRefused)
	w.enqueue(daybook.Request{Queue: "q"})
	w.refused(w.book.Resume(w.ctx, "q", someone), daybook.CodeRefused)
	claim := func() int { return len(w.claim(w.session("w"), 1)) }
	same(w, "claims while it is planned", claim(), 0)
	for _, p := range []daybook.Phase{daybook.PhaseShadow, daybook.PhaseGate, daybook.PhaseMove, daybook.PhaseSettle} {
		_, err := w.book.AdvanceCutover(w.ctx, "c", p, someone)
		w.ok(err)
		same(w, "claims in "+string(p), claim(), 0)
	}
	_, err := w.book.AdvanceCutover(w.ctx, "c", daybook.PhaseRetire, someone)
	w.refused(err, daybook.CodeRefused)
	_, err = w.book.AdvanceCutover(w.ctx, "c", daybook.PhaseRun, someone)
	w.ok(err)
	same(w, "claims when it runs", claim(), 1)
	_, err = w.book.AdvanceCutover(w.ctx, "c", daybook.PhaseReturning, someone)
	w.ok(err)
	w.enqueue(daybook.Request{Queue: "q"})
	same(w, "claims while it goes back", claim(), 0)
	_, err = w.book.PlanCutover(w.ctx, daybook.Cutover{Name: "d", System: "rq", Store: "x", OldQueue: "y", Queue: "q"},
		someone)
	w.refused(err, daybook.CodeRefused)
}

// items are some that differ in all that a list asks for.
func someItems() (items []daybook.Item) {
	for n := range 6 {
		o := &daybook.OldJob{ID: fmt.Sprint("id ", n), Class: "C", Raw: []byte{0, 1, byte(n)}, Body: []byte("body")}
		items = append(items, daybook.Item{ID: o.ID, Hash: o.Hash(), First: daybook.OldWaiting, Last: daybook.OldOwned,
			Term: daybook.Terms[n%2], Place: int64(10 - n), SeenAt: daybook.Time(n + 1), Class: "C", Old: o, Arrived: n == 5})
	}
	return items
}

func itemsSave(w *world) {
	w.cutover(daybook.PhasePlan)
	items := someItems()
	save := func() {
		w.ok(w.cutoverTx(func(_ daybook.Tx, ct daybook.CutoverTx) error { return ct.SaveItems(w.ctx, "c", items) }))
	}
	save()
	second := items[0]
	second.Occurrence, second.Hash = 1, "another"
	items[0].Term, items[0].Note = daybook.TermFinished, "ended"
	items = append(items[:1], second)
	save()
	got, err := w.book.ItemsOf(w.ctx, "c", []string{"id 0", "nobody"})
	w.ok(err)
	same(w, "items of the id", len(got), 2)
	same(w, "overwritten", got[0].Term, daybook.TermFinished)
	same(w, "note", got[0].Note, "ended")
	same(w, "raw", string(got[0].Old.Raw), string([]byte{0, 1, 0}))
	same(w, "second", got[1].Hash, "another")
	none, err := w.book.ItemsOf(w.ctx, "d", []string{"id 0"})
	w.ok(err)
	same(w, "of another cutover", len(none), 0)
}

func itemsList(w *world) {
	w.cutover(daybook.PhasePlan)
	w.ok(w.cutoverTx(func(_ daybook.Tx, ct daybook.CutoverTx) error { return ct.SaveItems(w.ctx, "c", someItems()) }))
	list := func(f daybook.ItemFilter) (ids string) {
		f.Cutover = "c"
		for {
			page, err := w.book.Items(w.ctx, f)
			w.ok(err)
			for _, i := range page.Items {
				ids += i.ID[3:]
				if (i.Old != nil) != f.Whole {
					w.Errorf("item %s has old %v", i.ID, i.Old)
				}
			}
			if f.Cursor = page.Cursor; f.Cursor == "" || f.Backward {
				return ids
			}
		}
	}
	same(w, "all, two a page", list(daybook.ItemFilter{Limit: 2}), "012345")
	same(w, "of one id", list(daybook.ItemFilter{ID: "id 3"}), "3")
	same(w, "of one term", list(daybook.ItemFilter{Term: daybook.Terms[1], Limit: 1}), "135")
	same(w, "seen before", list(daybook.ItemFilter{SeenBefore: 3, Whole: true}), "01")
	same(w, "last", list(daybook.ItemFilter{Last: daybook.OldDone}), "")
	same(w, "backward", list(daybook.ItemFilter{Term: daybook.Terms[0], Backward: true, Whole: true, Limit: 2}), "02")
	_, err := w.book.Items(w.ctx, daybook.ItemFilter{Cutover: "c", Cursor: "no cursor"})
	w.refused(err, daybook.CodeInvalid)
}

func itemsCount(w *world) {
	w.cutover(daybook.PhasePlan)
	w.ok(w.cutoverTx(func(_ daybook.Tx, ct daybook.CutoverTx) error { return ct.SaveItems(w.ctx, "c", someItems()) }))
	counts, err := w.book.ItemCounts(w.ctx, "c")
	w.ok(err)
	total := map[daybook.Term]int64{}
	for _, c := range counts {
		total[c.Term] += c.Items
		same(w, "first", c.First, daybook.OldWaiting)
		same(w, "last", c.Last, daybook.OldOwned)
		same(w, "arrived alone", c.Arrived && c.Items > 1, false)
	}
	same(w, "groups", len(counts), 3)
	same(w, "of the first term", total[daybook.Terms[0]], 3)
}

func missesOld(w *world) {
	w.cutover(daybook.PhaseShadow)
	var jobs []daybook.OldJob
	for n := range 5 {
		jobs = append(jobs, daybook.OldJob{ID: fmt.Sprint(n), State: daybook.OldWaiting, Class: "C", Body: []byte{byte(n)},
			Raw: []byte("raw")})
	}
	_, err := w.book.SeeOld(w.ctx, "c", jobs, 0, false)
	w.ok(err)
	look := func(slip time.Duration, there ...daybook.OldJob) {
		w.Helper()
		w.clock.advance(time.Second)
		since, err := w.book.Clock(w.ctx)
		w.ok(err)
		_, err = w.book.SeeOld(w.ctx, "c", there, since, false)
		w.ok(err)
		w.ok(w.book.MissOld(w.ctx, "c", since, slip, 2))
	}
	state := func() (text string) {
		page, err := w.book.Items(w.ctx, daybook.ItemFilter{Cutover: "c", Whole: true})
		w.ok(err)
		for _, i := range page.Items {
			text += fmt.Sprint(i.Missed())
			same(w, "raw of "+i.ID, string(i.Old.Raw), "raw")
		}
		counts, err := w.book.ItemCounts(w.ctx, "c")
		w.ok(err)
		for _, c := range counts {
			text += fmt.Sprint(" ", c.Items, " ", c.Missed)
		}
		return text
	}
	look(time.Hour, jobs[3:]...)
	same(w, "missed", state(), "11100 2 false 3 true")
	look(time.Hour, jobs[4])
	same(w, "missed again too soon", state(), "11110 1 false 4 true")
	look(0, jobs[0], jobs[4])
	same(w, "gone", state(), "02220 2 false 3 true")
	page, err := w.book.Items(w.ctx, daybook.ItemFilter{Cutover: "c", NotGone: true})
	w.ok(err)
	same(w, "not gone", len(page.Items), 2)
}

func judgesOld(w *world) {
	w.cutover(daybook.PhaseSettle)
	jobs := make([]daybook.OldJob, 4)
	for n := range jobs {
		jobs[n] = daybook.OldJob{ID: fmt.Sprint(n), State: daybook.OldWaiting, Class: "C", Body: []byte{byte(n)}}
	}
	_, err := w.book.SeeOld(w.ctx, "c", jobs, 0, false)
	w.ok(err)
	judged, err := w.book.ItemsOf(w.ctx, "c", []string{"0", "1", "2", "3"})
	w.ok(err)
	w.clock.advance(time.Second)
	_, err = w.book.SeeOld(w.ctx, "c", jobs[:1], 0, false)
	w.ok(err)
	judged[2].MissedAt, judged[3].Died = 77, "w"
	w.ok(w.book.JudgeOld(w.ctx, "c", judged, []daybook.Fate{daybook.FateGone, daybook.FateGone, daybook.FateWait,
		daybook.FateLost}, "it ended"))
	now, err := w.book.ItemsOf(w.ctx, "c", []string{"0", "1", "2", "3"})
	w.ok(err)
	same(w, "seen again", now[0].Term, daybook.TermStill)
	same(w, "ended", string(now[1].Term)+" "+now[1].Note, "finished it ended")
	same(w, "waits", fmt.Sprint(now[2].Term, " ", int64(now[2].MissedAt)), "still 77")
	same(w, "lost", string(now[3].Term)+" "+now[3].Died, "still w")
}

func arriving(id, body string, change func(*daybook.Arriving)) daybook.Arriving {
	a := daybook.Arriving{Old: daybook.OldJob{ID: id, State: daybook.OldWaiting, Class: "C", Body: []byte(body),
		Raw: []byte("raw " + body)}, Request: daybook.Request{Queue: "q", Kind: "k", Args: []byte(`[1]`)}}
	if change != nil {
		change(&a)
	}
	return a
}

func importsOnce(w *world) {
	c := w.cutover(daybook.PhaseMove)
	same(w, "in phase", c.Phase, daybook.PhaseMove)
	two := []daybook.Arriving{arriving("1", "a", nil), arriving("2", "b", nil)}
	first, err := w.book.ImportOld(w.ctx, "c", two)
	w.ok(err)
	again, err := w.book.ImportOld(w.ctx, "c", append(two, arriving("3", "c", nil), arriving("3", "c", nil)))
	w.ok(err)
	for k, want := range []bool{false, false, true, false} {
		same(w, fmt.Sprint("taken ", k), again[k].Taken, want)
	}
	same(w, "same job", again[0].Item.Job, first[0].Item.Job)
	same(w, "same job twice in a call", again[3].Item.Job, again[2].Item.Job)
	other, err := w.book.ImportOld(w.ctx, "c", []daybook.Arriving{arriving("1", "something else", nil)})
	w.ok(err)
	same(w, "another body is asked about", other[0].Item.Asked, true)
	same(w, "and has arrived", other[0].Item.Arrived, true)
	j := w.stands(other[0].Item.Job, daybook.Waiting)
	same(w, "held", j.HeldBy, "cutover:c:asked")
	same(w, "moved in", w.counts().Counts.MovedIn, int64(4))
	_, err = w.book.AdvanceCutover(w.ctx, "c", daybook.PhaseReturning, someone)
	w.ok(err)
	_, err = w.book.ImportOld(w.ctx, "c", two)
	w.refused(err, daybook.CodeRefused)
}

func importsWhole(w *world) {
	w.cutover(daybook.PhaseMove)
	due := w.clock.time().Add(1e12)
	got, err := w.book.ImportOld(w.ctx, "c", []daybook.Arriving{
		arriving("later", "a", func(a *daybook.Arriving) {
			a.Old.State, a.Old.Attempts, a.Old.Error = daybook.OldRetrying, 3, "boom"
			a.Request.RunAt, a.Request.MaxFailures = due.Std(), 5
		}),
		arriving("dead", "b", func(a *daybook.Arriving) { a.Old.State, a.Aside = daybook.OldDead, daybook.ReasonFailures }),
		arriving("lost", "c", func(a *daybook.Arriving) { a.Old.State, a.OwnerDied = daybook.OldOwnerLost, true }),
	})
	w.ok(err)
	j := w.stands(got[0].Item.Job, daybook.Waiting)
	same(w, "due", j.RunAt, due)
	same(w, "failures", j.Failures, 3)
	same(w, "held", j.HeldBy, "cutover:c")
	same(w, "origin", j.Origin.ID, "later")
	events, err := w.book.Timeline(w.ctx, j.ID)
	w.ok(err)
	same(w, "says", events[1].Detail, "from sidekiq id later, tried 3 times there: boom")
	same(w, "dead", w.stands(got[1].Item.Job, daybook.SetAside).Reason, daybook.ReasonFailures)
	same(w, "term of the dead", got[1].Item.Term, daybook.TermDead)
	same(w, "lost", w.stands(got[2].Item.Job, daybook.SetAside).Reason, daybook.ReasonEffectOpen)
	same(w, "term of the lost", got[2].Item.Term, daybook.TermOpen)
	for _, p := range []daybook.Phase{daybook.PhaseSettle, daybook.PhaseRun} {
		_, err := w.book.AdvanceCutover(w.ctx, "c", p, someone)
		w.ok(err)
	}
	_, err = w.book.Settle(w.ctx, got[2].Item.Job, daybook.HandlerEffect, daybook.Verdict{}, someone)
	w.ok(err)
	same(w, "what a person sends back runs", w.claimed(w.session("w")).ID, got[2].Item.Job)
}

// importsTwins: an old copy is its twin here only when all of it is equal. Another
// job that has its id as a key, or a twin that was called off, is asked about.
func importsTwins(w *world) {
	w.cutover(daybook.PhaseMove)
	twins := map[string]daybook.ID{}
	for key, r := range map[string]daybook.Request{"same": {Queue: "q", Kind: "k", Args: []byte(" [ 1.0 ]")},
		"args": {Queue: "q", Kind: "k", Args: []byte(`[2]`)}, "queue": {Queue: "elsewhere", Kind: "k", Args: []byte(`[1]`)},
		"off": {Queue: "q", Kind: "k", Args: []byte(`[1]`)}} {
		r.Key = key
		receipt, err := w.book.Enqueue(w.ctx, r)
		w.ok(err)
		twins[key] = receipt.ID
	}
	_, err := w.book.Cancel(w.ctx, twins["off"], someone, false)
	w.ok(err)
	var all []daybook.Arriving
	ids := []string{"same", "args", "queue", "off", "alone"}
	for _, id := range ids {
		all = append(all, arriving(id, id, func(a *daybook.Arriving) { a.Twin = id }))
	}
	got, err := w.book.ImportOld(w.ctx, "c", all)
	w.ok(err)
	for k, id := range ids {
		i := got[k].Item
		same(w, "taken "+id, got[k].Taken, id != "same")
		same(w, "asked "+id, i.Asked, id != "same" && id != "alone")
		same(w, "its own job "+id, i.Job == twins[id], id == "same")
		if i.Asked {
			same(w, "held "+id, w.stands(i.Job, daybook.Waiting).HeldBy, "cutover:c:asked")
			same(w, "names the other "+id, strings.Contains(i.Note, twins[id].String()), true)
		}
	}
	same(w, "recognised", got[0].Item.Again, int64(1))
	again, err := w.book.ImportOld(w.ctx, "c", all)
	w.ok(err)
	for k := range ids {
		same(w, "once more "+ids[k], again[k].Taken, false)
		same(w, "the same job "+ids[k], again[k].Item.Job, got[k].Item.Job)
	}
}

func returnsWhatNeverRan(w *world) {
	w.cutover(daybook.PhaseMove)
	var all []daybook.Arriving
	for n := range 4 {
		all = append(all, arriving(fmt.Sprint(n), fmt.Sprint("body ", n), nil))
	}
	got, err := w.book.ImportOld(w.ctx, "c", all)
	w.ok(err)
	for _, p := range []daybook.Phase{daybook.PhaseSettle, daybook.PhaseRun} {
		_, err := w.book.AdvanceCutover(w.ctx, "c", p, someone)
		w.ok(err)
	}
	_, err = w.book.Unhold(w.ctx, got[1].Item.Job, someone)
	w.ok(err)
	same(w, "runs", w.claimed(w.session("w")).ID, got[1].Item.Job)
	_, _, err = w.book.ReturnOld(w.ctx, "c", 10, someone)
	w.refused(err, daybook.CodeRefused)
	_, err = w.book.AdvanceCutover(w.ctx, "c", daybook.PhaseReturning, someone)
	w.ok(err)
	going, kept, err := w.book.ReturnOld(w.ctx, "c", 10, someone)
	w.ok(err)
	same(w, "kept", len(kept), 1)
	same(w, "stays", kept[0].Job, got[1].Item.Job)
	order := ""
	for _, i := range going {
		order += i.ID
		same(w, "raw", string(i.Old.Raw), "raw body "+i.ID)
		w.stands(i.Job, daybook.Moved)
	}
	same(w, "last taken first", order, "320")
	again, _, err := w.book.ReturnOld(w.ctx, "c", 10, someone)
	w.ok(err)
	same(w, "goes on where it stopped", len(again), 3)
	w.ok(w.book.Returned(w.ctx, "c", again))
	rest, kept, err := w.book.ReturnOld(w.ctx, "c", 10, someone)
	w.ok(err)
	same(w, "rest", len(rest)+len(kept), 0)
}

// movesInAgain: an origin is unique among cutovers of one round, and a queue that
// went back begins the next one.
func movesInAgain(w *world) {
	w.cutover(daybook.PhaseMove)
	same1 := []daybook.Arriving{arriving("1", "a", nil)}
	first, err := w.book.ImportOld(w.ctx, "c", same1)
	w.ok(err)
	next := daybook.Cutover{Name: "d", System: "sidekiq", Store: "redis://there", OldQueue: "old", Queue: "other"}
	_, err = w.book.PlanCutover(w.ctx, next, someone)
	w.refused(err, daybook.CodeRefused) // the first one isn't over
	_, err = w.book.AdvanceCutover(w.ctx, "c", daybook.PhaseReturning, someone)
	w.ok(err)
	going, _, err := w.book.ReturnOld(w.ctx, "c", 10, someone)
	w.ok(err)
	w.ok(w.book.Returned(w.ctx, "c", going))
	_, err = w.book.AdvanceCutover(w.ctx, "c", daybook.PhaseReturned, someone)
	w.ok(err)
	c, err := w.book.PlanCutover(w.ctx, next, someone)
	w.ok(err)
	same(w, "round", c.Round, 1)
	for _, p := range []daybook.Phase{daybook.PhaseShadow, daybook.PhaseGate, daybook.PhaseMove} {
		_, err := w.book.AdvanceCutover(w.ctx, "d", p, someone)
		w.ok(err)
	}
	again, err := w.book.ImportOld(w.ctx, "d", same1)
	w.ok(err)
	same(w, "taken again", again[0].Taken, true)
	same(w, "as another job", again[0].Item.Job == first[0].Item.Job, false)
	w.stands(first[0].Item.Job, daybook.Moved)
	w.stands(again[0].Item.Job, daybook.Waiting)
}

// originOnce: of two jobs of one origin the second is refused, whatever its state,
// and with it all of its call.
func originOnce(w *world) {
	w.cutover(daybook.PhaseMove)
	arrival := func(id string, aside daybook.Reason) daybook.Change {
		n, err := daybook.Request{Queue: "q", Kind: "k", Args: []byte(`1`)}.Prepare()
		w.ok(err)
		return n.Import(daybook.Arrival{Aside: aside, Origin: daybook.Origin{System: "s", Store: "t", Queue: "o", ID: id}},
			w.clock.time())
	}
	save := func(changes ...daybook.Change) error {
		return w.cutoverTx(func(tx daybook.Tx, _ daybook.CutoverTx) error { return tx.Save(w.ctx, changes) })
	}
	for _, aside := range []daybook.Reason{"", daybook.ReasonFailures} {
		known, fresh := "known "+string(aside), "fresh "+string(aside)
		w.ok(save(arrival(known, aside)))
		other := arrival(fresh, aside)
		w.refused(save(other, arrival(known, aside)), daybook.CodeFenced)
		_, err := w.book.Job(w.ctx, other.Now.ID)
		w.refused(err, daybook.CodeNotFound)
	}
}
