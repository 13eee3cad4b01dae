package storetest

import (
	"time"

	"github.com/daybookdev/daybook"
)

var contractOfUpkeep = []test{
	{"Prune removes the job with its rows and keeps the key", pruneKeeps},
	{"Prune removes nothing else", pruneOnly},
	{"Prune refuses what isn't final or not as it was read", pruneRefuses},
	{"Sweep folds without changing a sum", sweepFolds},
	{"Sweep drops keys only when their job is gone", sweepKeys},
	{"Sweep keeps sessions that own something", sweepSessions},
	{"Sweep takes at most limit of each", sweepLimit},
	{"Find answers what wants a move, and nothing else", findKinds},
	{"Find passes by what an open effect keeps", findOpenEffect},
	{"Find walks on past refusals", findAfter},
	{"Find counts what matches a filter", findMatching},
}

// prune removes what is past retention and wants n jobs gone.
func (w *world) prune(n int) {
	w.Helper()
	got, err := w.book.Prune(w.ctx, daybook.PruneOptions{})
	w.ok(err)
	same(w, "pruned", got, n)
}

func pruneKeeps(w *world) {
	done := w.running(daybook.Request{Key: "done"})
	w.complete(done)
	gone := w.enqueue(daybook.Request{Key: "gone"})
	_, err := w.book.Cancel(w.ctx, gone, someone, false)
	w.ok(err)
	_, err = w.book.Complete(w.ctx, done.ID, daybook.Owner{Session: daybook.NewID(), Generation: 1}, nil)
	w.refused(err, daybook.CodeFenced)
	ended := w.clock.time()
	counts := w.counts().Counts
	w.clock.advance(daybook.RetentionDefault)
	w.prune(2)
	for _, c := range []struct {
		key    string
		id     daybook.ID
		state  daybook.State
		result string
	}{{"done", done.ID, daybook.Succeeded, `"done"`}, {"gone", gone, daybook.Cancelled, ""}} {
		_, err := w.book.Job(w.ctx, c.id)
		w.refused(err, daybook.CodeNotFound)
		k, err := w.book.Key(w.ctx, c.key)
		w.ok(err)
		same(w, "job", k.Job, c.id)
		same(w, "state", k.State, c.state)
		same(w, "result", string(k.Result), c.result)
		same(w, "ended", k.EndedAt, ended)
		receipt, err := w.book.Enqueue(w.ctx, request(daybook.Request{Key: c.key}))
		w.ok(err)
		same(w, "replay", receipt, daybook.Receipt{ID: c.id, Replayed: true})
	}
	same(w, "counts", w.counts().Counts, counts)
	_, err = w.book.Complete(w.ctx, done.ID, owner(done), nil)
	w.refused(err, daybook.CodeNotFound)
}

func pruneOnly(w *world) {
	old := w.running(daybook.Request{})
	w.complete(old)
	w.clock.advance(daybook.RetentionDefault)
	ids := w.many(3)
	jobs := w.claim(w.session("w"), 2)
	w.complete(jobs[0])
	w.prune(1)
	w.stands(ids[0], daybook.Succeeded)
	w.stands(ids[1], daybook.Running)
	w.stands(ids[2], daybook.Waiting)
	same(w, "attempts of a kept job", len(w.attempts(ids[0])), 1)
	w.complete(jobs[1])
}

// pruneRefuses has somebody remove jobs whose rows say other than what was read.
func pruneRefuses(w *world) {
	running := w.running(daybook.Request{})
	waiting, cancelled := w.enqueue(daybook.Request{}), w.enqueue(daybook.Request{})
	_, err := w.book.Cancel(w.ctx, cancelled, someone, false)
	w.ok(err)
	for id, as := range map[daybook.ID][]daybook.State{
		running.ID: {daybook.Running, daybook.Succeeded, daybook.Cancelled},
		waiting:    {daybook.Waiting, daybook.Succeeded, daybook.Cancelled},
		cancelled:  {daybook.SetAside, daybook.Succeeded, daybook.Expired},
	} {
		for _, state := range as {
			j := w.locked(id)
			was := j.State
			j.State = state
			err := w.try(func(tx daybook.Tx) error { return tx.Prune(w.ctx, []daybook.Job{j}) })
			if code := daybook.CodeOf(err); code != daybook.CodeFenced && code != daybook.CodeRefused {
				w.Errorf("a %s job as if it were %s: got %v, want it refused", was, state, err)
			}
			w.stands(id, was)
		}
	}
	w.complete(running)
}

