package storetest

import (
	"time"

	"github.com/daybookdev/daybook"
)

var contractOfSave = []test{
	{"Save refuses a row in another state", saveState},
	{"Save refuses a row of another generation", saveGeneration},
	{"Save refuses a row of another session", saveSession},
	{"Save refuses a claim of a row that was claimed since", saveClaimAgain},
	{"Save refuses the whole call", saveWhole},
	{"SaveOwned refuses who isn't the owner", saveOwned},
	{"SaveOwned writes start and progress", saveOwnedWrites},
}

// moves are the moves of a running job, as somebody computed them from what
// was read earlier.
var runningMoves = []struct {
	name string
	move func(j daybook.Job, now daybook.Time) (daybook.Change, error)
}{
	{"complete", func(j daybook.Job, now daybook.Time) (daybook.Change, error) {
		return j.Complete(owner(j), nil, now)
	}},
	{"fail", func(j daybook.Job, now daybook.Time) (daybook.Change, error) {
		return j.Fail(owner(j), daybook.Failure{}, now)
	}},
	{"release", func(j daybook.Job, now daybook.Time) (daybook.Change, error) {
		return j.Release(owner(j), 0, now)
	}},
	{"ask", func(j daybook.Job, now daybook.Time) (daybook.Change, error) {
		return j.Ask(owner(j), "charge", now)
	}},
	{"lose", func(j daybook.Job, now daybook.Time) (daybook.Change, error) {
		return j.Lose(daybook.Loss{Cause: daybook.LossSession, Owner: owner(j)}, now)
	}},
	{"cancel", func(j daybook.Job, now daybook.Time) (daybook.Change, error) {
		return j.Cancel(someone, false, now)
	}},
	{"force", func(j daybook.Job, now daybook.Time) (daybook.Change, error) {
		return j.Cancel(someone, true, now)
	}},
}

// stale saves a change that was made from an old row and wants it refused,
// with nothing of it in the book.
func (w *world) stale(what string, changes ...daybook.Change) {
	w.Helper()
	before := make([]daybook.Job, len(changes))
	for i, c := range changes {
		before[i] = w.locked(c.Was.ID)
	}
	counts := w.counts().Counts
	err := w.try(func(tx daybook.Tx) error { return tx.Save(w.ctx, changes) })
	if daybook.CodeOf(err) != daybook.CodeFenced {
		w.Errorf("%s: got %v, want fenced", what, err)
	}
	for i, c := range changes {
		compareJobs(w, what, w.locked(c.Was.ID), before[i])
	}
	same(w, what+": counts", w.counts().Counts, counts)
}

func saveState(w *world) {
	// A cancel of a waiting job that is running by now.
	id := w.enqueue(daybook.Request{})
	waiting := w.locked(id)
	j := w.claimed(w.session("w"))
	cancel, err := waiting.Cancel(someone, false, w.clock.time())
	w.ok(err)
	w.stale("cancel of a running job as if it waited", cancel)
	// Every move of a running job that has ended by now.
	running := w.locked(id)
	w.complete(j)
	for _, m := range runningMoves {
		c, err := m.move(running, w.clock.time())
		w.ok(err)
		w.stale(m.name+" of a succeeded job", c)
	}
	same(w, "attempts", len(w.attempts(id)), 1)
	w.stands(id, daybook.Succeeded)
	// A revival of a job that was set aside and is cancelled by now: only its
	// state differs.
	id = w.enqueue(daybook.Request{})
	j = w.claimed(w.session("w"))
	_, err = w.book.Fail(w.ctx, id, owner(j), daybook.Failure{Permanent: true}, nil)
	w.ok(err)
	revive, err := w.locked(id).Revive(someone, w.clock.time())
	w.ok(err)
	_, err = w.book.Cancel(w.ctx, id, someone, false)
	w.ok(err)
	w.stale("revive of a cancelled job as if it were set aside", revive)
	w.stands(id, daybook.Cancelled)
}

