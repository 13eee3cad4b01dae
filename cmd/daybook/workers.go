package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/daybookdev/daybook"
)

func (a *app) workerCommand() *cobra.Command {
	cmd := group("worker", "See and steer workers", "daybook worker list", "daybook worker quiet by-hand")
	cmd.AddCommand(a.workerListCommand(), a.workerQuietCommand())
	return cmd
}

func (a *app) workerListCommand() *cobra.Command {
	var filter daybook.SessionFilter
	cmd := &cobra.Command{
		Use: "list", Short: "List the workers' sessions, the newest first",
		Example: example("daybook worker list", "daybook worker list --all -o json"),
		Args:    cobra.NoArgs,
	}
	cmd.Flags().BoolVar(&filter.WithEnded, "all", false, "ended sessions too (default false)")
	cmd.Flags().StringVar(&filter.Worker, "name", "", "only sessions of this worker")
	cmd.Flags().IntVar(&filter.Limit, "limit", daybook.ListMax, "how many at most (1…1000)")
	cmd.RunE = with(a, func(ctx context.Context, book steerer, _ []string) error {
		if err := checkLimit(filter.Limit); err != nil {
			return err
		}
		workers, err := listWorkers(ctx, book, filter)
		if err != nil {
			return err
		}
		whole := struct {
			Workers []listed `json:"workers"`
		}{workers}
		head := []string{"SESSION", "WORKER", "STATE", "RUNNING", "LEASE UNTIL", "QUEUES"}
		return showList(a, whole, workers, head, func(t *table, s listed) {
			t.row(s.ID, s.Worker, s.State, s.Running, s.ExpiresAt, dash(strings.Join(s.Queues, " ")))
		})
	})
	return cmd
}

// listWorkers holds sessions to the database's clock, which made their leases.
func listWorkers(ctx context.Context, book steerer, filter daybook.SessionFilter) ([]listed, error) {
	workers := []listed{}
	at, sessions, err := book.SessionsAt(ctx, filter)
	for _, s := range sessions {
		workers = append(workers, listed{s, sessionState(s, at)})
	}
	return workers, err
}

// listed is one session in a list, with its state in a word.
type listed struct {
	daybook.Session
	State string `json:"state"`
}

// sessionState says how a session stands. One whose lease is past is lapsed:
// its process is most likely dead, until a renewal saves it or a pass ends it.
func sessionState(s daybook.Session, now daybook.Time) string {
	switch {
	case !s.Live():
		return "ended"
	case s.ExpiresAt <= now:
		return "lapsed"
	case s.Quiet:
		return "quiet"
	}
	return "live"
}

func (a *app) workerQuietCommand() *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use: "quiet NAME", Short: "Ask a worker to claim no more; what runs runs on",
		Example: example("daybook worker quiet by-hand", "daybook worker quiet by-hand --reason 'host is moved' -o json"),
		Args:    cobra.ExactArgs(1),
	}
	reasonFlag(cmd, &reason)
	cmd.RunE = with(a, func(ctx context.Context, book steerer, args []string) error {
		answer, err := book.Quiet(ctx, args[0], a.by(reason))
		if err != nil {
			return err
		}
		return a.show(answer, func(t *table) {
			t.row(args[0], "asked "+count(answer.Sessions, "session")+" to claim no more")
		})
	})
	return cmd
}
