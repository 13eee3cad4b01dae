package storetest

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/daybookdev/daybook"
)

var contractOfJobs = []test{
	{"Enqueue keeps the order of the call", enqueueOrder},
	{"Enqueue answers a key twice in one call", enqueueTwice},
	{"Enqueue stores nothing of a call that it refuses", enqueueRefused},
	{"Claim answers an empty list when nothing is eligible", claimNothing},
	{"Claim takes by kind and limit", claimKinds},
	{"Claim tries every queue", claimQueues},
	{"Claim gives one suspect a session", claimSuspects},
	{"Claim gives one suspect a session by age too", claimOldSuspects},
	{"Claim is the pure move", claimIsPure},
	{"Lock answers parallel to the ids and zero for unknown ones", lockParallel},
	{"Lock loads a job in every state", lockStates},
}

func prepared(w *world, requests ...daybook.Request) []daybook.NewJob {
	w.Helper()
	jobs := make([]daybook.NewJob, len(requests))
	for i, r := range requests {
		n, err := request(r).Prepare()
		w.ok(err)
		jobs[i] = n
	}
	return jobs
}

func enqueueOrder(w *world) {
	// More than any batch size a store is likely to have.
	ids := w.many(150)
	got := w.claim(w.session("w"), 200)
	same(w, "claimed", len(got), len(ids))
	for i, j := range got {
		same(w, "the order of arrival", j.ID, ids[i])
		same(w, "enqueued", j.EnqueuedAt, w.clock.time())
	}
	same(w, "accepted", w.counts().Accepted, 150)
}

func enqueueTwice(w *world) {
	id := daybook.NewID()
	jobs := prepared(w, daybook.Request{Key: "a"}, daybook.Request{Key: "b"}, daybook.Request{Key: "a"},
		daybook.Request{ID: id}, daybook.Request{ID: id})
	w.write(func(tx daybook.Tx) error {
		got, err := tx.Enqueue(w.ctx, jobs)
		if err != nil {
			return err
		}
		same(w, "the third is a replay of the first", got[2], daybook.Receipt{ID: got[0].ID, Replayed: true})
		same(w, "the second is new", got[1].Replayed, false)
		same(w, "the chosen id", got[3], daybook.Receipt{ID: id})
		same(w, "the chosen id again", got[4], daybook.Receipt{ID: id, Replayed: true})
		return nil
	})
	same(w, "accepted", w.counts().Accepted, 3)
}

// enqueueRefused swallows the refusal, as a caller with a transaction of its
// own may: nothing of the refused call may be in what it commits.
func enqueueRefused(w *world) {
	w.enqueue(daybook.Request{Key: "taken"})
	jobs := prepared(w, daybook.Request{Key: "fresh"}, daybook.Request{},
		daybook.Request{Key: "taken", Args: json.RawMessage(`{"other":1}`)})
	w.write(func(tx daybook.Tx) error {
		_, err := tx.Enqueue(w.ctx, jobs)
		w.refused(err, daybook.CodeKeyConflict)
		same(w, "the refused request", daybook.BatchIndex(err), 2)
		return nil
	})
	same(w, "accepted", w.counts().Accepted, 1)
	_, err := w.book.Key(w.ctx, "fresh")
	w.refused(err, daybook.CodeNotFound)
	receipt, err := w.book.Enqueue(w.ctx, request(daybook.Request{Key: "fresh"}))
	w.ok(err)
	same(w, "the key is free still", receipt.Replayed, false)
}

func claimNothing(w *world) {
	s := w.session("w")
	w.enqueue(daybook.Request{In: time.Hour})
	for _, queue := range []string{"q", "never-heard-of"} {
		w.write(func(tx daybook.Tx) error {
			jobs, err := tx.Claim(w.ctx, daybook.Claiming{Session: s, Queues: []string{queue}, Limit: 10})
			same(w, "jobs", len(jobs), 0)
			return err
		})
	}
}

func claimKinds(w *world) {
	s := w.session("w")
	for _, kind := range []string{"a", "b", "a", "c", "a", "b"} {
		w.enqueue(daybook.Request{Kind: kind})
	}
	take := func(limit int, kinds ...string) (got []string) {
		c, err := w.book.Claim(w.ctx, daybook.ClaimRequest{Session: s.ID, Queues: []string{"q"}, Kinds: kinds,
			Limit: limit})
		w.ok(err)
		same(w, "full", c.Full, len(c.Jobs) == limit)
		for _, j := range c.Jobs {
			got = append(got, j.Kind)
		}
		return got
	}
	for _, c := range []struct {
		limit int
		kinds []string
		want  []string
	}{
		{2, []string{"a"}, []string{"a", "a"}},
		{9, []string{"z"}, nil},
		{9, []string{"c", "b"}, []string{"b", "c", "b"}},
		{9, nil, []string{"a"}},
	} {
		if got := take(c.limit, c.kinds...); !slices.Equal(got, c.want) {
			w.Errorf("limit %d of kinds %v: got %v, want %v", c.limit, c.kinds, got, c.want)
		}
	}
}

// claimQueues wants every queue's work taken while the limit allows, and the
// first queue's when it allows one.
func claimQueues(w *world) {
	s := w.session("w")
	for _, queue := range []string{"q1", "q2", "q2", "q2", "q2", "q3"} {
		w.enqueue(daybook.Request{Queue: queue})
	}
	c, err := w.book.Claim(w.ctx, daybook.ClaimRequest{Session: s.ID, Queues: []string{"q3", "q2", "q1"},
		Limit: 1})
	w.ok(err)
	same(w, "jobs of the first claim", len(c.Jobs), 1)
	same(w, "its queue", c.Jobs[0].Queue, "q3")
	c, err = w.book.Claim(w.ctx, daybook.ClaimRequest{Session: s.ID, Queues: []string{"q3", "q2", "q1"},
		Limit: 10})
	w.ok(err)
	same(w, "jobs of the second claim", len(c.Jobs), 5)
}

