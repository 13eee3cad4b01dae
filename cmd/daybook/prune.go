package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/daybookdev/daybook"
)

func (a *app) pruneCommand() *cobra.Command {
	var options daybook.PruneOptions
	cmd := &cobra.Command{
		Use: "prune", Short: "Remove finished jobs past their retention; never set-aside ones",
		Example: example("daybook prune --dry-run", "daybook prune --keep 30d"),
		Args:    cobra.NoArgs,
	}
	cmd.Flags().BoolVar(&options.DryRun, "dry-run", false, "only count, up to the first 1000 (default false)")
	durationVar(cmd.Flags(), &options.Keep, "keep", daybook.RetentionDefault,
		"finished jobs stay this long (48h or more)")
	cmd.RunE = a.withBook(func(ctx context.Context, book *daybook.Book, _ []string) error {
		if options.Keep < daybook.RetentionMin {
			return daybook.Invalid("keep", "wants %s or more, got %s", daybook.RetentionMin, options.Keep)
		}
		n, err := book.Prune(ctx, options)
		if err != nil {
			return err
		}
		answer := struct {
			Pruned int  `json:"pruned"`
			DryRun bool `json:"dry_run,omitempty"`
		}{n, options.DryRun}
		return a.show(answer, func(t *table) {
			switch {
			case options.DryRun && n == daybook.ListMax:
				t.row("would remove 1000 jobs or more")
			case options.DryRun:
				t.row("would remove " + count(n, "job"))
			default:
				t.row("removed " + count(n, "job"))
			}
		})
	})
	return cmd
}
