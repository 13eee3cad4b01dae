package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/daybookdev/daybook"
)

func (a *app) releaseCommand() *cobra.Command {
	var in time.Duration
	cmd := &cobra.Command{
		Use: "release [JOB] --session S --generation G", Short: "Give a claim back as its owner, without blame",
		Example: example(
			`daybook release 01900000-0000-7000-8000-00000000000a --session "$SESSION" --generation 1`,
			`daybook release 01900000-0000-7000-8000-00000000000b --session "$SESSION" --generation 1 --in 10m`),
	}
	durationVar(cmd.Flags(), &in, "in", 0, "eligible again after this long (default at once; at least 0)")
	return a.ownerCommand(cmd, func(ctx context.Context, book reporter, job daybook.ID, o daybook.Owner) (
		daybook.Answer, error) {
		return book.Release(ctx, job, o, in)
	})
}
