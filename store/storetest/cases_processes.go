package storetest

import (
	"encoding/json"
	"sync"
	"sync/atomic"
	"time"

	"github.com/daybookdev/daybook"
)

var casesOfTwoProcesses = []test{
	{"L5", strangersKind}, {"L15", twoReconcilers}, {"L29", rivalRollsBack}, {"L35", hundredRequests},
	{"L40", unseenBeforeCommit}, {"L58", cancelTold},
}

// strangersKind (riverqueue/river #1105): a process that knows only kind a
// reconciles. A job of kind b with a live lease isn't touched; one whose owner
// died goes back to waiting and isn't thrown away.
func strangersKind(w *world) {
	other := w.again()
	j := w.running(daybook.Request{Kind: "b"})
	_, err := other.book.StartSession(w.ctx, daybook.SessionRequest{Worker: "a-only", Kinds: []string{"a"}})
	w.ok(err)
	w.clock.advance(time.Second)
	same(w, "touched", other.reconcile(daybook.AtOnce), pass{})
	w.stands(j.ID, daybook.Running)
	w.clock.advance(daybook.LeaseDefault)
	same(w, "revoked", other.reconcile(daybook.AtOnce).revoked, 1)
	w.stands(j.ID, daybook.Waiting)
	w.complete(w.claimed(w.session("knows b")))
}

// twoReconcilers (dbos-inc/dbos-transact-py #716): two processes repair 250 lost
// jobs at once. Each job is revoked once.
func twoReconcilers(w *world) {
	other := w.again()
	ids := w.many(250)
	same(w, "claimed", len(w.claim(w.session("dies"), 250)), 250)
	w.clock.advance(daybook.LeaseDefault + time.Second)
	var revoked atomic.Int64
	var all sync.WaitGroup
	for _, of := range []*world{w, other} {
		all.Go(func() {
			_, _, err := of.book.EndExpiredSessions(of.ctx, daybook.AtOnce)
			if err != nil {
				of.Errorf("ending sessions: %v", err)
			}
			n, err := of.book.RevokeLost(of.ctx)
			if err != nil {
				of.Errorf("revoking: %v", err)
			}
			revoked.Add(int64(n))
		})
	}
	all.Wait()
	same(w, "revoked", revoked.Load(), 250)
	for _, id := range ids {
		j := w.stands(id, daybook.Waiting)
		same(w, "generation", j.Generation, 2)
		same(w, "crashes", j.Crashes, 1)
		same(w, "attempts", len(w.attempts(id)), 1)
	}
}

// rivalRollsBack (oban-bg/oban #1093): whoever finds a rival's key that isn't
// committed must not answer "replay" for a job that never comes to be.
func rivalRollsBack(w *world) {
	for _, of := range []*world{w, w.again()} {
		r := request(daybook.Request{Key: daybook.NewID().String()})
		n, err := r.Prepare()
		w.ok(err)
		began, answered := make(chan bool), make(chan bool)
		var receipt daybook.Receipt
		go func() {
			defer close(answered)
			<-began
			var err error
			if receipt, err = of.book.Enqueue(of.ctx, r); err != nil {
				w.Errorf("enqueue: %v", err)
			}
		}()
		err = w.try(func(tx daybook.Tx) error {
			if _, err := tx.Enqueue(w.ctx, []daybook.NewJob{n}); err != nil {
				return err
			}
			close(began)
			return daybook.Fail(daybook.CodeRefused, "the rival changes its mind")
		})
		w.refused(err, daybook.CodeRefused)
		<-answered
		same(w, "replayed", receipt.Replayed, false)
		w.stands(receipt.ID, daybook.Waiting)
		_, err = w.book.Job(w.ctx, n.Job.ID)
		w.refused(err, daybook.CodeNotFound)
	}
}

// hundredRequests (mastodon #37879): a hundred equal requests at once, from two
// processes: one job, one caller that made it, and no error.
func hundredRequests(w *world) {
	of := []*world{w, w.again()}
	r := request(daybook.Request{Key: "only", Args: json.RawMessage(`{"n":1}`)})
	answers := make(chan daybook.Receipt)
	start := make(chan bool)
	for i := range 100 {
		go func() {
			<-start
			receipt, err := of[i%2].book.Enqueue(w.ctx, r)
			if err != nil {
				w.Errorf("enqueue: %v", err)
			}
			answers <- receipt
		}()
	}
	close(start)
	made := 0
	ids := map[daybook.ID]bool{}
	for range 100 {
		receipt := <-answers
		ids[receipt.ID] = true
		if !receipt.Replayed {
			made++
		}
	}
	same(w, "jobs", len(ids), 1)
	same(w, "callers that made it", made, 1)
	same(w, "accepted", w.counts().Accepted, 1)
	k, err := w.book.Key(w.ctx, "only")
	w.ok(err)
	same(w, "replays", k.Replays, 99)
}

// unseenBeforeCommit (sidekiq #5239): a job exists for others when its enqueue
// is committed, however early the bell rang, and never when it rolled back.
func unseenBeforeCommit(w *world) {
	other := w.again()
	for _, commit := range []bool{false, true} {
		n := prepared(w, daybook.Request{})
		var committed atomic.Bool
		claimed := make(chan int)
		s := other.session("w")
		err := w.try(func(tx daybook.Tx) error {
			if _, err := tx.Enqueue(w.ctx, n); err != nil {
				return err
			}
			_, err := other.book.Job(w.ctx, n[0].Job.ID)
			w.refused(err, daybook.CodeNotFound)
			go func() { // the bell rang early; this may wait for the commit
				c, err := other.book.Claim(w.ctx, daybook.ClaimRequest{Session: s.ID, Queues: []string{"q"}})
				if err != nil {
					w.Errorf("claim: %v", err)
				}
				if len(c.Jobs) > 0 && !committed.Load() {
					w.Errorf("claimed before the commit")
				}
				claimed <- len(c.Jobs)
			}()
			committed.Store(commit)
			if !commit {
				return daybook.Fail(daybook.CodeRefused, "rolled back")
			}
			return nil
		})
		same(w, "committed", err == nil, commit)
		got := <-claimed
		if !commit {
			same(w, "claimed what was rolled back", got, 0)
			_, err := w.book.Job(w.ctx, n[0].Job.ID)
			w.refused(err, daybook.CodeNotFound)
		} else if got == 0 {
			same(w, "claimable after the commit", len(other.claim(s, 1)), 1)
		}
	}
}

// cancelTold (riverqueue/river #1245): without any bell, a running job's owner
// in another process hears of a cancel at its next renewal.
func cancelTold(w *world) {
	other := w.again()
	j := w.running(daybook.Request{})
	_, err := other.book.Cancel(w.ctx, j.ID, someone, false)
	w.ok(err)
	for _, claims := range [][]daybook.ClaimRef{{ref(j)}, nil} {
		got, err := w.book.Renew(w.ctx, j.Session, claims)
		w.ok(err)
		same(w, "asked to cancel", len(got.Cancel), 1)
		same(w, "which", got.Cancel[0], ref(j))
	}
	_, err = w.book.Release(w.ctx, j.ID, owner(j), 0)
	w.ok(err)
	w.stands(j.ID, daybook.Cancelled)
}
