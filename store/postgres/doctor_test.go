package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/internal/pgtest"
)

// findings are what doctor said, by name.
type findings map[string]Finding

// examined is what doctor says of a book.
func examined(t *testing.T, s *Store, old time.Duration) findings {
	t.Helper()
	list, err := s.examine(t.Context(), old)
	if err != nil {
		t.Fatal(err)
	}
	all := findings{}
	for _, f := range list {
		if _, twice := all[f.Name]; twice && f.Name != "missing index" {
			t.Errorf("two findings are called %q", f.Name)
		}
		all[f.Name] = f
		lines := f.Name + f.Value + f.Advice
		if f.Value == "" || strings.Contains(lines, "\n") || f.OK != (f.Level == LevelOK) || f.OK != (f.Advice == "") {
			t.Errorf("got %+v, want one line with a value, and advice when it isn't ok", f)
		}
	}
	return all
}

// want holds one finding to its level, and to words of its value or advice.
func (all findings) want(t *testing.T, name string, level Level, words ...string) {
	t.Helper()
	f, found := all[name]
	if !found || f.Level != level {
		t.Errorf("%s: got %+v, want %s", name, f, level)
	}
	for _, w := range words {
		if !strings.Contains(f.Value+"; "+f.Advice, w) {
			t.Errorf("%s: got %+v, want %q in it", name, f, w)
		}
	}
}

// bookAt is a book on any server.
func bookAt(t *testing.T, url, schema string, o Options) *daybook.Book {
	t.Helper()
	o.Schema, o.Book.Log = schema, quiet()
	if _, err := Up(t.Context(), url, o, nil); err != nil {
		t.Fatal(err)
	}
	book, err := Open(t.Context(), url, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { book.Close() })
	return book
}

