package postgres

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/internal/pgtest"
)

// TestL53SessionsInOtherTimeZones: sessions of different time zones and styles
// give and see the same instants, and an interval means the same in all
// (janbjorge/pgqueuer #807).
func TestL53SessionsInOtherTimeZones(t *testing.T) {
	b := newSQLBook(t)
	// New York's clocks go forward in half an hour.
	b.at.Store(int64(daybook.At(time.Date(2026, 3, 8, 6, 30, 0, 123456000, time.UTC))))
	due := b.now().Std().Add(36 * time.Hour)
	for n, zone := range []string{"UTC", "America/New_York", "Asia/Tokyo"} {
		conn := b.session("SET timezone = '"+zone+"'", "SET datestyle = 'SQL, DMY'", "SET intervalstyle = 'iso_8601'")
		queue := "q" + strconv.Itoa(n)
		in := b.job(b.enqueue(conn, "'"+queue+"', 'k', '1', run_in => '1 day 12:00'"))
		at := b.job(b.value(conn, "SELECT id::text FROM daybook.enqueue($1, 'k', '2', run_at => $2, expires_at => $3)",
			queue, due, due.Add(time.Hour)))
		far := b.job(b.enqueue(conn, "'"+queue+"', 'k', '3', run_at => '9999-12-31T23:59:59.999999Z'"))
		if in.RunAt.Std() != due || at.RunAt.Std() != due || at.ExpiresAt.Std() != due.Add(time.Hour) ||
			far.RunAt != daybook.TimeMax {
			t.Errorf("%s: due at %s, %s and %s, want %s", zone, in.RunAt, at.RunAt, far.RunAt, due)
		}
		now := b.enqueue(conn, "'"+queue+"', 'k', '4'")
		claims, err := b.claim(conn, "", "", 10, queue)
		lease := b.now().Std().Add(time.Minute)
		if err != nil || len(claims) != 1 || claims[0].id != now || !claims[0].lease.Equal(lease) {
			t.Errorf("%s: claimed %v, %v", zone, claims, err)
		}
		b.sameTimes(conn, at)
		b.sameTimes(conn, far)
		b.said(conn, claims[0], "release", "'1 mon 1 day 1 s'")
		if j, want := b.job(now), b.now().Add(31*24*time.Hour+time.Second); j.RunAt != want {
			b.Errorf("%s: released until %s, want %s", zone, j.RunAt, want)
		}
	}
}

// sameTimes holds the times that a session sees to those that Go sees.
func (b *sqlBook) sameTimes(conn *pgx.Conn, j daybook.Job) {
	b.Helper()
	var due, accepted time.Time
	var expires *time.Time
	query := "SELECT run_at, enqueued_at, expires_at FROM daybook.jobs WHERE id = '" + j.ID.String() + "'"
	if err := conn.QueryRow(b.Context(), b.in(query)).Scan(&due, &accepted, &expires); err != nil {
		b.Fatal(err)
	}
	if expires == nil {
		expires = &time.Time{}
	}
	if daybook.At(due) != j.RunAt || daybook.At(accepted) != j.EnqueuedAt || daybook.At(*expires) != j.ExpiresAt {
		b.Errorf("the view shows %s, %s, %s; Go %s, %s, %s", due, accepted, expires, j.RunAt, j.EnqueuedAt, j.ExpiresAt)
	}
}

// TestSQLIsolation: the functions work in every isolation level, wherever the
// search path leads, and for a user who owns nothing.
func TestSQLIsolation(t *testing.T) {
	b := newSQLBook(t)
	b.must(b.conn, `CREATE SCHEMA decoy; CREATE TABLE decoy.job (id uuid); CREATE TABLE decoy.owned (id uuid);
		CREATE FUNCTION decoy.clock() RETURNS bigint LANGUAGE sql AS 'SELECT 1/0::bigint'`)
	b.atLast("DROP SCHEMA decoy CASCADE")
	role := b.plainUser()
	for n, level := range []string{"READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"} {
		conn := b.session("SET search_path = decoy", "SET standard_conforming_strings = off",
			"SET SESSION AUTHORIZATION "+role)
		for _, how := range []string{"fail", "release", "complete"} {
			b.must(conn, "BEGIN ISOLATION LEVEL "+level)
			b.wholeLife(conn, "q"+strconv.Itoa(n), how)
			b.must(conn, "COMMIT")
			b.must(conn, "SELECT count(*) FROM daybook.jobs, daybook.attempts, daybook.effects, daybook.backlog")
		}
	}
}

