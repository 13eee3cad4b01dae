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
	dir := flags.String("dir", "", "where files go, on a real disk (default the system's temporary directory)")
	only := flags.String("only", "", "measure only rows that match this pattern")
	flags.IntVar(&c.jobs, "jobs", 0, "jobs a measurement; slow ones take a share (default 100000, quick 20000)")
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
	t.compare("daybook", "raw by row")
	t.compare("daybook", "raw+")
	t.compare("daybook", "river")
	t.Notes = []string{
		"raw: one narrow table, a statement a batch; by row: a statement a row; raw+: with unique id and history",
		"ratio: the median of the rounds' ratios, since rounds meet different loads",
		"latency: from the call that enqueues to the handler's first line, its commit included",
	}
	return t.print(out, c.output)
}

// sqliteTrials are the measurements, those of one row side by side.
func sqliteTrials(c config) []trial {
	fast, slow := c.jobs, c.jobs/20
	const enqueue100, enqueue1 = "enqueue, batch 100", "enqueue, batch 1"
	const both, each = "claim+complete, batch 100", "claim, then complete"
	const work, latency = "work, no-op handler", "latency at 200/s"
	return []trial{
		{enqueue100, "raw", rawEnqueue(rawFast, fast, 100)},
		{enqueue100, "raw by row", rawEnqueue(rawByRow, fast, 100)},
		{enqueue100, "raw+", rawEnqueue(rawWhole, fast, 100)},
		{enqueue100, "daybook", bookEnqueue(fast, 100)},
		{enqueue100, "river", riverEnqueue(fast/5, 100)},
		{enqueue1, "raw", rawEnqueue(rawFast, slow, 1)},
		{enqueue1, "raw+", rawEnqueue(rawWhole, slow, 1)},
		{enqueue1, "daybook", bookEnqueue(slow, 1)},
		{enqueue1, "river", riverEnqueue(slow, 1)},
		{both, "raw", rawWork(rawFast, fast, true)},
		{both, "raw by row", rawWork(rawByRow, fast, true)},
		{both, "raw+", rawWork(rawWhole, fast, true)},
		{both, "daybook", bookWork(fast, 2)},
		{each, "raw", rawWork(rawFast, fast, false)},
		{each, "raw+", rawWork(rawWhole, fast, false)},
		{each, "daybook", bookWork(fast, 1)},
		{work, "daybook", bookHandle(fast)},
		{work, "river", riverHandle(slow)},
		{latency, "daybook", bookLatency(c.quick)},
		{latency, "river", riverLatency(c.quick)},
	}
}
