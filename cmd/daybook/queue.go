package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/client"
)

// steerer is what queues and workers are seen and steered with.
type steerer interface {
	Queues(ctx context.Context, counted bool) ([]daybook.Queue, error)
	Pause(ctx context.Context, queue string, by daybook.By) error
	Resume(ctx context.Context, queue string, by daybook.By) error
	SessionsAt(ctx context.Context, f daybook.SessionFilter) (daybook.Time, []daybook.Session, error)
	Quiet(ctx context.Context, worker string, by daybook.By) (daybook.Quieted, error)
}

var _, _ steerer = (*daybook.Book)(nil), (*client.Client)(nil)

func (a *app) queueCommand() *cobra.Command {
	cmd := group("queue", "See and steer queues", "daybook queue list",
		"daybook queue pause mail --reason 'relay is down'")
	cmd.AddCommand(a.queueListCommand(),
		a.queueSteerCommand("pause", "Stop claims from a queue; what runs runs on",
			steerer.Pause, true, "relay is down"),
		a.queueSteerCommand("resume", "Let claims take from a queue again",
			steerer.Resume, false, "relay is back"))
	return cmd
}

func (a *app) queueListCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "list", Short: "List the queues, and which are paused",
		Example: example("daybook queue list", "daybook queue list -o json"),
		Args:    cobra.NoArgs,
	}
	cmd.RunE = with(a, func(ctx context.Context, book steerer, _ []string) error {
		queues, err := book.Queues(ctx, false)
		if err != nil {
			return err
		}
		whole := struct {
			Queues []daybook.Queue `json:"queues"`
		}{orEmpty(queues)}
		head := []string{"QUEUE", "PAUSED", "SINCE", "BY", "REASON"}
		return showList(a, whole, queues, head, func(t *table, q daybook.Queue) {
			paused := "no"
			if q.Paused {
				paused = "yes"
			}
			t.row(q.Name, paused, dash(q.PausedAt.String()), dash(q.PausedBy), dash(q.PausedReason))
		})
	})
	return cmd
}

// queueSteerCommand pauses or resumes one queue.
func (a *app) queueSteerCommand(verb, short string,
	steer func(steerer, context.Context, string, daybook.By) error, paused bool, why string,
) *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use: verb + " Q", Short: short,
		Example: example("daybook queue "+verb+" mail --reason '"+why+"'", "daybook queue "+verb+" mail -o json"),
		Args:    cobra.ExactArgs(1),
	}
	reasonFlag(cmd, &reason)
	cmd.RunE = with(a, func(ctx context.Context, book steerer, args []string) error {
		if err := steer(book, ctx, args[0], a.by(reason)); err != nil {
			return err
		}
		answer := struct {
			Name   string `json:"name"`
			Paused bool   `json:"paused"`
		}{args[0], paused}
		return a.show(answer, func(t *table) { t.row(args[0], verb+"d") })
	})
	return cmd
}
