package postgres

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/internal/pgtest"
)

// TestClaimTxEnds: the handler's transaction ends with the lease, whether it
// stands still or a statement takes long, and none begins after it.
func TestClaimTxEnds(t *testing.T) {
	book := fresh(t, pgtest.SharedURL(t), Options{})
	enqueued(t, book, 2)
	jobs := claimed(t, book, session(t, book, time.Minute), 2)
	ok(t, ClaimTx(t.Context(), claimFor(book, jobs[0]), func(tx pgx.Tx) error {
		for _, name := range []string{"idle_in_transaction_session_timeout", "statement_timeout"} {
			var millis int64
			err := tx.QueryRow(t.Context(), "SELECT setting::bigint FROM pg_settings WHERE name = $1", name).Scan(&millis)
			ok(t, err)
			if millis < 1 || millis > time.Minute.Milliseconds() {
				t.Errorf("%s is %d ms, want up to the lease", name, millis)
			}
		}
		return nil
	}))
	late := claimFor(book, jobs[1])
	late.job.LeaseUntil = late.job.ClaimedAt
	err := ClaimTx(t.Context(), late, func(pgx.Tx) error {
		t.Error("it runs after the lease")
		return nil
	})
	if !errors.Is(err, daybook.ErrFenced) {
		t.Errorf("after the lease: got %v, want fenced", err)
	}
	for what, end := range map[string]func(tx pgx.Tx) error{
		"commits":    func(tx pgx.Tx) error { return tx.Commit(t.Context()) },
		"rolls back": func(tx pgx.Tx) error { return tx.Rollback(t.Context()) },
	} {
		err := ClaimTx(t.Context(), claimFor(book, jobs[1]), func(tx pgx.Tx) error {
			end(tx) // and says nothing of it
			return nil
		})
		if !errors.Is(err, daybook.ErrRefused) {
			t.Errorf("a handler that %s: got %v, want refused", what, err)
		}
	}
	complete(t, book, jobs[1])
}

// TestClaimTxUnanswered: a commit whose answer is lost is looked up: what it did
// is told, and what it didn't do too. The handler's function runs once.
func TestClaimTxUnanswered(t *testing.T) {
	lost := 0 // 1: the next commit doesn't arrive; 2: its answer doesn't
	book := fresh(t, pgtest.SharedURL(t), Options{Fault: func(call string, did bool) error {
		if call != "COMMIT" || lost == 0 || did != (lost == 2) {
			return nil
		}
		lost = 0
		return errors.New("cut")
	}})
	enqueued(t, book, 2)
	jobs := claimed(t, book, session(t, book, time.Minute), 2)
	for i, want := range []daybook.State{daybook.Running, daybook.Succeeded} {
		ran := 0
		err := ClaimTx(t.Context(), claimFor(book, jobs[i]), func(pgx.Tx) error {
			ran++
			lost = i + 1
			return nil
		})
		if took := want == daybook.Succeeded; (err == nil) != took || !took && !errors.Is(err, daybook.ErrUnavailable) {
			t.Errorf("a job that is %s then: got %v", want, err)
		}
		j, err := book.Job(t.Context(), jobs[i].ID)
		ok(t, err)
		same(t, "state", j.State, want)
		same(t, "runs", ran, 1)
	}
	complete(t, book, jobs[0])
}

// TestStoppedInTheMiddle: a process that stands still in the middle of a write
// holds what it locked for a bounded time only, and is told that the database
// went away from it.
func TestStoppedInTheMiddle(t *testing.T) {
	h := newHot(t, Options{})
	s := session(t, h.book, time.Minute)
	err := h.store.Write(t.Context(), "a test", func(x daybook.Tx) error {
		if _, err := x.(*tx).one("SELECT 1::bigint FROM daybook.session WHERE id = $1::text::uuid FOR UPDATE",
			s.ID.String()); err != nil {
			return err
		}
		err := error(daybook.ErrBusy)
		for tries := 0; errors.Is(err, daybook.ErrBusy) && tries < 20; tries++ { // each waits two seconds
			err = h.book.EndSession(context.WithoutCancel(t.Context()), s.ID)
		}
		ok(t, err)
		_, err = x.Lock(t.Context(), []daybook.ID{s.ID})
		return err
	})
	if !errors.Is(err, daybook.ErrUnavailable) {
		t.Errorf("the write that was stopped in the middle: got %v, want unavailable", err)
	}
}
