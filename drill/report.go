package drill

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/check"
)

// FaultRow is what came of one kind of fault.
type FaultRow struct {
	Name       string  `json:"name"`
	How        string  `json:"how,omitempty"`
	Runs       int     `json:"runs"` // in which the fault was shown to have happened
	Void       int     `json:"void"`
	Violations int     `json:"violations"`
	Recovery   float64 `json:"recovery_seconds_max"`     // until what it stopped went on
	Left       string  `json:"not_made_since,omitempty"` // why it couldn't be made here
	Why        string  `json:"void_because,omitempty"`   // of the last that was void
}

func (r *FaultRow) add(e evidence, wrong int) {
	if r.Violations += wrong; e.left != "" {
		r.Left = e.left
		return
	}
	if e.void != "" || !e.injected {
		r.Void, r.Why = r.Void+1, e.void
		return
	}
	r.Runs++
	r.Recovery = max(r.Recovery, seconds(e.recovered))
}

// seconds is a time in seconds with three digits behind the point, and no more.
func seconds(d time.Duration) float64 {
	return float64(d.Round(time.Millisecond).Milliseconds()) / 1000
}

// LeftOut is why some kinds of fault couldn't be made here.
type LeftOut struct {
	Why    string   `json:"why"`
	Faults []string `json:"faults"`
}

// leftOut brings together what was left out for one reason.
func leftOut(rows []FaultRow) (all []LeftOut) {
	for _, r := range rows {
		if r.Left == "" {
			continue
		}
		n := slices.IndexFunc(all, func(l LeftOut) bool { return l.Why == r.Left })
		if n < 0 {
			n, all = len(all), append(all, LeftOut{Why: r.Left})
		}
		if !slices.Contains(all[n].Faults, r.Name) {
			all[n].Faults = append(all[n].Faults, r.Name)
		}
	}
	return all
}

// String is it in one line.
func (l LeftOut) String() string { return "Left out: " + l.faults() + ": " + l.Why }

func (l LeftOut) faults() string {
	if n := len(l.Faults); n > leftNamed {
		return fmt.Sprintf("%s … %s (%d kinds)", l.Faults[0], l.Faults[n-1], n)
	}
	return strings.Join(l.Faults, ", ")
}

// leftNamed is how many kinds that were left out are named in a line.
const leftNamed = 4

// event is one fault in time, for the picture.
type event struct {
	name, how string
	at, took  time.Duration
	wrong     int
	void      bool
}

// Report is what came of a drill of everything.
type Report struct {
	Seed            uint64         `json:"seed"`
	Injected        map[string]int `json:"injected"` // faults that were shown to have happened, by name
	Violations      int            `json:"violations"`
	Void            int            `json:"void"`
	RecoverySeconds float64        `json:"recovery_seconds_max"`
	Replay          string         `json:"replay"`
	Store           string         `json:"store"`
	Bell            string         `json:"bell"`
	Place           string         `json:"place,omitempty"`
	BeganAt         time.Time      `json:"began_at"`
	Seconds         float64        `json:"seconds"`
	Accepted        int64          `json:"accepted"` // ids that enqueuers were answered
	Missing         int            `json:"missing"`  // of them, not in the book
	Happened        int            `json:"effects_happened"`
	Invariants      int            `json:"invariants"` // that the book was held to in the end
	Faults          []FaultRow     `json:"faults"`
	Found           []string       `json:"found,omitempty"`
	LeftOut         []LeftOut      `json:"left_out,omitempty"`
	events          []event
	load            []int // jobs of the load that happened outside, by second
}

