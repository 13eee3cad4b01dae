package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/client"
)

func (a *app) jobCommand() *cobra.Command {
	cmd := group("job", "Look at jobs, and decide about them",
		"daybook job list --queue mail", "daybook job why 01900000-0000-7000-8000-000000000001")
	cmd.AddCommand(a.jobListCommand(), a.jobShowCommand(), a.jobTimelineCommand(), a.jobWhyCommand(),
		a.jobAttemptsCommand(), a.jobCancelCommand(), a.jobReviveCommand(), a.jobUnholdCommand())
	return cmd
}

// jobRead reads something of one job and prints it.
type jobRead func(ctx context.Context, book jobReader, id daybook.ID) error

// jobReader is what looking at jobs needs of a book.
type jobReader interface {
	Job(ctx context.Context, id daybook.ID) (daybook.Job, error)
	Jobs(ctx context.Context, f daybook.Filter) (daybook.Page[daybook.Job], error)
	Timeline(ctx context.Context, id daybook.ID) ([]daybook.Event, error)
	Why(ctx context.Context, id daybook.ID) (daybook.Why, error)
	Attempts(ctx context.Context, id daybook.ID) ([]daybook.Attempt, error)
}

var _, _ jobReader = (*daybook.Book)(nil), (*client.Client)(nil)

// oneJob is a command that reads something of one job.
func (a *app) oneJob(cmd *cobra.Command, read jobRead) *cobra.Command {
	cmd.Args = cobra.ExactArgs(1)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		id, err := daybook.ParseID(args[0])
		if err != nil {
			return err
		}
		return on(cmd.Context(), a, func(ctx context.Context, book jobReader) error {
			return read(ctx, book, id)
		})
	}
	return cmd
}

func (a *app) jobShowCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "show ID", Short: "Show one job",
		Example: example("daybook job show 01900000-0000-7000-8000-000000000001",
			"daybook job show 01900000-0000-7000-8000-000000000002 -o json"),
	}
	return a.oneJob(cmd, func(ctx context.Context, book jobReader, id daybook.ID) error {
		job, err := book.Job(ctx, id)
		if err != nil {
			return err
		}
		return a.show(job, func(t *table) { drawJob(t, job) })
	})
}

// drawJob puts the fields of a job under each other, leaving out what it
// doesn't have.
func drawJob(t *table, j daybook.Job) {
	field := func(name string, value any) {
		if text := fmt.Sprint(value); text != "" {
			t.row(name, text)
		}
	}
	field("id", j.ID)
	field("queue", j.Queue)
	field("kind", j.Kind)
	field("state", j.State)
	field("reason", j.Reason)
	field("held by", j.HeldBy)
	field("priority", j.Priority)
	field("generation", j.Generation)
	field("failures", fmt.Sprintf("%d of %d", j.Failures, j.MaxFailures))
	field("crashes", fmt.Sprintf("%d of %d", j.Crashes, j.CrashLimit()))
	field("on lost", j.OnLost)
	field("key", j.Key)
	field("worker", j.Worker)
	if !j.Session.IsZero() {
		field("session", j.Session)
	}
	field("lease until", j.LeaseUntil)
	field("cancel asked", j.CancelRequestedAt)
	field("enqueued at", j.EnqueuedAt)
	field("run at", j.RunAt)
	field("expires at", j.ExpiresAt)
	field("claimed at", j.ClaimedAt)
	field("ended at", j.EndedAt)
	field("args", oneLineJSON(j.Args))
	field("progress", oneLineJSON(j.Progress))
	field("result", oneLineJSON(j.Result))
	if j.LastError != nil {
		field("last error", strings.TrimSpace(j.LastError.Kind+" "+oneLine(j.LastError.Text)))
	}
}

// oneLineJSON takes the spaces out of a document, for a cell.
func oneLineJSON(doc json.RawMessage) string {
	if len(doc) == 0 {
		return ""
	}
	var b strings.Builder
	if err := daybook.EncodeJSON(&b, doc); err != nil {
		return string(doc)
	}
	return strings.TrimSpace(b.String())
}

func (a *app) jobTimelineCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "timeline ID", Short: "List all that happened to a job, in time order",
		Example: example("daybook job timeline 01900000-0000-7000-8000-000000000003",
			"daybook job timeline 01900000-0000-7000-8000-00000000000a -o json"),
	}
	return a.oneJob(cmd, func(ctx context.Context, book jobReader, id daybook.ID) error {
		events, err := book.Timeline(ctx, id)
		if err != nil {
			return err
		}
		whole := struct {
			Events []daybook.Event `json:"events"`
		}{orEmpty(events)}
		head := []string{"AT", "WHAT", "GENERATION", "BY", "DETAIL"}
		return showList(a, whole, events, head, func(t *table, e daybook.Event) {
			generation := ""
			if e.Generation != 0 {
				generation = fmt.Sprint(e.Generation)
			}
			detail := e.Detail
			if e.Reason != "" {
				detail = strings.TrimPrefix(detail+", because: "+e.Reason, ", ")
			}
			t.row(e.At, e.What, dash(generation), dash(e.Actor), dash(oneLine(detail)))
		})
	})
}

func (a *app) jobWhyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "why ID", Short: "Say why a job stands where it stands, and whether it may be retried",
		Example: example("daybook job why 01900000-0000-7000-8000-000000000001",
			"daybook job why 01900000-0000-7000-8000-000000000003 -o json"),
	}
	return a.oneJob(cmd, func(ctx context.Context, book jobReader, id daybook.ID) error {
		why, err := book.Why(ctx, id)
		if err != nil {
			return err
		}
		return a.show(why, func(t *table) {
			t.row(why.Sentence)
			if why.Safe == nil {
				return
			}
			answer := "not safe to retry: "
			if why.Safe.Yes {
				answer = "safe to retry: "
			}
			t.row(answer + why.Safe.Grounds)
		})
	})
}

func (a *app) jobAttemptsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "attempts ID", Short: "List a job's attempts that ended, the oldest first",
		Example: example("daybook job attempts 01900000-0000-7000-8000-000000000003",
			"daybook job attempts 01900000-0000-7000-8000-000000000003 -o jsonl"),
	}
	return a.oneJob(cmd, func(ctx context.Context, book jobReader, id daybook.ID) error {
		attempts, err := book.Attempts(ctx, id)
		if err != nil {
			return err
		}
		whole := struct {
			Attempts []daybook.Attempt `json:"attempts"`
		}{orEmpty(attempts)}
		head := []string{"GENERATION", "OUTCOME", "WORKER", "CLAIMED AT", "ENDED AT", "ERROR"}
		return showList(a, whole, attempts, head, func(t *table, at daybook.Attempt) {
			generation, text := fmt.Sprint(at.Generation), at.Why
			if at.Count > 1 {
				generation = fmt.Sprintf("%d…%d (%d)", at.First, at.Generation, at.Count)
			}
			if at.Error != nil {
				text = strings.TrimSpace(text + " " + oneLine(at.Error.Text))
			}
			t.row(generation, at.Outcome, dash(at.Worker), at.ClaimedAt, at.EndedAt, dash(text))
		})
	})
}
