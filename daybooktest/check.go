package daybooktest

import (
	"context"
	"testing"

	"github.com/daybookdev/daybook"
)

// chunk is how many rows one look of a check walks.
const chunk = 1000

// Check fails the test for every invariant that the book breaks. New does this
// at the end of each test.
func Check(t testing.TB, book *daybook.Book) {
	t.Helper()
	inspector, ok := book.Store().(daybook.Inspector)
	if !ok {
		t.Errorf("the store %s can't check itself", book.Store().Describe())
		return
	}
	for _, invariant := range daybook.Invariants {
		in := daybook.Inspection{Invariant: invariant, Chunk: chunk}
		for done := false; !done; {
			seen, err := inspector.Inspect(context.Background(), in)
			if err != nil {
				t.Errorf("checking %s: %v", invariant.Name, err)
				break
			}
			for _, v := range seen.Violations {
				t.Errorf("%s: %s (%s) %s", v.Invariant, invariant.Sentence, v.Subject, v.Detail)
			}
			in.After, done = seen.Next, seen.Done
		}
	}
}
