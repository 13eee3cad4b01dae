package storetest

import (
	"encoding/json"
	"time"

	"github.com/daybookdev/daybook"
)

var contractOfViews = []test{
	{"Job loads all that people see", jobWhole},
	{"History is ordered by time", historyOrder},
	{"AttemptOf accounts for every generation", attemptOf},
	{"Claims loads what a session owns", claimsOf},
	{"Releases fold and the newest stays", releasesFold},
}

func jobWhole(w *world) {
	r := daybook.Request{Queue: "q", Kind: "mail", Args: json.RawMessage(`{"to": "ada" }`), Key: "k1",
		Priority: -7, MaxFailures: 3, OnLost: daybook.LostSetAside, Timeout: 90 * time.Second,
		ExpiresAt: w.clock.now().Add(time.Hour)}
	id := w.enqueue(r)
	j := w.job(id)
	same(w, "args", string(j.Args), `{"to": "ada" }`)
	same(w, "key", j.Key, "k1")
	same(w, "priority", j.Priority, -7)
	same(w, "max_failures", j.MaxFailures, 3)
	same(w, "on_lost", j.OnLost, daybook.LostSetAside)
	same(w, "timeout", j.Timeout, 90*time.Second)
	same(w, "expires_at", j.ExpiresAt, daybook.At(r.ExpiresAt))
	same(w, "enqueued_at", j.EnqueuedAt, w.clock.time())
	same(w, "run_at", j.RunAt, w.clock.time())
	enqueued := j.EnqueuedAt

	w.clock.advance(time.Second)
	s := w.session("w")
	w.claimed(s)
	j = w.job(id)
	same(w, "session", j.Session, s.ID)
	same(w, "worker", j.Worker, "w")
	same(w, "lease_until", j.LeaseUntil, s.ExpiresAt)
	same(w, "claimed_at", j.ClaimedAt, w.clock.time())
	same(w, "run_at", j.RunAt, enqueued)

	problem := daybook.NewProblem("boom", "panic", "main.go:1")
	delay := time.Minute
	_, err := w.book.Fail(w.ctx, id, owner(j), daybook.Failure{Problem: problem}, &delay)
	w.ok(err)
	j = w.job(id)
	same(w, "error", *j.LastError, *problem)
	same(w, "failures", j.Failures, 1)
	same(w, "session", j.Session, daybook.ID{})
	same(w, "run_at", j.RunAt, w.clock.time().Add(delay))

	w.clock.advance(delay)
	_, err = w.book.Renew(w.ctx, s.ID, nil)
	w.ok(err)
	w.complete(w.claimed(s))
	j = w.job(id)
	same(w, "result", string(j.Result), `"done"`)
	same(w, "ended_at", j.EndedAt, w.clock.time())
	same(w, "claimed_at", j.ClaimedAt, w.clock.time())
	same(w, "error stays", j.LastError.Text, "boom")
}

func historyOrder(w *world) {
	id := w.enqueue(daybook.Request{})
	var old []daybook.Job
	for i := range 4 {
		w.clock.advance(time.Second)
		j := w.claimed(w.session("w"))
		old = append(old, j)
		w.clock.advance(time.Second)
		if i%2 == 0 {
			_, err := w.book.Fail(w.ctx, id, owner(j), daybook.Failure{}, new(time.Duration))
			w.ok(err)
		} else {
			w.lapse()
		}
		_, err := w.book.Cancel(w.ctx, id, someone, false)
		w.ok(err)
		_, err = w.book.Revive(w.ctx, id, someone)
		w.ok(err)
	}
	for _, j := range old {
		w.clock.advance(time.Second)
		_, err := w.book.Complete(w.ctx, id, owner(j), nil)
		w.refused(err, daybook.CodeFenced)
	}
	w.read(func(v daybook.View) error {
		h, err := v.History(w.ctx, w.jobIn(v, id))
		same(w, "attempts", len(h.Attempts), 4)
		same(w, "events", len(h.Events), 8)
		same(w, "refusals", len(h.Refusals), 4)
		for i := 1; i < len(h.Attempts); i++ {
			same(w, "attempts in order", h.Attempts[i].EndedAt > h.Attempts[i-1].EndedAt, true)
		}
		for i := 1; i < len(h.Events); i++ {
			same(w, "events in order", h.Events[i].At >= h.Events[i-1].At, true)
		}
		for i := 1; i < len(h.Refusals); i++ {
			same(w, "refusals in order", h.Refusals[i].At > h.Refusals[i-1].At, true)
		}
		same(w, "events of one instant in order", h.Events[0].What+" "+h.Events[1].What, "cancelled revived")
		return err
	})
}

