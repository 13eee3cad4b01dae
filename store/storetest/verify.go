package storetest

import (
	"context"

	"github.com/daybookdev/daybook"
)

// verify runs the checker over the whole book and fails the test on what it
// finds.
func verify(t tb, ctx context.Context, book *daybook.Book) {
	t.Helper()
	found, err := violations(ctx, book)
	if err != nil {
		t.Errorf("check: %v", err)
	}
	for _, v := range found {
		t.Errorf("check: %s: %s %s", v.Invariant, v.Subject, v.Detail)
	}
}

// violations is a local seam until package check is there.
func violations(ctx context.Context, book *daybook.Book) (found []daybook.Violation, err error) {
	inspector, ok := book.Store().(daybook.Inspector)
	if !ok {
		return nil, daybook.Fail(daybook.CodeInternal, "the store can't check itself: it is no Inspector")
	}
	for _, invariant := range daybook.Invariants {
		in := daybook.Inspection{Invariant: invariant, Chunk: 10_000}
		for {
			out, err := inspector.Inspect(ctx, in)
			if err != nil {
				return nil, err
			}
			found = append(found, out.Violations...)
			if out.Done {
				break
			}
			in.After = out.Next
		}
	}
	return found, nil
}
