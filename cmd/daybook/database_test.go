package main

import (
	"database/sql"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/daybookdev/daybook/internal/pgtest"
)

// onPostgres says that tests run on PostgreSQL too. Without it, Go alone runs
// them.
var onPostgres = os.Getenv("DAYBOOK_TEST_POSTGRES") != ""

// onSQLite is false where the run says "only": another has them on SQLite.
var onSQLite = os.Getenv("DAYBOOK_TEST_POSTGRES") != "only"

// onEach runs a test on a fresh book in each database.
func onEach(t *testing.T, test func(t *testing.T, c *cli)) {
	if onSQLite {
		t.Run("sqlite", func(t *testing.T) { test(t, newCLI(t)) })
	}
	if onPostgres {
		t.Run("postgres", func(t *testing.T) { test(t, newPostgresCLI(t)) })
	}
}

// everywhere runs a test on a fresh book in each database, as the command line
// speaks to it with --db, and to a server that has it with --server.
func everywhere(t *testing.T, test func(t *testing.T, c *cli)) {
	t.Helper()
	onEach(t, test)
	if onSQLite {
		t.Run("server", func(t *testing.T) { test(t, newCLI(t).onServer()) })
	}
	if onPostgres {
		t.Run("server-postgres", func(t *testing.T) { test(t, newPostgresCLI(t).onServer()) })
	}
}

// newCLI runs commands on a SQLite file of the test's own.
func newCLI(t *testing.T) *cli {
	t.Helper()
	dir := t.TempDir()
	return &cli{t: t, dir: dir, db: "sqlite:" + filepath.Join(dir, "book.db")}
}

// newPostgresCLI runs commands on a PostgreSQL database of the test's own.
func newPostgresCLI(t *testing.T) *cli {
	t.Helper()
	c := &cli{t: t, dir: t.TempDir(), db: pgtest.Database(t)}
	c.ok("schema", "up")
	return c
}

// another is a cli of its own on a fresh book of the same sort.
func (c *cli) another(t *testing.T) *cli {
	t.Helper()
	other := newCLI(t)
	if c.postgres() {
		other = newPostgresCLI(t)
	}
	if c.server != "" {
		other.onServer()
	}
	return other
}

// copies counts the databases that copied made, for their names.
var copies atomic.Int64

// copied is a cli of its own on a copy of this one's book, with which nobody may
// work meanwhile.
func (c *cli) copied(t *testing.T) *cli {
	t.Helper()
	copied := &cli{t: t, dir: t.TempDir(), db: c.db}
	if !c.postgres() {
		if err := os.CopyFS(copied.dir, os.DirFS(c.dir)); err != nil {
			t.Fatal(err)
		}
		copied.db = strings.ReplaceAll(c.db, c.dir, copied.dir)
		return copied.asServed(c)
	}
	server, from := pgtest.Shared(t), databaseOf(t, c.db)
	to := fmt.Sprintf("%s_copy%d", from, copies.Add(1))
	if _, err := server.Psql("postgres", "CREATE DATABASE "+to+" TEMPLATE "+from); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := server.Psql("postgres", "DROP DATABASE "+to+" WITH (FORCE)"); err != nil {
			t.Error(err)
		}
	})
	copied.db = server.URL(to)
	return copied.asServed(c)
}

// databaseOf is the name of the database in a URL.
func databaseOf(t *testing.T, db string) string {
	t.Helper()
	u, err := url.Parse(db)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimPrefix(u.Path, "/")
}

func (c *cli) postgres() bool { return strings.HasPrefix(c.db, "postgres") }

// spoil changes the book's rows past all guards. The statement calls a table
// as PostgreSQL does: daybook.job.
func (c *cli) spoil(query string) {
	c.t.Helper()
	if c.postgres() {
		if _, err := pgtest.Psql(c.db, query); err != nil {
			c.t.Fatal(err)
		}
		return
	}
	db, err := sql.Open("sqlite", strings.TrimPrefix(c.db, "sqlite:"))
	if err != nil {
		c.t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec(strings.ReplaceAll(query, "daybook.", "")); err != nil {
		c.t.Fatal(err)
	}
}

// A book's name tells it from others, and nothing that lets anybody in.
func TestBooksNames(t *testing.T) {
	for url, want := range map[string]string{
		"postgres://ada:s3cret@db.example:5432/shop?sslmode=disable": "shop.daybook at db.example",
		"postgres://ada:s3cret@db.example:6543/shop":                 "shop.daybook at db.example:6543",
		"postgres:///shop?host=/run/pg&password=s3cret":              "shop.daybook at /run/pg",
		"postgres://ada:s3cret@db.example:port/shop":                 "daybook",
	} {
		if got := (postgresDatabase{url: url, schema: "daybook"}).name(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if got := (&sqliteDatabase{path: "/srv/x/../mail.db"}).name(); got != "/srv/mail.db" {
		t.Errorf("got %q, want the whole path", got)
	}
}
