// Package check holds a book to the invariants of [daybook.Invariants]. It
// reads only, on a live book, and the store does the looking: each invariant is
// walked in chunks with a snapshot of its own, so that a check of millions of
// rows never keeps an old one open. What a first look finds is looked at again,
// and only what is still wrong then is reported: a healthy book never fails.
package check

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/daybookdev/daybook"
)

// Options of a check. The zero value looks at the live rows and at what ended
// since the last clean check.
type Options struct {
	Full bool // walk all rows
	// Seen is called after each chunk with the rows walked so far for the
	// invariant; it may be nil.
	Seen func(invariant string, walked int64)

	hasty bool // no pause before the second look: nobody else writes
}

// foundMax bounds the violations that a report names one by one, per
// invariant; Rows counts them all.
const foundMax = 100

// Report says what a check found. A book is as it should be when Violations
// is 0.
type Report struct {
	Violations int      `json:"violations"`
	Full       bool     `json:"full"` // all rows were walked
	Invariants []Result `json:"invariants"`
}

// Result is what became of one invariant.
type Result struct {
	Name     string              `json:"name"`
	Sentence string              `json:"sentence"`
	Rows     int                 `json:"rows"`            // that break it
	Walked   int64               `json:"walked"`          // rows looked at
	Found    []daybook.Violation `json:"found,omitempty"` // the first of them
}

// overlap is how much further back than the last check a check looks: a
// transaction that was under way then has its time from before, and the clock
// may have been set back.
const overlap = 10 * time.Minute

// Run checks the book. A clean check notes when it began (SettingChecked), and
// the next one that isn't full leaves out what had ended before. The error is
// for a check that could not be made, never for what it found.
func Run(ctx context.Context, book *daybook.Book, o Options) (Report, error) {
	inspector, ok := book.Store().(daybook.Inspector)
	if !ok {
		return Report{}, noInspector(book)
	}
	began, last, err := when(ctx, book)
	if err != nil {
		return Report{}, err
	}
	since := daybook.Time(0)
	if at, err := daybook.ParseTime("checked", last); err == nil && !o.Full {
		since = max(min(at, began).Add(-overlap), 1)
	}
	report := Report{Full: since == 0, Invariants: make([]Result, len(daybook.Invariants))}
	for i, done := range report.Invariants {
		if done.Name != "" {
			continue // with one before it
		}
		walks := together(inspector, daybook.Invariants[i], o)
		if err := run(ctx, walks, daybook.Inspection{Since: since}); err != nil {
			return report, err
		}
		for n, invariant := range daybook.Invariants {
			if w := walks[invariant.Name]; w != nil {
				report.Invariants[n] = w.result
				report.Violations += w.result.Rows
			}
		}
	}
	noteFound(ctx, book, began.String()+" "+strconv.Itoa(report.Violations))
	if report.Violations > 0 {
		return report, nil
	}
	// False says that another check noted its own: as good as this one's. A
	// book that can't be written is checked all the same; the next check then
	// looks at more.
	if _, err := book.SaveSetting(ctx, daybook.SettingChecked, last, began.String()); err != nil {
		book.Log().Debug("the check isn't noted", "error", err)
	}
	return report, nil
}

// noteFound keeps what a check found, for metrics; another check's may come
// between.
func noteFound(ctx context.Context, book *daybook.Book, found string) {
	was, err := book.Setting(ctx, daybook.SettingFound)
	if err == nil {
		_, err = book.SaveSetting(ctx, daybook.SettingFound, was, found)
	}
	if err != nil {
		book.Log().Debug("what the check found isn't noted", "error", err)
	}
}

func noInspector(book *daybook.Book) error {
	return daybook.Fail(daybook.CodeRefused, "%s can't be checked: its store has no inspector",
		book.Store().Describe())
}

// when reads the book's clock and when the last clean check began.
func when(ctx context.Context, book *daybook.Book) (now daybook.Time, last string, err error) {
	err = book.Store().Read(ctx, "beginning a check", func(v daybook.View) (err error) {
		now = v.Now()
		last, err = v.Setting(ctx, daybook.SettingChecked)
		return err
	})
	return now, last, err
}

// walk is the walk of one invariant.
type walk struct {
	Options
	inspector daybook.Inspector
	invariant daybook.Invariant
	result    Result
	confirmed map[string]bool // rows reported, by Violation.At
}

// together are the walks, by name, that are one with an invariant's, its own too.
func together(inspector daybook.Inspector, invariant daybook.Invariant, o Options) map[string]*walk {
	names := []string{invariant.Name}
	if g, ok := inspector.(daybook.Gatherer); ok {
		names = append(names, g.Together(invariant.Name)...)
	}
	walks := map[string]*walk{}
	for _, i := range daybook.Invariants {
		if slices.Contains(names, i.Name) {
			walks[i.Name] = &walk{Options: o, inspector: inspector, invariant: i,
				result: Result{Name: i.Name, Sentence: i.Sentence}}
		}
	}
	return walks
}

// run walks for all of the walks at once.
func run(ctx context.Context, walks map[string]*walk, in daybook.Inspection) error {
	names := slices.Sorted(maps.Keys(walks))
	first := walks[names[0]]
	in.Invariant, in.Together = first.invariant, len(walks) > 1
	for {
		out, err := first.inspector.Inspect(ctx, in)
		if err != nil {
			return err
		}
		found := map[string][]daybook.Violation{}
		for _, v := range out.Violations {
			found[v.Invariant] = append(found[v.Invariant], v)
		}
		for _, name := range names {
			w := walks[name]
			if err := w.confirm(ctx, found[name]); err != nil {
				return err
			}
			w.result.Walked += out.Walked
			if w.Seen != nil {
				w.Seen(name, w.result.Walked)
			}
		}
		if out.Done {
			return nil
		}
		in.After = out.Next
	}
}

// breath is how long the second look waits: what a reconciler's pass is just
// about to repair, it has repaired by then.
const breath = 300 * time.Millisecond

// confirm looks again at what a chunk found. A row may stand in two chunks, as
// it moved between them, and counts once.
func (w *walk) confirm(ctx context.Context, candidates []daybook.Violation) error {
	again := daybook.Inspection{Invariant: w.invariant}
	seen := map[string]bool{}
	for _, v := range candidates {
		if !w.confirmed[v.At] && !seen[v.At] {
			again.Only = append(again.Only, v.At)
		}
		seen[v.At] = true
	}
	if len(again.Only) == 0 {
		return nil
	}
	if w.confirmed == nil { // once an invariant, not once a chunk
		w.confirmed = map[string]bool{}
		if err := w.breathe(ctx); err != nil {
			return err
		}
	}
	out, err := w.inspector.Inspect(ctx, again)
	if err != nil {
		return err
	}
	for _, v := range out.Violations {
		w.report(v)
	}
	return nil
}

// report counts a row once, whatever is wrong with it.
func (w *walk) report(v daybook.Violation) {
	if !w.confirmed[v.At] {
		w.result.Rows++
		w.confirmed[v.At] = true
	}
	if len(w.result.Found) < foundMax {
		w.result.Found = append(w.result.Found, v)
	}
}

func (w *walk) breathe(ctx context.Context) error {
	if w.hasty {
		return nil
	}
	t := time.NewTimer(breath)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
