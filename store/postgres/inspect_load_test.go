package postgres

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/check"
)

const loadSeed = 1

// The checker runs all the time beside people, workers that succeed, fail,
// snooze and die, a reconciler, retention, and a history whose days are
// dropped. A healthy book never fails, however fast its rows move under the
// walk.
func TestInspectUnderLoad(t *testing.T) {
	t.Logf("seed %d", loadSeed)
	book := scratchBook(t)
	s := book.Store().(*Store)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		load(t, ctx, book)
	}()
	const checks = 6
	for n := range checks + 1 {
		if n == checks { // one more, on the book at rest
			cancel()
			<-stopped
		}
		report, err := check.Run(t.Context(), book, check.Options{Full: n%2 == 0})
		if err != nil {
			t.Error(err)
		}
		for _, i := range report.Invariants {
			for _, v := range i.Found {
				t.Errorf("check %d: %+v", n, v)
			}
		}
	}
	for _, done := range []string{
		"SELECT count(*) FROM daybook.ended WHERE outcome = 1", "SELECT count(*) FROM daybook.ended WHERE outcome = 2",
		"SELECT count(*) FROM daybook.ended WHERE outcome = 3", "SELECT count(*) FROM daybook.ended WHERE outcome = 4",
		"SELECT count(*) FROM daybook.ended WHERE ended_at IS NOT NULL", "SELECT count(*) FROM daybook.job WHERE state = 5",
		"SELECT count(*) FROM daybook.request WHERE state IS NOT NULL", "SELECT sum(accepted) FROM daybook.sums",
	} {
		if s.number(t, done) == 0 {
			t.Errorf("the load did not do what it should: none for %s", done)
		}
	}
}

