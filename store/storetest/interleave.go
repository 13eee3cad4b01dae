package storetest

import (
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/daybookdev/daybook"
)

// runInterleave forces the orders of events that broke earlier designs on a
// real database. Each test says which.
func runInterleave(t *testing.T, open opener) {
	eachOnFile(t, open, []test{
		{"a late owner after its replacement", lateOwner},
		{"a late owner while it is replaced", ownerWhileReplaced},
		{"a renewal while its session is ended", renewalWhileEnded},
		{"an end while the session is renewed", endWhileRenewed},
		{"lost commits and the same session again", lostCommits},
		{"a rival's key commits meanwhile", rivalCommits},
		{"keys X, Y and Y, X", crossedKeys},
		{"a cancel while the job is completed", cancelWhileCompleted},
		{"a begin or a finish while the claim ends", effectWhileEnded},
		{"a completion while an effect is begun", completeWhileBegun},
		{"a loss while an effect is begun", loseWhileBegun},
		{"a verdict while the job is claimed", settleWhileClaimed},
		{"a revival while an effect is settled", reviveWhileSettled},
		{"a late word while the job is pruned", lateWhilePruned},
	})
	t.Run("nothing starts before its commit", func(t *testing.T) { nothingBeforeCommit(t, open) })
}

// ownerWrites is every kind of write that an owner makes; each returns what
// its sender is told.
var ownerWrites = []struct {
	name string
	do   func(w *world, j daybook.Job) error
}{
	{"complete", func(w *world, j daybook.Job) error {
		_, err := w.book.Complete(w.ctx, j.ID, owner(j), []byte(`"late"`))
		return err
	}},
	{"fail", func(w *world, j daybook.Job) error {
		late := daybook.Failure{Problem: daybook.NewProblem("late", "", "")}
		_, err := w.book.Fail(w.ctx, j.ID, owner(j), late, nil)
		return err
	}},
	{"release", func(w *world, j daybook.Job) error {
		_, err := w.book.Release(w.ctx, j.ID, owner(j), time.Hour)
		return err
	}},
	{"progress", func(w *world, j daybook.Job) error {
		return w.book.Progress(w.ctx, j.ID, owner(j), []byte(`"late"`))
	}},
	{"begin", func(w *world, j daybook.Job) error {
		_, err := w.book.BeginEffect(w.ctx, j.ID, owner(j), daybook.Begin{Name: "charge", Policy: daybook.PolicyAsk})
		return err
	}},
	{"finish", func(w *world, j daybook.Job) error {
		_, err := w.book.FinishEffect(w.ctx, j.ID, owner(j), daybook.EffectEnd{Name: "charge",
			Outcome: daybook.OutcomeDone})
		return err
	}},
	{"start", func(w *world, j daybook.Job) error {
		lost, err := w.book.Started(w.ctx, j.Session, []daybook.ClaimRef{ref(j)})
		if err == nil && slices.Contains(lost, ref(j)) {
			err = daybook.ErrFenced
		}
		return err
	}},
	{"renewal", func(w *world, j daybook.Job) error {
		got, err := w.book.Renew(w.ctx, j.Session, []daybook.ClaimRef{ref(j)})
		if err == nil && slices.Contains(got.Lost, ref(j)) {
			err = daybook.ErrFenced
		}
		return err
	}},
}

// replace gives the job to a new session in one transaction. between runs when
// everything is written and nothing committed.
func (w *world) replace(j daybook.Job, s daybook.Session, between func()) (again daybook.Job) {
	w.Helper()
	w.write(func(tx daybook.Tx) error {
		jobs, err := tx.Lock(w.ctx, []daybook.ID{j.ID})
		if err != nil {
			return err
		}
		lost, err := jobs[0].Lose(daybook.Loss{Cause: daybook.LossSession, Owner: owner(j)}, tx.Now())
		if err != nil {
			return err
		}
		if err := tx.Save(w.ctx, []daybook.Change{lost}); err != nil {
			return err
		}
		claimed, err := lost.Now.Claim(daybook.Grant{Session: s}, tx.Now())
		if err != nil {
			return err
		}
		again = claimed.Now
		if err := tx.Save(w.ctx, []daybook.Change{claimed}); err != nil {
			return err
		}
		if between != nil {
			between()
		}
		return nil
	})
	return again
}

// undisturbed wants the new owner's claim to be as it was given.
func (w *world) undisturbed(what string, again daybook.Job) {
	w.Helper()
	j := w.locked(again.ID)
	compareJobs(w, what+": the new owner's claim", j, again)
	same(w, what+": progress", string(w.job(again.ID).Progress), "")
}

