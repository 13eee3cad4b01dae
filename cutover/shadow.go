package cutover

import (
	"context"
	"time"

	"github.com/daybookdev/daybook"
)

// looksShare bounds whole inventories to that part of the time of a shadow.
const looksShare = 20

// Shadow watches the old system until ctx ends or d has passed: a whole
// inventory at the beginning, at the end and now and then, which tells by when a
// job had gone, and the running jobs every sample in between, since some systems
// forget them when their worker dies.
func (e *Engine) Shadow(ctx context.Context, d time.Duration) (Shadowed, error) {
	c, err := e.in(ctx, "shadow", daybook.PhasePlan, daybook.PhaseShadow)
	if err != nil {
		return Shadowed{}, err
	}
	if c.Phase == daybook.PhasePlan {
		if c, err = e.advance(ctx, daybook.PhaseShadow); err != nil {
			return Shadowed{}, err
		}
	}
	if _, err := e.sample(ctx, c); err != nil { // who died before the first look hadn't what that finds
		return Shadowed{}, err
	}
	next, err := e.lookWhole(ctx)
	if err != nil {
		return Shadowed{}, err
	}
	until := time.Now().Add(d)
	for rest := d; rest > 0 && wait(ctx, min(rest, e.o.Sample)); rest = time.Until(until) {
		died, err := e.sample(ctx, c)
		if err == nil && (died || time.Now().After(next)) { // what lies there yet wasn't in the dead one's hands
			next, err = e.lookWhole(ctx)
		}
		if err != nil && ctx.Err() == nil {
			return Shadowed{}, err
		}
		e.report("seconds watched", int64((d-rest)/time.Second), int64(d/time.Second))
	}
	if ctx.Err() == nil {
		if _, err := e.lookWhole(ctx); err != nil {
			return Shadowed{}, err
		}
	}
	return e.Compare(context.WithoutCancel(ctx))
}

// lookWhole takes an inventory, and answers when the next may be.
func (e *Engine) lookWhole(ctx context.Context) (next time.Time, err error) {
	began := time.Now()
	_, err = e.Inventory(ctx)
	return time.Now().Add(looksShare * time.Since(began)), err
}

// sample notes the jobs that workers have in hand, and reports whether workers
// were found, which weren't before, that are gone without a farewell.
func (e *Engine) sample(ctx context.Context, c daybook.Cutover) (died bool, err error) {
	began, err := e.book.Clock(ctx)
	if err != nil {
		return false, err
	}
	owned, err := e.old.Owned(ctx)
	if err != nil {
		return false, err
	}
	see := e.seeing(ctx, c, began)
	lost := map[string]daybook.OldJob{} // by owner
	for _, o := range owned {
		if o.State == daybook.OldOwnerLost {
			lost[o.Owner] = o
		}
		if err := see.add(o); err != nil {
			return false, err
		}
	}
	if err := see.flush(); err != nil {
		return false, err
	}
	return e.noteDeaths(ctx, began, lost)
}

// gateState is the gate's, with the old store's time.
func (e *Engine) gateState(ctx context.Context) (g GateState, now daybook.Time, err error) {
	if g, err = e.old.GateState(ctx); err == nil {
		now, err = e.old.Now(ctx)
	}
	return g, now, err
}

// Shadowed compares what was seen coming into the old system with what that did
// with it. It is outside every count of the book.
type Shadowed struct {
	Seen    int64            `json:"seen"`
	Waits   int64            `json:"waits"`   // nothing to compare yet
	Agreed  int64            `json:"agreed"`  // ran there, as it would have here
	Differ  int64            `json:"differ"`  // ran there and failed, or came back
	How     map[string]int64 `json:"how"`     // the ways in which they differ
	Missing int64            `json:"missing"` // nowhere, and no trace how it ended
}

// Compare reads what the shadow saw.
func (e *Engine) Compare(ctx context.Context) (Shadowed, error) {
	counts, err := e.book.ItemCounts(ctx, e.name)
	return compare(counts), err
}

func compare(counts []daybook.ItemCount) Shadowed {
	s := Shadowed{How: map[string]int64{}}
	for _, c := range counts {
		s.Seen += c.Items
		switch {
		case c.Last == daybook.OldDone || c.Term == daybook.TermFinished:
			s.Agreed += c.Items
		case c.Last == daybook.OldDead && c.First != daybook.OldDead:
			s.Differ += c.Items
			s.How["failed for good"] += c.Items
		case c.Last == daybook.OldRetrying && c.First != daybook.OldRetrying:
			s.Differ += c.Items
			s.How["failed and is to be tried again"] += c.Items
		case c.Last == daybook.OldOwnerLost || c.Missed:
			s.Missing += c.Items
		default:
			s.Waits += c.Items
		}
	}
	return s
}
