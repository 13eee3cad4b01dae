package drill

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// Table writes the result for people: a row for each combination, what was found
// to be wrong, and the verdict last.
func (r Result) Table(w io.Writer) error {
	var b strings.Builder
	const form = "%-11s %-9s %-5s %6v %8v %9v %8v %6v %5v %10v\n"
	fmt.Fprintf(&b, form, "POLICY", "GAP", "FAULT", "RUNS", "REQUESTS", "HAPPENED", "DOUBLED", "ASKED", "VOID",
		"VIOLATIONS")
	for _, row := range r.Effects {
		fmt.Fprintf(&b, form, row.Policy, row.Gap, row.Fault, row.Runs, row.Requests, row.Happened, row.Doubled, row.Asked,
			row.Void, row.Violations)
	}
	for _, found := range r.Found {
		fmt.Fprintln(&b, "  "+found)
	}
	fmt.Fprintf(&b, "\n%s\n", r.Verdict())
	_, err := io.WriteString(w, b.String())
	return err
}

// Verdict is the result in one line.
func (r Result) Verdict() string {
	runs, doubled, asked := 0, 0, 0
	for _, row := range r.Effects {
		runs, doubled, asked = runs+row.Runs, doubled+row.Doubled, asked+row.Asked
	}
	tail := fmt.Sprintf("%d faults in %s, slowest recovery %.1f s, seed %d", runs, r.Took.Round(time.Second),
		r.RecoverySeconds, r.Seed)
	switch {
	case r.Violations > 0:
		return fmt.Sprintf("FAILED: %d violations; %s", r.Violations, tail)
	case r.Void > 0 || runs == 0:
		return fmt.Sprintf("VOID: %d runs without their fault; %s", r.Void, tail)
	}
	return fmt.Sprintf("held: every effect happened, %d late calls happened again and the book says so, "+
		"%d were settled by hand; %s", doubled, asked, tail)
}
