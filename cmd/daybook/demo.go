package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/demo"
)

func (a *app) demoCommand() *cobra.Command {
	var o demo.Options
	var process bool
	cmd := &cobra.Command{
		Use: "demo", Short: "Run real webhook deliveries through crashes, and compare the outside with the book",
		Example: example("daybook demo --jobs 40 --workers 2", "daybook demo --jobs 40 --seed 7 -o json"),
		Args:    cobra.NoArgs,
	}
	cmd.Flags().IntVar(&o.Jobs, "jobs", demo.JobsDefault,
		fmt.Sprintf("how many deliveries (%d…%d)", demo.JobsMin, demo.JobsMax))
	cmd.Flags().IntVar(&o.Workers, "workers", demo.WorkersDefault,
		fmt.Sprintf("how many worker processes (1…%d)", demo.WorkersMax))
	cmd.Flags().Uint64Var(&o.Seed, "seed", demo.SeedDefault, "decides which faults happen, and when (0 or more)")
	cmd.Flags().BoolVar(&o.Stay, "stay", false, "keep the book, and say how to look at it (default false)")
	cmd.Flags().BoolVar(&process, "process", false, "be one of the demo's own processes (default false)")
	_ = cmd.Flags().MarkHidden("process") // fails only for a flag that isn't there
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if process {
			return demo.Child(a.stdin, a.stdout, a.stderr)
		}
		if cmd.Flags().Changed("server") { // it has a book of its own, whatever else is set
			return a.needsBook()
		}
		return a.demo(cmd.Context(), o)
	}
	return cmd
}

// demo makes one run and shows its result. Its processes are this program
// again.
func (a *app) demo(ctx context.Context, o demo.Options) error {
	self, err := os.Executable()
	if err != nil {
		return daybook.Fail(daybook.CodeInternal, "the demo can't find its own program to start it again")
	}
	o.Command = []string{self, "demo", "--process"}
	if o.Jobs == 0 || o.Workers == 0 { // to the package they mean the default
		return usage("--jobs and --workers want 1 or more, got %d and %d", o.Jobs, o.Workers)
	}
	if bar := a.progress(int64(o.Jobs), "starting", false); bar != nil {
		o.Progress = func(p demo.Progress) {
			bar.Describe(fmt.Sprintf("fault %d of %d: %s", p.Faults, p.Planned, p.Doing))
			_ = bar.Set(p.Ended)
		}
		defer bar.Finish()
	}
	result, err := demo.Run(ctx, o)
	if err != nil {
		if result.Dir != "" {
			a.note("the book and the logs of the demo's processes are in %s", result.Dir)
		}
		return err
	}
	return a.showDemo(result)
}

func (a *app) showDemo(r demo.Result) error {
	rest := a.stdout
	if a.json() {
		rest = a.stderr
		if err := daybook.EncodeJSON(a.stdout, r); err != nil {
			return err
		}
	} else if err := r.Table(a.stdout); err != nil {
		return err
	}
	if r.Dir != "" {
		if err := whereToLook(rest, r); err != nil {
			return err
		}
	}
	if wrong := r.Wrong(); len(wrong) > 0 {
		return exitError{statusViolation, "the demo failed: " + strings.Join(wrong, ", ")}
	}
	return nil
}

// whereToLook says how to look at a book that was kept.
func whereToLook(w io.Writer, r demo.Result) error {
	db := "daybook --db sqlite:" + filepath.Join(r.Dir, demo.BookFile)
	look := []string{db + " job list --limit 10", db + " backlog", db + " check --full"}
	if !r.FencedJob.IsZero() {
		look = append(look, db+" job timeline "+r.FencedJob.String()+"   # a late write was fenced here")
	}
	_, err := fmt.Fprintf(w, "\nThe book stays in %s. Look at it:\n  %s\n", r.Dir, strings.Join(look, "\n  "))
	if err == nil {
		_, err = io.WriteString(w, "Beside it are the destination's ledger (destination.jsonl) and the processes' logs.\n")
	}
	return err
}
