package cutover

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/daybookdev/daybook"
)

// Returned says what a rollback did.
type Returned struct {
	Returned int64    `json:"returned"` // the old system's again
	Kept     int64    `json:"kept"`     // ran here, or were decided here: the book's
	KeptIDs  []string `json:"kept_ids,omitempty"`
	// What stays open in the book, since nobody can tell whether the old system did it
	// or which of two jobs it is: how many, how many of those nobody has decided, and
	// the first of them.
	Open      int64     `json:"open"`
	Undecided int64     `json:"undecided"`
	Opens     []OpenJob `json:"open_jobs,omitempty"`
	// Quiet are old workers that are quiet though their gate is open again.
	Quiet []string `json:"quiet,omitempty"`
}

// Rollback gives every job that moved in and never ran here back to the old
// system, to where it was taken from and in its order, and opens the old gate
// last. It goes on where an earlier call stopped.
func (e *Engine) Rollback(ctx context.Context) (r Returned, err error) {
	c, err := e.Load(ctx)
	if err != nil {
		return r, err
	}
	switch next := c.Phase.Rule().Next; {
	case c.Phase == daybook.PhaseReturned:
		return r, e.staysOpen(ctx, c, &r)
	case c.Phase == daybook.PhaseReturning:
	case slices.Contains(next, daybook.PhaseReturned): // nothing was taken yet
		_, err := e.advance(ctx, daybook.PhaseReturned)
		return r, err
	case !slices.Contains(next, daybook.PhaseReturning): // every job is accounted for
		return r, wrongPhase(c, "rollback", daybook.PhasePlan)
	default:
		if _, err := e.advance(ctx, daybook.PhaseReturning); err != nil {
			return r, err
		}
	}
	switch err := e.old.BeginReturn(ctx, e.name); {
	case daybook.CodeOf(err) == daybook.CodeFenced: // all is back since an earlier call, only the gate may be closed yet
	case err != nil:
		return r, err
	default:
		if err := e.returnAll(ctx, &r); err != nil {
			return r, err
		}
	}
	if err := e.old.EndReturn(ctx, e.name); err != nil { // before old workers may take any
		return r, err
	}
	if err := e.old.OpenGate(ctx); err != nil {
		return r, err
	}
	e.step(GapReopened)
	if c, err = e.advance(ctx, daybook.PhaseReturned); err != nil {
		return r, err
	}
	if err := e.staysOpen(ctx, c, &r); err != nil {
		return r, err
	}
	return r, e.stayQuiet(ctx, &r)
}

// staysOpen tells what a rollback leaves in the book without anybody knowing.
func (e *Engine) staysOpen(ctx context.Context, c daybook.Cutover, r *Returned) error {
	o, err := opensOf(ctx, e.book, c, namedMost, 0)
	r.Open, r.Undecided, r.Opens = o.all, o.undecided, o.named
	return err
}

// stayQuiet tells which old workers an open gate alone doesn't bring back.
func (e *Engine) stayQuiet(ctx context.Context, r *Returned) error {
	g, err := e.old.GateState(ctx)
	for _, w := range g.Claimants {
		if w.Quiet && len(r.Quiet) < namedMost {
			r.Quiet = append(r.Quiet, w.Name)
		}
	}
	return err
}

func (e *Engine) returnAll(ctx context.Context, r *Returned) error {
	if err := e.old.DropCanary(ctx, e.canary()); err != nil { // nobody lays one any more
		return err
	}
	if err := e.returnHeld(ctx, r); err != nil {
		return err
	}
	return e.returnMoved(ctx, r)
}

