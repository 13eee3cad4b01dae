package postgres

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/check"
	"github.com/daybookdev/daybook/internal/pgtest"
)

// sqlBook is a book whose clock is the test's, and a program beside it that
// speaks SQL alone.
type sqlBook struct {
	*testing.T
	schema
	url  string
	book *daybook.Book
	conn *pgx.Conn
	at   *atomic.Int64 // the clock, in microseconds
	// doubled says that the test has effects happen twice.
	doubled bool
}

func newSQLBook(t *testing.T) *sqlBook {
	t.Helper()
	b := &sqlBook{T: t, schema: schema(bookName("")), url: pgtest.SharedURL(t), at: &atomic.Int64{}}
	b.at.Store(int64(daybook.At(time.Date(2027, 3, 4, 5, 6, 7, 891011000, time.UTC))))
	b.book = openBook(t, b.url, string(b.schema), Options{Now: func() time.Time { return b.now().Std() }})
	b.conn = b.session()
	t.Cleanup(b.verify)
	return b
}

func (b *sqlBook) now() daybook.Time { return daybook.Time(b.at.Load()) }

// session is another connection, with these settings.
func (b *sqlBook) session(settings ...string) *pgx.Conn {
	b.Helper()
	conn := connect(b.T, b.url)
	b.setClock(conn)
	for _, s := range settings {
		b.must(conn, s)
	}
	return conn
}

func (b *sqlBook) setClock(conn *pgx.Conn) {
	b.must(conn, "SELECT set_config('daybook_test.now', $1, false)", strconv.FormatInt(b.at.Load(), 10))
}

// pass lets time go by.
func (b *sqlBook) pass(d time.Duration) {
	b.at.Add(d.Microseconds())
	b.setClock(b.conn)
}

// must runs a statement that has to succeed.
func (b *sqlBook) must(conn *pgx.Conn, query string, args ...any) {
	b.Helper()
	if _, err := conn.Exec(b.Context(), b.in(query), args...); err != nil {
		b.Fatalf("%s: %v", query, err)
	}
}

// querier is a connection or a transaction.
type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// value reads one value as text.
func (b *sqlBook) value(q querier, query string, args ...any) string {
	b.Helper()
	var v *string
	if err := q.QueryRow(b.Context(), b.in(query), args...).Scan(&v); err != nil {
		b.Fatalf("%s: %v", query, err)
	}
	if v == nil {
		return ""
	}
	return *v
}

// say has an owner say something: daybook.how of its claim and what else there is.
func (b *sqlBook) say(q querier, c sqlClaim, how string, more ...string) (string, error) {
	call := fmt.Sprintf("SELECT daybook.%s('%s', %d, '%s'", how, c.id, c.generation, c.session)
	return b.try(q, strings.Join(append([]string{call}, more...), ", ")+")")
}

// said is say of what must be heard.
func (b *sqlBook) said(q querier, c sqlClaim, how string, more ...string) string {
	b.Helper()
	state, err := b.say(q, c, how, more...)
	if err != nil {
		b.Fatalf("%s: %v", how, err)
	}
	return state
}

// try runs a function that may refuse.
func (b *sqlBook) try(q querier, query string, args ...any) (string, error) {
	var v *string
	err := q.QueryRow(b.Context(), b.in(query), args...).Scan(&v)
	if err != nil || v == nil {
		return "", err
	}
	return *v, nil
}

// claim is what the function of that name gives.
type sqlClaim struct {
	session, id, kind, args string
	generation              int64
	lease                   time.Time
}

// claim calls daybook.claim; session and call may be "".
func (b *sqlBook) claim(q querier, session, call string, most int, queues ...string) (claims []sqlClaim, err error) {
	rows, err := q.Query(b.Context(), b.in(`SELECT session::text, id::text, kind, args::text, generation, lease_until
		FROM daybook.claim($1::text[], 'w1', $2::int, nullif($3::text, '')::uuid, '1 minute', nullif($4::text, '')::uuid)`),
		queues, most, session, call)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var c sqlClaim
		if err := rows.Scan(&c.session, &c.id, &c.kind, &c.args, &c.generation, &c.lease); err != nil {
			return nil, err
		}
		claims = append(claims, c)
	}
	return claims, rows.Err()
}

