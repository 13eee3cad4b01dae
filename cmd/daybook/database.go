package main

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/check"
)

// database is where a book lives, as --db names it. Whatever the commands do
// that isn't the book's own business stands here, once for each database.
type database interface {
	// open opens the book that is there.
	open(ctx context.Context, o daybook.Options) (*daybook.Book, error)
	// name says which book it is to people, without secrets.
	name() string
	// environ names the book to a command that runs in another folder.
	environ() ([]string, error)
	// up makes the book's tables or takes them forward.
	up(ctx context.Context) (schemaState, error)
	// status looks which tables are there.
	status(ctx context.Context) (schemaState, error)
	// script is the tables as SQL.
	script() (string, error)
	// state looks which tables an open book has.
	state(ctx context.Context, book *daybook.Book) (schemaState, error)
	// doctor looks for settings that lose data.
	doctor(ctx context.Context, book *daybook.Book) ([]finding, error)
	// scratch makes books that the checker may break, and nobody else sees.
	scratch(ctx context.Context) scratch
	// drill makes the place of a drill's own book.
	drill(ctx context.Context) (drillBook, error)
	// bell makes the bell that the book has when none is named.
	bell() (daybook.Bell, error)
	// watch rings the book's bell for what other processes put in, until ctx ends.
	watch(ctx context.Context, book *daybook.Book) error
	// gone waits until ctx ends, or until what was opened isn't any more what the
	// next process would open: then it says so.
	gone(ctx context.Context) error
}

// scratch is where the checker tests itself.
type scratch struct {
	open  check.Opener
	spoil check.Breaker
	clear func() error // removes what is left of the books
}

// schemaState is which schema the book has, and which this program wants.
type schemaState struct {
	Schema  string `json:"schema,omitempty"` // its name, on PostgreSQL
	Version int    `json:"version"`          // 0 when there is none
	Want    int    `json:"want"`
	Current bool   `json:"current"`
	serves  bool   // this program may work on it: a newer one may say so too
}

// database is what the flags name.
func (a *app) database() (database, error) {
	if a.flags.server != "" {
		if a.flags.torn != nil {
			return nil, a.flags.torn
		}
		return nil, a.needsBook()
	}
	scheme, rest, found := strings.Cut(a.flags.db, ":")
	switch {
	case found && scheme == "sqlite":
		return a.sqliteDatabase(rest)
	case found && (scheme == "postgres" || scheme == "postgresql") && strings.HasPrefix(rest, "//"):
		return a.postgresDatabase()
	}
	return nil, usage("--db wants %s; got %s", dbForms, shownDB(a.flags.db))
}

// needsBook is the answer of a command that no server can carry out for it.
func (a *app) needsBook() error {
	return usage("%s needs the book itself and can't speak to a server; leave --server out and name the book with --db",
		a.flags.command)
}

// databaseSchemes begin the URLs that --db takes.
var databaseSchemes = []string{"sqlite:", "postgres://"}

// dbForms are the URLs that --db takes.
const dbForms = "sqlite:PATH or postgres://USER@HOST/DATABASE"

var urlScheme = regexp.MustCompile(`^[a-z][a-z0-9+]{0,15}$`)

// shownDB is as much of a --db that can't be read as may be shown: what looks
// like something else than a file's name may have a password in it.
func shownDB(db string) string {
	scheme, rest, found := strings.Cut(db, ":")
	switch {
	case !found && !strings.ContainsAny(db, "@=/"):
		return fmt.Sprintf("%q", cut(db, cellMax))
	case found && urlScheme.MatchString(scheme) && !strings.Contains(rest, "="):
		return "what begins with " + fmt.Sprintf("%q", scheme+":")
	}
	return "something else"
}
