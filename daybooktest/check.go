package daybooktest

import (
	"context"
	"testing"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/check"
)

// Check fails the test for every invariant that the book breaks. New does this
// at the end of each test.
func Check(t testing.TB, book *daybook.Book) {
	t.Helper()
	// Not the test's context: that has ended when its cleanups run.
	report, err := check.Run(context.Background(), book, check.Options{Full: true})
	if err != nil {
		t.Errorf("checking the book: %v", err)
		return
	}
	for _, r := range report.Invariants {
		for _, v := range r.Found {
			t.Errorf("%s: %s Not so for %s: %s", r.Name, r.Sentence, v.Subject, v.Detail)
		}
	}
}