// enqueue accepts a job with these arguments and returns its id.
func (b *sqlBook) enqueue(q querier, args string) (id string) {
	b.Helper()
	return b.value(q, "SELECT id::text FROM daybook.enqueue("+args+")")
}

// claimed enqueues a job and claims it.
func (b *sqlBook) claimed() sqlClaim {
	b.Helper()
	b.enqueue(b.conn, "'q', 'k', '{}'")
	claims, err := b.claim(b.conn, "", "", 1, "q")
	if err != nil || len(claims) != 1 {
		b.Fatalf("claims: %v, %v", claims, err)
	}
	return claims[0]
}

// job reads a job as Go does.
func (b *sqlBook) job(id string) daybook.Job {
	b.Helper()
	parsed, err := daybook.ParseID(id)
	if err != nil {
		b.Fatal(err)
	}
	j, err := b.book.Job(b.Context(), parsed)
	if err != nil {
		b.Fatal(err)
	}
	return j
}

// verify holds the book to every invariant.
func (b *sqlBook) verify() {
	b.Helper()
	report, err := check.Run(context.WithoutCancel(b.Context()), b.book, check.Options{Full: true})
	if err != nil {
		b.Error(err)
	}
	for _, r := range report.Invariants {
		for _, v := range r.Found {
			if !b.doubled || v.Invariant != "effect-doubled" {
				b.Errorf("check: %s: %s %s", v.Invariant, v.Subject, v.Detail)
			}
		}
	}
}

// refusal takes an error apart, which must be one of ours.
func (b *sqlBook) refusal(err error) *pgconn.PgError {
	b.Helper()
	var refused *pgconn.PgError
	if !errors.As(err, &refused) {
		b.Fatalf("got %v, want a refusal", err)
	}
	return refused
}

// secret is in args and results, and never in an error.
const secret = `hunter2`

