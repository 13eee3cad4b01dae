package worker_test

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"path/filepath"
	"testing"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/store/sqlite"
	"github.com/daybookdev/daybook/worker"
)

// A handler's own writes and the completion in one transaction.
func TestClaimTx(t *testing.T) {
	for _, c := range []struct {
		name  string
		end   error // of the handler, after its transaction
		roll  bool  // the transaction fails
		rows  int
		state daybook.State
	}{
		{"completes", nil, false, 1, daybook.Succeeded},
		{"stays completed", errors.New("afterwards"), false, 1, daybook.Succeeded},
		{"rolls back", nil, true, 0, daybook.SetAside},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "book.db")
			book, err := sqlite.Open(t.Context(), path,
				sqlite.Options{Book: daybook.Options{Log: slog.New(slog.DiscardHandler)}})
			if err != nil {
				t.Fatal(err)
			}
			defer book.Close()
			db, err := sql.Open("sqlite", path)
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			if _, err := db.Exec("CREATE TABLE mine (n INTEGER)"); err != nil {
				t.Fatal(err)
			}
			receipt, err := book.Enqueue(t.Context(), daybook.Request{Queue: "q", Kind: "job"})
			if err != nil {
				t.Fatal(err)
			}
			w := worker.New(book, worker.Config{Queues: []string{"q"}, NoLoops: true})
			worker.Handle(w, "job", func(ctx context.Context, claim *worker.Claim[none]) error {
				if err := claim.SetResult("in one"); err != nil {
					return err
				}
				err := sqlite.ClaimTx(ctx, claim, func(tx *sql.Tx) error {
					if err := claim.Progress(ctx, 1); !errors.Is(err, daybook.ErrRefused) {
						t.Errorf("Progress inside the transaction: %v, want refused", err)
					}
					if _, err := claim.EnterTx(); !errors.Is(err, daybook.ErrRefused) {
						t.Errorf("a second transaction inside: %v, want refused", err)
					}
					if _, err := tx.Exec("INSERT INTO mine VALUES (1)"); err != nil || !c.roll {
						return err
					}
					return worker.Permanent(errors.New("rolled back"))
				})
				if err != nil {
					return err
				}
				return c.end
			})
			if err := w.Drain(t.Context()); err != nil {
				t.Fatal(err)
			}
			j, err := book.Job(t.Context(), receipt.ID)
			if err != nil || j.State != c.state {
				t.Fatalf("job is %s, %v; want %s", j.State, err, c.state)
			}
			if c.state == daybook.Succeeded && string(j.Result) != `"in one"` {
				t.Errorf("result %s", j.Result)
			}
			rows := 0
			if err := db.QueryRow("SELECT count(*) FROM mine").Scan(&rows); err != nil || rows != c.rows {
				t.Errorf("%d rows, %v; want %d", rows, err, c.rows)
			}
			if s := w.Stats(); s.Fenced != 0 {
				t.Errorf("stats %+v; want nothing fenced", s)
			}
		})
	}
}
