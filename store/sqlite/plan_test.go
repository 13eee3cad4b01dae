package sqlite

import (
	"context"
	"database/sql/driver"
	"path/filepath"
	"strings"
	"testing"
)

// TestPlans holds the plans of the statements that run all the time: none may
// scan a table that grows with the backlog or the history. SQLite is never
// told statistics, so its plans are the same on an empty and on a large book.
func TestPlans(t *testing.T) {
	ctx := context.Background()
	book, err := Open(ctx, filepath.Join(t.TempDir(), "plans.db"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer book.Close()
	s := book.Store().(*Store)
	for name, query := range map[string]string{
		"claim":          eligibleIn + inOrder,
		"claim of kinds": eligibleIn + "AND j.kind IN (?, ?) " + inOrder,
		"claim suspect":  suspectsIn + inOrder,
		"suspects wait":  suspectsWaiting,
		"suspects held":  suspectsHeld,
		"next priority":  nextRank,
		"next due":       nextDue,
		"lock":           lockJobs[5],
		"take away":      deleteReady,
		"take range":     deleteRange,
		"own run":        insertOwnedRun,
		"look up":        lookUp[5],
		"count plain":    countPlain[5],
		"record success": insertCompleted[5],
		"end ownership":  deleteCompleted[5],
		"count run":      countPlainRun,
		"record run":     insertRun,
		"end run":        deleteRun,
		"one job":        wholeJob + "WHERE j.id = ?",
		"one queue":      oneQueue,
		"past expiry":    findPastExpiry,
		"old successes":  findOldSuccesses,
		"old others":     findOldOthers,
		"fold":           foldSums + upTo + addSums,
	} {
		for _, step := range s.plan(t, query) {
			for _, table := range []string{"job", "j", "ready", "r", "ended", "d", "e", "request", "owned", "queue"} {
				if strings.Contains(step+" ", "SCAN "+table+" ") && !strings.Contains(step, "USING INDEX") {
					t.Errorf("%s: the plan has %q", name, step)
				}
			}
			if strings.Contains(step, "TEMP B-TREE FOR ORDER BY") && name == "claim" {
				t.Errorf("%s sorts the backlog: %q", name, step)
			}
		}
	}
}

// TestOutboxPlans: the relay goes by number, to where it was and to the rows that
// it takes out.
func TestOutboxPlans(t *testing.T) {
	book, err := Open(t.Context(), Memory, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer book.Close()
	for name, query := range map[string]string{
		"read": readRings,
		"fold": foldSums + dropped + addSums,
		"drop": "DELETE FROM outbox WHERE " + dropped,
	} {
		for _, step := range book.Store().(*Store).plan(t, query) {
			if strings.Contains(step, "SCAN o") || strings.Contains(step, "TEMP B-TREE FOR ORDER BY") {
				t.Errorf("%s: the plan has %q", name, step)
			}
		}
	}
}

// TestNotPlannedAnew: the statements of claim and completion don't compare with
// bare parameters. SQLite looks at the values of those and plans a statement
// anew when one changes in a way that could matter, which costs as much as
// claiming ten jobs.
func TestNotPlannedAnew(t *testing.T) {
	for name, query := range map[string]string{
		"claim":         eligibleIn + inOrder,
		"claim suspect": suspectsIn + inOrder,
		"suspects wait": suspectsWaiting,
		"suspects held": suspectsHeld,
		"next priority": nextRank,
		"take range":    deleteRange,
		"count plain":   countPlain[5],
		"count run":     countPlainRun,
	} {
		for _, bare := range []string{" = ?", "LIMIT ?"} {
			if strings.Contains(query, bare) {
				t.Errorf("%s has %q, want a plus before the parameter", name, bare)
			}
		}
	}
}

func (s *Store) plan(t *testing.T, query string) (steps []string) {
	t.Helper()
	err := s.alone(context.Background(), "explaining", func() error {
		c, err := s.connection()
		if err != nil {
			return err
		}
		args := make([]driver.Value, strings.Count(query, "?"))
		return c.rows("EXPLAIN QUERY PLAN "+query, args, func(row []driver.Value) error {
			steps = append(steps, text(row[3]))
			return nil
		})
	})
	if err != nil {
		t.Fatalf("%v\n%s", err, query)
	}
	if len(steps) == 0 {
		t.Fatalf("no plan for %s", query)
	}
	return steps
}