// TestSQLStates: each refusal has its SQLSTATE and says in one line what, which
// and what to do, without args.
func TestSQLStates(t *testing.T) {
	b := newSQLBook(t)
	id := daybook.NewID().String()
	b.enqueue(b.conn, "'q', 'k', '{}', key => 'known', run_in => '1 hour', id => '"+id+"'")
	own := b.claimed()
	mine := fmt.Sprintf("'%s', %d, '%s'", own.id, own.generation, own.session)
	late := fmt.Sprintf("'%s', %d, '%s'", own.id, own.generation+3, own.session)
	theirs := fmt.Sprintf("'%s', %d, '%s'", own.id, own.generation, daybook.NewID())
	nobody := fmt.Sprintf("'%s', %d, '%s'", daybook.NewID(), own.generation, own.session)
	long := strings.Repeat("x", 1<<20)
	for _, tt := range []struct{ call, state, says string }{
		{`enqueue('q', 'k', '["` + secret + `"]', key => 'known')`, stateKeyConflict, `key: "known" belongs to job ` + id},
		{`enqueue('q', 'k2', '{}', key => 'known')`, stateKeyConflict, `nothing was stored`},
		{`enqueue('q', 'k', '["` + secret + `"]', id => '` + id + `')`, stateKeyConflict, id + ` exists with other`},
		{`enqueue('q', 'k', '{}', key => 'new', id => '` + id + `')`, stateKeyConflict, `exists with another request key`},
		{`enqueue('', 'k', '{}')`, stateInvalid, `queue: is missing`},
		{`enqueue('q', NULL, '{}')`, stateInvalid, `kind: is missing`},
		{`enqueue('q q', 'k', '{}')`, stateInvalid, `queue: wants letters, digits, . _ - : only, got "q q"`},
		{`enqueue('q', '` + long[:129] + `', '{}')`, stateInvalid, `kind: at most 128 bytes, got 129`},
		{`enqueue('q', 'k', '{}', key => '` + long[:256] + `')`, stateInvalid, `key: at most 255 bytes, got 256`},
		{`enqueue('q', 'k', '{}', key => E'a\nb')`, stateInvalid, `key: has a control character at byte 1`},
		{`enqueue('q', 'k', '"` + long[:1<<20-1] + `"')`, stateInvalid, `args: at most 1048576 bytes, got 1048577`},
		{`enqueue('q', 'k', '{"` + secret + `":1,"b":2,"b":"` + secret + `"}')`, stateInvalid, `args: at "/b": has this key`},
		{`enqueue('q', 'k', '{"a":["` + secret + `\u0000"]}')`, stateInvalid, `args: at "/a/0": has \u0000`},
		{`enqueue('q', 'k', '["` + secret + `\ud800"]')`, stateInvalid, `args: at "/0": has a lone surrogate`},
		{`enqueue('q', 'k', (repeat('[', 513) || repeat(']', 513))::json)`, stateInvalid, `nests deeper than 512`},
		{`enqueue('q', 'k', '{}', priority => 32768)`, stateInvalid, `priority: wants -32768…32767, got 32768`},
		{`enqueue('q', 'k', '{}', max_failures => -1)`, stateInvalid, `max_failures: wants 1…10000, got -1`},
		{`enqueue('q', 'k', '{}', on_lost => 'shrug')`, stateInvalid, `on_lost: wants retry or set_aside, got "shrug"`},
		{`enqueue('q', 'k', '{}', run_at => now(), run_in => '1 s')`, stateInvalid, `give a time or a delay, not both`},
		{`enqueue('q', 'k', '{}', run_in => '-1 s')`, stateInvalid, `run_in: wants 0 seconds to 36500 days, got -00:00:01`},
		{`enqueue('q', 'k', '{}', run_at => 'infinity')`, stateInvalid, `a time after 1970 and up to year 9999`},
		{`enqueue('q', 'k', '{}', expires_at => '1969-07-20 20:17')`, stateInvalid, `expires_at: wants a time after 1970`},
		{`enqueue('q', 'k', '{}', run_at => 'tomorrow', expires_at => 'today')`, stateInvalid, `expires_at: is not after`},
		{`enqueue('q', 'k', '{}', timeout => '366 days')`, stateInvalid, `wants 1 millisecond to 365 days, got 366 days`},
		{`enqueue('q', 'k', '{}', id => '00000000-0000-0000-0000-000000000000')`, stateInvalid, `id: wants a UUID`},
		{`claim('{}', 'w', 1)`, stateInvalid, `queues: is empty; name at least one queue`},
		{`claim('{q,"a b"}', 'w', 1)`, stateInvalid, `queue: wants letters`},
		{`claim('{q}', 'w', NULL)`, stateInvalid, `max_jobs: wants 1…10000, got NULL`},
		{`claim('{q}', 'w', 0)`, stateInvalid, `max_jobs: wants 1…10000, got 0`},
		{`claim('{q}', E'w\t', 1)`, stateInvalid, `worker: has a control character`},
		{`claim('{q}', 'w', 1, lease => '0.5 s')`, stateInvalid, `lease: wants 1 second to 24 hours`},
		{`claim('{q}', 'w', 1, '` + daybook.NewID().String() + `')`, stateFenced, `start a new one`},
		{`renew('` + daybook.NewID().String() + `')`, stateFenced, `start a new one`},
		{`assert_owner(` + late + `)`, stateFenced, `is at generation 1; generation 4 doesn't own it: roll back and drop it`},
		{`assert_owner(` + theirs + `)`, stateFenced, `is owned by another session at generation 1`},
		{`assert_owner(` + nobody + `)`, stateFenced, `finished jobs are kept for the retention only`},
		{`complete(` + late + `, '"` + secret + `"')`, stateFenced, `generation 4 doesn't own it`},
		{`complete(NULL, 1, NULL)`, stateInvalid, `id: is missing`},
		{`fail(` + theirs + `, '` + secret + `')`, stateFenced, `another session`},
		{`fail(` + mine + `, 'e', retry_in => '-1 s')`, stateInvalid, `retry_in: wants 0 seconds to 36500 days`},
		{`release(` + nobody + `)`, stateFenced, `no job`},
		{`release(` + mine + `, '101 years')`, stateInvalid, `run_in: wants`},
		{`report_fenced(` + mine + `, 'complete')`, stateRefused, `it isn't fenced`},
		{`report_fenced(` + late + `, 'a b')`, stateInvalid, `operation: wants letters`},
		{`report_fenced(` + late + `, 'effect_finish:a b', '` + secret + `')`, stateInvalid, `effect: wants letters`},
		{`report_fenced(` + late + `, 'effect_begin:')`, stateInvalid, `effect: is missing`},
		{`effect_begin(` + mine + `, 'handler', 'ask')`, stateInvalid, `the book's own name for a handler`},
		{`effect_begin(` + mine + `, '` + long[:129] + `', 'ask')`, stateInvalid, `effect: at most 128 bytes, got 129`},
		{`effect_begin(` + mine + `, 'e', NULL)`, stateInvalid, `got ""; there is no default`},
		{`effect_begin(` + mine + `, 'e', 'keyed')`, stateInvalid, `win: is missing`},
		{`effect_begin(` + mine + `, 'e', 'ask', '1 h')`, stateInvalid, `win: belongs to keyed effects only`},
		{`effect_begin(` + mine + `, 'e', 'keyed', '3651 days')`, stateInvalid, `win: wants 0 seconds to 3650 days`},
		{`effect_begin(` + mine + `, 'e', 'ask', quiet => '1 s')`, stateInvalid, `quiet: belongs to checked`},
		{`effect_begin(` + mine + `, 'e', 'ask', call_limit => '25 h')`, stateInvalid, `wants 0 seconds to 24 hours`},
		{`effect_begin(` + mine + `, 'e', 'keyed', '1 s', call_limit => '2 s')`, stateInvalid, `than the 00:00:01`},
		{`effect_begin(` + mine + `, 'e', 'ask', fingerprint => '` + long[:256] + `')`, stateInvalid, `at most 255 bytes`},
		{`effect_begin(` + mine + `, 'e', 'ask', call_limit => '2 min')`, stateRefused, `has 00:01:00 left; renew it`},
		{`effect_begin(` + late + `, 'e', 'ask')`, stateFenced, `generation 4 doesn't own it`},
		{`effect_begin(` + nobody + `, 'e', 'ask')`, stateFenced, `no job`},
		{`effect_finish(` + mine + `, 'e', 'perhaps')`, stateInvalid, `outcome: wants done, absent or unknown`},
		{`effect_finish(` + mine + `, 'e', 'absent', '"` + secret + `"')`, stateInvalid, `belongs to the outcome done`},
		{`effect_finish(` + mine + `, 'e', 'done', '"` + secret + `\u0000"')`, stateInvalid, `result: has \u0000`},
		{`effect_finish(` + mine + `, 'e', 'done', '"` + secret + `"')`, stateRefused, `has no effect "e"; begin it first`},
		{`effect_finish(` + theirs + `, 'e', 'done', '"` + secret + `"')`, stateFenced, `another session`},
	} {
		_, err := b.try(b.conn, "SELECT daybook."+tt.call+"::text")
		if err == nil || errors.Is(err, pgx.ErrNoRows) {
			t.Errorf("%.90s: is not refused", tt.call)
			continue
		}
		refused := b.refusal(err)
		if refused.Code != tt.state || !strings.Contains(refused.Message, tt.says) {
			t.Errorf("%.90s: got %s %q, want %s %q", tt.call, refused.Code, refused.Message, tt.state, tt.says)
		}
		all := refused.Message + refused.Detail + refused.Hint + refused.Where
		if strings.Contains(refused.Message, "\n") || len(refused.Message) > 700 || strings.Contains(all, secret) {
			t.Errorf("%.90s: the error is %q", tt.call, all)
		}
	}
	if j := b.job(own.id); j.State != daybook.Running || j.Generation != own.generation {
		t.Errorf("after the refusals the job is %s at %d", j.State, j.Generation)
	}
}