func sweepFolds(w *world) {
	s := w.session("w")
	for range 10 {
		w.enqueue(daybook.Request{})
		w.enqueue(daybook.Request{Queue: "r"})
		w.complete(w.claimed(s))
	}
	_, before, err := w.book.Backlog(w.ctx)
	w.ok(err)
	w.clock.advance(2 * daybook.FoldAge)
	w.enqueue(daybook.Request{})
	total := 0
	for _, want := range []bool{true, false} {
		n, err := w.book.Sweep(w.ctx)
		w.ok(err)
		same(w, "took something", n > 0, want)
		total += n
	}
	if total < 20 {
		w.Errorf("folded %d rows, want one a transaction: at least 20", total)
	}
	_, after, err := w.book.Backlog(w.ctx)
	w.ok(err)
	same(w, "queues", len(after), len(before))
	for i := range before {
		want := before[i].Counts
		if before[i].Queue == "q" {
			want.Accepted, want.Waiting = want.Accepted+1, want.Waiting+1
		}
		same(w, "counts of "+before[i].Queue, after[i].Counts, want)
	}
}

func sweepKeys(w *world) {
	done := w.running(daybook.Request{Key: "done"})
	w.complete(done)
	w.enqueue(daybook.Request{Key: "waiting"})
	w.clock.advance(10 * daybook.KeyRetention)
	sweep := func() {
		_, err := w.book.Sweep(w.ctx)
		w.ok(err)
	}
	known := func(key string, want bool) {
		w.Helper()
		_, err := w.book.Key(w.ctx, key)
		same(w, key+" is known", err == nil, want)
	}
	sweep()
	known("done", true) // its job is there
	known("waiting", true)
	w.prune(1)
	sweep()
	known("done", false) // it ended long ago, and its job went
	known("waiting", true)
	receipt, err := w.book.Enqueue(w.ctx, request(daybook.Request{Key: "done"}))
	w.ok(err)
	same(w, "replayed", receipt.Replayed, false)
}

func sweepSessions(w *world) {
	idle := w.session("idle")
	w.ok(w.book.EndSession(w.ctx, idle.ID))
	j := w.running(daybook.Request{})
	w.clock.advance(daybook.LeaseDefault + time.Second)
	_, _, err := w.book.EndExpiredSessions(w.ctx, daybook.AtOnce)
	w.ok(err)
	w.clock.advance(daybook.RetentionMin + time.Second)
	_, err = w.book.Sweep(w.ctx)
	w.ok(err)
	sessions, err := w.book.Sessions(w.ctx, daybook.SessionFilter{WithEnded: true})
	w.ok(err)
	same(w, "sessions", len(sessions), 1)
	same(w, "the one that owns a job", sessions[0].ID, j.Session)
	same(w, "revoked", w.reconcile(daybook.Sure).revoked, 1)
	// The history keeps the owner when the session is gone.
	w.clock.advance(daybook.RetentionMin + time.Second)
	_, err = w.book.Sweep(w.ctx)
	w.ok(err)
	same(w, "worker of the lost attempt", w.attempts(j.ID)[0].Worker, "w")
}

func sweepLimit(w *world) {
	for range 7 {
		w.enqueue(daybook.Request{})
	}
	w.clock.advance(2 * daybook.FoldAge)
	cut := daybook.Cutoffs{Counting: w.clock.time()}
	for _, want := range []int{3, 3, 1, 0} {
		w.write(func(tx daybook.Tx) error {
			n, err := tx.Sweep(w.ctx, cut, 3)
			same(w, "swept", n, want)
			return err
		})
	}
	same(w, "accepted", w.counts().Accepted, 7)
}

// find runs one search.
func (w *world) find(q daybook.Finding) (ids []daybook.ID) {
	w.Helper()
	if q.Limit == 0 {
		q.Limit = 100
	}
	w.read(func(v daybook.View) (err error) {
		ids, err = v.Find(w.ctx, q)
		return err
	})
	return ids
}

// onlyID wants one id to be found, or none for a zero one.
func (w *world) onlyID(what daybook.What, cutoff daybook.Time, want daybook.ID) {
	w.Helper()
	got := w.find(daybook.Finding{What: what, Cutoff: cutoff})
	switch {
	case want.IsZero() && len(got) != 0:
		w.Errorf("%s: got %v, want none", what, got)
	case !want.IsZero() && (len(got) != 1 || got[0] != want):
		w.Errorf("%s: got %v, want %v alone", what, got, want)
	}
}

