package postgres

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/internal/pgtest"
)

// shares claims of three queues, one of which nobody uses, and tells the kinds of
// what it got, in order.
func (h *hot) shares(s daybook.Session, limit int, oldest bool, kinds ...string) string {
	h.Helper()
	got, err := h.book.Claim(h.Context(), daybook.ClaimRequest{Session: s.ID, Queues: []string{"q", "nobody", "q2"},
		Kinds: kinds, Limit: limit, Oldest: oldest})
	ok(h.T, err)
	list := make([]string, len(got.Jobs))
	for i, j := range got.Jobs {
		list[i] = j.Kind
	}
	return fmt.Sprint(list)
}

// TestClaimShares: of several queues each gives its share as one set, which is
// what they would give one by one.
func TestClaimShares(t *testing.T) {
	all := []string{"due", "last", "later", "expired", "s-one", "high"}
	t.Run("filters", func(t *testing.T) {
		for _, oldest := range []bool{false, true} {
			h := newHot(t, Options{wholeClaims: true})
			s := session(t, h.book, time.Minute)
			h.jobsOf("s-mine")
			same(t, "the first suspect", h.claimKinds(s, false, "s-mine"), "s-mine")
			h.jobsIn("q2", "due", "expired", "other", "later", "s-one", "last")
			h.jobsIn("q", "due", "other")
			same(t, "claimed", h.shares(s, 20, oldest, all...), "[due due last]")
			same(t, "and again", h.shares(s, 20, oldest, all...), "[]")
		}
	})
	t.Run("priorities", func(t *testing.T) {
		h := newHot(t, Options{wholeClaims: true})
		s := session(t, h.book, time.Minute)
		h.jobsIn("q2", "due", "due", "last")
		h.jobsIn("q", "due", "last", "high")
		same(t, "by age", h.shares(s, 2, true, all...), "[due due]")
		same(t, "by priority", h.shares(s, 2, false, all...), "[high due]")
		same(t, "the rest", h.shares(s, 20, false, all...), "[last last]")
		h.jobsIn("q2", "due")
		h.jobsIn("q", "high-later", "last")
		same(t, "below a priority that isn't due", h.shares(s, 20, false, append(all, "high-later")...), "[last due]")
	})
	t.Run("nobody waits", func(t *testing.T) {
		h := newHot(t, Options{Patience: 10 * time.Second, wholeClaims: true})
		s := session(t, h.book, time.Minute)
		h.jobsIn("q2", "due")
		h.jobsIn("q", "due", "last")
		h.holds("SELECT FROM daybook.ready WHERE kind = $1 FOR UPDATE", "due")
		same(t, "beside what is locked", h.shares(s, 20, false, all...), "[last]")
	})
	t.Run("its session ends", claimSharesOfEnded)
}

func claimSharesOfEnded(t *testing.T) {
	h := newHot(t, Options{wholeClaims: true})
	h.jobsIn("q2", "due")
	h.jobsIn("q", "due")
	s := session(t, h.book, time.Minute)
	ender := dial(t, pgtest.SharedURL(t))
	open, err := ender.Begin(t.Context())
	ok(t, err)
	_, err = open.Exec(t.Context(), h.store.schema.in("UPDATE daybook.session SET ended_at = renewed_at WHERE n = $1"),
		s.Ref)
	ok(t, err)
	claim := make(chan error, 1)
	go func() {
		_, err := h.book.Claim(h.Context(), daybook.ClaimRequest{Session: s.ID, Queues: []string{"q", "q2"}, Limit: 3})
		claim <- err
	}()
	waits(h, "the claim", ender, claim)
	ok(t, open.Commit(t.Context()))
	if err := <-claim; !errors.Is(err, daybook.ErrFenced) {
		t.Errorf("the claim of an ended session: %v", err)
	}
}