// TestSQLOpenEffect: a success with an open effect is refused by its name.
func TestSQLOpenEffect(t *testing.T) {
	b := newSQLBook(t)
	c := b.claimed()
	b.must(b.conn, `INSERT INTO daybook.effect (seq, name, policy, state, generation, key, begun_at)
		SELECT seq, 'charge', 'ask', 'open', 1, 'x', daybook.clock() FROM daybook.job`)
	_, err := b.say(b.conn, c, "complete")
	if r := b.refusal(err); r.Code != stateRefused || !strings.Contains(r.Message, `effect "charge" is open; finish it`) {
		t.Errorf("got %s %s", r.Code, r.Message)
	}
	b.must(b.conn, "UPDATE daybook.effect SET state = 'done', ended_at = daybook.clock()")
	if got := b.said(b.conn, c, "complete"); got != "succeeded" {
		t.Errorf("got %s", got)
	}
}

// TestSQLLedger: a job with effects is marked as one when it is given back, and
// its releases keep a row each.
func TestSQLLedger(t *testing.T) {
	b := newSQLBook(t)
	c := b.claimed()
	b.must(b.conn, `INSERT INTO daybook.effect (seq, name, policy, state, generation, key, begun_at, ended_at)
		SELECT seq, 'charge', 'ask', 'done', 1, 'x', daybook.clock(), daybook.clock() FROM daybook.job`)
	for range 4 {
		b.said(b.conn, c, "release")
		if got := b.value(b.conn, "SELECT ledger::text FROM daybook.ready"); got != "true" {
			t.Errorf("the waiting job says %s to a ledger", got)
		}
		claims, err := b.claim(b.conn, c.session, "", 1, "q")
		if err != nil || len(claims) != 1 {
			t.Fatalf("%v, %v", claims, err)
		}
		c = claims[0]
	}
	if n := b.value(b.conn, "SELECT count(*)::text FROM daybook.attempts"); n != "4" {
		t.Errorf("4 releases are %s rows", n)
	}
	b.said(b.conn, c, "complete")
}

