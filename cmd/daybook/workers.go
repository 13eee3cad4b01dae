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
	cmd.RunE = a.withBook(func(ctx context.Context, book *daybook.Book, _ []string) error {
		if err := checkLimit(filter.Limit); err != nil {
			return err
		}
		sessions, err := book.Sessions(ctx, filter)
		if err != nil {
			return err
		}
		whole := struct {
			Workers []daybook.Session `json:"workers"`
		}{orEmpty(sessions)}
		head := []string{"SESSION", "WORKER", "STATE", "RUNNING", "LEASE UNTIL", "QUEUES"}
		return showList(a, whole, sessions, head, func(t *table, s daybook.Session) {
			state := "live"
			if s.Quiet {
				state = "quiet"
			}
			if !s.Live() {
				state = "ended"
			}
			t.row(s.ID, s.Worker, state, s.Running, s.ExpiresAt, dash(strings.Join(s.Queues, " ")))
		})
	})
	return cmd
}

func (a *app) workerQuietCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "quiet NAME", Short: "Ask a worker to claim no more; what runs runs on",
		Example: example("daybook worker quiet by-hand", "daybook worker quiet by-hand -o json"),
		Args:    cobra.ExactArgs(1),
	}
	cmd.RunE = a.withBook(func(ctx context.Context, book *daybook.Book, args []string) error {
		n, err := book.Quiet(ctx, args[0])
		if err != nil {
			return err
		}
		answer := struct {
			Worker   string `json:"worker"`
			Sessions int    `json:"sessions"`
		}{args[0], n}
		return a.show(answer, func(t *table) { t.row(args[0], "asked "+count(n, "session")+" to claim no more") })
	})
	return cmd
}
