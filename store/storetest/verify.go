package storetest

import (
	"context"
	"slices"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/check"
)

// verify runs the checker over the whole book and fails the test on what it
// finds, and when one of the expected invariants isn't broken.
func verify(ctx context.Context, t tb, book *daybook.Book, expected ...string) {
	t.Helper()
	found, err := violations(ctx, book)
	if err != nil {
		t.Errorf("check: %v", err)
	}
	broken := map[string]bool{}
	for _, v := range found {
		if broken[v.Invariant] = true; !slices.Contains(expected, v.Invariant) {
			t.Errorf("check: %s: %s %s", v.Invariant, v.Subject, v.Detail)
		}
	}
	for _, name := range expected {
		if !broken[name] {
			t.Errorf("check: %s holds, and the test expects that it doesn't", name)
		}
	}
}

// violations lists what the checker finds in the whole book.
func violations(ctx context.Context, book *daybook.Book) (found []daybook.Violation, err error) {
	report, err := check.Run(ctx, book, check.Options{Full: true})
	for _, r := range report.Invariants {
		found = append(found, r.Found...)
	}
	if err == nil && report.Violations > 0 && len(found) == 0 {
		err = daybook.Fail(daybook.CodeInternal, "the checker counts %d violations and names none",
			report.Violations)
	}
	return found, err
}