// judge lets the load come to its end and holds the book to what is known
// without it: the ids that enqueuers were answered, and what happened outside.
func (s *stand) judge(ctx context.Context) (Report, error) {
	s.opts.Note("no more faults; the load comes to its end")
	s.load.stopEnqueuers()
	drained, err := s.load.drained(ctx)
	if err != nil {
		return Report{}, err
	}
	s.load.end()
	s.endRelay()
	r := Report{Seed: s.opts.Seed, Injected: map[string]int{}, Store: s.site.Store, Bell: s.site.Bell, Faults: s.rows,
		Place: s.site.Place, BeganAt: s.began.UTC().Truncate(time.Second), events: s.events,
		Seconds: seconds(time.Since(s.began))}
	if !drained {
		r.say(&s.found, "the load's jobs were not done %s after the last fault", s.patience)
	}
	if err := s.witness(ctx, &r); err != nil {
		return r, err
	}
	report, err := check.Run(ctx, s.book, check.Options{Full: true})
	if err != nil {
		return r, err
	}
	r.Invariants = len(report.Invariants)
	wrong, found := againstBook(report, len(s.doubled))
	r.Violations += wrong
	s.found = append(s.found, found...)
	for _, row := range s.rows {
		if row.Runs > 0 {
			r.Injected[row.Name] += row.Runs
		}
		r.Violations += row.Violations
		r.Void += row.Void
	}
	r.LeftOut = leftOut(s.rows)
	r.RecoverySeconds = seconds(s.slowest)
	r.Found = s.found[:min(len(s.found), foundMax)]
	return r, nil
}

// say notes one violation that no single fault explains.
func (r *Report) say(found *[]string, format string, args ...any) {
	r.Violations++
	*found = append(*found, fmt.Sprintf(format, args...))
}

// witness compares the book with the enqueuers' files and with the destination's
// ledger.
func (s *stand) witness(ctx context.Context, r *Report) error {
	acts := map[string]int{}
	for _, a := range s.to["charge"].Ledger() {
		acts[a.About]++
		if strings.HasPrefix(a.About, loadOrder) {
			second := int(a.At.Sub(s.began).Seconds())
			for len(r.load) <= second {
				r.load = append(r.load, 0)
			}
			r.load[second]++
		}
	}
	r.Happened = len(acts)
	files, err := filepath.Glob(filepath.Join(s.dir, "accepted-*"))
	if err != nil {
		return err
	}
	known := map[daybook.ID]bool{} // true for those of the load
	for _, name := range files {
		if err := s.accepted(ctx, name, r, known); err != nil {
			return err
		}
	}
	for _, id := range s.load.extra { // some were not answered, and may not be there
		if _, err := s.book.Job(ctx, id); err == nil {
			known[id] = true
		}
	}
	for id, ours := range known {
		if n := acts[loadOrder+id.String()]; ours && n != 1 {
			r.say(&s.found, "job %s of the load happened %d times", id, n)
		}
	}
	for about := range acts {
		text, ours := strings.CutPrefix(about, loadOrder)
		if id, err := daybook.ParseID(text); ours && err == nil && !known[id] {
			if _, err := s.book.Job(ctx, id); err != nil {
				r.say(&s.found, "what happened outside for job %s has no job in the book: %v", text, err)
			}
		}
	}
	return s.conserved(ctx, r)
}

// accepted looks for the ids of one file in the book.
func (s *stand) accepted(ctx context.Context, name string, r *Report, known map[daybook.ID]bool) error {
	f, err := os.Open(name)
	if err != nil {
		return daybook.Fail(daybook.CodeInternal, "the drill can't read its file %s", name)
	}
	defer f.Close()
	a, err := check.Accepted(ctx, s.book, f)
	if err != nil {
		return err
	}
	r.Accepted += a.Accepted
	r.Missing += len(a.Missing)
	for _, id := range a.Missing {
		r.say(&s.found, "job %s was accepted and is not in the book", id)
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	base := filepath.Base(name)
	load := strings.HasPrefix(base, "accepted-load-") || strings.HasPrefix(base, "accepted-clock-")
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if id, err := daybook.ParseID(lines.Text()); err == nil {
			known[id] = load
		}
	}
	return lines.Err()
}

// conserved counts the load's queue three ways: what the book says it accepted,
// the jobs in it, and those that happened outside.
func (s *stand) conserved(ctx context.Context, r *Report) error {
	queues, err := s.book.Queues(ctx, true)
	if err != nil {
		return err
	}
	for _, q := range queues {
		if q.Name != loadQueue {
			continue
		}
		jobs, err := s.book.Count(ctx, daybook.Filter{Queue: loadQueue})
		if err != nil {
			return err
		}
		done, err := s.book.Count(ctx, daybook.Filter{Queue: loadQueue, State: daybook.Succeeded})
		if err != nil {
			return err
		}
		if q.Counts.Accepted != jobs || done != jobs {
			r.say(&s.found, "of the load the book accepted %d, has %d and did %d", q.Counts.Accepted, jobs, done)
		}
	}
	return nil
}

