package main

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/store/sqlite"
)

// bookWork is what a command does with the book and its arguments.
type bookWork func(ctx context.Context, book *daybook.Book, args []string) error

// withBook runs a command's work on the book that the flags name, and closes
// the book behind it.
func (a *app) withBook(work bookWork) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		return a.onBook(cmd.Context(), func(ctx context.Context, book *daybook.Book) error {
			return work(ctx, book, args)
		})
	}
}

func (a *app) onBook(ctx context.Context, work func(ctx context.Context, book *daybook.Book) error) error {
	book, err := a.open(ctx)
	if err != nil {
		return err
	}
	return errors.Join(work(ctx, book), book.Close())
}

// open opens the book that the flags name.
func (a *app) open(ctx context.Context) (*daybook.Book, error) {
	if a.flags.server != "" {
		return nil, notYet("--server", "leave it out and name the book with --db")
	}
	path, err := sqlitePath(a.flags.db)
	if err != nil {
		return nil, err
	}
	bell, err := bellOf(a.flags.bell)
	if err != nil {
		return nil, err
	}
	return sqlite.Open(ctx, path, sqlite.Options{
		Book: daybook.Options{Bell: bell, Log: a.log()}, Now: a.now, Cache: cmp.Or(a.cache, cacheSmall)})
}

// cacheSmall is enough for a command that passes by, so that putting in
// hundreds of thousands of jobs takes no more memory than a few.
const cacheSmall = 1 << 20

// sqlitePath is the file that a --db URL names.
func sqlitePath(url string) (string, error) {
	scheme, path, found := strings.Cut(url, ":")
	switch {
	case !found:
		return "", usage("--db wants sqlite:PATH, got %q", cut(url, cellMax))
	case scheme == "postgres" || scheme == "postgresql":
		return "", notYet("--db postgres:", "use sqlite:PATH")
	case scheme != "sqlite":
		return "", usage("--db wants sqlite:PATH, got a URL that begins with %q", cut(scheme, cellMax))
	}
	path = strings.TrimPrefix(path, "//")
	if path == sqlite.Memory {
		return "", usage("--db sqlite:%s would be forgotten when the command ends; give a file", path)
	}
	if path == "" {
		return "", usage("--db sqlite: wants a path behind it, like sqlite:daybook.db")
	}
	return path, nil
}

// absoluteDB is the --db URL as a command finds it that runs in another folder.
func absoluteDB(url string) (string, error) {
	path, err := sqlitePath(url)
	if err != nil {
		return "", err
	}
	path, err = filepath.Abs(path)
	return "sqlite:" + path, err
}

// log is the program's log, on standard error.
func (a *app) log() *slog.Logger {
	var level slog.Level
	_ = level.UnmarshalText([]byte(a.flags.logLevel)) // the flag takes only levels that parse
	options := &slog.HandlerOptions{Level: level}
	if a.flags.logFormat == "json" {
		return slog.New(slog.NewJSONHandler(a.stderr, options))
	}
	return slog.New(slog.NewTextHandler(a.stderr, options))
}

// clock is the time that the book goes by.
func (a *app) clock() daybook.Time {
	if a.now != nil {
		return daybook.At(a.now())
	}
	return daybook.At(time.Now())
}

// by is the person behind a change, for the record.
func (a *app) by(reason string) daybook.By { return daybook.By{Actor: a.flags.actor, Reason: reason} }

// reasonFlag registers --reason on a command that changes something.
func reasonFlag(cmd *cobra.Command, reason *string) {
	cmd.Flags().StringVar(reason, "reason", "", "why, for the record (at most 1024 bytes)")
}
