package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/relay"
)

func (a *app) relayCommand() *cobra.Command {
	var once bool
	var options relay.Options
	cmd := &cobra.Command{
		Use: "relay", Short: "Publish the rings that lie in the outbox to the bell",
		Example: example("daybook relay --once", "daybook relay --once -o json"),
		Args:    cobra.NoArgs,
	}
	cmd.Flags().BoolVar(&once, "once", false, "publish what lies there now, and end (default false: until interrupted)")
	durationVar(cmd.Flags(), &options.Every, "every", relay.EveryDefault, "pause between passes (1ms…1h)")
	durationVar(cmd.Flags(), &options.Deadline, "deadline", daybook.PublishMax,
		"how long the bell may take for a batch (1ms…1m)")
	cmd.RunE = a.withBook(func(ctx context.Context, book *daybook.Book, _ []string) error {
		if options.Every < time.Millisecond || options.Every > time.Hour {
			return daybook.Invalid("every", "wants 1ms…%s, got %s", time.Hour, options.Every)
		}
		if options.Deadline < time.Millisecond || options.Deadline > relay.DeadlineMax {
			return daybook.Invalid("deadline", "wants 1ms…%s, got %s", relay.DeadlineMax, options.Deadline)
		}
		loop := relay.New(book, options)
		switch {
		case once:
			return a.relayOnce(ctx, book, loop)
		case book.Outside() == nil:
			return usage("the bell is none that other processes hear, so there is nothing to publish; name one with --bell")
		}
		book.Log().Info("publishing rings", "every", options.Every)
		return loop.Run(ctx)
	})
	return cmd
}

func (a *app) relayOnce(ctx context.Context, book *daybook.Book, loop *relay.Relay) error {
	if book.Outside() == nil {
		a.note("the bell is none that other processes hear; nothing is published")
	}
	report, err := loop.Pass(ctx)
	if err != nil {
		return err
	}
	return a.show(report, func(t *table) {
		t.row("rows published", report.Rows)
		t.row("queues rung", report.Rung)
		t.row("rows removed", report.Removed)
		t.row("age of the oldest", fmt.Sprintf("%.1f s", report.Oldest))
	})
}
