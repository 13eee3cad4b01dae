package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/client"
)

// decider is what decisions about jobs need of a book.
type decider interface {
	Job(ctx context.Context, id daybook.ID) (daybook.Job, error)
	Preview(ctx context.Context, id daybook.ID, k daybook.Bulk) (daybook.Job, error)
	Cancel(ctx context.Context, id daybook.ID, by daybook.By, force bool) (daybook.Job, error)
	Revive(ctx context.Context, id daybook.ID, by daybook.By) (daybook.Job, error)
	ReviveUnsafe(ctx context.Context, id daybook.ID, by daybook.By) (daybook.Job, error)
	Unhold(ctx context.Context, id daybook.ID, by daybook.By) (daybook.Job, error)
	Count(ctx context.Context, f daybook.Filter) (int64, error)
	Review(ctx context.Context, f daybook.Filter) (daybook.Review, error)
	Decide(ctx context.Context, k daybook.Bulk) (daybook.BulkAnswer, error)
}

var _, _ decider = (*daybook.Book)(nil), (*client.Client)(nil)

// decision is what a person does to jobs: by their ids, or to all that a
// filter finds.
type decision struct {
	move   daybook.Move
	doing  string // "cancel", for the question
	one    func(ctx context.Context, book decider, id daybook.ID, by daybook.By) (daybook.Job, error)
	states []daybook.State // that a filter without --state looks at
	held   bool            // only held ones

	filter      filterFlags
	reason      string
	yes, dryRun bool
	force       bool
	unsafe      bool
}

func (a *app) jobCancelCommand() *cobra.Command {
	d := &decision{move: daybook.MoveCancel, doing: "cancel",
		states: []daybook.State{daybook.Running, daybook.SetAside, daybook.Waiting}}
	d.one = func(ctx context.Context, book decider, id daybook.ID, by daybook.By) (daybook.Job, error) {
		return book.Cancel(ctx, id, by, d.force)
	}
	cmd := &cobra.Command{
		Use: "cancel ID… | --queue Q …", Short: "Cancel jobs; a running one is asked to stop",
		Example: example("daybook job cancel 01900000-0000-7000-8000-000000000001 --reason 'sent by hand'",
			"daybook job cancel --queue mail --kind welcome --reason 'campaign called off' -y"),
	}
	cmd.Flags().BoolVar(&d.force, "force", false,
		"revoke running claims at once instead of asking (default false)")
	return a.decisionCommand(cmd, d)
}

func (a *app) jobReviveCommand() *cobra.Command {
	d := &decision{move: daybook.MoveRevive, doing: "revive", states: []daybook.State{daybook.SetAside}}
	d.one = func(ctx context.Context, book decider, id daybook.ID, by daybook.By) (daybook.Job, error) {
		if d.unsafe {
			return book.ReviveUnsafe(ctx, id, by)
		}
		return book.Revive(ctx, id, by)
	}
	cmd := &cobra.Command{
		Use: "revive ID… | --queue Q … [--state S]", Short: "Send set-aside, cancelled or expired jobs back to waiting",
		Example: example("daybook job revive 01900000-0000-7000-8000-000000000003 --reason 'address corrected'",
			"daybook job revive --queue mail --reason-code failures --dry-run"),
	}
	cmd.Flags().BoolVar(&d.unsafe, "unsafe", false,
		"revive also jobs whose work happened, as a person said; never those with an open effect (default false)")
	return a.decisionCommand(cmd, d)
}

func (a *app) jobUnholdCommand() *cobra.Command {
	d := &decision{move: daybook.MoveUnhold, doing: "unhold", states: []daybook.State{daybook.Waiting},
		held: true}
	d.one = func(ctx context.Context, book decider, id daybook.ID, by daybook.By) (daybook.Job, error) {
		return book.Unhold(ctx, id, by)
	}
	cmd := &cobra.Command{
		Use: "unhold ID… | --queue Q …", Short: "Let claims see held jobs again",
		Example: example("daybook job unhold --queue mail --dry-run",
			"daybook job unhold --queue mail --reason 'restore checked' -y"),
	}
	return a.decisionCommand(cmd, d)
}

