package main

import (
	"context"
	"encoding/json"

	"github.com/spf13/cobra"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/client"
)

// settler is what a person's look at the ledger needs of a book.
type settler interface {
	Effects(ctx context.Context, f daybook.EffectFilter) (daybook.Page[daybook.Effect], error)
	Settle(ctx context.Context, id daybook.ID, name string, v daybook.Verdict, by daybook.By) (daybook.Job, error)
}

var _, _ settler = (*daybook.Book)(nil), (*client.Client)(nil)

func (a *app) effectCommand() *cobra.Command {
	cmd := group("effect", "Look at what jobs did outside, and settle what is open",
		"daybook effect list --open",
		"daybook effect settle 01900000-0000-7000-8000-000000000004 handler --absent --reason 'not in the outbox'")
	cmd.AddCommand(a.effectListCommand(), a.effectSettleCommand(), a.effectBeginCommand(), a.effectFinishCommand())
	return cmd
}

func (a *app) effectListCommand() *cobra.Command {
	var filter daybook.EffectFilter
	cmd := &cobra.Command{
		Use: "list", Short: "List the effects that jobs recorded",
		Example: example("daybook effect list --open",
			"daybook effect list --job 01900000-0000-7000-8000-000000000004 -o json"),
		Args: cobra.NoArgs,
	}
	cmd.Flags().BoolVar(&filter.Open, "open", false, "only effects that nobody knows the end of (default false)")
	cmd.Flags().Var(idFlag{&filter.Job}, "job", "only effects of this job")
	pageFlags(cmd.Flags(), &filter.Limit, &filter.Cursor)
	cmd.RunE = with(a, func(ctx context.Context, book settler, _ []string) error {
		if err := checkLimit(filter.Limit); err != nil {
			return err
		}
		page, err := book.Effects(ctx, filter)
		if err != nil {
			return err
		}
		defer a.more(page.Cursor)
		whole := struct {
			Effects []daybook.Effect `json:"effects"`
			Cursor  string           `json:"cursor"`
		}{orEmpty(page.Items), page.Cursor}
		head := []string{"JOB", "NAME", "POLICY", "STATE", "GENERATION", "BEGUN AT", "KEY"}
		return showList(a, whole, page.Items, head, func(t *table, e daybook.Effect) {
			state := string(e.State)
			if e.Doubled {
				state += ", doubled"
			} else if len(e.Late) > 0 {
				state += ", late word"
			}
			t.row(e.Job, e.Name, e.Policy, state, e.Generation, e.BegunAt, e.Key)
		})
	})
	return cmd
}

func (a *app) effectSettleCommand() *cobra.Command {
	var verdict daybook.Verdict
	var absent bool
	var result, reason string
	cmd := &cobra.Command{
		Use:   "settle JOB NAME --happened | --absent",
		Short: "Say what an open effect did, so that its job can go on",
		Example: example(
			`daybook effect settle 01900000-0000-7000-8000-000000000004 handler --happened --result '{"sent":true}' --reason 'seen in the outbox'`,
			"daybook effect settle 01900000-0000-7000-8000-000000000005 handler --absent --stay --reason 'not in the outbox'"),
		Args: cobra.ExactArgs(2),
	}
	fs := cmd.Flags()
	fs.BoolVar(&verdict.Happened, "happened", false, "it happened (default false)")
	fs.BoolVar(&absent, "absent", false, "it certainly didn't happen (default false)")
	fs.StringVar(&result, "result", "",
		"what it answered, a JSON document (with --happened; default none; at most 1 MiB)")
	fs.Int64Var(&verdict.Generation, "generation", 0,
		"the begin that is judged, by its generation (default the newest)")
	fs.BoolVar(&verdict.Stay, "stay", false, "leave the job set aside (default false)")
	reasonFlag(cmd, &reason)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		id, err := daybook.ParseID(args[0])
		switch {
		case err != nil:
			return err
		case verdict.Happened == absent:
			return usage("say --happened or --absent, one of them")
		case fs.Changed("result") && absent:
			return usage("--result belongs to --happened")
		case verdict.Generation < 0 || fs.Changed("generation") && verdict.Generation == 0:
			return daybook.Invalid("generation", "wants 1 or more")
		}
		if err := daybook.CheckName("effect", args[1]); err != nil {
			return err
		}
		if fs.Changed("result") {
			if err := daybook.CheckJSON("result", []byte(result)); err != nil {
				return err
			}
			verdict.Result = json.RawMessage(result)
		}
		return on(cmd.Context(), a, func(ctx context.Context, book settler) error {
			a.showLate(ctx, book, id, args[1])
			job, err := book.Settle(ctx, id, args[1], verdict, a.by(reason))
			if err != nil {
				return err
			}
			return a.show(decided{ID: job.ID, State: job.State, Reason: job.Reason},
				func(t *table) { t.row(job.ID, job.State) })
		})
	}
	return cmd
}

// showLate tells whoever settles an effect what fenced owners said of it.
func (a *app) showLate(ctx context.Context, book settler, id daybook.ID, name string) {
	page, err := book.Effects(ctx, daybook.EffectFilter{Job: id, Limit: daybook.ListMax})
	if err != nil {
		return // Settle says what is wrong
	}
	for _, e := range page.Items {
		for _, l := range e.Late {
			if e.Name == name {
				a.note("generation %d said at %s, too late: %s", l.Generation, l.At, oneLine(string(l.Outcome)+" "+l.Said))
			}
		}
	}
}
