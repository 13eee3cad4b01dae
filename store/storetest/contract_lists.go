package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/daybookdev/daybook"
)

var contractOfLists = []test{
	{"Jobs pages every state without skips or doubles", pageStates},
	{"Jobs of a brief list are the same without what is large", briefJobs},
	{"Jobs pages on while the book changes", pageWhileChanging},
	{"Jobs filters", filterJobs},
	{"Jobs orders as documented", orderJobs},
	{"Jobs refuses a cursor that no list gave", badCursor},
	{"Sessions are listed newest first, ended ones if asked", listSessions},
	{"Queues are listed by name, with true counts", listQueues},
	{"Queue loads one by its name, with its pause", oneQueue},
	{"Effects are paged", pageEffects},
}

// crowd brings n jobs into each state that needs no cutover, many of them at
// the same instant, and one more succeeded by a person's word.
func crowd(w *world, n int) map[daybook.State]map[daybook.ID]bool {
	w.Helper()
	want := map[daybook.State]map[daybook.ID]bool{}
	note := func(state daybook.State, id daybook.ID) {
		if want[state] == nil {
			want[state] = map[daybook.ID]bool{}
		}
		want[state][id] = true
	}
	for range n {
		note(daybook.Expired, w.enqueue(daybook.Request{ExpiresAt: w.clock.now().Add(time.Second)}))
	}
	w.clock.advance(time.Second)
	w.reconcile(daybook.Sure)
	s := w.session("w")
	settled := w.enqueue(daybook.Request{OnLost: daybook.LostSetAside, MaxFailures: 1})
	w.claimed(w.session("dies"))
	w.lapse()
	_, err := w.book.Settle(w.ctx, settled, daybook.HandlerEffect, daybook.Verdict{Happened: true}, someone)
	w.ok(err)
	note(daybook.Succeeded, settled)
	s = w.session("w")
	finish := func(state daybook.State, end func(j daybook.Job)) {
		w.many(n)
		for i, j := range w.claim(s, n) {
			if i%3 == 2 {
				w.clock.advance(time.Millisecond)
			}
			end(j)
			note(state, j.ID)
		}
	}
	finish(daybook.Succeeded, func(j daybook.Job) { w.complete(j) })
	finish(daybook.SetAside, func(j daybook.Job) {
		_, err := w.book.Fail(w.ctx, j.ID, owner(j), daybook.Failure{Permanent: true}, nil)
		w.ok(err)
	})
	finish(daybook.Cancelled, func(j daybook.Job) {
		_, err := w.book.Cancel(w.ctx, j.ID, someone, true)
		w.ok(err)
	})
	finish(daybook.Running, func(daybook.Job) {})
	for i := range n {
		r := daybook.Request{Priority: i % 3, Queue: []string{"q", "r"}[i%2]}
		if i%4 == 0 {
			r.In = time.Duration(i) * time.Minute
		}
		note(daybook.Waiting, w.enqueue(r))
	}
	return want
}

// pages walks a list to its end, page by page.
func (w *world) pages(f daybook.Filter, between func()) (all []daybook.Job) {
	w.Helper()
	for {
		page, err := w.book.Jobs(w.ctx, f)
		w.ok(err)
		if len(page.Items) > f.Limit {
			w.Fatalf("got %d jobs on a page of %d", len(page.Items), f.Limit)
		}
		all = append(all, page.Items...)
		if page.Cursor == "" {
			return all
		}
		if len(all) > 1000 {
			w.Fatal("the pages have no end")
		}
		f.Cursor = page.Cursor
		if between != nil {
			between()
		}
	}
}

// whole wants each of the jobs once.
func (w *world) whole(what string, got []daybook.Job, want map[daybook.ID]bool) {
	w.Helper()
	seen := map[daybook.ID]bool{}
	for _, j := range got {
		if seen[j.ID] {
			w.Errorf("%s: job %s is on two pages", what, j.ID)
		}
		if !want[j.ID] {
			w.Errorf("%s: job %s (%s) doesn't belong here", what, j.ID, j.State)
		}
		seen[j.ID] = true
	}
	for id := range want {
		if !seen[id] {
			w.Errorf("%s: job %s is on no page", what, id)
		}
	}
}