func (a *app) decisionCommand(cmd *cobra.Command, d *decision) *cobra.Command {
	d.filter.register(cmd.Flags())
	state := cmd.Flags().Lookup("state")
	state.Usage += "; without it a filter finds " + listWords(words(d.states), "and") + " ones only"
	reasonFlag(cmd, &d.reason)
	cmd.Flags().BoolVarP(&d.yes, "yes", "y", false,
		"don't ask before touching what a filter found (default false)")
	cmd.Flags().BoolVar(&d.dryRun, "dry-run", false, "only say what it would do (default false)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ids, err := parseIDs(args)
		given, empty := d.filter.given(cmd.Flags())
		switch {
		case err != nil:
			return err
		case empty != nil:
			return empty
		case len(ids) > 0 && len(given) > 0:
			return usage("name jobs or give a filter, not both")
		case len(ids) == 0 && len(given) == 0:
			return usage("name jobs by id, or give a filter like --queue or --state")
		}
		return on(cmd.Context(), a, func(ctx context.Context, book decider) error {
			if len(ids) > 0 {
				return a.decideOnes(ctx, book, d, ids)
			}
			return a.decideMany(ctx, book, d)
		})
	}
	return cmd
}

// decided is one job after a person's decision, or why it stayed.
type decided struct {
	ID     daybook.ID     `json:"id"`
	State  daybook.State  `json:"state,omitempty"`
	Reason daybook.Reason `json:"reason,omitempty"`
	Asked  daybook.Time   `json:"cancel_requested_at,omitzero"`
	Would  string         `json:"would,omitempty"` // become this, in a dry run
	Code   daybook.Code   `json:"code,omitempty"`
	Error  string         `json:"error,omitempty"`
}

// decideOnes decides about jobs by their ids. One that refuses doesn't stop
// the others; the first refusal is the exit status.
func (a *app) decideOnes(ctx context.Context, book decider, d *decision, ids []daybook.ID) error {
	var first error
	jobs := make([]decided, 0, len(ids))
	for _, id := range ids {
		job, err := d.each(ctx, book, id, a.by(d.reason))
		if err != nil {
			if statusOf(err) == statusUnavailable || statusOf(err) == statusUsage {
				return err
			}
			if first == nil {
				first = err
			} else if !a.json() {
				a.note("%s", oneLine(err.Error()))
			}
			jobs = append(jobs, decided{ID: id, Code: daybook.CodeOf(err), Error: oneLine(err.Error())})
			continue
		}
		jobs = append(jobs, job)
	}
	whole := struct {
		Jobs   []decided `json:"jobs"`
		DryRun bool      `json:"dry_run,omitempty"`
	}{jobs, d.dryRun}
	err := showList(a, whole, jobs, nil, func(t *table, j decided) {
		switch {
		case j.Code != "":
			t.row(j.ID, j.Code)
		case j.Would != "":
			t.row(j.ID, "is "+string(j.State)+", would "+j.Would)
		case j.Asked != 0:
			t.row(j.ID, "asked to stop")
		default:
			t.row(j.ID, j.State)
		}
	})
	if err == nil {
		err = first
	}
	return err
}

func (d *decision) each(ctx context.Context, book decider, id daybook.ID, by daybook.By) (
	decided, error) {
	if d.dryRun {
		return d.try(ctx, book, id, by)
	}
	job, err := d.one(ctx, book, id, by)
	return decided{ID: id, State: job.State, Reason: job.Reason, Asked: job.CancelRequestedAt}, err
}

// try says what a decision would do to a job as it stands: the same move, or
// the same refusal, and nothing written.
func (d *decision) try(ctx context.Context, book decider, id daybook.ID, by daybook.By) (
	decided, error) {
	job, err := book.Job(ctx, id)
	if err != nil {
		return decided{}, err
	}
	then, err := book.Preview(ctx, id, daybook.Bulk{Move: d.move, By: by, Force: d.force, Unsafe: d.unsafe})
	would := "become " + string(then.State)
	switch {
	case d.move == daybook.MoveUnhold:
		would = "be held no more"
	case then.State == daybook.Running:
		would = "be asked to stop"
	}
	return decided{ID: id, State: job.State, Reason: job.Reason, Would: would}, err
}

// bulkAnswer is what came of a filter.
type bulkAnswer struct {
	daybook.BulkAnswer
	States []daybook.State `json:"states"`           // that were looked at
	Review *daybook.Review `json:"review,omitempty"` // of a revive: how many are safe, and why others aren't
	DryRun bool            `json:"dry_run,omitempty"`
}