func (w *world) jobIn(v daybook.View, id daybook.ID) daybook.Job {
	w.Helper()
	j, found, err := v.Job(w.ctx, id)
	w.ok(err)
	same(w, "job is there", found, true)
	return j
}

func attemptOf(w *world) {
	id := w.enqueue(daybook.Request{})
	s := w.session("w")
	for range 5 { // generations 1 to 5, of which 1 to 4 fold
		_, err := w.book.Release(w.ctx, id, owner(w.claimed(s)), 0)
		w.ok(err)
	}
	w.claimed(w.session("dies"))
	w.clock.advance(daybook.LeaseDefault + time.Second)
	same(w, "revoked", w.reconcile(daybook.AtOnce).revoked, 1) // 6, and 7 by the revocation
	w.complete(w.claimed(w.session("w")))
	w.read(func(v daybook.View) error {
		j := w.jobIn(v, id)
		for generation, want := range map[int64]int64{1: 4, 4: 4, 5: 5, 6: 6, 8: 8} {
			a, found, err := v.AttemptOf(w.ctx, j, generation)
			if err != nil {
				return err
			}
			same(w, "found", found, true)
			same(w, "the attempt's generation", a.Generation, want)
			same(w, "accounts for it", a.Through >= generation, true)
		}
		a, found, err := v.AttemptOf(w.ctx, j, 7)
		if found { // a store may answer the attempt whose end raised it to 7, never the next
			same(w, "the attempt of a revocation's generation", a.Generation, 6)
		}
		if err != nil {
			return err
		}
		for _, generation := range []int64{0, 9} {
			_, found, err := v.AttemptOf(w.ctx, j, generation)
			if err != nil {
				return err
			}
			same(w, "found", found, false)
		}
		return nil
	})
}

func claimsOf(w *world) {
	w.many(4)
	s := w.session("w")
	jobs := w.claim(s, 3)
	w.complete(jobs[1])
	w.claimed(w.session("other"))
	w.read(func(v daybook.View) error {
		got, owned, found, err := v.Claims(w.ctx, daybook.ClaimsOf{Session: s.ID})
		if err != nil {
			return err
		}
		same(w, "found", found, true)
		compareSessions(w, "session", got, s)
		same(w, "claims", len(owned), 2)
		for _, j := range owned {
			same(w, "args", len(j.Args), 0)
			want := jobs[0]
			if j.ID == jobs[2].ID {
				want = jobs[2]
			}
			compareJobs(w, "claim", j, want)
		}
		return nil
	})
}

func releasesFold(w *world) {
	id := w.enqueue(daybook.Request{})
	s := w.session("w")
	for range 10 {
		_, err := w.book.Release(w.ctx, id, owner(w.claimed(s)), 0)
		w.ok(err)
	}
	attempts := w.attempts(id)
	same(w, "rows", len(attempts), 2)
	same(w, "folded", attempts[0].Count, 9)
	same(w, "first generation", attempts[0].First, 1)
	same(w, "last folded generation", attempts[0].Generation, 9)
	same(w, "newest", attempts[1].Generation, 10)
	same(w, "newest isn't folded", attempts[1].Count, 0)
	j := w.claimed(s)
	_, err := w.book.Fail(w.ctx, id, owner(j), daybook.Failure{}, new(time.Duration))
	w.ok(err)
	for range 3 {
		_, err := w.book.Release(w.ctx, id, owner(w.claimed(s)), 0)
		w.ok(err)
	}
	attempts = w.attempts(id)
	same(w, "rows with a failure between", len(attempts), 5)
	same(w, "the failure", attempts[2].Outcome, daybook.OutcomeFailed)
	same(w, "folded after it", attempts[3].Count, 2)
}