func pageStates(w *world) {
	want := crowd(w, 11)
	all := map[daybook.ID]bool{}
	for state, ids := range want {
		for id := range ids {
			all[id] = true
		}
		for _, limit := range []int{1, 3, 11, 12, 100} {
			got := w.pages(daybook.Filter{State: state, Limit: limit}, nil)
			w.whole(fmt.Sprintf("%s by %d", state, limit), got, ids)
		}
	}
	w.whole("all by 7", w.pages(daybook.Filter{Limit: 7}, nil), all)
}

// briefJobs: a brief list has the same jobs in the same order, with their errors,
// and none of their args, results and progress.
func briefJobs(w *world) {
	crowd(w, 3)
	large := func(j daybook.Job) daybook.Job {
		j.Args, j.Result, j.Progress = nil, nil, nil
		return j
	}
	for _, state := range append([]daybook.State{""}, daybook.States...) {
		f := daybook.Filter{State: state, Limit: 4}
		want := w.pages(f, nil)
		f.Brief = true
		got := w.pages(f, nil)
		if len(got) != len(want) {
			w.Fatalf("%s: got %d jobs, want %d", state, len(got), len(want))
		}
		for i := range want {
			if a, b := fmt.Sprintf("%+v", got[i]), fmt.Sprintf("%+v", large(want[i])); a != b && want[i].LastError == nil {
				w.Errorf("%s: got %s, want %s", state, a, b)
			}
			if (got[i].LastError == nil) != (want[i].LastError == nil) || got[i].Args != nil {
				w.Errorf("%s: job %s has error %v and args %s", state, got[i].ID, got[i].LastError, got[i].Args)
			}
		}
	}
}

// pageWhileChanging adds jobs and finishes none of the listed ones between the
// pages: those that were there at the beginning must come exactly once.
func pageWhileChanging(w *world) {
	want := crowd(w, 9)
	for state, ids := range want {
		fresh := map[daybook.ID]bool{}
		got := w.pages(daybook.Filter{State: state, Limit: 2}, func() {
			fresh[w.enqueue(daybook.Request{Priority: 99})] = true
		})
		got = slices.DeleteFunc(got, func(j daybook.Job) bool { return fresh[j.ID] })
		if state == daybook.Waiting {
			// Those that an earlier state's walk enqueued belong here too.
			got = slices.DeleteFunc(got, func(j daybook.Job) bool { return j.Priority == 99 })
		}
		w.whole(string(state), got, ids)
	}
}

func filterJobs(w *world) {
	a := w.enqueue(daybook.Request{Queue: "q", Kind: "mail", Key: "k1"})
	b := w.enqueue(daybook.Request{Queue: "r", Kind: "mail"})
	c := w.enqueue(daybook.Request{Queue: "q", Kind: "sms"})
	d := w.enqueue(daybook.Request{Queue: "q", Kind: "mail", Priority: 5})
	j := w.claimed(w.session("w"))
	same(w, "claimed", j.ID, d)
	undecodable := daybook.Failure{Permanent: true, Reason: daybook.ReasonUndecodable}
	_, err := w.book.Fail(w.ctx, d, owner(j), undecodable, nil)
	w.ok(err)
	w.hold(c, "cutover")
	for _, t := range []struct {
		f    daybook.Filter
		want []daybook.ID
	}{
		{daybook.Filter{}, []daybook.ID{a, b, c, d}},
		{daybook.Filter{Queue: "q"}, []daybook.ID{a, c, d}},
		{daybook.Filter{Kind: "mail"}, []daybook.ID{a, b, d}},
		{daybook.Filter{Queue: "q", Kind: "mail"}, []daybook.ID{a, d}},
		{daybook.Filter{Queue: "q", State: daybook.Waiting}, []daybook.ID{a, c}},
		{daybook.Filter{State: daybook.SetAside}, []daybook.ID{d}},
		{daybook.Filter{Reason: daybook.ReasonUndecodable}, []daybook.ID{d}},
		{daybook.Filter{State: daybook.SetAside, Reason: daybook.ReasonFailures}, nil},
		{daybook.Filter{Key: "k1"}, []daybook.ID{a}},
		{daybook.Filter{Key: "k1", State: daybook.Running}, nil},
		{daybook.Filter{Key: "k2"}, nil},
		{daybook.Filter{Held: true}, []daybook.ID{c}},
		{daybook.Filter{HeldBy: "cutover"}, []daybook.ID{c}},
		{daybook.Filter{HeldBy: "else"}, nil},
		{daybook.Filter{Queue: "never"}, nil},
		{daybook.Filter{Queue: "never", State: daybook.Waiting}, nil},
	} {
		t.f.Limit = 10
		want := map[daybook.ID]bool{}
		for _, id := range t.want {
			want[id] = true
		}
		w.whole(fmt.Sprintf("%+v", t.f), w.pages(t.f, nil), want)
		n, err := w.book.Count(w.ctx, t.f)
		w.ok(err)
		same(w, fmt.Sprintf("count of %+v", t.f), n, int64(len(t.want)))
	}
}