// TestSQLOwnWrites: the handler's own writes, its follow-up job and the
// completion are one; a rollback leaves nothing of any.
func TestSQLOwnWrites(t *testing.T) {
	b := newSQLBook(t)
	b.must(b.conn, "CREATE TABLE daybook.ours (n int)")
	c := b.claimed()
	for _, end := range []string{"ROLLBACK", "COMMIT"} {
		before := b.everything()
		b.must(b.conn, "BEGIN")
		b.said(b.conn, c, "assert_owner")
		b.locked(c.id)
		b.must(b.conn, "INSERT INTO daybook.ours VALUES (1)")
		b.must(b.conn, "SELECT daybook.enqueue('next', 'k', '{}', key => 'follow')")
		b.said(b.conn, c, "complete", `'{"n":1}'`)
		b.must(b.conn, end)
		if after := b.everything(); (after == before) != (end == "ROLLBACK") {
			t.Errorf("after %s the book is\n%s\nbefore\n%s", end, after, before)
		}
	}
	if j := b.job(c.id); j.State != daybook.Succeeded || string(j.Result) != `{"n":1}` {
		t.Errorf("the job is %s with %s", j.State, j.Result)
	}
	// The same owner again is told that it is done, and the first result stays.
	if got := b.said(b.conn, c, "complete", "'2'"); got != "succeeded" {
		t.Errorf("a repeat got %s", got)
	}
	if j := b.job(c.id); string(j.Result) != `{"n":1}` {
		t.Errorf("the result became %s", j.Result)
	}
}

// locked fails unless nobody else can take the claim.
func (b *sqlBook) locked(id string) {
	b.Helper()
	other := b.session()
	for _, table := range []string{"job", "owned"} {
		query := "SELECT 1 FROM daybook." + table + " WHERE id = '" + id + "' FOR UPDATE NOWAIT"
		_, err := other.Exec(b.Context(), b.in(query))
		if r := b.refusal(err); r.Code != stateLockTimeout {
			b.Errorf("%s: %s %s", table, r.Code, r.Message)
		}
	}
}

