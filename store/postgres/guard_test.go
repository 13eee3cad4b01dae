package postgres

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/internal/pgtest"
)

// Tests of single guards of the fast path, each of which `make mutate` takes out.

// holds begins a transaction on a connection beside the book and runs a query in
// it; the transaction ends with the test at the latest.
func (h *hot) holds(query string, args ...any) pgx.Tx {
	h.Helper()
	open, err := dial(h.T, pgtest.SharedURL(h.T)).Begin(h.Context())
	ok(h.T, err)
	_, err = open.Exec(h.Context(), h.store.schema.in(query), args...)
	ok(h.T, err)
	return open
}

// waits returns when somebody waits for what the connection's transaction holds,
// or has answered already, which fails the test.
func waits[T any](h *hot, what string, conn *pgx.Conn, answer chan T) {
	h.Helper()
	blocked := h.blockedBy(conn)
	h.waitFor(what+" waits", func() bool { return len(answer) > 0 || blocked() })
	if len(answer) > 0 {
		h.Fatalf("%s did not wait", what)
	}
}

// inBackground makes a call and answers what it said.
func inBackground(fn func() error) chan error {
	answer := make(chan error, 1)
	go func() { answer <- fn() }()
	return answer
}

// TestClaimFilters: what is claimed, of jobs of which some must not be, by
// priority and by age, with and without a suspect allowed.
func TestClaimFilters(t *testing.T) {
	plain := []string{"due", "expired", "other", "later", "last"}
	crashy := []string{"s-expired", "s-other", "s-one", "s-two", "s-later", "s-high"}
	for _, c := range []struct {
		name   string
		kinds  []string // enqueued
		runs   bool     // the session runs a suspect
		oldest bool
		want   string
	}{
		{"no suspects", plain, false, false, "due last"},
		{"no suspects, by age", plain, false, true, "due last"},
		{"one suspect", slices.Concat(plain, crashy), false, false, "due last s-high"},
		{"one suspect of a priority", slices.Concat(plain, crashy[:5]), false, false, "due last s-one"},
		{"one suspect, by age", slices.Concat(plain, crashy), false, true, "due last s-one"},
		{"no suspect besides", slices.Concat(plain, crashy), true, false, "due last"},
		{"no suspect besides, by age", slices.Concat(plain, crashy), true, true, "due last"},
		{"a suspect that isn't due", []string{"due", "s-later"}, false, false, "due"},
		{"a suspect that isn't due, by age", []string{"due", "s-later"}, false, true, "due"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHot(t, Options{wholeClaims: true})
			s := session(t, h.book, time.Minute)
			if c.runs {
				h.jobsOf("s-mine")
				same(t, "the first suspect", h.claimKinds(s, false, "s-mine"), "s-mine")
			}
			h.jobsOf(c.kinds...)
			kinds := slices.DeleteFunc(slices.Concat(plain, crashy), func(kind string) bool {
				return strings.HasSuffix(kind, "other")
			})
			same(t, "claimed", h.claimKinds(s, c.oldest, kinds...), c.want)
		})
	}
}