// hold sets a hold as a cutover does, with a change that no move of this
// package makes yet.
func (w *world) hold(id daybook.ID, by string) {
	w.Helper()
	w.write(func(tx daybook.Tx) error {
		jobs, err := tx.Lock(w.ctx, []daybook.ID{id})
		if err != nil {
			return err
		}
		held := jobs[0]
		held.HeldBy = by
		return tx.Save(w.ctx, []daybook.Change{{Move: daybook.MoveUnhold, Was: jobs[0], Now: held}})
	})
}

func orderJobs(w *world) {
	low := w.enqueue(daybook.Request{Priority: -1})
	later := w.enqueue(daybook.Request{In: time.Hour})
	first := w.enqueue(daybook.Request{})
	second := w.enqueue(daybook.Request{})
	high := w.enqueue(daybook.Request{Priority: 1})
	w.inOrder(daybook.Filter{State: daybook.Waiting}, high, first, second, later, low)
	w.inOrder(daybook.Filter{}, high, second, first, later, low)
	s := w.session("w")
	jobs := w.claim(s, 3)
	w.complete(jobs[2])
	w.clock.advance(time.Second)
	w.complete(jobs[0])
	w.clock.advance(time.Second)
	w.complete(jobs[1])
	w.inOrder(daybook.Filter{State: daybook.Succeeded}, first, high, second)
}

// inOrder wants a list to be exactly this.
func (w *world) inOrder(f daybook.Filter, want ...daybook.ID) {
	w.Helper()
	f.Limit = 2
	got := w.pages(f, nil)
	ids := make([]daybook.ID, len(got))
	for i, j := range got {
		ids[i] = j.ID
	}
	if !slices.Equal(ids, want) {
		w.Errorf("%+v: got %v, want %v", f, ids, want)
	}
}

func badCursor(w *world) {
	for _, cursor := range []string{"x", "not a cursor", "AAAA====", "☃"} {
		_, err := w.book.Jobs(w.ctx, daybook.Filter{Cursor: cursor})
		w.refused(err, daybook.CodeInvalid)
	}
}

func listSessions(w *world) {
	var ids []daybook.ID
	for _, name := range []string{"a", "b", "a", "c"} {
		ids = append(ids, w.session(name).ID)
	}
	w.ok(w.book.EndSession(w.ctx, ids[1]))
	w.many(3)
	w.claim(w.sessionRow(ids[2]), 3)
	list := func(f daybook.SessionFilter, want ...daybook.ID) []daybook.Session {
		w.Helper()
		got, err := w.book.Sessions(w.ctx, f)
		w.ok(err)
		var have []daybook.ID
		for _, s := range got {
			have = append(have, s.ID)
		}
		if !slices.Equal(have, want) {
			w.Errorf("%+v: got %v, want %v", f, have, want)
		}
		return got
	}
	live := list(daybook.SessionFilter{}, ids[3], ids[2], ids[0])
	same(w, "running", live[1].Running, 3)
	list(daybook.SessionFilter{WithEnded: true}, ids[3], ids[2], ids[1], ids[0])
	list(daybook.SessionFilter{Worker: "a"}, ids[2], ids[0])
	list(daybook.SessionFilter{Limit: 1}, ids[3])
	list(daybook.SessionFilter{ID: ids[1]}, ids[1])
	list(daybook.SessionFilter{ID: daybook.NewID()})
	list(daybook.SessionFilter{Expired: w.clock.time()})
	w.clock.advance(daybook.LeaseDefault)
	_, err := w.book.Renew(w.ctx, ids[3], nil)
	w.ok(err)
	list(daybook.SessionFilter{Expired: w.clock.time()}, ids[2], ids[0])
	w.reconcile(daybook.AtOnce)
}

