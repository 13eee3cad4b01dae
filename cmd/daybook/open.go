package main

import (
	"context"
	"errors"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/worker"
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
	return a.onDatabase(ctx, func(ctx context.Context, _ database, book *daybook.Book) error {
		return work(ctx, book)
	})
}

// onDatabase is onBook for work that also wants to know where the book lives.
func (a *app) onDatabase(ctx context.Context,
	work func(ctx context.Context, db database, book *daybook.Book) error) error {
	db, err := a.database()
	if err != nil {
		return err
	}
	bell, err := a.bell(db)
	if err != nil {
		return err
	}
	book, err := db.open(ctx, daybook.Options{Bell: bell, Log: a.log(), Tracer: a.bookTracer()})
	if err != nil {
		return errors.Join(err, bell.Close())
	}
	// The bell is closed last: it says what is still to be said.
	return errors.Join(work(ctx, db, book), book.Close(), bell.Close())
}

// log is the program's log, on standard error. What is said in a job's name has its
// fields.
func (a *app) log() *slog.Logger {
	var level slog.Level
	_ = level.UnmarshalText([]byte(a.flags.logLevel)) // the flag takes only levels that parse
	options := &slog.HandlerOptions{Level: level}
	var to slog.Handler = slog.NewTextHandler(a.stderr, options)
	if a.flags.logFormat == "json" {
		to = slog.NewJSONHandler(a.stderr, options)
	}
	return slog.New(worker.NewLogHandler(to, a.workTracer()))
}

// by is the person behind a change, for the record.
func (a *app) by(reason string) daybook.By {
	if reason == "" && a.flags.server != "" {
		reason = noReason
	}
	return daybook.By{Actor: a.flags.actor, Reason: reason}
}

// reasonFlag registers --reason on a command that changes something.
func reasonFlag(cmd *cobra.Command, reason *string) {
	cmd.Flags().StringVar(reason, "reason", "", "why, for the record (at most 1024 bytes)")
}
