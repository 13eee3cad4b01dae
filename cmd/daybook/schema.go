package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/daybookdev/daybook"
)

func (a *app) schemaCommand() *cobra.Command {
	cmd := group("schema", "Look after the book's tables", "daybook schema status", "daybook schema print")
	cmd.AddCommand(a.schemaUpCommand(), a.schemaStatusCommand(), a.schemaPrintCommand(),
		a.schemaRestoredCommand())
	return cmd
}

// schemaLook is a way to learn which tables a database has.
type schemaLook func(database, context.Context) (schemaState, error)

// showSchema shows what look finds in the database that the flags name.
func (a *app) showSchema(look schemaLook) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, _ []string) error {
		db, err := a.database()
		if err != nil {
			return err
		}
		state, err := look(db, cmd.Context())
		if err != nil {
			return err
		}
		return a.show(state, func(t *table) {
			text := fmt.Sprintf("version %d, wants %d", state.Version, state.Want)
			if state.Schema != "" {
				text = "schema " + state.Schema + ": " + text
			}
			if state.Version < state.Want {
				text += "; run daybook schema up"
			}
			t.row(text)
		})
	}
}

func (a *app) schemaUpCommand() *cobra.Command {
	return &cobra.Command{
		Use: "up", Short: "Make or upgrade the tables; a SQLite book does it by itself",
		Example: example("daybook schema up --db postgres://daybook@localhost/app",
			"daybook schema up --db postgres://daybook@localhost/app --schema jobs -o json",
			"daybook schema up --db sqlite:other.db"),
		Args: cobra.NoArgs,
		RunE: a.showSchema(database.up),
	}
}

func (a *app) schemaStatusCommand() *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "Say which version the tables have, and which this program wants",
		Example: example("daybook schema status", "daybook schema status -o json"),
		Args:    cobra.NoArgs,
		RunE:    a.showSchema(database.status),
	}
}

func (a *app) schemaPrintCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "print", Short: "Print the tables as SQL",
		Example: example("daybook schema print", "daybook schema print --db postgres:// --schema jobs > schema.sql"),
		Args:    cobra.NoArgs,
	}
	cmd.RunE = func(*cobra.Command, []string) error {
		db, err := a.database()
		if err != nil {
			return err
		}
		script, err := db.script()
		if err != nil {
			return err
		}
		if a.json() {
			return daybook.EncodeJSON(a.stdout, map[string]string{"schema": script})
		}
		_, err = io.WriteString(a.stdout, script)
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
