package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/reconcile"
)

func (a *app) reconcileCommand() *cobra.Command {
	var once bool
	var options reconcile.Options
	cmd := &cobra.Command{
		Use: "reconcile", Short: "Repair what doesn't stand as it should: lost claims, run limits, expiry, retention",
		Example: example("daybook reconcile --once", "daybook reconcile --once -o json"),
		Args:    cobra.NoArgs,
	}
	cmd.Flags().BoolVar(&once, "once", false,
		"make one pass, ending expired sessions at once (default false: until interrupted)")
	durationVar(cmd.Flags(), &options.Every, "every", reconcile.EveryDefault, "pause between passes (1ms…24h)")
	durationVar(cmd.Flags(), &options.Keep, "keep", daybook.RetentionDefault,
		"finished jobs stay this long (48h or more)")
	cmd.RunE = a.withBook(func(ctx context.Context, book *daybook.Book, _ []string) error {
		if options.Every < time.Millisecond {
			return daybook.Invalid("every", "wants 1ms…%s, got %s", daybook.LeaseMax, options.Every)
		}
		if options.Keep < daybook.RetentionMin {
			return daybook.Invalid("keep", "wants %s or more, got %s", daybook.RetentionMin, options.Keep)
		}
		loop := reconcile.New(book, options)
		if !once {
			return loop.Run(ctx)
		}
		// A person's pass is made whoever made the last one; it is noted, so that
		// doctor and the loops know of it.
		if _, err := book.TakePass(ctx, 0); err != nil {
			return err
		}
		report, err := loop.Pass(ctx, daybook.AtOnce)
		if err != nil {
			return err
		}
		return a.show(report, func(t *table) {
			t.row("sessions ended", report.Ended)
			t.row("claims lost", report.Lost)
			t.row("claims past their run limit", report.Overdue)
			t.row("jobs expired", report.Expired)
			t.row("jobs pruned", report.Pruned)
			t.row("rows swept", report.Swept)
			t.row("queues rung", report.Rung)
		})
	})
	return cmd
}