// suspects makes n jobs that crashed twice.
func suspects(w *world, n int) []daybook.ID {
	w.Helper()
	ids := make([]daybook.ID, n)
	for i := range ids {
		ids[i] = w.enqueue(daybook.Request{Priority: i})
	}
	for range 2 {
		same(w, "claimed to be lost", len(w.claim(w.session("dies"), n)), n)
		same(w, "revoked", w.lapse().revoked, n)
	}
	for _, id := range ids {
		same(w, "suspect", w.locked(id).Suspect(), true)
	}
	return ids
}

func claimSuspects(w *world) {
	suspects(w, 3)
	w.many(3)
	first, second := w.session("w1"), w.session("w2")
	count := func(jobs []daybook.Job) (n int) {
		for _, j := range jobs {
			if j.Suspect() {
				n++
			}
		}
		return n
	}
	got := w.claim(first, 10)
	same(w, "jobs of the first claim", len(got), 4)
	same(w, "suspects among them", count(got), 1)
	same(w, "jobs of a second claim", len(w.claim(first, 10)), 0)
	got = w.claim(second, 10)
	same(w, "jobs of another session", len(got), 1)
	same(w, "suspects among them", count(got), 1)
}

// claimOldSuspects has suspects in several priorities and asks for the oldest.
func claimOldSuspects(w *world) {
	suspects(w, 3)
	w.many(2)
	for _, want := range []int{3, 1, 1, 0} {
		r := daybook.ClaimRequest{Session: w.session("w").ID, Queues: []string{"q"}, Limit: 10, Oldest: true}
		got, err := w.book.Claim(w.ctx, r)
		w.ok(err)
		same(w, "jobs", len(got.Jobs), want)
	}
}

// claimIsPure compares what the set-based claim stored with the pure move, row
// by row.
func claimIsPure(w *world) {
	for i := range 30 {
		w.enqueue(daybook.Request{Priority: i % 3, MaxFailures: 1 + i, Args: json.RawMessage(`{"i":1}`)})
	}
	w.ok(w.book.Pause(w.ctx, "elsewhere", someone))
	_, err := w.book.Restored(w.ctx, w.clock.time(), someone)
	w.ok(err)
	w.clock.advance(time.Second)
	s := w.session("w")
	var before map[daybook.ID]daybook.Job
	w.write(func(tx daybook.Tx) error {
		page, err := tx.Jobs(w.ctx, daybook.Filter{State: daybook.Waiting, Limit: 100})
		if err != nil {
			return err
		}
		before = map[daybook.ID]daybook.Job{}
		ids := make([]daybook.ID, len(page.Items))
		for i, j := range page.Items {
			ids[i] = j.ID
		}
		jobs, err := tx.Lock(w.ctx, ids)
		for _, j := range jobs {
			before[j.ID] = j
		}
		return err
	})
	same(w, "waiting", len(before), 30)
	for _, j := range w.claim(s, 50) {
		want, err := before[j.ID].Claim(daybook.Grant{Session: s, Incarnation: 1}, w.clock.time())
		w.ok(err)
		compareJobs(w, "as answered", j, want.Now)
		compareJobs(w, "as stored", w.locked(j.ID), want.Now)
		same(w, "args", string(j.Args), `{"i":1}`)
	}
}

func lockParallel(w *world) {
	ids := w.many(3)
	w.write(func(tx daybook.Tx) error {
		asked := []daybook.ID{ids[2], daybook.NewID(), ids[0], ids[2]}
		jobs, err := tx.Lock(w.ctx, asked)
		if err != nil {
			return err
		}
		same(w, "answers", len(jobs), len(asked))
		for i, want := range []daybook.ID{ids[2], {}, ids[0], ids[2]} {
			same(w, "the job's id", jobs[i].ID, want)
			same(w, "args", len(jobs[i].Args), 0)
		}
		none, err := tx.Lock(w.ctx, nil)
		same(w, "answers to no ids", len(none), 0)
		return err
	})
}

// lockStates brings a job into each state and loads it both ways.
func lockStates(w *world) {
	want := map[daybook.State]daybook.ID{}
	want[daybook.Expired] = w.enqueue(daybook.Request{ExpiresAt: w.clock.now().Add(time.Second)})
	w.clock.advance(time.Second)
	w.reconcile(daybook.Sure)
	done := w.running(daybook.Request{})
	w.complete(done)
	want[daybook.Succeeded] = done.ID
	aside := w.running(daybook.Request{})
	_, err := w.book.Fail(w.ctx, aside.ID, owner(aside), daybook.Failure{Permanent: true}, nil)
	w.ok(err)
	want[daybook.SetAside] = aside.ID
	want[daybook.Running] = w.running(daybook.Request{}).ID
	want[daybook.Cancelled] = w.enqueue(daybook.Request{})
	_, err = w.book.Cancel(w.ctx, want[daybook.Cancelled], someone, false)
	w.ok(err)
	want[daybook.Waiting] = w.enqueue(daybook.Request{})
	for state, id := range want {
		same(w, "the state in the list", w.job(id).State, state)
		same(w, "the locked state", w.locked(id).State, state)
	}
}
