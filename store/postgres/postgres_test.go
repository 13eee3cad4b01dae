package postgres

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	flags "flag"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/bell/local"
	"github.com/daybookdev/daybook/internal/pgtest"
	"github.com/daybookdev/daybook/store/storetest"
)

func TestStore(t *testing.T) { conform(t, pgtest.SharedURL(t)) }

// conform holds the store to its contract on a server. The server runs already:
// parts of the suite run in a bubble of virtual time, where none can be started.
func conform(t *testing.T, url string) {
	fewWalks(t)
	storetest.Run(t, func(t *testing.T, o storetest.Options) *daybook.Book {
		return openBook(t, url, bookName(o.Path), Options{Now: o.Now, Fault: o.Fault,
			Book: daybook.Options{Hook: o.Hook, Bell: o.Bell}})
	})
}

// fewWalks bounds the model's random walks, each of which is on a book of its
// own: a fifth of the usual number, unless the run says how many
// (-rapid.checks=1000) or is one of make test-matrix, which takes its time.
func fewWalks(t *testing.T) {
	t.Helper()
	said := os.Getenv("DAYBOOK_TEST_MODES") != "" || os.Getenv("RAPID_CHECKS") != ""
	flags.Visit(func(f *flags.Flag) { said = said || f.Name == "rapid.checks" })
	if !said {
		ok(t, flags.Set("rapid.checks", "20"))
	}
}

// bookName is the schema for a path of the suite; no path is a new one.
func bookName(path string) string {
	if path == "" {
		return "book " + daybook.NewID().String()
	}
	sum := sha256.Sum256([]byte(path))
	return "book " + hex.EncodeToString(sum[:16])
}

var (
	making sync.Mutex
	made   = map[string]bool{}
)

// openBook opens the book in a schema, which is made at its first opening and
// dropped when that test ends.
func openBook(t *testing.T, url, schema string, o Options) *daybook.Book {
	t.Helper()
	o.Schema = schema
	if o.Book.Log == nil {
		o.Book.Log = quiet()
	}
	if o.Book.Bell == nil {
		o.Book.Bell = local.New() // the default has connections, which no bubble sees
	}
	making.Lock()
	defer making.Unlock()
	key := schema // of a random name: one book, whichever way to it
	if !strings.HasPrefix(schema, "book ") {
		key = url + schema
	}
	if !made[key] {
		quiet := o
		quiet.Fault = nil
		if _, err := Up(t.Context(), url, quiet, nil); err != nil {
			t.Fatalf("%v: %v", err, errors.Unwrap(err))
		}
		made[key] = true
		t.Cleanup(func() { drop(t, url, schema) })
	}
	book, err := Open(t.Context(), url, o)
	if err != nil {
		t.Fatalf("%v: %v", err, errors.Unwrap(err))
	}
	t.Cleanup(func() { book.Close() })
	return book
}

// drop takes a book away, in pieces that fit a server's table of locks.
func drop(t *testing.T, url, name string) {
	t.Helper()
	_, err := pgtest.Psql(url, "SET client_min_messages = error; DROP SCHEMA "+schema(name).quoted()+" CASCADE")
	if err != nil {
		t.Log(err) // a server that the test has killed
	}
}

// dsn adds a setting to a URL.
func dsn(url, setting string) string {
	if strings.Contains(url, "?") {
		return url + "&" + setting
	}
	return url + "?" + setting
}
