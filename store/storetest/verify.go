package storetest

import (
	"context"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/check"
)

// verify runs the checker over the whole book and fails the test on what it
// finds.
func verify(ctx context.Context, t tb, book *daybook.Book) {
	t.Helper()
	found, err := violations(ctx, book)
	if err != nil {
		t.Errorf("check: %v", err)
	}
	for _, v := range found {
		t.Errorf("check: %s: %s %s", v.Invariant, v.Subject, v.Detail)
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