func listQueues(w *world) {
	names := []string{"b", "a", "Z", "a.b", "a-b", "10", "9", "c"}
	for i, name := range names {
		for range i + 1 {
			w.enqueue(daybook.Request{Queue: name, Kind: "k" + name[:1]})
		}
	}
	slices.Sort(names)
	queues, err := w.book.Queues(w.ctx, true)
	w.ok(err)
	got := make([]string, len(queues))
	for i, q := range queues {
		got[i] = q.Name
		same(w, "eligible of "+q.Name, q.Eligible, q.Counts.Waiting)
		same(w, "oldest of "+q.Name, q.Oldest, w.clock.time())
		same(w, "kinds of "+q.Name, len(q.Kinds), 1)
		same(w, "eligible of its kind", q.Kinds[0].Eligible, q.Eligible)
	}
	if !slices.Equal(got, names) {
		w.Errorf("got %v, want byte order %v", got, names)
	}
	w.enqueue(daybook.Request{Queue: "later", In: time.Hour})
	w.hold(w.enqueue(daybook.Request{Queue: "held"}), "cutover")
	w.enqueue(daybook.Request{Queue: "old", ExpiresAt: w.clock.now().Add(time.Second)})
	w.clock.advance(time.Second)
	bare, err := w.book.Queues(w.ctx, false)
	w.ok(err)
	same(w, "bare queues", len(bare), len(names)+3)
	for _, q := range bare {
		same(w, "ready of "+q.Name, q.Ready, slices.Contains(names, q.Name))
	}
}

func oneQueue(w *world) {
	for _, name := range []string{"mail", "mail.b", "Mail"} {
		w.enqueue(daybook.Request{Queue: name})
	}
	w.clock.advance(time.Second)
	w.ok(w.book.Pause(w.ctx, "mail", someone))
	w.ok(w.book.Pause(w.ctx, "new", someone))
	list, err := w.book.Queues(w.ctx, false)
	w.ok(err)
	look := func(v daybook.View, name string) (q daybook.Queue, found bool) {
		q, found, err := v.Queue(w.ctx, name)
		w.ok(err)
		return q, found
	}
	w.read(func(v daybook.View) error {
		for _, listed := range list {
			q, found := look(v, listed.Name)
			want := daybook.Queue{Name: listed.Name, Paused: listed.Paused, PausedAt: listed.PausedAt,
				PausedBy: listed.PausedBy, PausedReason: listed.PausedReason, Ref: listed.Ref}
			same(w, "found "+listed.Name, found, true)
			same(w, "queue "+listed.Name, fmt.Sprintf("%+v", q), fmt.Sprintf("%+v", want))
			same(w, "paused "+listed.Name, q.Paused, q.Name == "mail" || q.Name == "new")
		}
		for _, name := range []string{"mai", "mail.", "MAIL", "%", ""} {
			q, found := look(v, name)
			same(w, "found "+name, found, false)
			same(w, "name", q.Name, "")
		}
		return nil
	})
	w.ok(w.book.Store().Write(w.ctx, "a test", func(tx daybook.Tx) error {
		w.ok(tx.SaveQueue(w.ctx, daybook.Queue{Name: "mail"}))
		q, found := look(tx, "mail")
		same(w, "found in its own transaction", found, true)
		same(w, "paused in its own transaction", q.Paused, false)
		return nil
	}))
}

func pageEffects(w *world) {
	const n = 7
	for range n {
		w.enqueue(daybook.Request{OnLost: daybook.LostSetAside})
	}
	same(w, "claimed", len(w.claim(w.session("dies"), n)), n)
	same(w, "revoked", w.lapse().revoked, n)
	walk := func(f daybook.EffectFilter) map[daybook.ID]bool {
		w.Helper()
		seen := map[daybook.ID]bool{}
		for {
			page, err := w.book.Effects(w.ctx, f)
			w.ok(err)
			for _, e := range page.Items {
				same(w, "seen twice", seen[e.Job], false)
				same(w, "name", e.Name, daybook.HandlerEffect)
				seen[e.Job] = true
			}
			if page.Cursor == "" {
				return seen
			}
			f.Cursor = page.Cursor
		}
	}
	all := walk(daybook.EffectFilter{Open: true, Limit: 2})
	same(w, "open effects", len(all), n)
	for id := range all {
		_, err := w.book.Settle(w.ctx, id, daybook.HandlerEffect, daybook.Verdict{}, someone)
		w.ok(err)
		same(w, "effects of one job", len(walk(daybook.EffectFilter{Job: id})), 1)
		break
	}
	same(w, "open effects after a settlement", len(walk(daybook.EffectFilter{Open: true, Limit: 3})), n-1)
	same(w, "all effects", len(walk(daybook.EffectFilter{Limit: 100})), n)
}