// lateOwner: an old owner's write of each kind, after its replacement. (An
// insert that only read the job let one begin an effect then.)
func lateOwner(w *world) {
	for _, write := range ownerWrites {
		j := w.running(daybook.Request{})
		again := w.replace(j, w.session("next"), nil)
		if err := write.do(w, j); daybook.CodeOf(err) != daybook.CodeFenced {
			w.Errorf("%s: got %v, want fenced", write.name, err)
		}
		w.undisturbed(write.name, again)
		w.complete(again)
		same(w, write.name+": attempts", len(w.attempts(j.ID)), 2)
	}
}

// ownerWhileReplaced: the old owner's write begins before the replacement is
// committed and can end only after it.
func ownerWhileReplaced(w *world) {
	other := w.again()
	for _, write := range ownerWrites {
		j := w.running(daybook.Request{})
		told := make(chan error)
		again := w.replace(j, w.session("next"), func() {
			began := make(chan bool)
			go func() {
				close(began)
				told <- write.do(other, j)
			}()
			<-began
		})
		err := <-told
		if err == nil && write.name == "renewal" {
			// It changes nothing of the job: one that came before the commit may be
			// answered as it was then. The next tells.
			err = write.do(other, j)
		}
		if daybook.CodeOf(err) != daybook.CodeFenced {
			w.Errorf("%s: got %v, want fenced", write.name, err)
		}
		w.undisturbed(write.name, again)
		w.complete(again)
	}
}

// renewalWhileEnded: with the lease on one row and the revocation on another, a
// renewal was answered "held" and the job revoked. Ended is final: the renewal
// that waited for it is refused.
func renewalWhileEnded(w *world) {
	other := w.again()
	j := w.running(daybook.Request{})
	w.clock.advance(daybook.LeaseDefault + time.Second)
	told := make(chan error)
	w.write(func(tx daybook.Tx) error {
		sessions, err := tx.Sessions(w.ctx, daybook.SessionFilter{ID: j.Session})
		if err != nil {
			return err
		}
		ended, changed := sessions[0].Expiry(tx.Now(), daybook.AtOnce)
		same(w, "changed", changed, true)
		if _, err := tx.SaveSession(w.ctx, ended); err != nil {
			return err
		}
		began := make(chan bool)
		go func() {
			close(began)
			_, err := other.book.Renew(w.ctx, j.Session, []daybook.ClaimRef{ref(j)})
			told <- err
		}()
		<-began
		return nil
	})
	w.refused(<-told, daybook.CodeFenced)
	same(w, "revoked", w.reconcile(daybook.Unsure).revoked, 1)
}

// endWhileRenewed: the reconciler found the session expired, and a renewal
// commits before it can end it. The session lives and keeps its claim.
func endWhileRenewed(w *world) {
	other := w.again()
	j := w.running(daybook.Request{})
	w.clock.advance(daybook.LeaseDefault + time.Second)
	done := make(chan error)
	w.write(func(tx daybook.Tx) error {
		s, _, _, err := tx.Claims(w.ctx, daybook.ClaimsOf{Session: j.Session})
		if err != nil {
			return err
		}
		if s, err = s.Renew(tx.Now(), true); err != nil {
			return err
		}
		if _, err := tx.SaveSession(w.ctx, s); err != nil {
			return err
		}
		began := make(chan bool)
		go func() {
			close(began)
			ended, _, err := other.book.EndExpiredSessions(w.ctx, daybook.AtOnce)
			if err == nil && ended > 0 {
				err = daybook.Fail(daybook.CodeInternal, "the renewed session was ended")
			}
			done <- err
		}()
		<-began
		return nil
	})
	w.ok(<-done)
	same(w, "revoked", other.reconcile(daybook.Unsure).revoked, 0)
	w.stands(j.ID, daybook.Running)
	w.complete(j)
}