// wholeLife calls every function once, in the transaction that is open.
func (b *sqlBook) wholeLife(conn *pgx.Conn, queue, how string) {
	b.Helper()
	for _, more := range []string{"key => '" + how + queue + "'", "key => '" + how + queue + "'",
		"id => gen_random_uuid(), run_in => '1 h'"} {
		b.enqueue(conn, "'"+queue+"', 'k', '{}', "+more)
	}
	claims, err := b.claim(conn, "", daybook.NewID().String(), 1, queue)
	if err != nil || len(claims) != 1 {
		b.Fatalf("%v, %v", claims, err)
	}
	c := claims[0]
	b.must(conn, "SELECT daybook.renew($1::text::uuid)", c.session)
	b.said(conn, c, "assert_owner")
	state := b.said(conn, c, how, map[string][]string{"fail": {"'e'"}}[how]...)
	b.said(conn, c, "report_fenced", "'complete'")
	if got := b.value(conn, "SELECT state FROM daybook.jobs WHERE id = $1::text::uuid", c.id); got != state {
		b.Errorf("%s left it %s and answered %s", how, got, state)
	}
}

// plainUser makes a role with the tables of the book, and no more.
func (b *sqlBook) plainUser() string {
	b.Helper()
	role := "plain_" + strings.ReplaceAll(daybook.NewID().String(), "-", "")
	b.must(b.conn, "CREATE ROLE "+role)
	b.must(b.conn, "GRANT USAGE ON SCHEMA "+b.quoted()+" TO "+role)
	b.must(b.conn, "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA "+b.quoted()+" TO "+role)
	b.atLast("DROP OWNED BY " + role + "; DROP ROLE " + role)
	return role
}

// atLast runs a statement when the test has ended.
func (b *sqlBook) atLast(query string) {
	b.Cleanup(func() {
		if _, err := pgtest.Psql(b.url, query); err != nil {
			b.Error(err)
		}
	})
}

// TestSQLOldSnapshots: a transaction whose snapshot is older than a pause or
// than the end of its session claims nothing by it.
func TestSQLOldSnapshots(t *testing.T) {
	for _, what := range []string{"pause", "end"} {
		b := newSQLBook(t)
		c := b.claimed()
		session, _ := daybook.ParseID(c.session)
		b.enqueue(b.conn, "'q', 'k', '{}'")
		old := b.session()
		b.must(old, "BEGIN ISOLATION LEVEL REPEATABLE READ")
		b.value(old, "SELECT count(*)::text FROM daybook.job")
		var err error
		if what == "pause" {
			err = b.book.Pause(t.Context(), "q", daybook.By{Actor: "ada", Reason: "r"})
		} else {
			err = b.book.EndSession(t.Context(), session)
		}
		if err != nil {
			t.Fatal(err)
		}
		claims, err := b.claim(old, c.session, "", 1, "q")
		if r := b.refusal(err); r.Code != stateSerialization {
			t.Errorf("%s: got %v, %s %s", what, claims, r.Code, r.Message)
		}
	}
}

// TestSQLManySnoozes: releases in a row are one row of history and the newest.
func TestSQLManySnoozes(t *testing.T) {
	b := newSQLBook(t)
	c := b.claimed()
	for range 20 {
		b.said(b.conn, c, "release")
		claims, err := b.claim(b.conn, c.session, "", 1, "q")
		if err != nil || len(claims) != 1 {
			t.Fatalf("%v, %v", claims, err)
		}
		c = claims[0]
	}
	want := "1 to 19: 19, 20 to 20: 1"
	if got := b.value(b.conn, `SELECT string_agg(format('%s to %s: %s', first_generation, generation, attempts), ', '
		ORDER BY generation) FROM daybook.attempts`); got != want {
		t.Errorf("the history is %s, want %s", got, want)
	}
}

