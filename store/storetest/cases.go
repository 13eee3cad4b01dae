package storetest

import (
	"testing"
	"time"

	"github.com/daybookdev/daybook"
)

// runCases replays faults that people reported in other job systems. Each is
// named after its row in our list of cases, with the report beside it.
func runCases(t *testing.T, open opener) {
	each(t, open, casesOfOwnership)
	each(t, open, casesOfFailure)
	each(t, open, casesOfInput)
	eachOnFile(t, open, casesOfTwoProcesses)
	eachOnFile(t, open, casesOfRelay)
}

var casesOfOwnership = []test{
	{"L1", staleLoss}, {"L2", lossAgainstCompletion}, {"L6", longHandler}, {"L7", toldAtRenewal},
	{"L11", namesakes}, {"L12", continuedAfterPause}, {"L13", bootingWorkers}, {"L16", pastRunLimit},
	{"L54", databaseTime}, {"L55", shutdown}, {"L56", cancelledForGood},
}

// staleLoss (riverqueue/river #1302): the reconciler holds an old snapshot of a
// job that has succeeded by now. Its write must be refused: the job stays as it
// is, and no attempt is added.
func staleLoss(w *world) {
	j := w.running(daybook.Request{})
	w.clock.advance(time.Minute)
	old := w.locked(j.ID)
	loss, err := old.Lose(daybook.Loss{Cause: daybook.LossSession, Owner: owner(j)}, w.clock.time())
	w.ok(err)
	w.complete(j)
	err = w.try(func(tx daybook.Tx) error {
		return tx.Save(w.ctx, []daybook.Change{loss})
	})
	w.refused(err, daybook.CodeFenced)
	w.reconcile(daybook.AtOnce)
	w.stands(j.ID, daybook.Succeeded)
	attempts := w.attempts(j.ID)
	same(w, "attempts", len(attempts), 1)
	same(w, "outcome", attempts[0].Outcome, daybook.OutcomeSucceeded)
}

// lossAgainstCompletion (rails/solid_queue #589): the reconciler and the late
// owner at once, a thousand times. One of them wins, and history has one end.
func lossAgainstCompletion(w *world) {
	won := map[daybook.State]int{}
	for n := range 1000 {
		id := w.enqueue(daybook.Request{})
		s, err := w.book.StartSession(w.ctx, daybook.SessionRequest{Lease: time.Second})
		w.ok(err)
		j := w.claimed(s)
		same(w, "claimed", j.ID, id)
		w.clock.advance(2 * time.Second)
		answers := make(chan error)
		if n%2 == 0 { // the session has ended, the claim isn't revoked yet
			_, _, err := w.book.EndExpiredSessions(w.ctx, daybook.AtOnce)
			w.ok(err)
		}
		go func() {
			_, err := w.book.Complete(w.ctx, id, owner(j), nil)
			answers <- err
		}()
		w.reconcile(daybook.AtOnce)
		err = <-answers
		got := w.job(id)
		won[got.State]++
		same(w, "the owner was told", err == nil, got.State == daybook.Succeeded)
		same(w, "attempts", len(w.attempts(id)), 1)
		if got.State == daybook.Waiting {
			w.refused(err, daybook.CodeFenced)
			_, err = w.book.Cancel(w.ctx, id, someone, false)
			w.ok(err)
		}
	}
	w.Logf("of 1000 races %d completed and %d were lost first", won[daybook.Succeeded], won[daybook.Waiting])
}

// longHandler (hexpm/hexpm #1825): a handler of ten leases that renews keeps
// its claim: one attempt, and the generation stays.
func longHandler(w *world) {
	w.enqueue(daybook.Request{})
	s, err := w.book.StartSession(w.ctx, daybook.SessionRequest{Lease: 2 * time.Second})
	w.ok(err)
	j := w.claimed(s)
	for range 20 {
		w.clock.advance(time.Second)
		got, err := w.book.Renew(w.ctx, s.ID, []daybook.ClaimRef{ref(j)})
		w.ok(err)
		same(w, "lost", len(got.Lost), 0)
		same(w, "revoked", w.reconcile(daybook.AtOnce).revoked, 0)
	}
	w.complete(j)
	same(w, "generation", w.job(j.ID).Generation, 1)
	same(w, "attempts", len(w.attempts(j.ID)), 1)
}

// toldAtRenewal (timgit/pg-boss #555): who lost its claim hears it at the next
// renewal, and its late result is refused.
func toldAtRenewal(w *world) {
	j := w.running(daybook.Request{Timeout: time.Second})
	w.clock.advance(time.Second)
	same(w, "revoked", w.reconcile(daybook.Sure).overdue, 1)
	again := w.claimed(w.session("next"))
	got, err := w.book.Renew(w.ctx, j.Session, []daybook.ClaimRef{ref(j)})
	w.ok(err)
	same(w, "lost claims", len(got.Lost), 1)
	same(w, "the lost claim", got.Lost[0], ref(j))
	_, err = w.book.Complete(w.ctx, j.ID, owner(j), nil)
	w.refused(err, daybook.CodeFenced)
	w.complete(again)
}