// againstBook is what the checker found, but for effects that are known to have
// happened twice.
func againstBook(report check.Report, doubled int) (wrong int, found []string) {
	for _, i := range report.Invariants {
		rows := i.Rows
		if i.Name == doubledInvariant {
			if rows -= doubled; rows < 0 { // the checker missed some
				rows = -rows
			}
		}
		if rows == 0 {
			continue
		}
		wrong += rows
		found = append(found, fmt.Sprintf("check %s: %d more than the faults explain", i.Name, rows))
		for _, v := range i.Found {
			found = append(found, fmt.Sprintf("check %s: %s %s", i.Name, v.Subject, v.Detail))
		}
	}
	return wrong, found
}

// Runs counts the faults that were shown to have happened.
func (r Report) Runs() (n int) {
	for _, count := range r.Injected {
		n += count
	}
	return n
}

// longest is the longest recovery, and the fault that it was from.
func (r Report) longest() string {
	if r.RecoverySeconds == 0 || len(r.Faults) == 0 {
		return "none"
	}
	row := slices.MaxFunc(r.Faults, func(a, b FaultRow) int { return cmp.Compare(a.Recovery, b.Recovery) })
	return fmt.Sprintf("%.1f s (%s)", r.RecoverySeconds, strings.TrimSpace(row.Name+" "+row.How))
}

// Table writes the report for people.
func (r Report) Table(w io.Writer) error {
	var b strings.Builder
	const form = "%-22s %-5s %5v %5v %10v %9v  %s\n"
	fmt.Fprintf(&b, form, "FAULT", "HOW", "MADE", "VOID", "VIOLATIONS", "RECOVERY", "")
	for _, row := range r.Faults {
		recovery := "-" // where nothing had to recover, too
		if row.Runs > 0 && row.Recovery > 0 {
			recovery = fmt.Sprintf("%.2f s", row.Recovery)
		}
		fmt.Fprintf(&b, form, row.Name, row.How, row.Runs, row.Void, row.Violations, recovery, row.remark())
	}
	for _, found := range r.Found {
		fmt.Fprintln(&b, "  "+found)
	}
	fmt.Fprintln(&b)
	for _, left := range r.LeftOut {
		fmt.Fprintln(&b, left)
	}
	fmt.Fprintln(&b, r.Verdict())
	_, err := io.WriteString(w, b.String())
	return err
}

// remark is why a fault wasn't made, or not always.
func (r FaultRow) remark() string {
	switch {
	case r.Left != "":
		return "not made: " + r.Left
	case r.Why != "":
		return "void: " + r.Why
	}
	return ""
}

// Verdict is the report in a few lines.
func (r Report) Verdict() string {
	head := "HELD"
	switch {
	case r.Violations > 0:
		head = "FAILED with " + many(r.Violations, "violation")
	case r.Void > 0 || r.Runs() == 0:
		head = fmt.Sprintf("VOID: %s could not be shown to have happened", many(r.Void, "fault"))
	}
	on := r.Store
	if r.Place != "" {
		on += " (" + r.Place + ")"
	}
	return fmt.Sprintf("%s: %s of %s in %.0f s, on %s with the bell %s.\n"+
		"%d ids were accepted, %d of them are missing; %d effects happened outside; the book was held to %d invariants.\n"+
		"Longest recovery: %s. Again: %s", head, many(r.Runs(), "fault"), many(len(r.Injected), "kind"), r.Seconds, on,
		r.Bell, r.Accepted, r.Missing, r.Happened, r.Invariants, r.longest(), r.Replay)
}

// many is a number of things.
func many(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}

// What a report comes to.
var (
	ErrViolated = errors.New("violated")
	ErrVoid     = errors.New("void")
)

// Err is ErrViolated, ErrVoid or nil.
func (r Report) Err() error {
	switch {
	case r.Violations > 0:
		return ErrViolated
	case r.Void > 0 || r.Runs() == 0:
		return ErrVoid
	}
	return nil
}