// TestSQLSnooze: 30 days after the first claim the next release to a later time
// sets aside, and one to now does not.
func TestSQLSnooze(t *testing.T) {
	for _, tt := range []struct {
		after time.Duration
		in    string
		want  string
	}{{daybook.SnoozeMax - time.Microsecond, "'1 s'", "waiting"}, {daybook.SnoozeMax, "NULL", "waiting"},
		{daybook.SnoozeMax, "'1 us'", "set_aside"}, {daybook.SnoozeMax, "'1 us'", "cancelled"}} {
		b := newSQLBook(t)
		c := b.claimed()
		first := b.now()
		b.pass(tt.after)
		if tt.want == "cancelled" {
			if _, err := b.book.Cancel(t.Context(), b.job(c.id).ID, daybook.By{Actor: "ada"}, false); err != nil {
				t.Fatal(err)
			}
		}
		if got := b.said(b.conn, c, "release", tt.in); got != tt.want {
			t.Errorf("after %s, released in %s: got %s, want %s", tt.after, tt.in, got, tt.want)
		}
		j := b.job(c.id)
		attempts, err := b.book.Attempts(t.Context(), j.ID)
		reason, why := daybook.Reason(""), ""
		if tt.want == "set_aside" {
			reason, why = daybook.ReasonGaveUp, "snoozed since "+first.String()
		}
		if err != nil || j.Reason != reason || attempts[0].Why != why {
			t.Errorf("it is %s %s after %+v, %v", j.State, j.Reason, attempts, err)
		}
	}
}

// TestSQLSuspects: a job that crashed often stays a suspect when SQL gives it
// back, and a session is given one such job at a time.
func TestSQLSuspects(t *testing.T) {
	b := newSQLBook(t)
	for range 2 {
		b.enqueue(b.conn, "'q', 'k', '{}', max_failures => 4")
	}
	for crashes := range 3 {
		claims, err := b.claim(b.conn, "", "", 2, "q")
		if want := 2 - crashes/2; err != nil || len(claims) != want {
			t.Fatalf("after %d crashes: got %d claims, %v, want %d", crashes, len(claims), err, want)
		}
		for _, c := range claims {
			if crashes < 2 {
				b.lose(c)
				continue
			}
			b.said(b.conn, c, "release")
		}
	}
	if got := b.value(b.conn, "SELECT string_agg(suspect::text, ' ') FROM daybook.ready"); got != "true true" {
		t.Errorf("suspects are marked %s", got)
	}
}

// lose revokes a claim as the reconciler does.
func (b *sqlBook) lose(c sqlClaim) {
	b.Helper()
	j := b.job(c.id)
	err := b.book.Store().Write(b.Context(), "losing", func(tx daybook.Tx) error {
		jobs, err := tx.Lock(b.Context(), []daybook.ID{j.ID})
		if err != nil {
			return err
		}
		owner := daybook.Owner{Session: j.Session, Generation: j.Generation}
		change, err := jobs[0].Lose(daybook.Loss{Cause: daybook.LossSession, Owner: owner}, b.now())
		if err != nil {
			return err
		}
		return tx.Save(b.Context(), []daybook.Change{change})
	})
	if err != nil {
		b.Fatal(err)
	}
}

// TestSQLEndingSession: a session that ends while a claim or a renewal waits for
// it gets nothing.
func TestSQLEndingSession(t *testing.T) {
	b := newSQLBook(t)
	c := b.claimed()
	b.enqueue(b.conn, "'q', 'k', '{}'")
	for what, call := range map[string]func(conn *pgx.Conn) error{
		"a claim": func(conn *pgx.Conn) error { _, err := b.claim(conn, c.session, "", 1, "q"); return err },
		"a renewal": func(conn *pgx.Conn) error {
			_, err := b.try(conn, "SELECT daybook.renew($1)::text", c.session)
			return err
		},
	} {
		b.must(b.conn, "UPDATE daybook.session SET ended_at = NULL")
		ends, waits := b.session(), b.session()
		b.must(ends, "BEGIN")
		b.must(ends, "UPDATE daybook.session SET ended_at = daybook.clock()")
		answer := make(chan error, 1)
		go func() { answer <- call(waits) }()
		b.waitsForLock(waits)
		b.must(ends, "COMMIT")
		if err := <-answer; err == nil {
			t.Errorf("%s isn't refused", what)
		} else if r := b.refusal(err); r.Code != stateFenced {
			t.Errorf("%s: got %s %s", what, r.Code, r.Message)
		}
	}
	if _, err := b.book.RevokeLost(t.Context()); err != nil {
		t.Fatal(err)
	}
}
