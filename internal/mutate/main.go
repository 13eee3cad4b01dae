// Command mutate proves guards by removing them: each mutant takes one guard
// out of the source, and some test must fail on an assertion. A mutant that
// compiles and survives, or that only a time-out or a crash of the test binary
// catches, fails the run.
//
//	go run ./internal/mutate            all mutants
//	go run ./internal/mutate -run lose  those whose name matches
//	go run ./internal/mutate -list      the table without running it
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"text/tabwriter"
	"time"
)

func main() {
	list := flag.Bool("list", false, "only list the mutants")
	only := flag.String("run", "", "only mutants whose name matches this regular expression")
	limit := flag.Duration("timeout", 4*time.Minute, "for one mutant's tests")
	flag.Parse()
	match, err := regexp.Compile(*only)
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutate: -run:", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	os.Exit(run(ctx, match, *list, *limit))
}

// healthy runs the tests without a mutant: a test that fails anyway would kill
// them all.
func healthy(ctx context.Context, match *regexp.Regexp) bool {
	tried := map[string]bool{}
	for _, m := range mutants {
		if tried[m.pkg] || !match.MatchString(m.name) {
			continue
		}
		tried[m.pkg] = true
		out, err := exec.CommandContext(ctx, "go", "test", "-count=1", m.pkg).CombinedOutput()
		if err != nil {
			fmt.Fprintf(os.Stderr, "mutate: the tests of %s fail without any mutant:\n%s", m.pkg, out)
			return false
		}
	}
	return true
}

func run(ctx context.Context, match *regexp.Regexp, list bool, limit time.Duration) int {
	table := tabwriter.NewWriter(os.Stdout, 0, 4, 2, ' ', 0)
	fmt.Fprintln(table, "MUTANT\tGUARD REMOVED\tKILLED BY")
	survivors, ran := 0, 0
	if !list && !healthy(ctx, match) {
		return 1
	}
	for _, m := range mutants {
		if !match.MatchString(m.name) {
			continue
		}
		ran++
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
		fmt.Printf("%d mutants, %d killed by an assertion, %d not\n", ran, ran-survivors, survivors)
	}
	if survivors > 0 || ran == 0 {
		return 1
	}
	return 0
}
