package postgres

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/daybookdev/daybook"
)

// free tells which jobs nobody holds in a table, by their places in ids.
func (h *hot) free(table string, ids []daybook.ID) (places string) {
	h.Helper()
	rows, err := h.conn.Query(h.Context(), h.store.schema.in(`SELECT j.id::text FROM daybook.job j
		WHERE j.seq IN (SELECT x.seq FROM daybook.`+table+` x FOR UPDATE SKIP LOCKED)`))
	ok(h.T, err)
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	ok(h.T, err)
	for i, id := range ids {
		if slices.Contains(list, id.String()) {
			places += fmt.Sprint(i)
		}
	}
	return places
}

// TestLocksInOrder: jobs are locked by arrival, whatever their ids, each before
// its row in ready or owned, and all of them are held until the end.
func TestLocksInOrder(t *testing.T) {
	for _, table := range []string{"ready", "owned"} {
		t.Run(table, func(t *testing.T) {
			h := newHot(t, Options{Patience: 10 * time.Second})
			ids := []daybook.ID{daybook.NewID(), daybook.NewID(), daybook.NewID()}
			slices.Reverse(ids) // by arrival: the later an id, the sooner
			for _, id := range ids {
				_, err := h.book.Enqueue(t.Context(), daybook.Request{ID: id, Queue: "q", Kind: "k"})
				ok(t, err)
			}
			if table == "owned" {
				same(t, "claimed", len(h.claim(session(t, h.book, time.Minute), 3, "q")), 3)
			}
			h.locksInOrder(table, ids)
			h.write(func(x *tx) error {
				_, err := x.Lock(t.Context(), ids)
				same(t, "jobs that nobody holds", h.free("job", ids), "")
				same(t, "rows that nobody holds", h.free(table, ids), "")
				return err
			})
		})
	}
}

// locksInOrder holds the second job and looks what who locks all has by then.
func (h *hot) locksInOrder(table string, ids []daybook.ID) {
	h.Helper()
	open := h.holds("SELECT FROM daybook.job WHERE id = $1 FOR UPDATE", ids[1].String())
	lock := func() error {
		return h.store.Write(h.Context(), "a test", func(x daybook.Tx) error {
			_, err := x.Lock(h.Context(), ids)
			return err
		})
	}
	answer := inBackground(lock)
	blocked := h.blockedBy(open.Conn())
	var jobs, rows string
	h.waitFor("a look at who waits", func() bool {
		if len(answer) > 0 { // it waits two seconds, which may be over before anybody looked
			if err := <-answer; !errors.Is(err, daybook.ErrBusy) {
				h.Fatalf("locking what somebody holds: got %v, want busy", err)
			}
			answer = inBackground(lock)
		}
		if !blocked() {
			return false
		}
		jobs, rows = h.free("job", ids), h.free(table, ids)
		return blocked()
	})
	same(h.T, "jobs that nobody holds yet", jobs, "2")
	same(h.T, "rows that nobody holds yet", rows, "012")
	if err := <-answer; !errors.Is(err, daybook.ErrBusy) {
		h.Errorf("locking what somebody holds: got %v, want busy", err)
	}
	ok(h.T, open.Rollback(h.Context()))
}

// TestSessionIsHeld: a session that a write names can't be changed meanwhile,
// and one that somebody else holds isn't ended.
func TestSessionIsHeld(t *testing.T) {
	h := newHot(t, Options{Patience: 10 * time.Second})
	s, other := session(t, h.book, time.Minute), session(t, h.book, time.Minute)
	h.sql("UPDATE daybook.session SET renewed_at = renewed_at - 3600000000, expires_at = expires_at - 3600000000")
	for what, look := range map[string]func(x *tx) error{
		"by its id": func(x *tx) error {
			_, err := x.Sessions(t.Context(), daybook.SessionFilter{ID: s.ID})
			return err
		},
		"with its claims": func(x *tx) error {
			_, _, _, err := x.Claims(t.Context(), daybook.ClaimsOf{Session: s.ID})
			return err
		},
		"past its lease": func(x *tx) error {
			_, err := x.Sessions(t.Context(), daybook.SessionFilter{Expired: x.Now(), Limit: 10})
			return err
		},
	} {
		h.write(func(x *tx) error {
			ok(t, look(x))
			_, err := h.conn.Exec(t.Context(),
				h.store.schema.in("SELECT FROM daybook.session WHERE n = $1 FOR UPDATE NOWAIT"), s.Ref)
			if stateOf(err) != stateLockTimeout {
				t.Errorf("%s: got %v, want that the session is held", what, err)
			}
			return nil
		})
	}
	open := h.holds("SELECT FROM daybook.session WHERE n = $1 FOR UPDATE", s.Ref)
	ended, _, err := h.book.EndExpiredSessions(t.Context(), daybook.AtOnce)
	ok(t, err)
	same(t, "ended", ended, 1)
	ok(t, open.Rollback(t.Context()))
	live, err := h.book.Sessions(t.Context(), daybook.SessionFilter{})
	ok(t, err)
	if len(live) != 1 || live[0].ID != s.ID {
		t.Errorf("%d sessions live; want the one that was held, and not %s", len(live), other.ID)
	}
}
