package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/drill"
	"github.com/daybookdev/daybook/store/postgres"
)

// drillFlags say which faults are tried, and how often.
type drillFlags struct {
	drill.Options
	minutes       float64
	list, process bool
}

func (a *app) drillCommand() *cobra.Command {
	var f drillFlags
	cmd := &cobra.Command{
		Use: "drill", Short: "Kill and stop real workers around effects, and compare the outside with the book",
		Long: "Kill and stop real workers around effects, and compare the outside with the book.\n\n" +
			"It runs on the store that --db names, in a file or schema of its own, which goes when all held. For each\n" +
			"policy and each gap, a worker is killed in the gap, or stopped in it past its lease; another goes on.\n" +
			"Exit 5 on a violation, 1 when a fault could not be made.",
		Example: example("daybook drill --gap record --seed 7", "daybook drill --gap begin --minutes 0.01 -o json"),
		Args:    cobra.NoArgs,
	}
	fs := cmd.Flags()
	fs.Uint64Var(&f.Seed, "seed", 0, "decides the order of the faults (0 or more; default drawn)")
	fs.StringSliceVar(&f.Gaps, "gap", nil, "where faults happen: "+strings.Join(drill.Gaps, ", ")+"; can be given again "+
		"(default all)")
	fs.Float64Var(&f.minutes, "minutes", 0,
		fmt.Sprintf("begin rounds of every fault for so long (more than 0, at most %d; default one round)",
			drill.MinutesMax))
	fs.IntVar(&f.Times, "times", 0, fmt.Sprintf("rounds of every fault (1…%d; default 1, or what --minutes allows)",
		drill.TimesMax))
	fs.IntVar(&f.Lanes, "lanes", drill.LanesDefault,
		fmt.Sprintf("faults at once, with two processes each (1…%d)", drill.LanesMax))
	fs.BoolVar(&f.list, "list", false, "list the gaps, and run nothing (default false)")
	fs.BoolVar(&f.process, "process", false, "be one of the drill's own workers (default false)")
	_ = fs.MarkHidden("process") // fails only for a flag that isn't there
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		switch {
		case f.process:
			return drill.Child(a.stdin, a.stdout, a.stderr, a.drillOpener(true))
		case f.list:
			return a.listDrill()
		case fs.Changed("minutes") && f.minutes <= 0 || fs.Changed("times") && f.Times <= 0 || f.Lanes == 0:
			return usage("--minutes wants more than 0, --times and --lanes 1 or more; got %g, %d and %d", f.minutes, f.Times,
				f.Lanes)
		case f.minutes > drill.MinutesMax || f.minutes != f.minutes:
			return usage("--minutes wants at most %d, got %g", drill.MinutesMax, f.minutes)
		}
		f.For = time.Duration(f.minutes * float64(time.Minute))
		if !fs.Changed("seed") {
			f.Seed = rand.Uint64N(1_000_000)
		}
		return a.drill(cmd.Context(), f)
	}
	return cmd
}

// listDrill says which gaps there are.
func (a *app) listDrill() error {
	var gaps []daybook.Gap
	for _, name := range drill.Gaps {
		for _, g := range daybook.Gaps {
			if g.Name == name {
				gaps = append(gaps, g)
			}
		}
	}
	type listed struct {
		Name     string `json:"name"`
		Between  string `json:"between"`
		Left     string `json:"left"`
		Repaired string `json:"repaired"`
	}
	list := make([]listed, len(gaps))
	for i, g := range gaps {
		list[i] = listed{g.Name, g.Between, g.Left, g.Repaired}
	}
	whole := map[string]any{"gaps": list}
	return showList(a, whole, list, []string{"NAME", "BETWEEN", "REPAIRED BY"}, func(t *table, g listed) {
		t.row(g.Name, g.Between, g.Repaired)
	})
}

// drillBook is where a drill has its own book.
type drillBook struct {
	DB     string       `json:"db"` // may hold a password: travels over pipes only
	Schema string       `json:"schema,omitempty"`
	shown  string       // the book's place, for people
	dir    string       // of the workers' logs; "" is one that the drill makes
	clear  func() error // removes the book
}

