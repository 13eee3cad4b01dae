package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"path/filepath"
	"testing"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/check"
)

// shop is a book and the caller's own database handle on the same file.
func shop(t *testing.T) (*daybook.Book, *sql.DB) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "shop.db")
	book, err := Open(t.Context(), path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", "file:"+path+"?_txlock=immediate&_pragma=busy_timeout(5000)")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec("CREATE TABLE orders (n INTEGER PRIMARY KEY)"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		report, err := check.Run(context.Background(), book, check.Options{Full: true})
		if err != nil || report.Violations > 0 {
			t.Errorf("check: %d violations, %v: %+v", report.Violations, err, report.Invariants)
		}
		db.Close()
		book.Close()
	})
	return book, db
}

func mail(key, args string) daybook.Request {
	return daybook.Request{Queue: "mail", Kind: "receipt", Key: key, Args: json.RawMessage(args)}
}

// claimable is how many jobs a worker would get now.
func claimable(t *testing.T, book *daybook.Book) int {
	t.Helper()
	c, err := book.Claim(t.Context(), daybook.ClaimRequest{Queues: []string{"mail"}, Limit: 10})
	if err != nil {
		t.Fatal(err)
	}
	if err := book.EndSession(t.Context(), c.Session.ID); err != nil {
		t.Fatal(err)
	}
	return len(c.Jobs)
}

// A job enqueued in the caller's transaction exists when that commits, with
// the caller's own row, and never when it rolls back (L40, sidekiq #5239).
func TestL40EnqueueSQLLivesAndDiesWithItsTransaction(t *testing.T) {
	book, db := shop(t)
	for _, commit := range []bool{false, true} {
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec("INSERT INTO orders (n) VALUES (1)"); err != nil {
			t.Fatal(err)
		}
		receipts, err := EnqueueSQL(t.Context(), tx, mail("order-1", `{"n":1.0}`), mail("", `{"n":2}`))
		if err != nil || len(receipts) != 2 || receipts[0].Replayed {
			t.Fatalf("EnqueueSQL: %+v, %v", receipts, err)
		}
		if _, err := book.Job(t.Context(), receipts[0].ID); !errors.Is(err, daybook.ErrNotFound) {
			t.Errorf("before the end of the transaction: got %v, want not found", err)
		}
		want := 0
		if commit {
			want, err = 2, tx.Commit()
		} else {
			err = tx.Rollback()
		}
		if err != nil {
			t.Fatal(err)
		}
		if got := claimable(t, book); got != want {
			t.Errorf("commit %v: %d jobs claimable, want %d", commit, got, want)
		}
	}
	j, err := book.Key(t.Context(), "order-1")
	if err != nil {
		t.Fatal(err)
	}
	job, err := book.Job(t.Context(), j.Job)
	if err != nil || string(job.Args) != `{"n":1.0}` {
		t.Errorf("args are %s, %v; want them as given", job.Args, err)
	}
}

// A refused call stores nothing, and the caller's transaction goes on.
func TestEnqueueSQLRefusedLeavesTheTransactionUsable(t *testing.T) {
	book, db := shop(t)
	if _, err := book.Enqueue(t.Context(), mail("k", `{"n":1}`)); err != nil {
		t.Fatal(err)
	}
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = EnqueueSQL(t.Context(), tx, mail("fresh", `{"n":5}`), mail("k", `{"n":2}`))
	if !errors.Is(err, daybook.ErrKeyConflict) || daybook.BatchIndex(err) != 1 {
		t.Errorf("got %v at %d, want a key conflict at 1", err, daybook.BatchIndex(err))
	}
	again, err := EnqueueSQL(t.Context(), tx, mail("k", `{"n":1e0}`))
	if err != nil || !again[0].Replayed {
		t.Errorf("the same request again: %+v, %v; want a replay", again, err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	if _, err := book.Key(t.Context(), "fresh"); !errors.Is(err, daybook.ErrNotFound) {
		t.Errorf("the refused call's key: got %v, want not found", err)
	}
	if got := claimable(t, book); got != 1 {
		t.Errorf("%d jobs claimable, want the first one", got)
	}
}
