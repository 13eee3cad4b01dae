package main

import (
	"context"
	"errors"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/client"
)

// Where the book is: at hand, as --db names it, or with a server, as --server
// does. Each command says in an interface of its own which few methods it needs;
// what both a *daybook.Book and a *client.Client have, it does at either place.

// on runs a command's work on the book that the flags name, or on the server that
// has it. B is an interface that both satisfy, and its file holds both to it.
func on[B any](ctx context.Context, a *app, work func(ctx context.Context, book B) error) error {
	if a.flags.server == "" {
		return a.onBook(ctx, func(ctx context.Context, book *daybook.Book) error {
			return work(ctx, any(book).(B))
		})
	}
	return a.onServer(ctx, func(ctx context.Context, server *client.Client) error {
		return work(ctx, any(server).(B))
	})
}

// with is on, as a command's run.
func with[B any](a *app, work func(ctx context.Context, book B, args []string) error,
) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		return on(cmd.Context(), a, func(ctx context.Context, book B) error { return work(ctx, book, args) })
	}
}

// onServer runs work that speaks to the server of the flags.
func (a *app) onServer(ctx context.Context, work func(ctx context.Context, server *client.Client) error) error {
	if a.flags.torn != nil {
		return a.flags.torn
	}
	server, err := client.New(a.flags.server, client.Options{Token: a.flags.token, Log: a.log()})
	if err != nil {
		return err
	}
	return errors.Join(work(ctx, server), server.Close())
}

// noReason stands in the record where a person gave no reason: a server wants one.
const noReason = "no reason given"

// place is how near to the command something was said; flags win over the
// environment, and the environment over the configuration.
type place int

const (
	nowhere place = iota
	inFile
	inEnvironment
	onCommandLine
)

// placesOf says where some flags were given, before the other places are read
// into them.
func placesOf(root *pflag.FlagSet, conf section, names ...string) map[string]place {
	places := map[string]place{}
	for _, name := range names {
		switch {
		case root.Changed(name):
			places[name] = onCommandLine
		case environment[name] != "" && os.Getenv(environment[name]) != "":
			places[name] = inEnvironment
		case conf[name] != nil:
			places[name] = inFile
		}
	}
	return places
}

// choose decides between the book at hand and a server, whichever was said nearer
// to the command.
func (g *globals) choose(places map[string]place) error {
	db, server := places["db"], places["server"]
	switch {
	case g.server == "" && places["token"] == onCommandLine:
		return usage("--token is for a server; name it with --server")
	case g.server == "":
		return nil
	case db > server:
		g.server = ""
		return nil
	case db == onCommandLine:
		return usage("--db and --server name two places; leave one of them out")
	case db == server && server == inEnvironment:
		g.torn = usage("%s and %s are both set; unset one of them, or say --db or --server",
			environment["db"], environment["server"])
	case db == server:
		g.torn = usage("--config names both db and server; leave one of them out, or say --db or --server")
	}
	for _, only := range []struct{ name, why string }{
		{"schema", "the server knows its own"}, {"bell", "the server has its own"},
		{"actor", "the record shows the token's name"}} {
		if places[only.name] == onCommandLine {
			return usage("leave --%s out beside a server: %s", only.name, only.why)
		}
	}
	return nil
}