// lostCommits: after an asynchronous failover the same live session claimed
// again and got the same job, generation and session, and the first handler's
// completion was accepted. The incarnation lifts the second claim above it.
func lostCommits(w *world) {
	id := w.enqueue(daybook.Request{})
	s := w.session("w")
	first := w.claimed(s)
	w.write(func(tx daybook.Tx) error { // the claim's commit is lost
		jobs, err := tx.Lock(w.ctx, []daybook.ID{id})
		if err != nil {
			return err
		}
		before := daybook.Job{ID: id, Queue: "q", Kind: "k", State: daybook.Waiting, RunAt: jobs[0].RunAt,
			MaxFailures: jobs[0].MaxFailures, OnLost: jobs[0].OnLost, Timeout: jobs[0].Timeout, Ref: jobs[0].Ref,
			EnqueuedAt: jobs[0].EnqueuedAt}
		return tx.Save(w.ctx, []daybook.Change{{Move: daybook.MoveRelease, Was: jobs[0], Now: before}})
	})
	_, err := w.book.Complete(w.ctx, id, owner(first), nil)
	w.refused(err, daybook.CodeFenced)
	behind, err := w.book.Setting(w.ctx, daybook.SettingBookBehind)
	w.ok(err)
	same(w, "the proof was kept", behind != "", true)
	_, err = w.book.Restored(w.ctx, w.clock.time(), someone)
	w.ok(err)
	w.acknowledged(behind)
	second := w.claimed(s)
	same(w, "generation", second.Generation, daybook.GenerationStep)
	_, err = w.book.Complete(w.ctx, id, owner(first), []byte(`"first"`))
	w.refused(err, daybook.CodeFenced)
	w.undisturbed("after the first handler's word", second)
	w.complete(second)
}

// acknowledged wants the proof of lost commits to be where the restore is told,
// and not to alarm anybody any more.
func (w *world) acknowledged(behind string) {
	w.Helper()
	left, err := w.book.Setting(w.ctx, daybook.SettingBookBehind)
	w.ok(err)
	same(w, "the proof, once it is known", left, "")
	told, err := w.book.Setting(w.ctx, daybook.SettingRestored)
	w.ok(err)
	var note struct{ Behind string }
	w.ok(json.Unmarshal([]byte(told), &note))
	same(w, "the proof with the restore", note.Behind, behind)
}

// rivalCommits: one statement that inserts or selects saw neither the rival's
// row nor its own. Whoever meets a key that commits meanwhile gets that job.
func rivalCommits(w *world) {
	other := w.again()
	for i := range 20 {
		r := request(daybook.Request{Key: fmt.Sprint("key ", i)})
		rival := prepared(w, r)
		answer := make(chan daybook.Receipt)
		w.write(func(tx daybook.Tx) error {
			if _, err := tx.Enqueue(w.ctx, rival); err != nil {
				return err
			}
			began := make(chan bool)
			go func() {
				close(began)
				receipt, err := other.book.Enqueue(w.ctx, r)
				if err != nil {
					w.Errorf("enqueue: %v", err)
				}
				answer <- receipt
			}()
			<-began
			return nil
		})
		same(w, "answer", <-answer, daybook.Receipt{ID: rival[0].Job.ID, Replayed: true})
	}
	same(w, "accepted", w.counts().Accepted, 20)
}

// crossedKeys: two calls with the same keys in opposite orders deadlocked.
func crossedKeys(w *world) {
	other := w.again()
	for i := range 30 {
		var requests []daybook.Request
		for n := range 10 {
			requests = append(requests, request(daybook.Request{Key: fmt.Sprintf("%d-%d", i, n)}))
		}
		back := slices.Clone(requests)
		slices.Reverse(back)
		got := make([][]daybook.Receipt, 2)
		errs := make([]error, 2)
		var all sync.WaitGroup
		all.Go(func() { got[0], errs[0] = w.book.EnqueueMany(w.ctx, requests) })
		all.Go(func() { got[1], errs[1] = other.book.EnqueueMany(w.ctx, back) })
		all.Wait()
		w.ok(errs[0])
		w.ok(errs[1])
		for n := range requests {
			a, b := got[0][n], got[1][len(back)-1-n]
			same(w, "one job a key", a.ID, b.ID)
			same(w, "made once", a.Replayed, !b.Replayed)
		}
	}
	same(w, "accepted", w.counts().Accepted, 300)
}

// cancelWhileCompleted: a person cancels what commits as done meanwhile.
func cancelWhileCompleted(w *world) {
	other := w.again()
	for _, force := range []bool{false, true} {
		j := w.running(daybook.Request{})
		told := make(chan error)
		w.write(func(tx daybook.Tx) error {
			jobs, err := tx.Lock(w.ctx, []daybook.ID{j.ID})
			if err != nil {
				return err
			}
			c, err := jobs[0].Complete(owner(j), nil, tx.Now())
			if err != nil {
				return err
			}
			began := make(chan bool)
			go func() {
				close(began)
				_, err := other.book.Cancel(w.ctx, j.ID, someone, force)
				told <- err
			}()
			<-began
			return tx.Save(w.ctx, []daybook.Change{c})
		})
		w.refused(<-told, daybook.CodeRefused)
		w.stands(j.ID, daybook.Succeeded)
		same(w, "attempts", len(w.attempts(j.ID)), 1)
	}
}