// everything is all rows of the book.
func (b *sqlBook) everything() string {
	b.Helper()
	var all strings.Builder
	for _, table := range []string{"queue", "job", "ready", "owned", "ended", "session", "call", "request", "event",
		"refusal", "outbox", "setting", "ours"} {
		query := "SELECT coalesce(jsonb_agg(x ORDER BY x::text), '[]')::text FROM daybook." + table + " x"
		all.WriteString(table + b.value(b.conn, query) + "\n")
	}
	return all.String()
}

// TestSQLRivals: two who enqueue one key at once get one job, whichever way the
// first ends.
func TestSQLRivals(t *testing.T) {
	for _, with := range []string{"key => 'k1'", "id => '0190a2b4-7c1e-7000-8000-000000000001'"} {
		for _, end := range []string{"COMMIT", "ROLLBACK"} {
			t.Run(with[:2]+" "+end, func(t *testing.T) { rivals(t, with, end) })
		}
	}
}

func rivals(t *testing.T, with, end string) {
	b := newSQLBook(t)
	first, second := b.conn, b.session()
	call := "SELECT id::text || ' ' || replayed FROM daybook.enqueue('q', 'k', '{\"n\": 1}', " + with + ")"
	b.must(first, "BEGIN")
	mine, _, _ := strings.Cut(b.value(first, call), " ")
	answer := make(chan string)
	go func() {
		v, err := b.try(second, call)
		answer <- fmt.Sprint(v, err)
	}()
	b.waitsForLock(second)
	b.must(first, end)
	got := <-answer
	theirs, replayed, _ := strings.Cut(got, " ")
	if end == "COMMIT" && (theirs != mine || !strings.HasPrefix(replayed, "true<nil>")) {
		t.Errorf("the second got %s, want a replay of %s", got, mine)
	}
	if end == "ROLLBACK" && !strings.HasPrefix(replayed, "false<nil>") {
		t.Errorf("the second got %s, want a new job", got)
	}
	if n := b.value(b.conn, "SELECT count(*)::text FROM daybook.job"); n != "1" {
		t.Errorf("there are %s jobs", n)
	}
}

// waitsForLock returns when the session waits for somebody's lock.
func (b *sqlBook) waitsForLock(conn *pgx.Conn) {
	b.Helper()
	watch := connect(b.T, b.url)
	ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
	defer cancel()
	for waits := false; !waits; {
		err := watch.QueryRow(ctx, "SELECT coalesce(wait_event_type = 'Lock', false) FROM pg_stat_activity WHERE pid = $1",
			conn.PgConn().PID()).Scan(&waits)
		if err != nil {
			b.Fatal(err)
		}
	}
}

