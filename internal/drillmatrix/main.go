// Command drillmatrix runs daybook drill on every store and bell, with servers
// that it starts itself, and prints what held: ten seeds of one minute and one of
// five each, as the flags don't say else.
//
//	go run ./internal/drillmatrix                        all of it, more than two hours
//	go run ./internal/drillmatrix -on sqlite,redis -seeds 3 -long 0
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/daybookdev/daybook/internal/brokertest"
	"github.com/daybookdev/daybook/internal/pgtest"
)

func main() {
	on := flag.String("on", strings.Join(placeNames(), ","), "where, with commas between")
	seeds := flag.Int("seeds", 10, "how many seeds of -minutes")
	first := flag.Int("first", 1, "the first seed")
	minutes := flag.Float64("minutes", 1, "how long each is")
	long := flag.Float64("long", 5, "minutes of one more seed; 0 is none")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, strings.Split(*on, ","), *seeds, *first, *minutes, *long)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "drillmatrix:", err)
		os.Exit(1)
	}
}

// place is a store with a bell; start starts what it needs and says how to name
// both to the drill.
type place struct {
	name  string
	start func(*servers) (db, bell string, err error)
}

var places = []place{
	{"sqlite", func(s *servers) (string, string, error) { return "sqlite:" + filepath.Join(s.dir, "book.db"), "", nil }},
	{"postgres", func(s *servers) (string, string, error) { return s.db(), "", s.err }},
	{"redis", func(s *servers) (string, string, error) {
		r, err := brokertest.Open(brokertest.RedisProgram())
		if err != nil {
			return "", "", err
		}
		s.stops = append(s.stops, r.Stop)
		return s.db(), (&brokertest.Redis{Server: r}).URL(), s.err
	}},
	{"nats", func(s *servers) (string, string, error) { return s.nats("") }},
	{"jetstream", func(s *servers) (string, string, error) { return s.nats("?jetstream=1") }},
	{"rabbitmq", func(s *servers) (string, string, error) {
		r, err := brokertest.OpenRabbitMQ()
		if err != nil {
			return "", "", err
		}
		s.stops = append(s.stops, r.Stop)
		return s.db(), r.URL(), s.err
	}},
	{"pgbouncer", func(s *servers) (string, string, error) {
		s.db()
		if s.err != nil {
			return "", "", s.err
		}
		b, err := pgtest.StartBouncer(s.postgres, map[string]string{"max_client_conn": "1000", "default_pool_size": "40",
			"idle_transaction_timeout": "5"}) // as docs/postgres.md says
		if err != nil {
			return "", "", err
		}
		s.stops = append(s.stops, b.Stop)
		return b.URL("postgres"), "", nil
	}},
}

func placeNames() []string {
	names := make([]string, len(places))
	for i, p := range places {
		names[i] = p.name
	}
	return names
}

// servers are those of one place.
type servers struct {
	dir      string
	postgres *pgtest.Server
	err      error // of the PostgreSQL
	stops    []func() error
}

// db starts a PostgreSQL, or keeps why it doesn't start in err.
func (s *servers) db() string {
	s.postgres, s.err = pgtest.Start(pgtest.Options{Settings: map[string]string{"max_connections": "500"}})
	if s.err != nil {
		return ""
	}
	s.stops = append(s.stops, s.postgres.Stop)
	return s.postgres.URL("postgres")
}

func (s *servers) nats(query string) (string, string, error) {
	var args []string
	n, err := brokertest.OpenNATS(args...)
	if err != nil {
		return "", "", err
	}
	s.stops = append(s.stops, n.Stop)
	return s.db(), n.URL() + query, s.err
}

func (s *servers) stop() (err error) {
	for _, stop := range slices.Backward(s.stops) {
		err = errors.Join(err, stop())
	}
	return err
}

// report is what the drill says, as far as the table has it.
type report struct {
	Seed       uint64         `json:"seed"`
	Injected   map[string]int `json:"injected"`
	Violations int            `json:"violations"`
	Void       int            `json:"void"`
	Recovery   float64        `json:"recovery_seconds_max"`
	Replay     string         `json:"replay"`
	Accepted   int            `json:"accepted"`
	LeftOut    []struct {
		Why    string   `json:"why"`
		Faults []string `json:"faults"`
	} `json:"left_out"`
}

func run(ctx context.Context, on []string, seeds, first int, minutes, long float64) (err error) {
	dir, err := os.MkdirTemp("", "drillmatrix-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	program := filepath.Join(dir, "daybook")
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", program, "./cmd/daybook").CombinedOutput(); err != nil {
		return fmt.Errorf("building: %w: %s", err, out)
	}
	table := tabwriter.NewWriter(os.Stdout, 0, 4, 2, ' ', 0)
	fmt.Fprintln(table, "ON\tSEED\tMINUTES\tFAULTS\tKINDS\tACCEPTED\tLEFT OUT\tVIOLATIONS\tVOID\tLONGEST RECOVERY")
	bad := 0
	for _, p := range places {
		if !slices.Contains(on, p.name) || ctx.Err() != nil {
			continue
		}
		wrong, err := p.drill(ctx, dir, program, table, seeds, first, minutes, long)
		if err != nil {
			return errors.Join(fmt.Errorf("%s: %w", p.name, err), table.Flush())
		}
		bad += wrong
	}
	if err := errors.Join(table.Flush(), ctx.Err()); err != nil {
		return err
	}
	if bad > 0 {
		return fmt.Errorf("%d drills did not hold", bad)
	}
	return nil
}

// drill runs the seeds in one place, and says how many did not hold.
func (p place) drill(ctx context.Context, dir, program string, table *tabwriter.Writer, seeds, first int,
	minutes, long float64) (bad int, err error) {
	s := &servers{dir: dir}
	defer func() { err = errors.Join(err, s.stop()) }()
	db, bell, err := p.start(s)
	if err != nil {
		return 0, err
	}
	for n := range seeds + 1 {
		last := minutes
		if n == seeds {
			last = long
		}
		if last == 0 || ctx.Err() != nil {
			break
		}
		args := []string{"drill", "--db", db, "--seed", fmt.Sprint(first + n), "--minutes", fmt.Sprint(last), "-o", "json"}
		if bell != "" {
			args = append(args, "--bell", bell)
		}
		cmd := exec.CommandContext(ctx, program, args...)
		cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		var r report
		if json.Unmarshal(out, &r) != nil {
			return bad, fmt.Errorf("seed %d: %w", first+n, err)
		}
		if err != nil {
			bad++
		}
		faults, left := 0, 0
		for _, l := range r.LeftOut {
			left += len(l.Faults)
		}
		for _, n := range r.Injected {
			faults += n
		}
		fmt.Fprintf(table, "%s\t%d\t%g\t%d\t%d\t%d\t%d\t%d\t%d\t%.1f s\n", p.name, r.Seed, last, faults, len(r.Injected),
			r.Accepted, left, r.Violations, r.Void, r.Recovery)
		fmt.Fprintf(os.Stderr, "%s seed %d: %d faults, %d violations, %d void\n", p.name, r.Seed, faults, r.Violations,
			r.Void)
	}
	return bad, nil
}
