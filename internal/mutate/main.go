// Command mutate proves guards by removing them: each mutant takes one guard
// out of the source, and some test must fail on an assertion. A mutant that
// compiles and survives, or that only a time-out or a crash of the test binary
// catches, fails the run.
//
//	go run ./internal/mutate            all mutants
//	go run ./internal/mutate -run lose  those whose name matches
//	go run ./internal/mutate -list      the table without running it
//
// The mutants of the PostgreSQL store, whose names begin with pg-, want a server
// that can be started. Without one they are left out, which is told and fails
// the run: nothing was proved of them.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/daybookdev/daybook/internal/pgtest"
)

func main() {
	list := flag.Bool("list", false, "only list the mutants")
	only := flag.String("run", "", "only mutants whose name matches this regular expression")
	limit := flag.Duration("timeout", 4*time.Minute, "for one mutant's tests")
	trust := flag.Bool("trust", false, "don't run the tests without a mutant first")
	flag.Parse()
	match, err := regexp.Compile(*only)
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutate: -run:", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	os.Exit(run(ctx, match, *list, *trust, *limit))
}

// chosen are the mutants whose name matches. Those that want PostgreSQL are left
// out where it isn't installed, and the error says how to install it.
func chosen(match *regexp.Regexp, list bool) (some []mutant, left int, err error) {
	for _, m := range slices.Concat(mutants, postgresMutants, relayMutants, brokerMutants, bellMutants, effectMutants,
		consoleMutants, cutoverMutants, simulationMutants, httpMutants, drillMutants) {
		if match.MatchString(m.name) {
			some = append(some, m)
		}
	}
	if _, err = pgtest.Binaries(""); err == nil || list {
		return some, 0, nil
	}
	all := len(some)
	some = slices.DeleteFunc(some, mutant.wantsServer)
	return some, all - len(some), err
}

// healthy runs the tests without a mutant: a test that fails anyway would kill
// them all.
func healthy(ctx context.Context, some []mutant) bool {
	tests := map[string][]string{} // by package; none is all
	for _, m := range some {
		if had, known := tests[m.pkg]; m.tests == "" || known && had == nil {
			tests[m.pkg] = nil
		} else if !slices.Contains(had, m.tests) {
			tests[m.pkg] = append(had, m.tests)
		}
	}
	for pkg, only := range tests {
		args := []string{"test", "-count=1", "-run", strings.Join(only, "|"), pkg}
		if out, err := command(ctx, pkg, args...).CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "mutate: the tests of %s fail without any mutant:\n%s", pkg, out)
			return false
		}
	}
	return true
}

// command is the go command, for the tests of a package.
func command(ctx context.Context, pkg string, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, "go", args...)
	switch {
	case pkg == postgres, pkg == "./bell/postgres":
		c.Env = append(os.Environ(), "DAYBOOK_TEST_POSTGRES=1")
	case strings.HasPrefix(pkg, "./cutover/"), pkg == "./cmd/daybook", pkg == "./drill":
		c.Env = append(os.Environ(), "DAYBOOK_TEST_OLD=1")
	case pkg == simulation: // the order of its goroutines isn't the seed's
		c.Env = append(os.Environ(), "DAYBOOK_SCHEDULES=1000")
	case strings.HasPrefix(pkg, "./bell/"):
		c.Env = append(os.Environ(), "DAYBOOK_TEST_BELLS=1")
	}
	return c
}

func run(ctx context.Context, match *regexp.Regexp, list, trust bool, limit time.Duration) int {
	some, left, missing := chosen(match, list)
	table := tabwriter.NewWriter(os.Stdout, 0, 4, 2, ' ', 0)
	fmt.Fprintln(table, "MUTANT\tGUARD REMOVED\tKILLED BY")
	survivors := 0
	if !list && !trust && !healthy(ctx, some) {
		return 1
	}
	for _, m := range some {
		if list {
			fmt.Fprintf(table, "%s\t%s\t\n", m.name, m.guard)
			continue
		}
		v := m.try(ctx, limit)
		if ctx.Err() != nil {
			return 1
		}
		if !v.killed {
			survivors++
		}
		fmt.Fprintf(os.Stderr, "%s: %s\n", m.name, v.said)
		fmt.Fprintf(table, "%s\t%s\t%s\n", m.name, m.guard, v.said)
	}
	table.Flush()
	if !list {
		fmt.Printf("%d mutants, %d killed by an assertion, %d not\n", len(some), len(some)-survivors, survivors)
	}
	if left > 0 {
		fmt.Printf("%d mutants of the PostgreSQL store were not tried: %v\n", left, missing)
	}
	if survivors+left > 0 || len(some) == 0 {
		return 1
	}
	return 0
}