func findKinds(w *world) {
	none := daybook.ID{}
	late := w.enqueue(daybook.Request{ExpiresAt: w.clock.now().Add(time.Minute), In: 59 * time.Second})
	long, err := w.book.StartSession(w.ctx, daybook.SessionRequest{Worker: "long", Lease: time.Hour})
	w.ok(err)
	slow := w.enqueue(daybook.Request{Timeout: 10 * time.Minute})
	w.claimed(long)
	j := w.running(daybook.Request{})
	all := []daybook.What{daybook.FindOfEndedSessions, daybook.FindPastRunLimit, daybook.FindPastExpiry,
		daybook.FindPastRetention}
	for _, what := range all {
		w.onlyID(what, w.clock.time(), none)
	}
	w.clock.advance(time.Minute)
	now := w.clock.time()
	w.onlyID(daybook.FindPastExpiry, now-1, none)
	w.onlyID(daybook.FindPastExpiry, now, late)
	w.onlyID(daybook.FindOfEndedSessions, now, none)
	_, _, err = w.book.EndExpiredSessions(w.ctx, daybook.AtOnce)
	w.ok(err)
	w.onlyID(daybook.FindOfEndedSessions, now, j.ID)
	w.onlyID(daybook.FindPastRunLimit, now, none)
	w.clock.advance(9 * time.Minute)
	w.onlyID(daybook.FindPastRunLimit, w.clock.time()-1, none)
	w.onlyID(daybook.FindPastRunLimit, w.clock.time(), slow)
	w.complete(w.locked(slow))
	w.onlyID(daybook.FindPastRetention, w.clock.time()-1, none)
	w.onlyID(daybook.FindPastRetention, w.clock.time(), slow)
	w.reconcile(daybook.Sure)
	w.onlyID(daybook.FindOfEndedSessions, w.clock.time(), none)
	w.onlyID(daybook.FindPastExpiry, w.clock.time(), none)
}

// findOpenEffect has a job past retention that an open effect keeps: it must not
// stand in the way of those behind it.
func findOpenEffect(w *world) {
	j := w.running(daybook.Request{OnLost: daybook.LostSetAside})
	_, err := w.book.Started(w.ctx, j.Session, []daybook.ClaimRef{ref(j)})
	w.ok(err)
	w.lapse()
	w.stands(j.ID, daybook.SetAside)
	_, err = w.book.Cancel(w.ctx, j.ID, someone, false)
	w.ok(err)
	later := w.enqueue(daybook.Request{})
	_, err = w.book.Cancel(w.ctx, later, someone, false)
	w.ok(err)
	same(w, "open effect", w.locked(j.ID).OpenEffect != "", true)
	w.onlyID(daybook.FindPastRetention, w.clock.time(), later)
	w.clock.advance(daybook.RetentionDefault)
	w.prune(1)
	w.stands(j.ID, daybook.Cancelled)
}

// findAfter walks in small pages without moving anything.
func findAfter(w *world) {
	ids := w.many(10)
	w.claim(w.session("w"), 10)
	w.clock.advance(daybook.LeaseDefault + time.Second)
	_, _, err := w.book.EndExpiredSessions(w.ctx, daybook.AtOnce)
	w.ok(err)
	for _, q := range []daybook.Finding{{What: daybook.FindOfEndedSessions},
		{What: daybook.FindMatching, Filter: daybook.Filter{State: daybook.Running}}} {
		seen := map[daybook.ID]bool{}
		q.Limit = 3
		for page := w.find(q); len(page) > 0; page = w.find(q) {
			for _, id := range page {
				same(w, string(q.What)+": found twice", seen[id], false)
				seen[id] = true
				q.After = max(q.After, w.locked(id).Ref)
			}
		}
		same(w, string(q.What), len(seen), len(ids))
	}
	w.reconcile(daybook.Sure)
}

func findMatching(w *world) {
	for i := range 25 {
		w.enqueue(daybook.Request{Queue: []string{"q", "r"}[i%2], Kind: []string{"a", "b", "c"}[i%3]})
	}
	for _, c := range []struct {
		f    daybook.Filter
		want int64
	}{
		{daybook.Filter{}, 25},
		{daybook.Filter{Queue: "q"}, 13},
		{daybook.Filter{Queue: "r", Kind: "b"}, 4},
		{daybook.Filter{Kind: "never"}, 0},
		{daybook.Filter{Queue: "never"}, 0},
		{daybook.Filter{State: daybook.Running}, 0},
		{daybook.Filter{State: daybook.Waiting, Kind: "a"}, 9},
	} {
		got, err := w.book.Count(w.ctx, c.f)
		w.ok(err)
		if got != c.want {
			w.Errorf("%+v: got %d, want %d", c.f, got, c.want)
		}
	}
	answer, err := w.book.Decide(w.ctx, daybook.Bulk{Move: daybook.MoveCancel,
		Filter: daybook.Filter{Kind: "a"}, By: someone})
	w.ok(err)
	same(w, "cancelled", answer.Done, 9)
}
