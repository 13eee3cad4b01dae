package check

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/daybookdev/daybook"
)

// Opener makes a fresh book, best in memory.
type Opener func() (*daybook.Book, error)

// Breaker puts one row of a scratch book against an invariant, past the guards
// of its store; see sqlite.Break.
type Breaker func(ctx context.Context, book *daybook.Book, invariant string) error

// Selftest checks the checker: for each invariant it opens a scratch book with
// jobs in every state, finds it as it should be, has breakIt put one row
// against that invariant, and looks whether the check fires. The books are
// closed again. A table goes to w. The error names the invariants that didn't
// fire, or what a scratch book broke before it was broken.
func Selftest(ctx context.Context, open Opener, breakIt Breaker, w io.Writer) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "\tINVARIANT\tROWS\tFIRED TOO")
	var silent []string
	for _, invariant := range daybook.Invariants {
		rows, others, err := breakOne(ctx, open, breakIt, invariant.Name)
		if err != nil {
			return err
		}
		mark := "ok"
		if rows == 0 {
			mark = "SILENT"
			silent = append(silent, invariant.Name)
		}
		fmt.Fprintf(table, "%s\t%s\t%d\t%s\n", mark, invariant.Name, rows, strings.Join(others, ", "))
	}
	if err := table.Flush(); err != nil {
		return &daybook.Error{Code: daybook.CodeInternal, Text: "the table could not be written", Err: err}
	}
	if len(silent) > 0 {
		return daybook.Fail(daybook.CodeInternal, "%d of %d invariants didn't fire on a book that breaks them: %s",
			len(silent), len(daybook.Invariants), strings.Join(silent, ", "))
	}
	return nil
}

// breakOne says how many rows the check found against the invariant that was
// broken, and what else it found.
func breakOne(ctx context.Context, open Opener, breakIt Breaker, name string) (
	rows int, others []string, err error) {
	book, err := open()
	if err != nil {
		return 0, nil, err
	}
	defer book.Close()
	if err := Fill(ctx, book); err != nil {
		return 0, nil, err
	}
	before, err := Run(ctx, book, Options{Full: true, hasty: true})
	if err != nil {
		return 0, nil, err
	}
	if before.Violations > 0 {
		return 0, nil, daybook.Fail(daybook.CodeInternal, "a healthy scratch book has %d violations: %s",
			before.Violations, first(before))
	}
	if err := breakIt(ctx, book, name); err != nil {
		return 0, nil, err
	}
	after, err := Run(ctx, book, Options{Full: true, hasty: true})
	for _, r := range after.Invariants {
		switch {
		case r.Name == name:
			rows = r.Rows
		case r.Rows > 0:
			others = append(others, r.Name)
		}
	}
	return rows, others, err
}

func first(r Report) string {
	for _, i := range r.Invariants {
		for _, v := range i.Found {
			return v.Invariant + ": " + v.Subject + " " + v.Detail
		}
	}
	return ""
}