func (a *app) decideMany(ctx context.Context, book decider, d *decision) error {
	filters := d.filters()
	var whole bulkAnswer
	for _, f := range filters {
		whole.States = append(whole.States, f.State)
		n, err := d.look(ctx, book, f, &whole)
		if err != nil {
			return err
		}
		whole.Matched += n
	}
	whole.DryRun = d.dryRun
	switch found := d.found(whole) + d.meant(filters); {
	case whole.Matched == 0:
		return a.show(whole, func(t *table) { t.row("0 jobs match" + d.meant(filters)) })
	case d.dryRun:
		return a.show(whole, func(t *table) {
			t.row("would " + d.doing + " " + found)
			d.whyNot(t, whole)
		})
	case !d.yes:
		if whole.Review != nil {
			for _, u := range whole.Review.Unsafe {
				a.note("%s: %s", count(u.Jobs, "job"), u.Why)
			}
		}
		if err := a.confirm(fmt.Sprintf("This will %s %s.", d.doing, found), "--dry-run"); err != nil {
			return err
		}
	}
	answer, err := a.decideAll(ctx, book, d, filters, whole.Matched)
	if err != nil {
		return err
	}
	whole.BulkAnswer = answer
	err = a.show(whole, func(t *table) {
		t.head = []string{"MATCHED", "DONE", "REFUSED"}
		t.row(answer.Matched, answer.Done, answer.Matched-answer.Done)
	})
	if err == nil && answer.Done < answer.Matched {
		err = exitError{statusRefused, fmt.Sprintf("%s of %d refused; the first: %s",
			count(answer.Matched-answer.Done, "job"), answer.Matched, answer.First)}
	}
	return err
}

// look counts what a filter matches; for a revive, with how many are safe.
func (d *decision) look(ctx context.Context, book decider, f daybook.Filter, whole *bulkAnswer) (int64, error) {
	if d.move != daybook.MoveRevive || !daybook.Allowed(daybook.MoveRevive, f.State, daybook.Waiting) {
		return book.Count(ctx, f)
	}
	r, err := book.Review(ctx, f)
	whole.Review = &r
	return r.Matched, err
}

// found says how many jobs the decision would touch.
func (d *decision) found(whole bulkAnswer) string {
	r := whole.Review
	if r == nil || r.Safe == r.Matched {
		return count(whole.Matched, "job")
	}
	if d.unsafe {
		return "what has no open effect of " + count(whole.Matched, "job")
	}
	return fmt.Sprintf("%d of %s", r.Safe, count(whole.Matched, "job"))
}

// whyNot lists what keeps jobs from being retried.
func (d *decision) whyNot(t *table, whole bulkAnswer) {
	if whole.Review == nil {
		return
	}
	for _, u := range whole.Review.Unsafe {
		what := "not safe"
		if u.Open {
			what = "settle first"
		}
		t.row(what + ": " + count(u.Jobs, "job") + ", " + u.Why)
	}
}

// decideAll carries a decision out, one filter after the other.
func (a *app) decideAll(ctx context.Context, book decider, d *decision, filters []daybook.Filter, matched int64) (
	sum daybook.BulkAnswer, err error) {
	sum.Refused = map[daybook.Code]int64{}
	bar := a.progress(matched, d.doing, false)
	for _, f := range filters {
		before := sum.Matched
		answer, err := book.Decide(ctx, daybook.Bulk{Move: d.move, Filter: f, By: a.by(d.reason), Force: d.force,
			Unsafe: d.unsafe, Seen: func(n int64) {
				if bar != nil {
					_ = bar.Set64(min(matched, before+n))
				}
			}})
		if err != nil {
			return sum, err
		}
		sum.Matched, sum.Done = sum.Matched+answer.Matched, sum.Done+answer.Done
		for code, n := range answer.Refused {
			sum.Refused[code] += n
		}
		if sum.First == "" {
			sum.First = answer.First
		}
	}
	if bar != nil {
		_ = bar.Finish()
	}
	return sum, nil
}

// meant says which states a filter without --state looked at, since the
// command by ids takes others too.
func (d *decision) meant(filters []daybook.Filter) string {
	if d.filter.state != "" || d.filter.reason != "" {
		return ""
	}
	states := make([]daybook.State, 0, len(filters))
	for _, f := range filters {
		states = append(states, f.State)
	}
	return " (" + listWords(words(states), "or") + "; for others give --state)"
}

// listWords joins words as a sentence does: a, b or c.
func listWords(list []string, last string) string {
	if n := len(list) - 1; n > 0 {
		return strings.Join(list[:n], ", ") + " " + last + " " + list[n]
	}
	return strings.Join(list, "")
}

// filters are the searches of a decision: one for each state that it can be
// about, unless the person named one.
func (d *decision) filters() []daybook.Filter {
	f := d.filter.filter()
	f.Held = d.held
	if f.State == "" && f.Reason != "" {
		f.State = daybook.SetAside // only set-aside jobs have a reason
	}
	if f.State != "" {
		return []daybook.Filter{f}
	}
	filters := make([]daybook.Filter, len(d.states))
	for i, state := range d.states {
		filters[i] = f
		filters[i].State = state
	}
	return filters
}
