package main

import (
	"context"
	"encoding/json"

	"github.com/spf13/cobra"

	"github.com/daybookdev/daybook"
)

func (a *app) completeCommand() *cobra.Command {
	var result string
	cmd := &cobra.Command{
		Use: "complete [JOB] --session S --generation G", Short: "Report as its owner that a job succeeded",
		Example: example(
			`daybook complete 01900000-0000-7000-8000-00000000000a --session "$SESSION" --generation 1 --result '{"sent":true}'`,
			`daybook complete 01900000-0000-7000-8000-00000000000b --session "$SESSION" --generation 1 -o json`),
	}
	cmd.Flags().StringVar(&result, "result", "",
		"the result, a JSON document (default none; past 1 MiB the attempt fails for good)")
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		if !cmd.Flags().Changed("result") {
			return nil
		}
		return daybook.CheckJSON("result", []byte(result))
	}
	return a.ownerCommand(cmd, func(ctx context.Context, book reporter, job daybook.ID, o daybook.Owner) (
		daybook.Answer, error) {
		answer, err := book.Complete(ctx, job, o, json.RawMessage(result))
		if err == nil && answer.State == daybook.SetAside && !answer.Already {
			err = exitError{statusFailed, "result: more than 1 MiB; the attempt failed and the job is set aside"}
		}
		return answer, err
	})
}