func saveGeneration(w *world) {
	id := w.enqueue(daybook.Request{})
	s := w.session("w")
	w.claimed(s)
	old := w.locked(id)
	// The same session gets the same job again: only the generation differs.
	_, err := w.book.Release(w.ctx, id, owner(old), 0)
	w.ok(err)
	again := w.claimed(s)
	for _, m := range runningMoves {
		c, err := m.move(old, w.clock.time())
		w.ok(err)
		w.stale(m.name+" by an old generation", c)
	}
	w.complete(again)
	// A revival of a job that was set aside, ran and was set aside again.
	id = w.enqueue(daybook.Request{})
	var revive []daybook.Change
	for range 2 {
		_, err := w.book.Fail(w.ctx, id, owner(w.claimed(s)), daybook.Failure{Permanent: true}, nil)
		w.ok(err)
		c, err := w.locked(id).Revive(someone, w.clock.time())
		w.ok(err)
		if revive = append(revive, c); len(revive) == 1 {
			_, err = w.book.Revive(w.ctx, id, someone)
			w.ok(err)
		}
	}
	w.stale("revive of an old generation", revive[0])
	w.stands(id, daybook.SetAside)
}

func saveSession(w *world) {
	id := w.enqueue(daybook.Request{})
	j := w.claimed(w.session("w"))
	other := w.locked(id)
	other.Session = w.session("other").ID
	for _, m := range runningMoves {
		c, err := m.move(other, w.clock.time())
		w.ok(err)
		w.stale(m.name+" by another session", c)
	}
	w.complete(j)
}

// saveClaimAgain claims from a row that looks as it did, but was owned and
// given back since.
func saveClaimAgain(w *world) {
	id := w.enqueue(daybook.Request{})
	old := w.locked(id)
	s := w.session("w")
	j := w.claimed(s)
	_, err := w.book.Release(w.ctx, id, owner(j), 0)
	w.ok(err)
	c, err := old.Claim(daybook.Grant{Session: s}, w.clock.time())
	w.ok(err)
	w.stale("claim of a job at a later generation", c)
	j = w.claimed(s)
	same(w, "generation", j.Generation, 2)
	w.stale("claim of a running job", c)
	w.complete(j)
}

func saveWhole(w *world) {
	s := w.session("w")
	w.many(2)
	jobs := w.claim(s, 2)
	fresh, old := w.locked(jobs[0].ID), w.locked(jobs[1].ID)
	w.complete(jobs[1])
	for _, m := range runningMoves {
		good, err := m.move(fresh, w.clock.time())
		w.ok(err)
		bad, err := m.move(old, w.clock.time())
		w.ok(err)
		w.stale(m.name+" of two, one of them stale", good, bad)
	}
	w.complete(jobs[0])
}

func saveOwned(w *world) {
	id := w.enqueue(daybook.Request{})
	s := w.session("w")
	w.claimed(s)
	refuse := func(what string, j daybook.Job) {
		w.Helper()
		j.StartedAt, j.Progress = w.clock.time(), []byte(`"stolen"`)
		err := w.try(func(tx daybook.Tx) error {
			return tx.SaveOwned(w.ctx, []daybook.Job{j})
		})
		if daybook.CodeOf(err) != daybook.CodeFenced {
			w.Errorf("%s: got %v, want fenced", what, err)
		}
		got := w.job(id)
		same(w, what+": progress", string(got.Progress), "")
		same(w, what+": start", w.locked(id).StartedAt, 0)
	}
	first := w.locked(id)
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

// withOwner is the job as it stands, with an owner that it had.
func (w *world) withOwner(id daybook.ID, had daybook.Job) daybook.Job {
	j := w.locked(id)
	j.State, j.Session, j.Generation = daybook.Running, had.Session, had.Generation
	return j
}

func saveOwnedWrites(w *world) {
	j := w.running(daybook.Request{})
	w.clock.advance(time.Second)
	at := w.clock.time()
	lost, err := w.book.Started(w.ctx, j.Session, []daybook.ClaimRef{ref(j)})
	w.ok(err)
	same(w, "lost", len(lost), 0)
	w.ok(w.book.Progress(w.ctx, j.ID, owner(j), []byte(`{"done": 1.0}`)))
	w.clock.advance(time.Second)
	_, err = w.book.Started(w.ctx, j.Session, []daybook.ClaimRef{ref(j)})
	w.ok(err)
	same(w, "start", w.locked(j.ID).StartedAt, at)
	same(w, "progress", string(w.job(j.ID).Progress), `{"done": 1.0}`)
	w.complete(j)
	same(w, "start in history", w.attempts(j.ID)[0].StartedAt, at)
}
