package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/daybookdev/daybook"
)

func (a *app) failCommand() *cobra.Command {
	var text string
	var permanent bool
	var retryIn time.Duration
	cmd := &cobra.Command{
		Use: "fail [JOB] --session S --generation G --error T", Short: "Report as its owner that an attempt failed",
		Example: example(
			`daybook fail 01900000-0000-7000-8000-00000000000a --session "$SESSION" --generation 1 --error 'no route to host'`,
			`daybook fail 01900000-0000-7000-8000-00000000000b --session "$SESSION" --generation 1 --error 'no such user' --permanent`),
	}
	cmd.Flags().StringVar(&text, "error", "", "what went wrong (kept to 16 KiB, cut and marked past that)")
	cmd.Flags().BoolVar(&permanent, "permanent", false,
		"trying again is useless: set the job aside (default false)")
	durationVar(cmd.Flags(), &retryIn, "retry-in", 0,
		"next attempt after this long (default 1s doubling to 1h; at least 0)")
	cmd.PreRunE = func(*cobra.Command, []string) error {
		if text == "" {
			return daybook.Invalid("error", "is missing; say with --error what went wrong")
		}
		return nil
	}
	return a.ownerCommand(cmd, func(ctx context.Context, book reporter, job daybook.ID, o daybook.Owner) (
		daybook.Answer, error) {
		failure := daybook.Failure{Problem: daybook.NewProblem(text, "", ""), Permanent: permanent}
		if cmd.Flags().Changed("retry-in") {
			return book.Fail(ctx, job, o, failure, &retryIn)
		}
		return book.Fail(ctx, job, o, failure, nil)
	})
}
