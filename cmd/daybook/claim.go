package main

import (
	"context"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/client"
)

// claimer is what claiming by hand needs of a book.
type claimer interface {
	Claim(ctx context.Context, r daybook.ClaimRequest) (daybook.Claimed, error)
	Renew(ctx context.Context, session daybook.ID, claims []daybook.ClaimRef) (daybook.Renewal, error)
}

var _, _ claimer = (*daybook.Book)(nil), (*client.Client)(nil)

// claimed is one claim as the protocol answers it.
type claimed struct {
	Job        daybook.Job  `json:"job"`
	Generation int64        `json:"generation"`
	LeaseUntil daybook.Time `json:"lease_until"`
}

// claims is the answer of a claim call.
type claims struct {
	Session daybook.ID `json:"session"`
	Claims  []claimed  `json:"claims"`
}

// sessionFlags say for whom a claim is made.
type sessionFlags struct {
	session daybook.ID
	worker  string
	lease   time.Duration
}

func (f *sessionFlags) register(cmd *cobra.Command) {
	cmd.Flags().Var(idFlag{&f.session}, "session", "claim for this session (default starts a new one)")
	cmd.Flags().StringVar(&f.worker, "worker", "",
		"name of a new session's worker (default the host's name; at most 255 bytes)")
	durationVar(cmd.Flags(), &f.lease, "lease", daybook.LeaseDefault, "lease of a new session (1s…24h)")
}

func (f *sessionFlags) request(cmd *cobra.Command) (r daybook.ClaimRequest, err error) {
	if cmd.Flags().Changed("session") && (cmd.Flags().Changed("worker") || cmd.Flags().Changed("lease")) {
		return r, usage("--worker and --lease belong to a new session; leave them out beside --session")
	}
	if f.lease == 0 {
		return r, daybook.Invalid("lease", "wants %s…%s, got 0s", daybook.LeaseMin, daybook.LeaseMax)
	}
	if f.worker == "" {
		f.worker = hostName()
	}
	return daybook.ClaimRequest{Session: f.session,
		SessionRequest: daybook.SessionRequest{Worker: f.worker, Lease: f.lease}}, nil
}

func hostName() string {
	name, err := os.Hostname()
	if err != nil || name == "" {
		return "worker"
	}
	return name
}

func (a *app) claimCommand() *cobra.Command {
	var f sessionFlags
	var queues, kinds []string
	var limit int
	cmd := &cobra.Command{
		Use: "claim --queue Q…", Short: "Claim waiting jobs by hand, as a worker does",
		Example: example("daybook claim --queue mail --worker by-hand --lease 1m",
			"daybook claim --queue mail --queue reports --limit 10 -o json"),
		Args: cobra.NoArgs,
	}
	f.register(cmd)
	cmd.Flags().StringArrayVar(&queues, "queue", nil,
		"queue to claim from; repeat it for more, tried in this order (at most 10000)")
	cmd.Flags().StringArrayVar(&kinds, "kind", nil,
		"take this kind only; repeat it for more (default every kind)")
	cmd.Flags().IntVar(&limit, "limit", 1, "how many jobs at most (1…10000)")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		r, err := f.request(cmd)
		if err != nil {
			return err
		}
		if limit < 1 {
			return daybook.Invalid("limit", "wants 1…%d, got %d", daybook.BatchMax, limit)
		}
		r.Queues, r.Kinds, r.Limit = queues, kinds, limit
		return a.claim(cmd.Context(), r)
	}
	cmd.AddCommand(a.claimJobCommand())
	return cmd
}

func (a *app) claimJobCommand() *cobra.Command {
	var f sessionFlags
	cmd := &cobra.Command{
		Use: "job ID", Short: "Claim one job by its id; the record decides whether it can be had",
		Example: example("daybook claim job 01900000-0000-7000-8000-000000000001 --worker by-hand",
			"daybook claim job 01900000-0000-7000-8000-000000000002 --lease 1m -o json"),
		Args: cobra.ExactArgs(1),
	}
	f.register(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		r, err := f.request(cmd)
		if err != nil {
			return err
		}
		if r.Job, err = daybook.ParseID(args[0]); err != nil {
			return err
		}
		return a.claim(cmd.Context(), r)
	}
	return cmd
}

func (a *app) claim(ctx context.Context, r daybook.ClaimRequest) error {
	return on(ctx, a, func(ctx context.Context, book claimer) error {
		given, err := book.Claim(ctx, r)
		if err != nil {
			return err
		}
		answer := claims{Session: given.Session.ID, Claims: []claimed{}}
		for _, j := range given.Jobs {
			answer.Claims = append(answer.Claims, claimed{j, j.Generation, j.LeaseUntil})
		}
		if len(given.Jobs) == 0 && !a.json() {
			a.note("nothing is eligible; session %s stays until %s", answer.Session, given.Session.ExpiresAt)
		}
		head := []string{"SESSION", "JOB", "GENERATION", "KIND", "LEASE UNTIL"}
		return showList(a, answer, answer.Claims, head, func(t *table, c claimed) {
			t.row(answer.Session, c.Job.ID, c.Generation, c.Job.Kind, c.LeaseUntil)
		})
	})
}

func (a *app) renewCommand() *cobra.Command {
	var session daybook.ID
	cmd := &cobra.Command{
		Use: "renew --session S", Short: "Extend a session's lease, for all that it claimed",
		Example: example(`daybook renew --session "$SESSION"`, `daybook renew --session "$SESSION" -o json`),
		Args:    cobra.NoArgs,
	}
	cmd.Flags().Var(idFlag{&session}, "session", "the session (default DAYBOOK_SESSION)")
	cmd.RunE = func(cmd *cobra.Command, _ []string) (err error) {
		if name := os.Getenv(envSession); name != "" && session.IsZero() {
			if session, err = daybook.ParseID(name); err != nil {
				return usage("%s: %s", envSession, err)
			}
		}
		if session.IsZero() {
			return daybook.Invalid("session", "is missing; give the session that claimed with --session")
		}
		return on(cmd.Context(), a, func(ctx context.Context, book claimer) error {
			renewal, err := book.Renew(ctx, session, nil)
			if err != nil {
				return err
			}
			answer := renewed{renewal.LeaseUntil, orEmpty(renewal.Lost), orEmpty(renewal.Cancel), renewal.Quiet}
			return a.show(answer, func(t *table) {
				t.row("lease until", answer.LeaseUntil)
				for _, c := range answer.Cancel {
					t.row("cancel asked", c.Job)
				}
			})
		})
	}
	return cmd
}

// renewed is the answer of a renewal.
type renewed struct {
	LeaseUntil daybook.Time       `json:"lease_until"`
	Lost       []daybook.ClaimRef `json:"lost"`
	Cancel     []daybook.ClaimRef `json:"cancel"`
	Quiet      bool               `json:"quiet,omitempty"`
}
