// Command bench measures Daybook beside its peers and beside the raw limit of
// the same driver, in one run, round by round, so that all of them meet the
// same machine in the same minute:
//
//	go -C bench run . -sqlite
//	go -C bench run . -drivers
//
// Everything is fully durable: a write-ahead log with synchronous=FULL, and a
// write counts when its commit has returned.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
)

// config is what the flags say.
type config struct {
	jobs    int
	rounds  int
	quick   bool
	output  string
	only    *regexp.Regexp
	profile string
	log     io.Writer // progress
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out, log io.Writer) error {
	c := config{log: log}
	flags := flag.NewFlagSet("bench", flag.ExitOnError)
	sqlite := flags.Bool("sqlite", false, "Daybook, the raw limit and River on SQLite")
	drivers := flags.Bool("drivers", false, "the SQLite drivers for Go, each built and run by itself")
	dir := flags.String("dir", "", "where the files go, on a real disk (default the system's place for temporary files)")
	only := flags.String("only", "", "measure only rows that match this pattern")
	flags.IntVar(&c.jobs, "jobs", 0, "jobs a measurement; slow ones take a fixed share (default 100000, quick 20000)")
	flags.IntVar(&c.rounds, "rounds", 3, "rounds; the table shows the median")
	flags.BoolVar(&c.quick, "quick", false, "end within two minutes")
	flags.StringVar(&c.output, "o", "table", "table or json")
	flags.StringVar(&c.profile, "profile", "", "existing directory for processor profiles of Daybook's rows")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *sqlite == *drivers {
		return errors.New("choose one of -sqlite and -drivers")
	}
	if c.output != "table" && c.output != "json" {
		return fmt.Errorf("-o wants table or json, got %q", c.output)
	}
	if c.rounds < 1 || c.jobs < 0 || c.jobs > 0 && c.jobs < 1000 {
		return errors.New("-rounds wants at least 1 and -jobs at least 1000")
	}
	if c.jobs == 0 {
		c.jobs = 100_000
		if c.quick {
			c.jobs = 20_000
		}
	}
	var err error
	if c.only, err = regexp.Compile(*only); err != nil {
		return err
	}
	temp, err := os.MkdirTemp(*dir, "daybook-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	if *drivers {
		return measureDrivers(ctx, c, temp, out)
	}
	return measureSQLite(ctx, c, temp, out)
}

func measureSQLite(ctx context.Context, c config, dir string, out io.Writer) error {
	t := newTable(c, dir)
	if err := t.measure(ctx, c, dir, sqliteTrials(c)); err != nil {
		return err
	}
	t.compare("daybook", "raw")
	t.compare("daybook", "raw+")
	t.compare("daybook", "river")
	t.Notes = []string{
		"raw: one narrow table, bare statements, nothing that a job system needs; raw+: with a unique id and a history row",
		"ratio: the median of the rounds' ratios, since rounds meet different loads",
		"latency: from the call that enqueues to the handler's first line, its commit included",
	}
	return t.print(out, c.output)
}

// sqliteTrials are the measurements, those of one row side by side.
func sqliteTrials(c config) []trial {
	fast, slow := c.jobs, c.jobs/20
	const one, many = "batch 1", "batch 100"
	return []trial{
		{"enqueue, " + many, "raw", rawEnqueue(fast, 100, false)},
		{"enqueue, " + many, "raw+", rawEnqueue(fast, 100, true)},
		{"enqueue, " + many, "daybook", bookEnqueue(fast, 100)},
		{"enqueue, " + many, "river", riverEnqueue(fast/5, 100)},
		{"enqueue, " + one, "raw", rawEnqueue(slow, 1, false)},
		{"enqueue, " + one, "raw+", rawEnqueue(slow, 1, true)},
		{"enqueue, " + one, "daybook", bookEnqueue(slow, 1)},
		{"enqueue, " + one, "river", riverEnqueue(slow, 1)},
		{"claim+complete, " + many, "raw", rawWork(fast, true, false)},
		{"claim+complete, " + many, "raw+", rawWork(fast, true, true)},
		{"claim+complete, " + many, "daybook", bookWork(fast, 2)},
		{"claim, then complete", "raw", rawWork(fast, false, false)},
		{"claim, then complete", "raw+", rawWork(fast, false, true)},
		{"claim, then complete", "daybook", bookWork(fast, 1)},
		{"work, no-op handler", "daybook", bookHandle(fast)},
		{"work, no-op handler", "river", riverHandle(slow)},
		{"latency at 200/s", "daybook", bookLatency(c.quick)},
		{"latency at 200/s", "river", riverLatency(c.quick)},
	}
}
