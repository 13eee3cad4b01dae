package demo

import (
	"fmt"
	"io"
	"strings"

	"github.com/daybookdev/daybook"
)

// Table writes the result for people: one number a line, and the verdict last.
func (r Result) Table(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%d webhook deliveries, each sent twice, by %d enqueuers to %d workers (seed %d)\n\n",
		r.Jobs, enqueuers, r.Workers, r.Seed)
	row := func(what string, count any, why string) {
		fmt.Fprintln(&b, strings.TrimRight(fmt.Sprintf("  %-17s %9v  %s", what, count, why), " "))
	}
	row("accepted", r.Accepted, "jobs in the book")
	row("replayed", r.Replayed, "requests answered: that job is known")
	row("attempts", r.Attempts, "claims")
	row("killed", r.Kills, "processes, with SIGKILL: "+r.killedIn())
	row("stopped", r.Gaps[daybook.GapPause], "workers, past their lease, and continued")
	row("fenced", r.Fenced, "late writes of replaced owners, refused")
	row("effects asked", r.EffectsAsked, "requests that reached the destination")
	row("effects happened", r.EffectsHappened, "times it acted")
	row("jobs per second", fmt.Sprintf("%.1f", r.JobsPerSecond), "faults and recovery included")
	b.WriteString("\n")
	row("lost", r.Lost, "accepted, and not in the book")
	row("missing", r.Missing, "accepted, and it never happened")
	row("doubled", r.Doubled, "happened twice")
	row("violations", r.Violations, "of the book's invariants, or book and destination differ")
	for _, found := range r.Found {
		fmt.Fprintln(&b, "    "+found)
	}
	b.WriteString("\n" + r.Verdict() + "\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// Verdict is the result in one line.
func (r Result) Verdict() string {
	if wrong := r.Wrong(); len(wrong) > 0 {
		return "FAILED: " + strings.Join(wrong, ", ")
	}
	return fmt.Sprintf("held: %d accepted, %d happened, nothing lost or doubled, with %d faults on the way",
		r.Accepted, r.EffectsHappened, r.Kills+r.Gaps[daybook.GapPause])
}

// killedIn lists the gaps of the kills with their counts, in the order of a
// job's way.
func (r Result) killedIn() string {
	var list []string
	for _, gap := range gapNames() {
		if gap != daybook.GapPause {
			list = append(list, fmt.Sprintf("%s %d", gap, r.Gaps[gap]))
		}
	}
	return strings.Join(list, ", ")
}
