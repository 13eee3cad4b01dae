package check_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/check"
	"github.com/daybookdev/daybook/store/sqlite"
)

// The checker runs all the time beside people, workers that succeed, fail,
// snooze and die, and a reconciler. A healthy book never fails, however fast
// its rows move under the walk.
func TestRunFindsNothingUnderLoad(t *testing.T) {
	for name, path := range map[string]string{
		"in memory": sqlite.Memory,
		"in a file": filepath.Join(t.TempDir(), "book.db"),
	} {
		t.Run(name, func(t *testing.T) {
			book, err := sqlite.Open(t.Context(), path, sqlite.Options{Fast: true})
			if err != nil {
				t.Fatal(err)
			}
			defer book.Close()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			stopped := make(chan struct{})
			go func() {
				defer close(stopped)
				load(t, ctx, book)
			}()
			const checks = 5
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
			_, backlog, err := book.Backlog(t.Context())
			if err != nil || len(backlog) != 3 || backlog[0].Succeeded == 0 || backlog[0].EverCancelled == 0 {
				t.Errorf("got %+v, %v: the load did not do what it should", backlog, err)
			}
		})
	}
}

// load runs 6 workers, each of which dies now and then, and a reconciler until
// ctx ends or they have done their part. What was begun is ended first.
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
	for n := range 6 {
		all.Go(func() {
			r := rand.New(rand.NewPCG(1, uint64(n)))
			for round := 0; ctx.Err() == nil && round < 30; round++ { // a book that stays small
				if err := oneRound(always, book, r, round); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}

// oneRound enqueues some jobs, claims some and ends each in some way.
func oneRound(ctx context.Context, book *daybook.Book, r *rand.Rand, n int) error {
	queue := "q" + strconv.Itoa(r.IntN(3))
	requests := make([]daybook.Request, 8)
	for i := range requests {
		requests[i] = daybook.Request{Queue: queue, Kind: "k", MaxFailures: 1 + r.IntN(3), Priority: r.IntN(2),
			Timeout: time.Duration(1+r.IntN(1000)) * time.Millisecond}
		if i%3 == 0 {
			requests[i].Key = strconv.Itoa(r.IntN(500))
		}
		if i%4 == 0 {
			requests[i].OnLost = daybook.LostSetAside
		}
		if i == 5 {
			requests[i].ExpiresAt = time.Unix(1, 0)
		}
	}
	for i := range requests { // two queues may ask with one key
		if _, err := book.Enqueue(ctx, requests[i]); err != nil && !errors.Is(err, daybook.ErrKeyConflict) {
			return err
		}
	}
	if n%10 == 0 {
		if err := errors.Join(book.Pause(ctx, queue, ada), book.Resume(ctx, queue, ada)); err != nil {
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
	if r.IntN(2) == 0 {
		return book.EndSession(ctx, got.Session.ID) // else it dies, and its lease runs out
	}
	return nil
}

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
		_, err = book.Cancel(ctx, j.ID, ada, r.IntN(2) == 0)
	case 6:
		_, err = book.Cancel(ctx, j.ID, ada, true)
		if err == nil {
			_, err = book.Settle(ctx, j.ID, daybook.HandlerEffect, daybook.Verdict{Happened: r.IntN(2) == 0}, ada)
		}
		if err == nil {
			_, err = book.Revive(ctx, j.ID, ada)
		}
	}
	switch daybook.CodeOf(err) {
	case daybook.CodeFenced, daybook.CodeRefused, daybook.CodeEffectOpen, daybook.CodeNotFound:
		return nil
	}
	return err
}
