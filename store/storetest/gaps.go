package storetest

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/daybookdev/daybook"
)

// witness looks at the book from another process whenever this one stands in a
// gap or rings.
type witness struct {
	w     *world // the other process
	t     *testing.T
	seen  map[string]daybook.State // by gap: how the job stood for others
	rings []string
	last  daybook.ID
}

// state is how others see a job, "" when they don't.
func (x *witness) state(id daybook.ID) daybook.State {
	j, err := x.w.book.Job(context.Background(), id)
	if err != nil && daybook.CodeOf(err) != daybook.CodeNotFound {
		x.t.Errorf("witness: %v", err)
	}
	return j.State
}

func (x *witness) hook(gap string, job daybook.ID) {
	x.last = job
	x.seen[gap] = x.state(job)
}

// Ring is the bell: what it announces must be visible by then.
func (x *witness) Ring(_ context.Context, queue string) {
	x.rings = append(x.rings, queue)
	if !x.last.IsZero() && x.state(x.last) == "" {
		x.t.Errorf("queue %s rang before its job was committed", queue)
	}
}

func (x *witness) Listen(context.Context, []string) (<-chan daybook.Heard, error) { return nil, nil }
func (x *witness) Close() error                                                   { return nil }

// nothingBeforeCommit: no handler may start, and no ring go out, before the
// commit behind it is known. It looks from another process at each gap.
func nothingBeforeCommit(t *testing.T, open opener) {
	path := filepath.Join(t.TempDir(), "book.db")
	x := &witness{t: t, seen: map[string]daybook.State{}}
	x.w = newWorld(t, open, Options{Path: path})
	w := newWorld(t, open, Options{Path: path, Hook: x.hook, Bell: x})
	id := w.enqueue(daybook.Request{})
	same(w, "before the commit", x.seen[daybook.GapAccept], "")
	same(w, "after the commit", x.seen[daybook.GapPublish], daybook.Waiting)
	same(w, "rings of the enqueue", len(x.rings), 1)
	j := w.claimed(w.session("w"))
	same(w, "when the claim is answered", x.seen[daybook.GapGrant], daybook.Running)
	_, err := w.book.Release(w.ctx, id, owner(j), 0)
	w.ok(err)
	same(w, "rings of the release", len(x.rings), 2)
	w.complete(w.claimed(w.session("w")))
	same(w, "rings of the completion", len(x.rings), 2)
	same(w, "the queue that rang", x.rings[1], "q")
}