// TestSQLClaims: a session is started, named, renewed below half of its lease
// and not kept for nothing; a call repeats itself.
func TestSQLClaims(t *testing.T) {
	b := newSQLBook(t)
	claims, err := b.claim(b.conn, "", "", 5, "q", "other")
	if err != nil || len(claims) != 0 || b.value(b.conn, "SELECT count(*)::text FROM daybook.session") != "0" {
		t.Fatalf("an empty book gave %v, %v, and a session", claims, err)
	}
	for n := range 5 {
		b.enqueue(b.conn, fmt.Sprintf("'q', 'k', '%d', priority => %d", n, n%2))
	}
	call := daybook.NewID().String()
	claims, err = b.claim(b.conn, "", call, 2, "q", "other")
	if err != nil || len(claims) != 2 {
		t.Fatalf("got %v, %v", claims, err)
	}
	again, err := b.claim(b.conn, "", call, 2, "q", "other")
	if err != nil || fmt.Sprint(again) != fmt.Sprint(claims) {
		t.Errorf("the same call got %v, %v, want %v", again, err, claims)
	}
	session := claims[0].session
	b.pass(29 * time.Second)
	more, err := b.claim(b.conn, session, "", 1, "q")
	if err != nil || len(more) != 1 || !more[0].lease.Equal(claims[0].lease) {
		t.Errorf("above half of the lease: %v, %v", more, err)
	}
	b.pass(2 * time.Second)
	more, err = b.claim(b.conn, session, "", 1, "q")
	if err != nil || len(more) != 1 || !more[0].lease.Equal(b.now().Std().Add(time.Minute)) {
		t.Errorf("below half of the lease: %v, %v", more, err)
	}
	b.pass(time.Second)
	want := b.now().Std().Add(time.Minute).Format("2006-01-02 15:04:05.999999") + "+00 {} f"
	renewal := "SELECT concat_ws(' ', lease_until, cancel, quiet) FROM daybook.renew('" + session + "')"
	if got := b.value(b.conn, renewal); got != want {
		t.Errorf("renewal: got %s, want %s", got, want)
	}
	id, _ := daybook.ParseID(session)
	b.quiet(id)
	if more, err = b.claim(b.conn, session, "", 1, "q"); err != nil || len(more) != 0 {
		t.Errorf("a quiet session got %v, %v", more, err)
	}
	if err := b.book.EndSession(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	_, err = b.claim(b.conn, session, "", 1, "q")
	if r := b.refusal(err); r.Code != stateFenced || !strings.Contains(r.Message, "ended at 2027-03-04T05:06:39.891011Z") {
		t.Errorf("an ended session got %s %s", r.Code, r.Message)
	}
}

func (b *sqlBook) quiet(id daybook.ID) {
	b.Helper()
	if err := b.book.QuietSession(b.Context(), id); err != nil {
		b.Fatal(err)
	}
}

// TestSQLCancel: a renewal names the jobs that a person asked to cancel, and
// how they end then is cancelled.
func TestSQLCancel(t *testing.T) {
	b := newSQLBook(t)
	for _, how := range []string{"fail", "release", "complete"} {
		c := b.claimed()
		id, _ := daybook.ParseID(c.id)
		if _, err := b.book.Cancel(t.Context(), id, daybook.By{Actor: "ada"}, false); err != nil {
			t.Fatal(err)
		}
		if got := b.value(b.conn, "SELECT cancel::text FROM daybook.renew($1::text::uuid)", c.session); got != "{"+c.id+"}" {
			t.Errorf("the renewal asks to cancel %s, want %s", got, c.id)
		}
		more := map[string][]string{"fail": {"'e'", "true"}}[how]
		want := map[string]string{"fail": "cancelled", "release": "cancelled", "complete": "succeeded"}[how]
		for range 2 {
			if got := b.said(b.conn, c, how, more...); got != want {
				t.Errorf("%s: got %s, want %s", how, got, want)
			}
		}
	}
}

// TestSQLReports: what a fenced owner said is kept once, bounded, and a
// generation that the book never gave is told.
func TestSQLReports(t *testing.T) {
	b := newSQLBook(t)
	c := b.claimed()
	b.said(b.conn, c, "release")
	long := strings.Repeat("é", 4096)
	for range 2 {
		b.said(b.conn, c, "report_fenced", "'complete'", "'"+long+"'")
	}
	above, unknown := c, c
	above.generation += 7
	b.said(b.conn, above, "report_fenced", "'fail'")
	unknown.id = daybook.NewID().String()
	b.said(b.conn, unknown, "report_fenced", "'fail'")
	events, err := b.book.Timeline(t.Context(), b.job(c.id).ID)
	if err != nil {
		t.Fatal(err)
	}
	fenced := 0
	for _, e := range events {
		if strings.Contains(e.What, "fenced") {
			fenced++
		}
	}
	if fenced != 2 {
		t.Errorf("the timeline has %d fenced writes, want 2: %v", fenced, events)
	}
	said := b.value(b.conn, "SELECT said FROM daybook.refusal WHERE operation = 'complete'")
	if len(said) > daybook.ProgressMax || !strings.HasSuffix(said, "é… (cut)") {
		t.Errorf("kept %d bytes that end in %q", len(said), said[len(said)-11:])
	}
	behind, err := b.book.Setting(t.Context(), daybook.SettingBookBehind)
	if want := fmt.Sprintf("%s job %s generation 8 above 1", b.now(), c.id); err != nil || behind != want {
		t.Errorf("book_behind is %q, want %q", behind, want)
	}
}
