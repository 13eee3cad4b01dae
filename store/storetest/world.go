package storetest

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/daybookdev/daybook"
)

// world is one book in one test, with short words for what tests do all the
// time. Its methods end the test when the book answers with an error.
type world struct {
	tb
	t     *testing.T
	ctx   context.Context
	clock *clock
	open  opener
	opts  Options
	book  *daybook.Book
	// broken names the invariants that the test breaks on purpose.
	broken []string
}

// tb is what a test and a random run have in common.
type tb interface {
	Helper()
	Logf(format string, args ...any)
	Error(args ...any)
	Errorf(format string, args ...any)
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// someone is the person of tests that don't care who it was.
var someone = daybook.By{Actor: "ada", Reason: "a test"}

// ok ends the test on an error.
func (w *world) ok(err error) {
	w.Helper()
	if err != nil {
		w.Fatalf("unexpected error: %v (code %s)", err, daybook.CodeOf(err))
	}
}

// refused ends the test unless err carries the code.
func (w *world) refused(err error, want daybook.Code) {
	w.Helper()
	if got := daybook.CodeOf(err); got != want {
		w.Fatalf("got code %q (%v), want %q", got, err, want)
	}
}

// same ends the test unless got is want.
func same[T comparable](w *world, what string, got, want T) {
	w.Helper()
	if got != want {
		w.Fatalf("%s: got %v, want %v", what, got, want)
	}
}

// request fills in a queue and a kind.
func request(r daybook.Request) daybook.Request {
	if r.Queue == "" {
		r.Queue = "q"
	}
	if r.Kind == "" {
		r.Kind = "k"
	}
	return r
}

func (w *world) enqueue(r daybook.Request) daybook.ID {
	w.Helper()
	receipt, err := w.book.Enqueue(w.ctx, request(r))
	w.ok(err)
	return receipt.ID
}

// many enqueues n plain jobs in one call.
func (w *world) many(n int) []daybook.ID {
	w.Helper()
	requests := make([]daybook.Request, n)
	for i := range requests {
		requests[i] = request(daybook.Request{})
	}
	receipts, err := w.book.EnqueueMany(w.ctx, requests)
	w.ok(err)
	ids := make([]daybook.ID, n)
	for i, r := range receipts {
		ids[i] = r.ID
	}
	return ids
}

// session starts a session with the default lease.
func (w *world) session(worker string) daybook.Session {
	w.Helper()
	s, err := w.book.StartSession(w.ctx, daybook.SessionRequest{Worker: worker})
	w.ok(err)
	return s
}

// claim takes up to n jobs from queue q.
func (w *world) claim(s daybook.Session, n int) []daybook.Job {
	w.Helper()
	got, err := w.book.Claim(w.ctx, daybook.ClaimRequest{Session: s.ID, Queues: []string{"q"}, Limit: n})
	w.ok(err)
	return got.Jobs
}

// claimed takes exactly one job from queue q.
func (w *world) claimed(s daybook.Session) daybook.Job {
	w.Helper()
	jobs := w.claim(s, 1)
	if len(jobs) != 1 {
		w.Fatalf("got %d jobs, want 1", len(jobs))
	}
	return jobs[0]
}

// running enqueues a job and claims it for a new session.
func (w *world) running(r daybook.Request) daybook.Job {
	w.Helper()
	id := w.enqueue(r)
	j := w.claimed(w.session("w"))
	same(w, "the claimed job", j.ID, id)
	return j
}

func owner(j daybook.Job) daybook.Owner {
	return daybook.Owner{Session: j.Session, Generation: j.Generation}
}

func ref(j daybook.Job) daybook.ClaimRef {
	return daybook.ClaimRef{Job: j.ID, Generation: j.Generation}
}

func (w *world) complete(j daybook.Job) {
	w.Helper()
	_, err := w.book.Complete(w.ctx, j.ID, owner(j), json.RawMessage(`"done"`))
	w.ok(err)
}

func (w *world) job(id daybook.ID) daybook.Job {
	w.Helper()
	j, err := w.book.Job(w.ctx, id)
	w.ok(err)
	return j
}

// stands ends the test unless the job is in the state, and returns it.
func (w *world) stands(id daybook.ID, want daybook.State) daybook.Job {
	w.Helper()
	j := w.job(id)
	if j.State != want {
		w.Fatalf("job %s is %s (reason %q, generation %d), want %s", id, j.State, j.Reason, j.Generation, want)
	}
	return j
}

func (w *world) attempts(id daybook.ID) []daybook.Attempt {
	w.Helper()
	attempts, err := w.book.Attempts(w.ctx, id)
	w.ok(err)
	return attempts
}

func (w *world) write(fn func(tx daybook.Tx) error) {
	w.Helper()
	w.ok(w.try(fn))
}

// try is a write that may be refused.
func (w *world) try(fn func(tx daybook.Tx) error) error {
	return here(fn, func(there func(daybook.Tx) error) error {
		return w.book.Store().Write(w.ctx, "a test", there)
	})
}

func (w *world) read(fn func(v daybook.View) error) {
	w.Helper()
	w.ok(here(fn, func(there func(daybook.View) error) error {
		return w.book.Store().Read(w.ctx, "a test", there)
	}))
}

// here lets a store run fn, but on this goroutine: a store may run it on one of
// its own, and a test may only be ended from the test's.
func here[T any](fn func(T) error, run func(there func(T) error) error) error {
	ask, answer, done := make(chan T), make(chan error), make(chan error)
	go func() {
		done <- run(func(t T) error {
			ask <- t
			return <-answer
		})
	}()
	serve := func(t T) {
		err, finished := errEnded, false
		defer func() {
			answer <- err
			if !finished { // the test ends in fn: leave nothing running
				<-done
			}
		}()
		err = fn(t)
		finished = true
	}
	for {
		select {
		case t := <-ask:
			serve(t)
		case err := <-done:
			return err
		}
	}
}

// errEnded undoes what a test wrote that ended inside a transaction.
var errEnded error = daybook.Fail(daybook.CodeInternal, "the test ended inside a transaction")

// locked loads one job as a move sees it.
func (w *world) locked(id daybook.ID) (j daybook.Job) {
	w.Helper()
	w.write(func(tx daybook.Tx) error {
		jobs, err := tx.Lock(w.ctx, []daybook.ID{id})
		if err == nil {
			j = jobs[0]
		}
		return err
	})
	return j
}

// pass is what one pass of the reconciler did.
type pass struct{ ended, marked, revoked, overdue, expired int }

// reconcile makes one pass.
func (w *world) reconcile(c daybook.Certainty) (p pass) {
	w.Helper()
	var err error
	p.ended, p.marked, err = w.book.EndExpiredSessions(w.ctx, c)
	w.ok(err)
	p.revoked, err = w.book.RevokeLost(w.ctx)
	w.ok(err)
	p.overdue, err = w.book.RevokeOverdue(w.ctx)
	w.ok(err)
	p.expired, err = w.book.ExpireWaiting(w.ctx)
	w.ok(err)
	return p
}

// lapse lets the default lease run out and has the claims taken back.
func (w *world) lapse() pass {
	w.Helper()
	w.clock.advance(daybook.LeaseDefault + time.Second)
	return w.reconcile(daybook.AtOnce)
}

// counts are the numbers of queue q.
func (w *world) counts() daybook.Backlog {
	w.Helper()
	_, backlog, err := w.book.Backlog(w.ctx)
	w.ok(err)
	for _, b := range backlog {
		if b.Queue == "q" {
			return b
		}
	}
	return daybook.Backlog{}
}
