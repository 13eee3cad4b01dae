package main

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/store/sqlite"
)

// sqliteDatabase is a file.
type sqliteDatabase struct {
	app    *app
	path   string
	opened os.FileInfo // the file that was there when the book was opened
	noFile error       // why that isn't known
}

// cacheSmall is enough for a command that passes by, so that putting in
// hundreds of thousands of jobs takes no more memory than a few.
const cacheSmall = 1 << 20

// watchEvery is how often a worker looks whether another process wrote to the
// book's file: a read of shared memory.
const watchEvery = 50 * time.Millisecond

func (a *app) sqliteDatabase(path string) (database, error) {
	path = strings.TrimPrefix(path, "//")
	switch {
	case a.flags.schemaGiven:
		return nil, usage("--schema is for postgres:// URLs; a SQLite file has one book")
	case path == sqlite.Memory:
		return nil, usage("--db sqlite:%s would be forgotten when the command ends; give a file", path)
	case path == "":
		return nil, usage("--db sqlite: wants a path behind it, like sqlite:daybook.db")
	}
	return &sqliteDatabase{app: a, path: path}, nil
}

func (d *sqliteDatabase) open(ctx context.Context, o daybook.Options) (*daybook.Book, error) {
	book, err := sqlite.Open(ctx, d.path, sqlite.Options{Book: o, Now: d.app.now, Cache: cmp.Or(d.app.cache, cacheSmall)})
	d.opened, d.noFile = os.Stat(d.path)
	return book, err
}

// name is the file's whole path.
func (d *sqliteDatabase) name() string {
	if path, err := filepath.Abs(d.path); err == nil {
		return path
	}
	return d.path
}

func (d *sqliteDatabase) environ() ([]string, error) {
	path, err := filepath.Abs(d.path)
	return []string{environment["db"] + "=sqlite:" + path}, err
}

func (d *sqliteDatabase) up(ctx context.Context) (schemaState, error) { return d.status(ctx) }

// status opens the book, which brings its tables up.
func (d *sqliteDatabase) status(ctx context.Context) (state schemaState, err error) {
	err = d.app.onBook(ctx, func(ctx context.Context, book *daybook.Book) error {
		state, err = d.state(ctx, book)
		return err
	})
	return state, err
}

func (d *sqliteDatabase) script() (string, error) { return sqlite.Schema(), nil }

func (d *sqliteDatabase) state(ctx context.Context, book *daybook.Book) (schemaState, error) {
	have, want, err := sqlite.SchemaVersion(ctx, book)
	return schemaState{Version: have, Want: want, Current: have == want, serves: have == want}, err
}

func (d *sqliteDatabase) doctor(ctx context.Context, book *daybook.Book) ([]finding, error) {
	found, err := sqlite.Doctor(ctx, book)
	list := make([]finding, len(found))
	for i, f := range found {
		level := levelOK
		if !f.OK {
			level = levelBad
		}
		list[i] = finding{f.Name, f.OK, level, f.Value, f.Advice}
	}
	return list, err
}

func (d *sqliteDatabase) scratch(ctx context.Context) scratch {
	return scratch{
		open: func() (*daybook.Book, error) {
			return sqlite.Open(ctx, sqlite.Memory, sqlite.Options{Book: quietBook})
		},
		spoil: sqlite.Break,
		clear: func() error { return nil },
	}
}

// drill makes a folder beside the book's file, so that the drill's own has the
// same disk under it.
func (d *sqliteDatabase) drill(context.Context) (drillBook, error) {
	old, err := filepath.Glob(filepath.Join(filepath.Dir(d.path), "daybook-drill-*", "drill.db"))
	for _, file := range old {
		d.app.note("another drill's folder is here, or was left by one: %s; remove it if no drill runs there",
			filepath.Dir(file))
	}
	if err != nil {
		return drillBook{}, daybook.Fail(daybook.CodeInternal, "the drill can't look for others beside %s", d.path)
	}
	dir, err := os.MkdirTemp(filepath.Dir(d.path), "daybook-drill-")
	if err != nil {
		return drillBook{}, daybook.Fail(daybook.CodeInternal, "the drill can't make a folder beside %s", d.path)
	}
	if dir, err = filepath.Abs(dir); err != nil { // its processes have other folders
		return drillBook{}, daybook.Fail(daybook.CodeInternal, "the drill can't find its folder beside %s", d.path)
	}
	db := "sqlite:" + filepath.Join(dir, "drill.db")
	return drillBook{DB: db, shown: "--db " + db, dir: dir, clear: func() error { return os.RemoveAll(dir) }}, nil
}

// goneEvery is how often a file is looked for that has to stay.
const goneEvery = 250 * time.Millisecond

// gone looks whether the path still leads to the file that was there when the book
// was opened. A process goes on writing to a file that was deleted or replaced, and
// what it accepts from then on is lost with its last handle.
func (d *sqliteDatabase) gone(ctx context.Context) error {
	opened, err := d.opened, d.noFile
	tick := time.NewTicker(goneEvery)
	defer tick.Stop()
	for {
		var now os.FileInfo
		if err == nil {
			now, err = os.Stat(d.path)
		}
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return exitError{statusUnavailable, "the book's file " + d.path + " was deleted while it was open; " +
				"stopped, since what is written now would be lost: put it back, and start again"}
		case err == nil && !os.SameFile(opened, now):
			return exitError{statusUnavailable, "the book's file " + d.path + " was replaced while it was open; " +
				"stopped, since what is written now would be lost: start again, and stop everything before replacing it"}
		case err != nil:
			return nil // who can't look can't say
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// watch rings this process's bell for what other processes on the same file
// put in, so that work starts well before the next poll.
func (d *sqliteDatabase) watch(ctx context.Context, book *daybook.Book) error {
	return sqlite.Watch(ctx, book, watchEvery, func() {
		if _, err := book.RingEligible(ctx); err != nil && ctx.Err() == nil {
			book.Log().Debug("looking for other processes' jobs", "error", err)
		}
	})
}
