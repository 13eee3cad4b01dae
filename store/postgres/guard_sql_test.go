package postgres

import (
	"testing"

	"github.com/daybookdev/daybook"
)

// TestSQLLimit: a job that failed as often as it may is set aside, and not before.
func TestSQLLimit(t *testing.T) {
	b := newSQLBook(t)
	b.enqueue(b.conn, "'q', 'k', '{}', max_failures => 3")
	for n, want := range []string{"waiting", "waiting", "set_aside"} {
		claims, err := b.claim(b.conn, "", "", 1, "q")
		if err != nil || len(claims) != 1 {
			t.Fatalf("%v, %v", claims, err)
		}
		if state := b.said(b.conn, claims[0], "fail", "'boom'", "retry_in => '0'"); state != want {
			t.Errorf("after failure %d it is %s, want %s", n+1, state, want)
		}
	}
}

// TestSQLFences: complete names its session, waits for who holds the claim, and
// is repeated by its own owner only, in its own words.
func TestSQLFences(t *testing.T) {
	b := newSQLBook(t)
	stranger, c := b.claimed(), b.claimed()
	theirs := c
	theirs.session = stranger.session
	b.fenced("another session", theirs, "complete")

	first, second := b.session(), b.session()
	b.must(first, "BEGIN")
	b.said(first, c, "release")
	answer := make(chan error, 1)
	go func() {
		_, err := b.say(second, c, "complete")
		answer <- err
	}()
	b.waitsForLock(second)
	b.must(first, "COMMIT")
	if r := b.refusal(<-answer); r.Code != stateFenced {
		t.Errorf("who had given it back: %s %s", r.Code, r.Message)
	}
	claims, err := b.claim(b.conn, c.session, "", 1, "q")
	if err != nil || len(claims) != 1 {
		t.Fatalf("%v, %v", claims, err)
	}
	c = claims[0]

	b.said(b.conn, c, "complete")
	b.said(b.conn, c, "complete")
	theirs.generation = c.generation
	b.fenced("a repeat by another session", theirs, "complete")
	b.fenced("another word than before", c, "fail", "'e'")
}

func (b *sqlBook) fenced(what string, c sqlClaim, how string, more ...string) {
	b.Helper()
	_, err := b.say(b.conn, c, how, more...)
	if err == nil {
		b.Errorf("%s: is not refused", what)
	} else if r := b.refusal(err); r.Code != stateFenced {
		b.Errorf("%s: got %s %s, want it fenced", what, r.Code, r.Message)
	}
}

// TestSQLIncarnation: after a restore SQL too claims above every generation that
// may have been lost.
func TestSQLIncarnation(t *testing.T) {
	b := newSQLBook(t)
	if _, err := b.book.Restored(t.Context(), b.now(), daybook.By{Actor: "ada", Reason: "r"}); err != nil {
		t.Fatal(err)
	}
	if c := b.claimed(); c.generation != daybook.GenerationStep {
		t.Errorf("claimed at generation %d, want %d", c.generation, daybook.GenerationStep)
	}
}

// TestSQLKeyGoes: a key that is taken when it is to be bound, and gone when it
// is read, is bound anew.
func TestSQLKeyGoes(t *testing.T) {
	h := newHot(t, Options{})
	open := h.keyGoes("k1")
	conn := dial(t, h.store.pool.Config().ConnString())
	answer := make(chan string, 1)
	go func() {
		var id string
		err := conn.QueryRow(t.Context(), h.store.schema.in(
			"SELECT id::text FROM daybook.enqueue('q', 'k', '{}', key => 'k1')")).Scan(&id)
		if err != nil {
			t.Error(err)
		}
		answer <- id
	}()
	waits(h, "the second request", open.Conn(), answer)
	h.sql("DELETE FROM daybook.request")
	ok(t, open.Rollback(t.Context()))
	id := <-answer
	record, err := h.book.Key(t.Context(), "k1")
	ok(t, err)
	same(t, "the key's job", record.Job.String(), id)
}