func same[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// jobsOf enqueues a job of each kind, which says what is up with it.
func (h *hot) jobsOf(kinds ...string) {
	h.Helper()
	h.jobsIn("q", kinds...)
}

func (h *hot) jobsIn(queue string, kinds ...string) {
	h.Helper()
	for _, kind := range kinds {
		r := daybook.Request{Queue: queue, Kind: kind}
		switch {
		case strings.HasSuffix(kind, "later"):
			r.In = time.Hour
		case strings.HasSuffix(kind, "expired"):
			r.ExpiresAt = time.Unix(1, 0)
		}
		if strings.Contains(kind, "high") {
			r.Priority = 5
		}
		_, err := h.book.Enqueue(h.Context(), r)
		ok(h.T, err)
	}
	h.sql("UPDATE daybook.job SET crashes = 2 WHERE kind LIKE 's-%'",
		"UPDATE daybook.ready SET suspect = true WHERE kind LIKE 's-%'")
}

// claimKinds claims and tells the kinds of what it got.
func (h *hot) claimKinds(s daybook.Session, oldest bool, kinds ...string) string {
	h.Helper()
	got, err := h.book.Claim(h.Context(), daybook.ClaimRequest{Session: s.ID, Queues: []string{"q"}, Kinds: kinds,
		Limit: 20, Oldest: oldest})
	ok(h.T, err)
	list := make([]string, len(got.Jobs))
	for i, j := range got.Jobs {
		list[i] = j.Kind
	}
	slices.Sort(list)
	return strings.Join(list, " ")
}

// TestFastMovesWaitForNobody: with some jobs locked by somebody, claims take the
// others and a set completes the others, at once.
func TestFastMovesWaitForNobody(t *testing.T) {
	h := newHot(t, Options{Patience: 10 * time.Second, wholeClaims: true})
	ids := enqueued(t, h.book, 7)
	s := session(t, h.book, time.Minute)
	const one = " WHERE seq = (SELECT seq FROM daybook.job WHERE id = $1) FOR UPDATE"
	open := h.holds("SELECT FROM daybook.ready"+one, ids[0].String())
	for i, oldest := range []bool{false, true} {
		got, err := h.book.Claim(t.Context(), daybook.ClaimRequest{Session: s.ID, Queues: []string{"q"}, Oldest: oldest})
		ok(t, err)
		if len(got.Jobs) != 1 || got.Jobs[0].ID != ids[i+1] {
			t.Fatalf("oldest %v: claimed %v, want %v", oldest, idsOf(got.Jobs), ids[i+1])
		}
	}
	ok(t, open.Rollback(t.Context()))
	jobs := h.claim(s, 4, "q")
	for i, result := range []string{"", "1"} {
		held, other := jobs[2*i], jobs[2*i+1]
		h.holds("SELECT FROM daybook.owned"+one, held.ID.String())
		h.write(func(x *tx) error {
			left, err := x.Complete(t.Context(), s.ID, []daybook.Outcome{
				{Job: held.ID, Owner: ownerOf(held), Kind: daybook.OutcomeSucceeded, Result: []byte(result)},
				{Job: other.ID, Owner: ownerOf(other), Kind: daybook.OutcomeSucceeded, Result: []byte(result)}})
			same(t, "left", fmt.Sprint(left), "[0]")
			return err
		})
	}
}

// TestClaimOfASession: a claim is made without a look at the session while that
// lives, isn't quiet and has half of its lease.
func TestClaimOfASession(t *testing.T) { bothClaims(t, claimOfASession) }

func claimOfASession(t *testing.T, o Options) {
	h := newHot(t, o)
	enqueued(t, h.book, 5)
	for change, want := range map[string]bool{
		"renewals = renewals": true, "quiet = true": false, "ended_at = daybook.clock()": false,
		"renewed_at = renewed_at - 31000000, expires_at = expires_at - 31000000": false,
	} {
		s := session(t, h.book, time.Minute)
		h.sql(fmt.Sprintf("UPDATE daybook.session SET %s WHERE n = %d", change, s.Ref))
		h.write(func(x *tx) error { // where nothing waits, too
			_, plain, err := x.ClaimSet(t.Context(), daybook.ClaimRequest{Session: s.ID, Call: daybook.NewID(),
				Queues: []string{"nobody"}, Limit: 5})
			same(t, change+": plain", plain, want)
			return err
		})
		h.write(func(x *tx) error {
			got, plain, err := x.ClaimSet(t.Context(), daybook.ClaimRequest{Session: s.ID, Call: daybook.NewID(),
				Queues: []string{"q"}, Limit: 5})
			if plain != want || len(got.Jobs) == 5 != want {
				t.Errorf("%s: %d jobs, plain %v", change, len(got.Jobs), plain)
			}
			return err
		})
		h.store.rests = rests{}
	}
}

// TestPauseWaitsForClaims: a pause answers when every claim of its book that
// began before it has ended, and nothing is claimed from then on.
func TestPauseWaitsForClaims(t *testing.T) { bothClaims(t, pauseWaitsForClaims) }

func pauseWaitsForClaims(t *testing.T, o Options) {
	h := newHot(t, o)
	enqueued(t, h.book, 2)
	s := session(t, h.book, time.Minute)
	other := newHot(t, Options{Patience: 10 * time.Second})
	enqueued(t, other.book, 1)
	open := h.holds("SELECT daybook.claim('{q}', 'w', 1)")
	ok(t, other.book.Pause(t.Context(), "q", someone))
	paused := inBackground(func() error { return h.book.Pause(t.Context(), "q", someone) })
	waits(h, "the pause", open.Conn(), paused)
	ok(t, open.Commit(t.Context()))
	ok(t, <-paused)
	same(t, "claimed of a paused queue", len(h.claim(s, 10, "q")), 0)
}

// TestEnqueueKeyGoes: a key that is taken when it is to be bound, and gone when
// it is read, is bound anew.
func TestEnqueueKeyGoes(t *testing.T) {
	h := newHot(t, Options{})
	open := h.keyGoes("k1")
	answer := make(chan daybook.Receipt, 1)
	go func() {
		r, err := h.book.Enqueue(t.Context(), daybook.Request{Queue: "q", Kind: "k", Key: "k1"})
		if err != nil {
			t.Error(err)
		}
		answer <- r
	}()
	waits(h, "the second request", open.Conn(), answer)
	h.sql("DELETE FROM daybook.request")
	ok(t, open.Rollback(t.Context()))
	r := <-answer
	same(t, "replayed", r.Replayed, false)
	record, err := h.book.Key(t.Context(), "k1")
	ok(t, err)
	same(t, "the key's job", record.Job, r.ID)
}

// keyGoes leaves a key of a job that is gone, and stops who meets it between the
// statement that finds it taken and the one that reads it: until the transaction
// ends that it returns.
func (h *hot) keyGoes(key string) pgx.Tx {
	h.Helper()
	h.sql(`INSERT INTO daybook.request (key, job, fingerprint, created_at, ended_at, state)
		VALUES ('`+key+`', gen_random_uuid(), decode(repeat('00', 32), 'hex'), 1, 1, 'cancelled')`,
		`CREATE TABLE daybook.gate ()`,
		`CREATE FUNCTION daybook.stop() RETURNS trigger LANGUAGE plpgsql AS
			$$ BEGIN LOCK TABLE daybook.gate IN SHARE MODE; RETURN NULL; END $$`,
		`CREATE TRIGGER stop AFTER INSERT ON daybook.request FOR EACH STATEMENT EXECUTE FUNCTION daybook.stop()`)
	return h.holds("LOCK TABLE daybook.gate IN ACCESS EXCLUSIVE MODE")
}

// TestLiftsOnce: who notices lost commits after somebody else lifts nothing.
func TestLiftsOnce(t *testing.T) {
	h := newHot(t, Options{})
	h.sql("UPDATE daybook.setting SET value = 'was' WHERE name = 'timeline'",
		"SELECT daybook.lift_incarnation('timeline', 'was', 'here'), daybook.lift_incarnation('timeline', 'was', 'here')",
		"DELETE FROM daybook.setting WHERE name = 'timeline'")
	same(t, "incarnation", h.one("SELECT value FROM daybook.setting WHERE name = 'incarnation'"), any("1"))
}

// TestUpAtOnce: many processes make one schema at the same time.
func TestUpAtOnce(t *testing.T) {
	url, name := pgtest.SharedURL(t), bookName("")
	t.Cleanup(func() { drop(t, url, name) })
	errs := make(chan error, 6)
	for range cap(errs) {
		go func() {
			_, err := Up(t.Context(), url, Options{Schema: name}, nil)
			errs <- err
		}()
	}
	for range cap(errs) {
		if err := <-errs; err != nil {
			t.Errorf("%v: %v", err, errors.Unwrap(err))
		}
	}
}
