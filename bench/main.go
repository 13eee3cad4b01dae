// Command bench measures Daybook beside its peers and beside the raw limit of
// the same database, in one run, round by round, so that all of them meet the
// same machine in the same minute:
//
//	go -C bench run .            # on PostgreSQL, the peers' homes too: -postgres
//	go -C bench run . -pressure  # Daybook on PostgreSQL under what makes others slow, beside Daybook without
//	go -C bench run . -review    # the review of many set-aside jobs, on PostgreSQL
//	go -C bench run . -console   # the console's pages on a book with a long history, and what watching costs
//	go -C bench run . -bells     # Daybook on PostgreSQL with each of its bells
//	go -C bench run . -http      # a worker over HTTP beside one on the database, on PostgreSQL
//	go -C bench run . -longpoll  # two hundred clients that wait for work over HTTP
//	go -C bench run . -sqlite    # on SQLite
//	go -C bench run . -drivers   # the SQLite drivers for Go
//
// Everything is fully durable unless the table's notes say otherwise: every
// commit is forced to the disk, and a write counts when its commit has
// returned.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"syscall"
)

// config is what the flags say.
type config struct {
	postgres, pressure, bells, review, console, http, longPoll, sqlite, drivers bool
	weights

	jobs    int
	rounds  int
	quick   bool
	output  string
	plot    string
	only    *regexp.Regexp
	dir     string
	pg      string // major version of PostgreSQL, or ""
	profile string
	log     io.Writer // progress
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	start := func() error { return run(ctx, os.Args[1:], os.Stdout, os.Stderr) }
	if len(os.Args) == 4 && os.Args[1] == peerCommand {
		start = func() error { return runPeer(ctx, os.Args[2], os.Args[3], os.Stdout) }
	}
	if err := start(); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out, log io.Writer) error {
	c, err := parse(args, log)
	if err != nil {
		return err
	}
	temp, err := os.MkdirTemp(c.dir, "daybook-bench-")
	if err != nil {
		return err
	}
	if temp, err = filepath.Abs(temp); err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	switch {
	case c.sqlite:
		return measureSQLite(ctx, c, temp, out)
	case c.drivers:
		return measureDrivers(ctx, c, temp, out)
	case c.pressure:
		return measurePressure(ctx, c, temp, out)
	case c.review:
		return measureReview(ctx, c, temp, out)
	case c.console:
		return measureConsole(ctx, c, temp, out)
	case c.bells:
		return measureBells(ctx, c, temp, out)
	case c.http:
		return measureHTTP(ctx, c, temp, out)
	case c.longPoll:
		return measureLongPoll(ctx, c, temp, out)
	}
	return measurePostgres(ctx, c, temp, out)
}

// parse reads the flags.
func parse(args []string, log io.Writer) (config, error) {
	c := config{log: log}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(log)
	flags.BoolVar(&c.postgres, "postgres", false, "Daybook, the raw limit and the peers, on servers of its own (default)")
	flags.BoolVar(&c.pressure, "pressure", false, "Daybook on PostgreSQL under each of five pressures, and without")
	flags.BoolVar(&c.review, "review", false, "preview and bulk revival of 10,000 set-aside jobs, beside a worker")
	flags.BoolVar(&c.bells, "bells", false,
		"Daybook on PostgreSQL with each of its bells, beside River and graphile-worker")
	flags.BoolVar(&c.http, "http", false, "a worker over HTTP, claims and outcomes of 100, beside one on the database")
	flags.BoolVar(&c.longPoll, "longpoll", false, "what 200 clients cost the server that wait for work over HTTP")
	flags.BoolVar(&c.console, "console", false,
		"the console's pages with -finished and -jobs waiting jobs, and the workers' rate while it is watched")
	c.weights.flags(flags)
	flags.BoolVar(&c.sqlite, "sqlite", false, "Daybook, the raw limit and River on SQLite")
	flags.BoolVar(&c.drivers, "drivers", false, "the SQLite drivers for Go, each built and run by itself")
	flags.StringVar(&c.dir, "dir", "", "where files go, on a real disk (default the system's temporary directory)")
	flags.StringVar(&c.pg, "pg", "", "major version of PostgreSQL (default the newest that is installed)")
	only := flags.String("only", "", "measure only rows that match this pattern; bulk enqueue goes with work")
	flags.IntVar(&c.jobs, "jobs", 0, "jobs a measurement; slow ones take a share\n"+
		"(default 200000, quick 50000; on SQLite 100000, quick 20000)")
	flags.IntVar(&c.rounds, "rounds", 0, "rounds; the table shows the median (default 3; on PostgreSQL quick 2)")
	flags.BoolVar(&c.quick, "quick", false, "end within five minutes, on SQLite within two")
	flags.StringVar(&c.output, "o", "table", "table or json")
	flags.StringVar(&c.plot, "plot", "", "file for a bar plot as well, as SVG")
	flags.StringVar(&c.profile, "profile", "", "existing directory for processor profiles of Daybook's rows")
	if err := flags.Parse(args); err != nil {
		return c, err
	}
	var err error
	if c.only, err = regexp.Compile(*only); err != nil {
		return c, fmt.Errorf("-only: %w", err)
	}
	if flags.NArg() > 0 {
		return c, fmt.Errorf("there are flags only, no %q", flags.Arg(0))
	}
	return c, c.complete()
}

// complete checks what the flags say and fills in what they leave open.
func (c *config) complete() error {
	modes := 0
	for _, on := range []bool{c.postgres, c.pressure, c.bells, c.review, c.console, c.http, c.longPoll, c.sqlite,
		c.drivers} {
		if on {
			modes++
		}
	}
	switch {
	case modes > 1:
		return errors.New("choose one of -postgres, -pressure, -bells, -review, -console, -http, -longpoll, -sqlite and " +
			"-drivers")
	case c.output != "table" && c.output != "json":
		return fmt.Errorf("-o wants table or json, got %q", c.output)
	case c.rounds < 0 || c.jobs < 0 || c.jobs > 0 && c.jobs < 1000:
		return errors.New("-rounds wants at least 1 and -jobs at least 1000")
	}
	c.postgres = modes == 0 || c.postgres
	jobs, rounds := 100_000, 3
	switch {
	case (c.postgres || c.pressure || c.bells || c.review || c.console || c.http) && c.quick:
		jobs, rounds = 50_000, 2
	case c.postgres || c.pressure || c.bells || c.review || c.console || c.http:
		jobs = 200_000
	case c.quick:
		jobs = 20_000
	}
	if c.jobs == 0 {
		c.jobs = jobs
	}
	if c.rounds == 0 {
		c.rounds = rounds
	}
	return c.weights.complete(c.quick)
}
