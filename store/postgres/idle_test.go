package postgres

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/internal/pgtest"
)

// renewIdle makes one renewal of a session that lists nothing, and tells whether
// it was done in one step.
func (h *hot) renewIdle(s daybook.Session) (r daybook.Renewal, done bool) {
	h.Helper()
	h.write(func(x *tx) (err error) {
		r, done, err = x.RenewIdle(h.Context(), s.ID)
		return err
	})
	return r, done
}

// TestRenewIdle: a session that owns nothing is renewed in one step, which does
// what the steps do; another one is left to them.
func TestRenewIdle(t *testing.T) {
	h := newHot(t, Options{})
	s := session(t, h.book, time.Minute)
	h.sql(fmt.Sprintf("UPDATE daybook.session SET marked_at = 1, quiet = true, expires_at = 5 WHERE n = %d", s.Ref))
	r, done := h.renewIdle(s)
	live, err := h.book.Sessions(t.Context(), daybook.SessionFilter{ID: s.ID})
	ok(t, err)
	if got := live[0]; !done || !r.Quiet || r.LeaseUntil != got.ExpiresAt ||
		got.ExpiresAt != got.RenewedAt.Add(got.Lease) ||
		got.RenewedAt <= s.RenewedAt || got.MarkedAt != 0 || got.Renewals != s.Renewals+1 {
		t.Errorf("done %v, %+v: %+v", done, r, got)
	}
	h.sql(fmt.Sprintf("UPDATE daybook.session SET quiet = false WHERE n = %d", s.Ref))
	enqueued(t, h.book, 1)
	jobs := h.claim(s, 1, "q")
	if _, done := h.renewIdle(s); done {
		t.Error("a session that owns a job was renewed as an idle one")
	}
	for range 2 { // nobody lists the claim: its answer never came
		_, err := h.book.Renew(t.Context(), s.ID, []daybook.ClaimRef{})
		ok(t, err)
	}
	j, err := h.book.Job(t.Context(), jobs[0].ID)
	ok(t, err)
	same(t, "state of a claim that two renewals didn't list", j.State, daybook.Waiting)
	ok(t, h.book.EndSession(t.Context(), s.ID))
	if _, done := h.renewIdle(s); done {
		t.Error("an ended session was renewed")
	}
	if _, err := h.book.Renew(t.Context(), s.ID, []daybook.ClaimRef{}); !errors.Is(err, daybook.ErrFenced) {
		t.Errorf("an ended session: %v", err)
	}
	if _, err := h.book.Renew(t.Context(), daybook.NewID(), []daybook.ClaimRef{}); !errors.Is(err, daybook.ErrNotFound) {
		t.Errorf("an unknown session: %v", err)
	}
}

// TestRenewIdleRival: a renewal that waited for the session's end is refused.
func TestRenewIdleRival(t *testing.T) {
	h := newHot(t, Options{})
	s := session(t, h.book, time.Minute)
	ender := dial(t, pgtest.SharedURL(t))
	open, err := ender.Begin(t.Context())
	ok(t, err)
	_, err = open.Exec(t.Context(), h.store.schema.in("UPDATE daybook.session SET ended_at = renewed_at WHERE n = $1"),
		s.Ref)
	ok(t, err)
	renewal := make(chan error, 1)
	go func() {
		_, err := h.book.Renew(h.Context(), s.ID, []daybook.ClaimRef{})
		renewal <- err
	}()
	waits(h, "the renewal", ender, renewal)
	ok(t, open.Commit(t.Context()))
	if err := <-renewal; !errors.Is(err, daybook.ErrFenced) {
		t.Errorf("the renewal of an ended session: %v", err)
	}
}
