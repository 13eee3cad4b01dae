package main

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/internal/pgtest"
	"github.com/daybookdev/daybook/store/postgres"
)

// These tests are about what only PostgreSQL has.

// emptyDatabase is a cli on a PostgreSQL database without a book.
func emptyDatabase(t *testing.T) *cli {
	t.Helper()
	return &cli{t: t, dir: t.TempDir(), db: pgtest.Database(t)}
}

// onlyPostgres runs a test when PostgreSQL is asked for.
func onlyPostgres(t *testing.T, test func(t *testing.T)) {
	if onPostgres {
		t.Run("postgres", test)
	}
}

// A database without the schema is told so by every command, and nothing makes
// it but schema up.
func TestPostgresWithoutSchema(t *testing.T) { onlyPostgres(t, testPostgresWithoutSchema) }

func testPostgresWithoutSchema(t *testing.T) {
	c := emptyDatabase(t)
	for _, args := range []string{"job list", "enqueue --queue q --kind k", "work --queue q --exec true", "check",
		"doctor", "prune", "reconcile --once", "schema restored --since 2026-01-01T00:00:00Z", "claim --queue q"} {
		s := c.want(statusUsage, strings.Fields(args)...)
		if s.out != "" || !strings.Contains(s.err, "run daybook schema up") {
			t.Errorf("daybook %s: got %+v, want the line to run", args, s)
		}
	}
	var state schemaState
	if c.json(statusDone, &state, "schema", "status"); state.Version != 0 || state.Current || state.Want < 1 {
		t.Errorf("before: got %+v, want no schema", state)
	}
	if out := c.ok("schema", "status"); !strings.Contains(out, "run daybook schema up") {
		t.Errorf("before: got %q, want what to do", out)
	}
	for range 2 {
		if c.json(statusDone, &state, "schema", "up"); !state.Current || state.Schema != "daybook" {
			t.Errorf("schema up: got %+v, want the current version", state)
		}
	}
	c.enqueue(1)
}

// Schemas of one database are books of their own, and what runs in a command
// knows which one it is in.
func TestPostgresSchemas(t *testing.T) { onlyPostgres(t, testPostgresSchemas) }

func testPostgresSchemas(t *testing.T) {
	c := emptyDatabase(t)
	other := []string{"--schema", `Jobs "of" daybook.`}
	in := func(args ...string) []string { return append(args, other...) }
	c.ok(in("schema", "up")...)
	c.want(statusUsage, "job", "list")
	c.ok("schema", "up")
	c.ok(in("enqueue", "--queue", "mail", "--kind", "k", "--id", id(1))...)
	c.want(statusNotFound, "job", "show", id(1))
	dir, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	t.Setenv(asProgram, "1")
	c.ok(in("work", "--queue", "mail", "--drain", "--exec", "daybook job show $DAYBOOK_JOB -o json")...)
	var job daybook.Job
	c.json(statusDone, &job, in("job", "show", id(1))...)
	if job.State != daybook.Succeeded || !strings.Contains(string(job.Result), id(1)) {
		t.Errorf("got %s with result %s, want the job as its command saw it", job.State, job.Result)
	}
	c.want(statusUsage, "job", "list", "--schema", strings.Repeat("x", 64))
}

// A server that syncs its disk has nothing bad; one that doesn't is told so.
func TestPostgresDoctor(t *testing.T) { onlyPostgres(t, testPostgresDoctor) }

func testPostgresDoctor(t *testing.T) {
	c := newPostgresCLI(t)
	var got health
	c.json(statusFailed, &got, "doctor")
	bad := map[string]bool{}
	for _, f := range got.Findings {
		bad[f.Name] = f.Level == levelBad
		if f.Name == "" || f.OK != (f.Advice == "") || f.OK != (f.Level == levelOK) {
			t.Errorf("got %+v, want advice where something isn't right", f)
		}
	}
	if got.OK || !bad["fsync"] || bad["synchronous_commit"] {
		t.Errorf("got %+v, want fsync bad on a test's server", got)
	}
	server, err := pgtest.Start(pgtest.Options{Durable: true})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Stop()
	c.db = server.URL("postgres")
	c.ok("schema", "up")
	if out := c.ok("doctor"); !strings.Contains(out, "\nok  fsync ") || strings.Contains(out, "!!") {
		t.Errorf("got %s, want nothing bad on a server that syncs", out)
	}
}

// A role that the server doesn't know, and a database that it doesn't have.
func TestPostgresLetsNobodyIn(t *testing.T) { onlyPostgres(t, testPostgresLetsNobodyIn) }

func testPostgresLetsNobodyIn(t *testing.T) {
	c := emptyDatabase(t)
	good := c.db
	for _, test := range []struct{ db, want string }{
		{strings.Replace(good, "postgres@", "nobody:secret@", 1), `doesn't let user "nobody" in`},
		{strings.Replace(good, databaseOf(t, good), "no_such", 1), `no database "no_such"`},
	} {
		c.db = test.db
		for _, args := range [][]string{{"job", "list"}, {"schema", "up"}, {"check", "--selftest"}} {
			s := c.want(statusUnavailable, args...)
			if !strings.Contains(s.err, test.want) || strings.Contains(s.err, "secret") {
				t.Errorf("daybook %q: got %q, want %q and no secret", args, s.err, test.want)
			}
		}
	}
}

// A program stays ready on tables that a newer one made, as long as they say
// that it may; then workers can be replaced one by one.
func TestPostgresNewerSchema(t *testing.T) { onlyPostgres(t, testPostgresNewerSchema) }

func testPostgresNewerSchema(t *testing.T) {
	c := newPostgresCLI(t)
	db := postgresDatabase{app: &app{}, url: c.db, schema: "daybook"}
	book, err := db.open(t.Context(), quietBook)
	if err != nil {
		t.Fatal(err)
	}
	defer book.Close()
	next := strconv.Itoa(postgres.Version + 1)
	for _, test := range []struct {
		version, oldest string
		serves, current bool
	}{{strconv.Itoa(postgres.Version), "1", true, true},
		{strconv.Itoa(postgres.OldestVersion), "1", true, postgres.OldestVersion == postgres.Version},
		{next, "1", true, false}, {next, next, false, false}} {
		c.spoil("UPDATE daybook.setting SET value = '" + test.version + "' WHERE name = 'schema'")
		c.spoil("UPDATE daybook.setting SET value = '" + test.oldest + "' WHERE name = 'schema_oldest'")
		state, err := db.state(t.Context(), book)
		if err != nil || state.serves != test.serves || state.Current != test.current {
			t.Errorf("version %s for %s and newer: got %+v, %v, want serves %t", test.version, test.oldest, state, err,
				test.serves)
		}
		want := statusDone
		if !test.serves {
			want = statusUsage
		}
		c.want(want, "job", "list")
	}
}