// load runs workers, each of which dies now and then, and upkeep, until ctx
// ends or they have done their part. What was begun is ended first.
func load(t *testing.T, ctx context.Context, book *daybook.Book) {
	var all sync.WaitGroup
	always := context.WithoutCancel(ctx)
	all.Go(func() {
		for ctx.Err() == nil {
			_, err := book.TakePass(always, time.Nanosecond)
			_, _, ended := book.EndExpiredSessions(always, daybook.AtOnce)
			_, lost := book.RevokeLost(always)
			_, overdue := book.RevokeOverdue(always)
			_, expired := book.ExpireWaiting(always)
			_, swept := book.Sweep(always)
			if err := errors.Join(err, ended, lost, overdue, expired, swept); err != nil {
				t.Error(err)
			}
		}
	})
	all.Go(func() { forget(t, ctx, book) })
	for n := range 4 {
		all.Go(func() {
			r := rand.New(rand.NewPCG(loadSeed, uint64(n)))
			for round := 0; ctx.Err() == nil && round < 60; round++ { // a book that stays small
				if err := oneRound(always, book, r, round); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}

// forget removes final jobs, folds counting rows, drops sessions and moves the
// history of some jobs on, as retention and the end of a day do.
func forget(t *testing.T, ctx context.Context, book *daybook.Book) {
	s := book.Store().(*Store)
	always := context.WithoutCancel(ctx)
	for ctx.Err() == nil {
		err := s.Write(always, "pruning", func(tx daybook.Tx) error {
			ids, err := tx.Find(always, daybook.Finding{What: daybook.FindPastRetention, Cutoff: tx.Now(), Limit: 20})
			if err != nil {
				return err
			}
			jobs, err := tx.Lock(always, ids)
			if err != nil {
				return err
			}
			jobs = slices.DeleteFunc(jobs, func(j daybook.Job) bool { return !j.Prunable(tx.Now()) })
			if err := tx.Prune(always, jobs); err != nil {
				return err
			}
			_, err = tx.Sweep(always, daybook.Cutoffs{Counting: tx.Now(), Sessions: tx.Now()}, 100)
			return err
		})
		if err != nil {
			t.Error(err)
		}
		if _, err := s.force(always, carryOn); err != nil && !inTheWay(err) {
			t.Error(err)
		}
	}
}

// carryOn files some of the history again, as the end of a day does: nobody
// writes to it meanwhile.
const carryOn = `SET LOCAL lock_timeout = '100ms';
LOCK TABLE daybook.ended IN SHARE ROW EXCLUSIVE MODE;
WITH gone AS (DELETE FROM daybook.ended WHERE seq % 7 = 3 AND ended_at IS NULL RETURNING *)
	INSERT INTO daybook.ended (filed_at, seq, generation, session, claimed_at, outcome, through, ended_at, started_at,
		first, count, worker, why, error, error_kind, trace, cut, result)
	SELECT daybook.clock() + 24 * {hour}, seq, generation, session, claimed_at, outcome, through, filed_at, started_at,
		first, count, worker, why, error, error_kind, trace, cut, result FROM gone`

// oneRound enqueues some jobs, claims some and ends each in some way.
func oneRound(ctx context.Context, book *daybook.Book, r *rand.Rand, n int) error {
	queue := "q" + strconv.Itoa(r.IntN(3))
	for i := range 8 { // one by one: two queues may ask with one key
		request := daybook.Request{Queue: queue, Kind: "k", MaxFailures: 1 + r.IntN(3), Priority: r.IntN(2),
			Timeout: time.Duration(1+r.IntN(1000)) * time.Millisecond}
		if i%3 == 0 {
			request.Key = strconv.Itoa(r.IntN(500))
		}
		if i%4 == 0 {
			request.OnLost = daybook.LostSetAside
		}
		if i == 5 {
			request.ExpiresAt = time.Unix(1, 0)
		}
		if _, err := book.Enqueue(ctx, request); err != nil && !errors.Is(err, daybook.ErrKeyConflict) {
			return err
		}
	}
	if n%10 == 0 {
		if err := errors.Join(book.Pause(ctx, queue, someone), book.Resume(ctx, queue, someone)); err != nil {
			return err
		}
	}
	got, err := book.Claim(ctx, daybook.ClaimRequest{Queues: []string{"q0", "q1", "q2"}, Limit: 6,
		SessionRequest: daybook.SessionRequest{Lease: time.Second}})
	if err != nil {
		return err
	}
	for _, j := range got.Jobs {
		if err := endSomehow(ctx, book, r, j); err != nil {
			return err
		}
	}
	if r.IntN(2) == 0 { // else it dies, and its lease runs out
		err = book.EndSession(ctx, got.Session.ID)
	}
	if daybook.CodeOf(err) == daybook.CodeNotFound { // it ran out before, and was swept
		return nil
	}
	return err
}

var someone = daybook.By{Actor: "ada", Reason: "a test"}

// endSomehow ends an attempt, or leaves it to the session's death. Somebody
// may have been faster: a refusal is no error.
func endSomehow(ctx context.Context, book *daybook.Book, r *rand.Rand, j daybook.Job) (err error) {
	owner := daybook.Owner{Session: j.Session, Generation: j.Generation}
	again := time.Duration(0)
	switch r.IntN(8) {
	case 0, 1, 2:
		_, err = book.Complete(ctx, j.ID, owner, []byte(`{"ok":true}`))
	case 3:
		_, err = book.Fail(ctx, j.ID, owner, daybook.Failure{Problem: daybook.NewProblem("no", "", "")}, &again)
	case 4:
		_, err = book.Release(ctx, j.ID, owner, time.Duration(r.IntN(2))*time.Millisecond)
	case 5:
		_, err = book.Cancel(ctx, j.ID, someone, r.IntN(2) == 0)
	case 6:
		_, err = book.Cancel(ctx, j.ID, someone, true)
		if err == nil {
			_, err = book.Settle(ctx, j.ID, daybook.HandlerEffect, daybook.Verdict{Happened: r.IntN(2) == 0}, someone)
		}
		if err == nil {
			_, err = book.Revive(ctx, j.ID, someone)
		}
	}
	switch daybook.CodeOf(err) {
	case daybook.CodeFenced, daybook.CodeRefused, daybook.CodeEffectOpen, daybook.CodeNotFound, daybook.CodeBusy:
		return nil
	}
	return err
}
