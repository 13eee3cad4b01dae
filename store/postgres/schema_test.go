package postgres

import (
	"context"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/internal/pgtest"
)

// TestReservedSchemaName: PostgreSQL has kept some names for itself.
func TestReservedSchemaName(t *testing.T) {
	_, err := Up(t.Context(), pgtest.SharedURL(t), Options{Schema: "pg_jobs"}, nil)
	if daybook.CodeOf(err) != daybook.CodeInvalid || !strings.Contains(err.Error(), "can't begin with pg_") {
		t.Errorf("got %v, want it refused with the reason", err)
	}
}

// TestAnySchemaName keeps a book in schemas that want quoting.
func TestAnySchemaName(t *testing.T) {
	for _, name := range []string{"Upper Case", `with "quotes" and 'others'`, "100% $1 \\ ;--", "daybook.daybook",
		"jobs-ä"} {
		book := openBook(t, pgtest.SharedURL(t), name, Options{})
		enqueued(t, book, 2)
		s := session(t, book, time.Minute)
		for _, j := range claimed(t, book, s, 5) {
			complete(t, book, j)
		}
		if n := succeeded(t, book); n != 2 {
			t.Errorf("schema %q: %d succeeded, want 2", name, n)
		}
		healthy(t, book)
	}
	for _, name := range []string{"a$$b", string(make([]byte, 64)), "a\nb", "a\rb", "a\x00"} {
		if err := checkSchema(name); daybook.CodeOf(err) != daybook.CodeInvalid {
			t.Errorf("schema %q: got %v", name, err)
		}
	}
}

// TestL60_UpgradeUnderLoad takes the schema a version forward while jobs are
// worked and somebody holds a table: the upgrade never has others wait behind it
// for longer than its own patience, resumes when it can, and the programs of the
// version before go on.
func TestL60_UpgradeUnderLoad(t *testing.T) {
	url := pgtest.SharedURL(t)
	book := fresh(t, url, Options{})
	store := book.Store().(*Store)
	later := Version + 1
	next := fstest.MapFS{fmt.Sprintf("sql/%03d_later.sql", later): {
		Data: []byte("ALTER TABLE daybook.job ADD COLUMN later int;\n")}}
	for _, name := range append(versions(), "sql/functions_clock.sql") {
		text, err := fs.ReadFile(scripts, name)
		ok(t, err)
		next[name] = &fstest.MapFile{Data: text}
	}
	holder, err := pgx.Connect(t.Context(), url)
	ok(t, err)
	defer holder.Close(context.Background())
	_, err = holder.Exec(t.Context(), store.schema.in("BEGIN; SELECT count(*) FROM daybook.job"),
		pgx.QueryExecModeSimpleProtocol)
	ok(t, err)

	upgrader, err := newStore(url, Options{Schema: store.Schema()})
	ok(t, err)
	defer upgrader.Close()
	upgrader.ladder = ladder{next, later}
	said, done := make(chan string, 1000), make(chan error, 1)
	go func() {
		_, err := upgrader.up(t.Context(), func(what string) { said <- what })
		done <- err
	}()
	s := session(t, book, time.Minute)
	work := func() {
		enqueued(t, book, 5)
		for _, j := range claimed(t, book, s, 5) {
			complete(t, book, j)
		}
	}
	for waited := 0; waited < 2; {
		work()
		select {
		case what := <-said:
			if strings.Contains(what, "in use") {
				waited++
			}
		default:
		}
	}
	_, err = holder.Exec(t.Context(), "COMMIT")
	ok(t, err)
	for upgrading := true; upgrading; {
		work()
		select {
		case err := <-done:
			ok(t, err)
			upgrading = false
		default:
		}
	}
	work()
	have := psql(t, url, store.schema.in("SELECT value FROM daybook.setting WHERE name = 'schema'"))
	if strings.TrimSpace(have) != strconv.Itoa(later) {
		t.Errorf("the schema is version %s", have)
	}
	before, err := Open(t.Context(), url, Options{Schema: store.Schema()}) // a program of the version before
	ok(t, err)
	before.Close()
}
