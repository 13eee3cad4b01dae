package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/console"
)

// topOrders are the ways to sort the queues, by the key that chooses each.
var topOrders = []topOrder{
	{"attention", 'a', func(a, b daybook.Backlog) int {
		return cmp.Or(cmp.Compare(b.Open+b.Doubled, a.Open+a.Doubled), cmp.Compare(b.SetAside, a.SetAside),
			cmp.Compare(b.Oldest, a.Oldest))
	}},
	{"oldest", 'o', func(a, b daybook.Backlog) int { return cmp.Compare(b.Oldest, a.Oldest) }},
	{"ready", 'r', func(a, b daybook.Backlog) int { return cmp.Compare(b.Eligible, a.Eligible) }},
	{"name", 'n', func(a, b daybook.Backlog) int { return 0 }}, // as the book lists them
}

type topOrder struct {
	name    string
	key     byte
	compare func(a, b daybook.Backlog) int
}

func (a *app) topCommand() *cobra.Command {
	var once bool
	var every time.Duration
	var order string
	cmd := &cobra.Command{
		Use: "top", Short: "Show the console's overview in the terminal, live",
		Long: "Show what needs a person, and every queue in numbers, again and again.\n\n" +
			"Keys: q ends; a, o, r and n sort by what needs attention, the oldest ready job, the ready jobs, the name;\n" +
			"Control-Z stops it. A book that can't be read leaves the last frame, and the last line says so.\n" +
			"Where the output is no terminal, one frame is printed.",
		Example: example("daybook top --once", "daybook top --sort oldest --once -o json"),
		Args:    cobra.NoArgs,
	}
	cmd.Flags().BoolVar(&once, "once", false, "print one frame and end (default false)")
	durationVar(cmd.Flags(), &every, "every", 2*time.Second, "how long between two looks (100ms…24h)")
	cmd.Flags().StringVar(&order, "sort", topOrders[0].name, "order of the queues: attention, oldest, ready or name")
	cmd.RunE = a.withBook(func(ctx context.Context, book *daybook.Book, _ []string) error {
		if every < 100*time.Millisecond || every > 24*time.Hour {
			return daybook.Invalid("every", "wants 100ms…24h, got %s", every)
		}
		by := slices.IndexFunc(topOrders, func(o topOrder) bool { return o.name == order })
		if by < 0 {
			return daybook.Invalid("sort", "wants attention, oldest, ready or name, got %q", order)
		}
		look := console.New(book, console.Options{Loopback: true})
		defer look.Close()
		t := &top{app: a, look: look, order: topOrders[by], every: every}
		if once || a.json() || !a.terminal(a.stdout) {
			return t.once(ctx)
		}
		return t.live(ctx)
	})
	return cmd
}

// top draws the overview.
type top struct {
	*app
	look  glancer
	order topOrder
	every time.Duration
	stop  func(signals chan os.Signal) // stops the process; nil is really
}

func (t *top) once(ctx context.Context) error {
	g, err := t.look.Glance(ctx)
	if err != nil {
		return err
	}
	slices.SortStableFunc(g.Queues, t.order.compare)
	if t.json() {
		g.Queues = orEmpty(g.Queues)
		return daybook.EncodeJSON(t.stdout, g)
	}
	var frame bytes.Buffer
	if err := t.draw(&frame, g, nil); err != nil {
		return err
	}
	_, err = t.stdout.Write(frame.Bytes())
	return err
}

// fit cuts lines to a screen, one line less high than it is.
func fit(lines []string, wide, high int) []string {
	if over := len(lines) - (high - 1); over > 0 && high > 2 {
		lines = append(lines[:high-2:high-2], fmt.Sprintf("… %d more lines", over+1))
	}
	for i, line := range lines {
		lines[i] = cut(line, wide)
	}
	return lines
}

var topHead = []string{"QUEUE", "OLDEST READY", "READY", "LATER", "HELD", "RUNNING", "SET ASIDE", "OPEN EFFECTS"}

// draw writes one frame, in the words of the console's overview. before is the
// look before, for what flowed since; nil is none.
func (t *top) draw(w io.Writer, g console.Glance, before *console.Glance) error {
	fmt.Fprintf(w, "Daybook  %s  %s%s\n\n", g.At, count(g.Sessions, "session"), flowText(g, before))
	if len(g.Needs) == 0 {
		fmt.Fprintln(w, "Nothing needs a person.")
	} else {
		fmt.Fprintf(w, "What needs a person: %d\n", len(g.Needs))
	}
	signs := map[string]string{"alarm": "!!", "warn": "! ", "note": "- "}
	for _, n := range g.Needs {
		fmt.Fprintf(w, "  %s %s", signs[n.Grave], safe(n.Text))
		if n.More != "" {
			fmt.Fprintf(w, ": %s", safe(n.More))
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintln(w)
	if len(g.Queues) == 0 {
		fmt.Fprintln(w, "The book has no queue yet: daybook enqueue --queue mail --kind welcome --args '{}'")
		return nil
	}
	table := &table{head: topHead}
	for _, q := range append(g.Queues, totalRow(g.Total)) {
		name := q.Queue
		if q.Paused {
			name += " (paused)"
		}
		oldest := "-"
		if q.Oldest > 0 {
			oldest = shortDuration(time.Duration(q.Oldest * float64(time.Second)).Round(time.Second / 10))
		}
		table.row(name, oldest, q.Eligible, q.Later, q.Held, q.Running, q.SetAside, q.Open)
	}
	return table.write(w)
}

func totalRow(total daybook.Backlog) daybook.Backlog {
	total.Queue = "all"
	return total
}

// flowText says what went through since the look before.
func flowText(g console.Glance, before *console.Glance) string {
	if before == nil || before.At == 0 || g.At <= before.At {
		return ""
	}
	seconds := g.At.Sub(before.At).Seconds()
	f := flowOf(before.Total.Counts, g.Total.Counts, false)
	rate := func(n int64) string { return fmt.Sprintf("%.1f", float64(n)/seconds) }
	return fmt.Sprintf("  a second: %s in, %s succeeded, %s set aside", rate(f.Accepted+f.MovedIn+f.Revived),
		rate(f.Succeeded), rate(f.SetAside))
}