// returnHeld gives back what lies in the held list: those that became jobs of the
// book go back by its list, and here they are only dropped.
func (e *Engine) returnHeld(ctx context.Context, r *Returned) error {
	for {
		held, err := e.old.Held(ctx, e.o.Batch)
		if err != nil || len(held) == 0 {
			return err
		}
		ids := make([]string, len(held))
		for k, o := range held {
			ids[k] = o.Name()
		}
		items, err := e.book.ItemsOf(ctx, e.name, ids)
		if err != nil {
			return err
		}
		recorded := map[string]bool{}
		for _, i := range items {
			recorded[heldAs(i.ID, i.Hash, i.Nth)] = !i.Job.IsZero()
		}
		for _, o := range slices.Backward(held) {
			if !recorded[heldAs(o.Name(), o.Hash(), o.Nth)] {
				if _, err := e.old.Return(ctx, o); err != nil {
					return err
				}
				r.Returned++
			}
			e.step(GapReturned)
			if err := e.old.Drop(ctx, []daybook.OldJob{o}); err != nil {
				return err
			}
		}
	}
}

func heldAs(id, hash string, nth int64) string { return fmt.Sprint(id, " ", hash, " ", nth) }

func (e *Engine) returnMoved(ctx context.Context, r *Returned) error {
	for {
		going, kept, err := e.book.ReturnOld(ctx, e.name, e.o.Batch, e.o.By)
		if err != nil || len(going)+len(kept) == 0 {
			return err
		}
		for _, i := range kept {
			if r.Kept++; len(r.KeptIDs) < namedMost {
				r.KeptIDs = append(r.KeptIDs, i.ID+" → job "+i.Job.String())
			}
		}
		e.step(GapMarked)
		for _, i := range going {
			if _, err := e.old.Return(ctx, *i.Old); err != nil {
				return err
			}
		}
		e.step(GapReturned)
		if err := e.book.Returned(ctx, e.name, going); err != nil {
			return err
		}
		r.Returned += int64(len(going))
		e.report("jobs given back", r.Returned, 0)
	}
}

// stillLies refuses, and names where jobs of the old queue lie.
func (e *Engine) stillLies(ctx context.Context) error {
	left, err := e.old.Left(ctx)
	if err != nil {
		return err
	}
	var places []string
	for _, place := range slices.Sorted(maps.Keys(left)) {
		if left[place] > 0 {
			places = append(places, fmt.Sprintf("%d in %s", left[place], place))
		}
	}
	if len(places) == 0 {
		return nil
	}
	return daybook.Fail(daybook.CodeRefused, "the old queue isn't empty: %s; cutover inventory tells more of them",
		strings.Join(places, ", "))
}

// Retire ends the cutover when the old queue has been empty for as long as quiet,
// which must be longer than the longest timeout of the old system; before that it
// answers how long is left. It takes away what the cutover left there.
func (e *Engine) Retire(ctx context.Context, quiet time.Duration) (left time.Duration, err error) {
	c, err := e.taking(ctx, "retire", daybook.PhaseReconcile, daybook.PhaseRetire)
	if err != nil {
		return 0, err
	}
	if c.Phase == daybook.PhaseReconcile {
		b, err := e.Reconcile(ctx)
		if err != nil {
			return 0, err
		}
		if !b.Balanced {
			return 0, daybook.Fail(daybook.CodeRefused, "cutover %s doesn't balance: %d still there, %d wrong; cutover "+
				"reconcile names them", c.Name, b.Still, len(b.Wrong))
		}
		if c, err = e.advance(ctx, daybook.PhaseRetire); err != nil {
			return 0, err
		}
	}
	if _, err := e.watchOnce(ctx, c); err != nil {
		return 0, err
	}
	if c, err = e.Load(ctx); err != nil {
		return 0, err
	}
	n, err := NotesOf(c)
	if err != nil {
		return 0, err
	}
	if n.EmptyFrom == 0 {
		return quiet, e.stillLies(ctx)
	}
	if left = quiet - time.Since(n.EmptyFrom.Std()); left > 0 {
		return left, nil
	}
	if err := e.old.Forget(ctx); err != nil {
		return 0, err
	}
	_, err = e.advance(ctx, daybook.PhaseRetired)
	return 0, err
}
