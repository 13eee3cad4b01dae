package main

import (
	"context"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/daybookdev/daybook"
)

// filterFlags select jobs.
type filterFlags struct {
	queue, kind, state, reason, key string
}

func (f *filterFlags) register(fs *pflag.FlagSet) {
	fs.StringVar(&f.queue, "queue", "", "only jobs of this queue")
	fs.StringVar(&f.kind, "kind", "", "only jobs of this kind")
	choiceVar(fs, &f.state, "state", "", "",
		"only jobs in this state: waiting, running, succeeded, set_aside, cancelled, expired or moved",
		words(daybook.States)...)
	choiceVar(fs, &f.reason, "reason-code", "", "",
		"only jobs set aside for this reason, like failures, lost or effect_open",
		words(daybook.Reasons)...)
	fs.StringVar(&f.key, "key", "", "only the job of this request key")
}

func words[T ~string](of []T) []string {
	out := make([]string, len(of))
	for i, w := range of {
		out[i] = string(w)
	}
	return out
}

func (f *filterFlags) filter() daybook.Filter {
	return daybook.Filter{Queue: f.queue, Kind: f.kind, State: daybook.State(f.state),
		Reason: daybook.Reason(f.reason), Key: f.key}
}

// given names the filter flags that were used. An empty one would mean any,
// which nobody means who writes --queue "$QUEUE" without having set it.
func (f *filterFlags) given(fs *pflag.FlagSet) (names []string, err error) {
	for _, name := range []string{"queue", "kind", "state", "reason-code", "key"} {
		if !fs.Changed(name) {
			continue
		}
		if fs.Lookup(name).Value.String() == "" {
			return nil, daybook.Invalid(name, "is empty; leave --%s out for any", name)
		}
		names = append(names, name)
	}
	return names, nil
}

// checkLimit holds --limit of a list to its range: nought isn't "the default".
func checkLimit(limit int) error {
	if limit < 1 || limit > daybook.ListMax {
		return daybook.Invalid("limit", "wants 1…%d, got %d", daybook.ListMax, limit)
	}
	return nil
}

func pageFlags(fs *pflag.FlagSet, limit *int, cursor *string) {
	fs.IntVar(limit, "limit", daybook.ListDefault, "how many at most (1…1000)")
	fs.StringVar(cursor, "cursor", "", "go on behind the page that answered this cursor")
}

func (a *app) jobListCommand() *cobra.Command {
	var f filterFlags
	var limit int
	var cursor string
	cmd := &cobra.Command{
		Use: "list", Short: "List jobs: waiting ones in the order they run, else the newest first",
		Example: example("daybook job list --queue mail --state waiting",
			"daybook job list --state set_aside --reason-code failures --limit 10 -o jsonl"),
		Args: cobra.NoArgs,
	}
	f.register(cmd.Flags())
	pageFlags(cmd.Flags(), &limit, &cursor)
	cmd.RunE = with(a, func(ctx context.Context, book jobReader, _ []string) error {
		if err := checkLimit(limit); err != nil {
			return err
		}
		if _, err := f.given(cmd.Flags()); err != nil {
			return err
		}
		filter := f.filter()
		filter.Limit, filter.Cursor = limit, cursor
		page, err := book.Jobs(ctx, filter)
		if err != nil {
			return err
		}
		defer a.more(page.Cursor)
		whole := struct {
			Jobs   []daybook.Job `json:"jobs"`
			Cursor string        `json:"cursor"`
		}{orEmpty(page.Items), page.Cursor}
		head := []string{"ID", "QUEUE", "KIND", "STATE", "REASON", "FAILURES", "RUN AT"}
		return showList(a, whole, page.Items, head, func(t *table, j daybook.Job) {
			t.row(j.ID, j.Queue, j.Kind, j.State, dash(string(j.Reason)), j.Failures, j.RunAt)
		})
	})
	return cmd
}
