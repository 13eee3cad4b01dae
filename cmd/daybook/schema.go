package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/store/sqlite"
)

func (a *app) schemaCommand() *cobra.Command {
	cmd := group("schema", "Look after the book's tables", "daybook schema status", "daybook schema print")
	cmd.AddCommand(a.schemaUpCommand(), a.schemaStatusCommand(), a.schemaPrintCommand(),
		a.schemaRestoredCommand())
	return cmd
}

// schemaState is which schema the book has, and which this program wants.
type schemaState struct {
	Version int  `json:"version"`
	Want    int  `json:"want"`
	Current bool `json:"current"`
}

func (a *app) schemaVersion(ctx context.Context, book *daybook.Book) error {
	have, want, err := sqlite.SchemaVersion(ctx, book)
	if err != nil {
		return err
	}
	return a.show(schemaState{have, want, have == want}, func(t *table) {
		t.row(fmt.Sprintf("version %d, wants %d", have, want))
	})
}

func (a *app) schemaUpCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "up", Short: "Make or upgrade the tables; a SQLite book does it by itself",
		Example: example("daybook schema up", "daybook schema up --db sqlite:other.db -o json"),
		Args:    cobra.NoArgs,
	}
	cmd.RunE = a.withBook(func(ctx context.Context, book *daybook.Book, _ []string) error {
		return a.schemaVersion(ctx, book) // opening the book brought it up
	})
	return cmd
}

func (a *app) schemaStatusCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "status", Short: "Say which version the tables have, and which this program wants",
		Example: example("daybook schema status", "daybook schema status -o json"),
		Args:    cobra.NoArgs,
	}
	cmd.RunE = a.withBook(func(ctx context.Context, book *daybook.Book, _ []string) error {
		return a.schemaVersion(ctx, book)
	})
	return cmd
}

func (a *app) schemaPrintCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "print", Short: "Print the tables as SQL",
		Example: example("daybook schema print", "daybook schema print -o json"),
		Args:    cobra.NoArgs,
	}
	cmd.RunE = func(*cobra.Command, []string) error {
		if a.json() {
			return daybook.EncodeJSON(a.stdout, map[string]string{"schema": sqlite.Schema()})
		}
		_, err := io.WriteString(a.stdout, sqlite.Schema())
		return err
	}
	return cmd
}

func (a *app) schemaRestoredCommand() *cobra.Command {
	var since daybook.Time
	var reason string
	cmd := &cobra.Command{
		Use:   "restored --since T",
		Short: "Tell the book that its database lost commits, so that old owners stay fenced",
		Example: example("daybook schema restored --since 2026-08-01T03:00:00Z --reason 'backup of the night'",
			"daybook schema restored --since 2026-08-01T05:00:00+02:00 -o json"),
		Args: cobra.NoArgs,
	}
	cmd.Flags().Var(timeFlag{&since}, "since",
		"commits after this time may be lost (RFC 3339 with a zone; required)")
	reasonFlag(cmd, &reason)
	cmd.RunE = a.withBook(func(ctx context.Context, book *daybook.Book, _ []string) error {
		incarnation, err := book.Restored(ctx, since, a.by(reason))
		if err != nil {
			return err
		}
		answer := struct {
			Incarnation int64        `json:"incarnation"`
			Since       daybook.Time `json:"since"`
		}{incarnation, since}
		return a.show(answer, func(t *table) {
			t.row(fmt.Sprintf("incarnation %d; every later generation is above any before", incarnation))
		})
	})
	cmd.PreRunE = func(*cobra.Command, []string) error {
		if since == 0 {
			return daybook.Invalid("since", "is missing; say with --since from when commits may be lost")
		}
		return nil
	}
	return cmd
}
