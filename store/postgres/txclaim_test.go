package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/internal/pgtest"
)

// testClaim is a claim without a worker around it.
type testClaim struct {
	book *daybook.Book
	job  daybook.Job
}

func claimFor(book *daybook.Book, j daybook.Job) *testClaim { return &testClaim{book: book, job: j} }

func (c *testClaim) Book() *daybook.Book          { return c.book }
func (c *testClaim) Job() daybook.Job             { return c.job }
func (c *testClaim) Result() json.RawMessage      { return json.RawMessage(`"done"`) }
func (c *testClaim) EnterTx() (func(bool), error) { return func(bool) {}, nil }

// ledgerTable makes a table of the user's own.
func ledgerTable(t *testing.T, url string) (name string) {
	t.Helper()
	name = "ledger_" + daybook.NewID().String()[24:]
	psql(t, url, "CREATE TABLE "+name+" (job text)")
	t.Cleanup(func() { pgtest.Psql(url, "DROP TABLE "+name) })
	return name
}

func entries(t *testing.T, url, table string) string {
	t.Helper()
	return strings.TrimSpace(psql(t, url, "SELECT count(*) FROM "+table))
}

func TestClaimTx(t *testing.T) {
	url := pgtest.SharedURL(t)
	book := fresh(t, url, Options{})
	table := ledgerTable(t, url)
	enqueued(t, book, 3)
	s := session(t, book, time.Minute)
	jobs := claimed(t, book, s, 3)
	write := func(tx pgx.Tx) error {
		_, err := tx.Exec(t.Context(), "INSERT INTO "+table+" VALUES ('once')")
		return err
	}

	ok(t, ClaimTx(t.Context(), claimFor(book, jobs[0]), write))
	ok(t, ClaimTx(t.Context(), claimFor(book, jobs[0]), write)) // its answer was lost: nothing runs
	if n := entries(t, url, table); n != "1" {
		t.Errorf("%s entries after the same claim twice, want 1", n)
	}

	own := errors.New("the handler's own")
	err := ClaimTx(t.Context(), claimFor(book, jobs[1]), func(tx pgx.Tx) error { return errors.Join(write(tx), own) })
	if !errors.Is(err, own) {
		t.Errorf("got %v, want the handler's error", err)
	}
	_, err = book.Release(t.Context(), jobs[1].ID, ownerOf(jobs[1]), 0)
	ok(t, err)
	again := claimed(t, book, s, 1)[0]
	if err := ClaimTx(t.Context(), claimFor(book, jobs[1]), write); !errors.Is(err, daybook.ErrFenced) {
		t.Errorf("an owner that was replaced: got %v, want fenced", err)
	}
	err = ClaimTx(t.Context(), claimFor(book, again), func(tx pgx.Tx) error { return tx.Commit(t.Context()) })
	if !errors.Is(err, daybook.ErrRefused) {
		t.Errorf("a handler that commits: got %v, want refused", err)
	}
	ok(t, ClaimTx(t.Context(), claimFor(book, again), write))
	if n := entries(t, url, table); n != "2" {
		t.Errorf("%s entries, want 2", n)
	}
}

// TestClaimTxHolds: while the transaction runs, a person's write answers busy
// and the reconciler passes the claim by.
func TestClaimTxHolds(t *testing.T) {
	t.Parallel() // it waits more than it works
	book := fresh(t, pgtest.SharedURL(t), Options{})
	enqueued(t, book, 2)
	jobs := claimed(t, book, session(t, book, time.Second), 2)
	held := claimFor(book, jobs[0])
	held.job.LeaseUntil = held.job.LeaseUntil.Add(time.Minute)
	err := ClaimTx(t.Context(), held, func(pgx.Tx) error {
		_, err := book.Cancel(t.Context(), jobs[0].ID, daybook.By{Actor: "ada", Reason: "a test"}, true)
		if !errors.Is(err, daybook.ErrBusy) {
			t.Errorf("a person's write meanwhile: got %v, want busy", err)
		}
		until(t, "the session's end", func() bool {
			ended, _, err := book.EndExpiredSessions(t.Context(), daybook.AtOnce)
			ok(t, err)
			return ended == 1
		})
		n, err := book.RevokeLost(t.Context())
		ok(t, err)
		if n != 1 {
			t.Errorf("%d claims revoked, want the other one", n)
		}
		return nil
	})
	ok(t, err)
	j, err := book.Job(t.Context(), jobs[0].ID)
	ok(t, err)
	if j.State != daybook.Succeeded {
		t.Errorf("the job is %s", j.State)
	}
}

// TestEnqueueTx: jobs come and go with the caller's transaction, which goes on
// after a refusal.
func TestEnqueueTx(t *testing.T) {
	url := pgtest.SharedURL(t)
	book := fresh(t, url, Options{})
	in := In(book.Store().(*Store).Schema())
	conn, err := pgx.Connect(t.Context(), url)
	ok(t, err)
	defer conn.Close(context.Background())
	for _, commit := range []bool{false, true} {
		tx, err := conn.Begin(t.Context())
		ok(t, err)
		_, err = in.EnqueueTx(t.Context(), tx, daybook.Request{Queue: "q", Kind: "k", Key: "a"})
		ok(t, err)
		_, err = in.EnqueueTx(t.Context(), tx, daybook.Request{Queue: "q", Kind: "other", Key: "a"})
		if !errors.Is(err, daybook.ErrKeyConflict) {
			t.Fatalf("the key with another kind: got %v", err)
		}
		_, err = In("nowhere").EnqueueTx(t.Context(), tx, daybook.Request{Queue: "q", Kind: "k"})
		if daybook.CodeOf(err) != daybook.CodeInvalid {
			t.Errorf("a schema without a book: got %v, want invalid", err)
		}
		_, err = in.EnqueueTx(t.Context(), tx, daybook.Request{Queue: "q", Kind: "k"}, daybook.Request{Queue: "r", Kind: "k"})
		ok(t, err)
		if got := claimed(t, book, session(t, book, time.Minute), 10); len(got) != 0 {
			t.Errorf("claimed %d before the commit", len(got))
		}
		end := tx.Rollback
		if commit {
			end = tx.Commit
		}
		ok(t, end(t.Context()))
		if got := claimed(t, book, session(t, book, time.Minute), 10); len(got) != map[bool]int{true: 2}[commit] {
			t.Errorf("commit %v: claimed %d", commit, len(got))
		}
	}
}