// drillOpener opens the book of a drill, in this process or in one of its
// workers: those are many, and share what connections the server has.
func (a *app) drillOpener(worker bool) drill.Opener {
	return func(ctx context.Context, where string, o daybook.Options) (*daybook.Book, error) {
		var b drillBook
		if json.Unmarshal([]byte(where), &b) != nil {
			return nil, daybook.Invalid("where", "names no book of a drill")
		}
		its := &app{stdin: a.stdin, stdout: a.stdout, stderr: a.stderr, flags: a.flags}
		its.flags.db, its.flags.schema = b.DB, b.Schema
		its.flags.schemaGiven, its.flags.server = b.Schema != "", ""
		db, err := its.database()
		if err != nil {
			return nil, err
		}
		if p, ok := db.(postgresDatabase); ok && worker {
			p.conns = postgres.ConnsMin
			db = p
		}
		return db.open(ctx, o)
	}
}

// drill makes one drill and shows its result. Its workers are this program
// again.
func (a *app) drill(ctx context.Context, f drillFlags) error {
	self, err := os.Executable()
	if err != nil {
		return daybook.Fail(daybook.CodeInternal, "the drill can't find its own program to start it again")
	}
	f.Command = []string{self, "drill", "--process"}
	f.Open = a.drillOpener(false)
	if err := f.Check(); err != nil {
		return err
	}
	db, err := a.database()
	if err != nil {
		return err
	}
	book, err := db.drill(ctx)
	if err != nil {
		return err
	}
	where, err := json.Marshal(book)
	if err != nil {
		return err
	}
	f.Where, f.Dir = string(where), book.dir
	f.Progress = a.drillProgress(f)
	result, err := drill.Run(ctx, f.Options)
	if err == nil && result.Violations == 0 || ctx.Err() != nil {
		return errors.Join(err, book.clear(), a.showDrill(result, f, err))
	}
	a.note("the drill's book is kept: %s; its workers' logs are in %s", book.shown, cmp.Or(book.dir, result.Dir))
	return errors.Join(err, a.showDrill(result, f, err))
}

// drillProgress says how far the drill is: on a terminal as a bar, and else now
// and then.
func (a *app) drillProgress(f drillFlags) func(done int) {
	runs := int64(f.Rows() * f.Times)
	if runs == 0 {
		runs = -1 // nobody knows
	}
	if bar := a.progress(runs, "faults", false); bar != nil {
		return func(done int) { _ = bar.Set(done) }
	}
	last := time.Now()
	return func(done int) {
		if time.Since(last) > 30*time.Second {
			last = time.Now()
			a.note("%d faults so far", done)
		}
	}
}

// showDrill shows a result, if there is one, and makes it the exit status.
func (a *app) showDrill(r drill.Result, f drillFlags, failed error) error {
	if failed != nil {
		return nil
	}
	r.Replay = f.replay()
	if a.json() {
		if err := daybook.EncodeJSON(a.stdout, r); err != nil {
			return err
		}
	} else if err := r.Table(a.stdout); err != nil {
		return err
	}
	switch {
	case r.Violations > 0:
		return exitError{statusViolation, fmt.Sprintf("the drill found %s; replay it by %s",
			count(r.Violations, "violation"), r.Replay)}
	case r.Void > 0:
		return exitError{statusFailed, fmt.Sprintf("the drill is void: %s without the fault", count(r.Void, "run"))}
	}
	return nil
}

// replay is the command that makes the same drill again, on the same --db.
func (f drillFlags) replay() string {
	line := fmt.Sprintf("daybook drill --seed %d", f.Seed)
	for _, gap := range f.Gaps {
		line += " --gap " + gap
	}
	if f.minutes > 0 {
		line += fmt.Sprintf(" --minutes %g", f.minutes)
	}
	if f.Times > 0 {
		line += fmt.Sprintf(" --times %d", f.Times)
	}
	return line
}