// namesakes (oban-bg/oban #862): a restarted process has its predecessor's
// name and doesn't own its jobs; they come back by the lease.
func namesakes(w *world) {
	id := w.enqueue(daybook.Request{})
	dead := w.session("w1")
	w.claimed(dead)
	fresh := w.session("w1")
	same(w, "another session", fresh.ID != dead.ID, true)
	w.clock.advance(daybook.LeaseDefault + time.Second)
	_, err := w.book.Renew(w.ctx, fresh.ID, []daybook.ClaimRef{})
	w.ok(err)
	p := w.reconcile(daybook.Sure)
	same(w, "ended", p.ended, 1)
	same(w, "revoked", p.revoked, 1)
	w.complete(w.claimed(fresh))
	w.stands(id, daybook.Succeeded)
}

// continuedAfterPause (digitaldrywood/detent #1433): a process stopped past
// its lease goes on as if nothing had happened. Its result is refused, there is
// one new attempt, and a job that must not run twice unseen waits for a person.
func continuedAfterPause(w *world) {
	plain := w.enqueue(daybook.Request{})
	careful := w.enqueue(daybook.Request{OnLost: daybook.LostSetAside})
	jobs := w.claim(w.session("stopped"), 2)
	w.lapse()
	again := w.claim(w.session("next"), 2)
	same(w, "new attempts", len(again), 1)
	for _, j := range jobs {
		_, err := w.book.Complete(w.ctx, j.ID, owner(j), nil)
		w.refused(err, daybook.CodeFenced)
	}
	w.stands(careful, daybook.SetAside)
	w.complete(again[0])
	same(w, "attempts", len(w.attempts(plain)), 2)
}

// bootingWorkers (sidekiq/sidekiq #4611): twenty workers start while others
// run jobs. Nothing is taken from anybody.
func bootingWorkers(w *world) {
	w.many(20)
	jobs := w.claim(w.session("busy"), 20)
	for range 20 {
		w.clock.advance(time.Second)
		w.session("booting")
		p := w.reconcile(daybook.AtOnce)
		same(w, "revoked", p.revoked+p.overdue, 0)
	}
	for _, j := range jobs {
		w.complete(j)
	}
}

// pastRunLimit (riverqueue/river #1258): a handler that ignores everything
// leaves running at its run limit, although its process renews happily.
func pastRunLimit(w *world) {
	j := w.running(daybook.Request{Timeout: time.Second, MaxFailures: 1})
	for range 3 {
		w.clock.advance(400 * time.Millisecond)
		_, err := w.book.Renew(w.ctx, j.Session, []daybook.ClaimRef{ref(j)})
		w.ok(err)
	}
	same(w, "revoked", w.reconcile(daybook.Unsure).overdue, 1)
	same(w, "reason", w.stands(j.ID, daybook.SetAside).Reason, daybook.ReasonTimeout)
}

// databaseTime (Koed00/django-q #236): this process's clock is years from the
// book's, and every time that the book writes is its own.
func databaseTime(w *world) {
	w.enqueue(daybook.Request{In: time.Minute})
	s := w.session("w")
	same(w, "lease", s.ExpiresAt, w.clock.time().Add(daybook.LeaseDefault))
	same(w, "claimed too early", len(w.claim(s, 1)), 0)
	w.clock.advance(time.Minute)
	_, err := w.book.Renew(w.ctx, s.ID, nil)
	w.ok(err)
	j := w.claimed(s)
	same(w, "claimed_at", j.ClaimedAt, w.clock.time())
	delay := time.Hour
	_, err = w.book.Fail(w.ctx, j.ID, owner(j), daybook.Failure{}, &delay)
	w.ok(err)
	same(w, "retry", w.job(j.ID).RunAt, w.clock.time().Add(delay))
}

// shutdown (riverqueue/river #1290): a process that stops gives everything back
// at once: no failure counted, no error written, and nothing waits for a lease.
func shutdown(w *world) {
	ids := w.many(20)
	s := w.session("stopping")
	w.claim(s, 20)
	w.ok(w.book.EndSession(w.ctx, s.ID))
	for _, id := range ids {
		j := w.stands(id, daybook.Waiting)
		same(w, "failures", j.Failures+j.Crashes, 0)
		same(w, "error", j.LastError == nil, true)
		same(w, "outcome", w.attempts(id)[0].Outcome, daybook.OutcomeReleased)
	}
	same(w, "claimable at once", len(w.claim(w.session("next"), 20)), 20)
}

// cancelledForGood (hibiken/asynq #532): a running job that a person cancelled
// doesn't come back when its handler fails.
func cancelledForGood(w *world) {
	for _, end := range []func(j daybook.Job) error{
		func(j daybook.Job) error {
			_, err := w.book.Fail(w.ctx, j.ID, owner(j), daybook.Failure{}, nil)
			return err
		},
		func(j daybook.Job) error {
			_, err := w.book.Release(w.ctx, j.ID, owner(j), 0)
			return err
		},
		func(daybook.Job) error { w.lapse(); return nil },
	} {
		j := w.running(daybook.Request{})
		_, err := w.book.Cancel(w.ctx, j.ID, someone, false)
		w.ok(err)
		w.ok(end(j))
		w.stands(j.ID, daybook.Cancelled)
		same(w, "claimable", len(w.claim(w.session("next"), 1)), 0)
	}
}
