package check_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/store/sqlite"
)

// teller tells a story on a book of its own; a refusal ends the test.
type teller struct {
	*testing.T
	*clock
	book *daybook.Book
}

func newTeller(t *testing.T) *teller {
	c := &clock{at: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	book, err := sqlite.Open(t.Context(), sqlite.Memory, sqlite.Options{Now: c.now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { book.Close() })
	return &teller{t, c, book}
}

func (s *teller) ok(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *teller) enqueue(r daybook.Request) daybook.ID {
	s.Helper()
	r.Queue, r.Kind = "q", "k"
	got, err := s.book.Enqueue(s.Context(), r)
	s.ok(err)
	return got.ID
}

func (s *teller) claim() (daybook.ID, daybook.Owner) {
	s.Helper()
	got, err := s.book.Claim(s.Context(), daybook.ClaimRequest{Queues: []string{"q"}})
	s.ok(err)
	if len(got.Jobs) != 1 {
		s.Fatalf("claimed %d jobs, want 1", len(got.Jobs))
	}
	return got.Jobs[0].ID, daybook.Owner{Session: got.Session.ID, Generation: got.Jobs[0].Generation}
}

func (s *teller) succeed() {
	s.Helper()
	id, owner := s.claim()
	_, err := s.book.Complete(s.Context(), id, owner, json.RawMessage(`1`))
	s.ok(err)
}

func (s *teller) fail() {
	s.Helper()
	id, owner := s.claim()
	now := time.Duration(0)
	_, err := s.book.Fail(s.Context(), id, owner, daybook.Failure{}, &now)
	s.ok(err)
}

func (s *teller) release(in time.Duration) {
	s.Helper()
	id, owner := s.claim()
	_, err := s.book.Release(s.Context(), id, owner, in)
	s.ok(err)
	s.advance(in)
}

// lose lets the owner of the only job die.
func (s *teller) lose() {
	s.Helper()
	s.claim()
	s.lapse()
}

// lapse is one pass of the reconciler after the leases ran out.
func (s *teller) lapse() {
	s.Helper()
	s.advance(time.Minute)
	_, err := s.book.TakePass(s.Context(), time.Second)
	s.ok(err)
	_, _, err = s.book.EndExpiredSessions(s.Context(), daybook.AtOnce)
	s.ok(err)
	_, err = s.book.RevokeLost(s.Context())
	s.ok(err)
}

func (s *teller) settle(id daybook.ID, happened bool) {
	s.Helper()
	_, err := s.book.Settle(s.Context(), id, daybook.HandlerEffect, daybook.Verdict{Happened: happened}, ada)
	s.ok(err)
}

func (s *teller) cancel(id daybook.ID, force bool) {
	s.Helper()
	_, err := s.book.Cancel(s.Context(), id, ada, force)
	s.ok(err)
}

func (s *teller) revive(id daybook.ID) {
	s.Helper()
	_, err := s.book.Revive(s.Context(), id, ada)
	s.ok(err)
}

func (s *teller) restored() {
	s.Helper()
	_, err := s.book.Restored(s.Context(), daybook.At(s.now()), ada)
	s.ok(err)
}

func (s *teller) expire() {
	s.Helper()
	_, err := s.book.ExpireWaiting(s.Context())
	s.ok(err)
}

func (s *teller) arrive(a daybook.Arrival) daybook.ID {
	s.Helper()
	n, err := daybook.Request{Queue: "q", Kind: "k"}.Prepare()
	s.ok(err)
	s.ok(s.book.Store().Write(s.Context(), "importing", func(tx daybook.Tx) error {
		return tx.Save(s.Context(), []daybook.Change{n.Import(a, tx.Now())})
	}))
	return n.Job.ID
}

func (s *teller) stands(id daybook.ID, want daybook.State) {
	s.Helper()
	j, err := s.book.Job(s.Context(), id)
	s.ok(err)
	if j.State != want {
		s.Fatalf("job is %s (%s), want %s", j.State, j.Reason, want)
	}
}
