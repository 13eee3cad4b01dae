package main

import (
	"context"
	"encoding/json"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/client"
)

// ownerFlags say which claim an owner's write belongs to. Under work --exec
// they come from the environment, so that a command can speak for itself.
type ownerFlags struct {
	session    daybook.ID
	generation int64
}

// What work --exec tells its command about the claim.
const (
	envJob        = "DAYBOOK_JOB"
	envGeneration = "DAYBOOK_GENERATION"
	envSession    = "DAYBOOK_SESSION"
)

func (o *ownerFlags) register(cmd *cobra.Command) {
	cmd.Flags().Var(idFlag{&o.session}, "session", "the session that owns the claim (default DAYBOOK_SESSION)")
	cmd.Flags().Int64Var(&o.generation, "generation", 0,
		"the claim's generation, 1 or more (default DAYBOOK_GENERATION)")
}

// resolve finds job and owner. The environment speaks of one claim only: for
// another job than its own, session and generation must be given.
func (o *ownerFlags) resolve(cmd *cobra.Command, args []string) (
	job daybook.ID, owner daybook.Owner, err error) {
	name := os.Getenv(envJob)
	mine := len(args) == 0 || args[0] == name
	if len(args) == 1 {
		name = args[0]
	}
	if name == "" {
		return job, owner, usage("name the job; only inside work --exec it is known")
	}
	if job, err = daybook.ParseID(name); err != nil {
		return job, owner, err
	}
	if err := o.fromEnvironment(cmd, mine); err != nil {
		return job, owner, err
	}
	switch {
	case o.session.IsZero():
		return job, owner, daybook.Invalid("session",
			"is missing; give the session that claimed the job with --session")
	case o.generation < 1:
		return job, owner, daybook.Invalid("generation", "wants the claim's generation, 1 or more")
	}
	return job, daybook.Owner{Session: o.session, Generation: o.generation}, nil
}

func (o *ownerFlags) fromEnvironment(cmd *cobra.Command, mine bool) (err error) {
	if !mine {
		return nil
	}
	if session := os.Getenv(envSession); session != "" && !cmd.Flags().Changed("session") {
		if o.session, err = daybook.ParseID(session); err != nil {
			return usage("%s: %s", envSession, err)
		}
	}
	if generation := os.Getenv(envGeneration); generation != "" && !cmd.Flags().Changed("generation") {
		if o.generation, err = strconv.ParseInt(generation, 10, 64); err != nil {
			return usage("%s wants a number", envGeneration)
		}
	}
	return nil
}

// ended is what the book answers to an owner that reported how it ended.
type ended struct {
	ID      daybook.ID    `json:"id"`
	State   daybook.State `json:"state"`
	Already bool          `json:"already"` // it was recorded before; the first result stays
}

// ownerReport tells the book how an attempt ended.
type ownerReport func(context.Context, reporter, daybook.ID, daybook.Owner) (daybook.Answer, error)

// reporter is what an owner's report needs of a book.
type reporter interface {
	Complete(ctx context.Context, job daybook.ID, o daybook.Owner, result json.RawMessage) (daybook.Answer, error)
	Fail(ctx context.Context, job daybook.ID, o daybook.Owner, f daybook.Failure, retryIn *time.Duration) (
		daybook.Answer, error)
	Release(ctx context.Context, job daybook.ID, o daybook.Owner, in time.Duration) (daybook.Answer, error)
}

var _, _ reporter = (*daybook.Book)(nil), (*client.Client)(nil)

// ownerCommand is a command that reports how an attempt ended.
func (a *app) ownerCommand(cmd *cobra.Command, report ownerReport) *cobra.Command {
	var o ownerFlags
	o.register(cmd)
	cmd.Args = cobra.MaximumNArgs(1)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		job, owner, err := o.resolve(cmd, args)
		if err != nil {
			return err
		}
		return on(cmd.Context(), a, func(ctx context.Context, book reporter) error {
			answer, err := report(ctx, book, job, owner)
			if err != nil {
				return err
			}
			return a.show(ended{answer.Job, answer.State, answer.Already}, func(t *table) {
				text := string(answer.State)
				if answer.Already {
					text += " (already recorded)"
				}
				t.row(answer.Job, text)
			})
		})
	}
	return cmd
}
