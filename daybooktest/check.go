package daybooktest

import (
	"context"
	"slices"
	"testing"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/check"
)

// Check fails the test for every invariant that the book breaks, but for those
// that expected names: they must be broken. New does this at the end of each test.
func Check(t testing.TB, book *daybook.Book, expected ...string) {
	t.Helper()
	// Not the test's context: that has ended when its cleanups run.
	report, err := check.Run(context.Background(), book, check.Options{Full: true})
	if err != nil {
		t.Errorf("checking the book: %v", err)
		return
	}
	for _, r := range report.Invariants {
		if slices.Contains(expected, r.Name) {
			if len(r.Found) == 0 {
				t.Errorf("%s: %s It holds, and the test expects that it doesn't", r.Name, r.Sentence)
			}
			continue
		}
		for _, v := range r.Found {
			t.Errorf("%s: %s Not so for %s: %s", r.Name, r.Sentence, v.Subject, v.Detail)
		}
	}
}