// connected is a connection of somebody else.
func connected(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

func run(t *testing.T, conn *pgx.Conn, sql string) {
	t.Helper()
	if _, err := conn.Exec(t.Context(), sql, pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func TestDoctor(t *testing.T) {
	url := pgtest.Database(t)
	book := bookAt(t, url, SchemaDefault, Options{})
	if _, err := book.TakePass(t.Context(), time.Second); err != nil {
		t.Fatal(err)
	}
	list, err := Doctor(t.Context(), book)
	if err != nil {
		t.Fatal(err)
	}
	var wrong []string
	for _, f := range list {
		if !f.OK {
			wrong = append(wrong, f.Name)
		}
	}
	slices.Sort(wrong)
	wanted := []string{"fsync", "full_page_writes"} // which tests do without
	if !slices.Equal(wrong, wanted) {
		t.Errorf("got %v, want %v of %+v", wrong, wanted, list)
	}
}

// The process that holds an old snapshot is named, wherever it shows (L65).
func TestDoctorNamesTheBlocker(t *testing.T) {
	url := pgtest.Database(t)
	book := bookAt(t, url, "a book", Options{})
	s := book.Store().(*Store)
	blocker := connected(t, dsn(url, "application_name=nightly"))
	run(t, blocker, `BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM "a book".job`)
	pid := fmt.Sprint(blocker.PgConn().PID())

	// The server's own analyze may hold one too, for a moment.
	until(t, "the snapshot's holder is named", func() bool {
		held, _, err := OldestSnapshot(t.Context(), book)
		return err == nil && fmt.Sprint(held.PID) == pid
	})
	until(t, "the doctor names it", func() bool {
		f := examined(t, s, 0)["oldest snapshot"]
		return f.Level == LevelBad && strings.Contains(f.Value, "pid "+pid+" (application nightly") &&
			strings.Contains(f.Value, "idle in transaction") && strings.Contains(f.Advice, "pg_terminate_backend("+pid+")")
	})
	examined(t, s, 0).want(t, "idle in transaction", LevelBad, "1; the longest is pid "+pid, "nightly")
	run(t, blocker, "ROLLBACK")
	until(t, "nobody holds one", func() bool {
		_, found, err := OldestSnapshot(t.Context(), book)
		return err == nil && !found
	})
	examined(t, s, 0).want(t, "idle in transaction", LevelOK)
}

// until polls a condition, up to a generous deadline.
func until(t *testing.T, what string, so func() bool) {
	t.Helper()
	late := time.NewTimer(3 * time.Minute)
	defer late.Stop()
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for !so() {
		select {
		case <-late.C:
			t.Fatalf("still waiting until %s", what)
		case <-again.C:
		}
	}
}

func TestDoctorAges(t *testing.T) {
	e := &exam{old: oldSnapshot}
	for age, want := range map[time.Duration]Level{0: LevelOK, 59 * time.Second: LevelOK, time.Minute: LevelWarn,
		9 * time.Minute: LevelWarn, 10 * time.Minute: LevelBad} {
		if got := e.ageLevel(age); got != want {
			t.Errorf("%v: got %s, want %s", age, got, want)
		}
	}
	for _, c := range []struct {
		table
		want   Level
		advice string
	}{
		{table{dead: 100_000}, LevelOK, ""},
		{table{dead: 300_000}, LevelWarn, "VACUUM"},
		{table{dead: 300_000, live: 400_000}, LevelOK, ""},
		{table{dead: 3_000_000}, LevelBad, "VACUUM"},
		{table{dead: 3_000_000, live: 2_500_000}, LevelBad, "VACUUM"},
		{table{size: 1 << 30, live: 10}, LevelWarn, "REINDEX"},
		{table{size: 1 << 30, live: 10_000_000}, LevelOK, ""},
	} {
		level, advice := c.judge(`"a book"`, "")
		if level != c.want || !strings.Contains(advice, c.advice) {
			t.Errorf("%+v: got %s, %s", c.table, level, advice)
		}
	}
	held := Snapshot{PID: 4711, Age: time.Hour}
	_, advice := (table{dead: 3_000_000}).judge("daybook", held.blames(oldSnapshot))
	if !strings.Contains(advice, "4711") {
		t.Errorf("of dead rows under a snapshot: got %q, want its pid", advice)
	}
	held.Age = time.Second
	if got := held.blames(oldSnapshot); got != "" {
		t.Errorf("a young snapshot is blamed: %s", got)
	}
}

// What was changed behind the book's back is found, and the advice is right.
func TestDoctorFindsTheSchemaChanged(t *testing.T) {
	url := pgtest.Database(t)
	s := bookAt(t, url, "a book", Options{}).Store().(*Store)
	examined(t, s, oldSnapshot).want(t, "indexes", LevelOK)
	conn := connected(t, url)
	run(t, conn, `SET search_path = "a book"; DROP INDEX job_slow; ALTER TABLE ready SET (autovacuum_enabled = off);
		INSERT INTO setting VALUES ('book_behind', 'job 1'); INSERT INTO outbox (at, queue, ring) VALUES (1, 1, true);
		INSERT INTO sums (queue) VALUES (1), (2); UPDATE setting SET value = '99' WHERE name = 'schema'`)
	if _, err := conn.Exec(t.Context(), "CREATE UNIQUE INDEX CONCURRENTLY half_made ON sums (waiting)"); err == nil {
		t.Fatal("an index of two equal rows was made")
	}
	all := examined(t, s, oldSnapshot)
	all.want(t, "missing index", LevelBad, `CREATE INDEX job_slow ON "a book".job (state, seq) WHERE state <> 0`)
	all.want(t, "invalid indexes", LevelBad, "half_made")
	all.want(t, "autovacuum of tables", LevelBad, "ready")
	all.want(t, "lost commits", LevelBad, "job 1")
	all.want(t, "counting rows older than an hour", LevelWarn, "1")
	all.want(t, "schema version", LevelWarn, "99")
	all.want(t, "last reconciler's pass", LevelWarn, "none")
	run(t, conn, all["missing index"].Advice)
	run(t, conn, "DROP INDEX half_made; ALTER TABLE ready RESET (autovacuum_enabled)")
	all = examined(t, s, oldSnapshot)
	all.want(t, "indexes", LevelOK)
	all.want(t, "autovacuum of tables", LevelOK)
	run(t, conn, "ALTER TABLE sums DROP CONSTRAINT sums_pkey")
	examined(t, s, oldSnapshot).want(t, "missing index", LevelBad, "sums_pkey on sums", "schema print")
}

func TestDoctorCountsConnections(t *testing.T) {
	url := pgtest.Database(t)
	book := bookAt(t, url, SchemaDefault, Options{})
	examined(t, book.Store().(*Store), oldSnapshot).want(t, "connections", LevelOK, "up to 21")
	wide, err := Open(t.Context(), url, Options{Conns: 1000})
	if err != nil {
		t.Fatal(err)
	}
	defer wide.Close()
	examined(t, wide.Store().(*Store), oldSnapshot).want(t, "connections", LevelBad, "up to 1011")
}

// A role that doesn't see the others says so.
func TestDoctorOfAPlainRole(t *testing.T) {
	url := pgtest.Database(t)
	bookAt(t, url, SchemaDefault, Options{})
	conn := connected(t, url)
	role := "plain_" + strings.ReplaceAll(daybook.NewID().String(), "-", "")
	run(t, conn, "CREATE ROLE "+role+" LOGIN CONNECTION LIMIT 9; ALTER ROLE "+role+" SET synchronous_commit = off; "+
		"GRANT USAGE ON SCHEMA daybook TO "+role+"; GRANT ALL ON ALL TABLES IN SCHEMA daybook TO "+role)
	defer run(t, conn, "DROP OWNED BY "+role+"; DROP ROLE "+role)
	book, err := Open(t.Context(), strings.Replace(url, "postgres@", role+"@", 1), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer book.Close()
	all := examined(t, book.Store().(*Store), oldSnapshot)
	all.want(t, "hidden sessions", LevelWarn, "pg_read_all_stats")
	all.want(t, "connections", LevelBad, "of 9 in use")
	all.want(t, "synchronous_commit", LevelBad, "off")
	all.want(t, "synchronous_commit of roles", LevelBad, role)
}

// A server where all is set for losing.
func TestDoctorOfABadServer(t *testing.T) {
	t.Parallel() // it waits more than it works
	server := ownServer(t, pgtest.Options{Settings: map[string]string{"synchronous_commit": "off",
		"autovacuum": "off", "track_counts": "off", "max_prepared_transactions": "2", "max_connections": "40"}})
	psql(t, server.URL("postgres"), "CREATE DATABASE old ENCODING 'SQL_ASCII' TEMPLATE template0")
	url := server.URL("old")
	book := bookAt(t, url, "bad book", Options{Conns: 20, TxConns: 10})
	s := book.Store().(*Store)
	conn := connected(t, url)
	run(t, conn, `INSERT INTO "bad book".event (seq, at, what)
		SELECT n, n, repeat('x', 100) FROM generate_series(1, 80000) n`)
	run(t, conn, "BEGIN; DELETE FROM \"bad book\".event WHERE n < 10; PREPARE TRANSACTION 'half'")
	for range 8 { // others' connections
		connected(t, url)
	}
	all := examined(t, s, 0)
	for _, name := range []string{"fsync", "full_page_writes", "synchronous_commit", "autovacuum", "track_counts",
		"encoding"} {
		all.want(t, name, LevelBad)
	}
	all.want(t, "statistics", LevelWarn, "event")
	all.want(t, "prepared transactions", LevelBad, "1; the oldest is half of postgres", "ROLLBACK PREPARED 'half'")
	all.want(t, "connections", LevelWarn)
	run(t, conn, "ROLLBACK PREPARED 'half'")
	run(t, conn, "ANALYZE")
	all = examined(t, s, 0)
	all.want(t, "statistics", LevelOK)
	all.want(t, "prepared transactions", LevelOK)
}

// A standby's feedback holds vacuum back through its slot.
func TestDoctorOfASlot(t *testing.T) {
	t.Parallel() // it waits more than it works
	server := ownServer(t, pgtest.Options{})
	s := bookAt(t, server.URL("postgres"), "slot book", Options{}).Store().(*Store)
	examined(t, s, 0).want(t, "replication slots", LevelOK, "none")
	standby, err := server.Standby(pgtest.Options{Settings: map[string]string{"hot_standby_feedback": "on",
		"wal_receiver_status_interval": "1s"}})
	if err != nil {
		t.Fatal(err)
	}
	defer standby.Stop()
	psql(t, server.URL("postgres"), "SELECT pg_create_physical_replication_slot('east', true)")
	psql(t, standby.URL("postgres"), "ALTER SYSTEM SET primary_slot_name = 'east'; SELECT pg_reload_conf()")
	until(t, "the standby's feedback has come", func() bool {
		return s.number(t, "SELECT count(*) FROM pg_replication_slots WHERE xmin IS NOT NULL") > 0
	})
	examined(t, s, 0).want(t, "replication slots", LevelOK, "east holds back vacuum", "in use")
}

// The levels of what a commit may wait for.
func TestDoctorOfCommits(t *testing.T) {
	for _, c := range []struct {
		setting string
		standby bool
		want    Level
	}{{"off", false, LevelBad}, {"off", true, LevelBad}, {"local", false, LevelOK}, {"local", true, LevelWarn},
		{"remote_write", true, LevelWarn}, {"remote_apply", true, LevelOK}} {
		if got, _ := commitLevel(c.setting, c.standby, "advice"); got != c.want {
			t.Errorf("%s, with a standby %v: got %s, want %s", c.setting, c.standby, got, c.want)
		}
	}
}

// How often commits may have been lost is told, though nothing is wrong any more.
func TestDoctorTellsTheIncarnation(t *testing.T) {
	book := fresh(t, pgtest.SharedURL(t), Options{})
	s := book.Store().(*Store)
	examined(t, s, 0).want(t, "incarnation", LevelOK, "none")
	_, err := book.Restored(t.Context(), daybook.At(time.Now()), daybook.By{Actor: "ada", Reason: "a disk's snapshot"})
	ok(t, err)
	examined(t, s, 0).want(t, "incarnation", LevelOK, "1: commits may have been lost")
}
