package cutover

import (
	"context"
	"fmt"
	"slices"

	"github.com/daybookdev/daybook"
)

// Balance accounts for every job that was seen: by id, each in exactly one term.
type Balance struct {
	Seen     int64       `json:"seen"`    // before the gate
	Arrived  int64       `json:"arrived"` // after it
	Moved    int64       `json:"moved"`
	Finished int64       `json:"finished"` // in the old system
	Inferred int64       `json:"inferred"` // of those: no record of it, only gone from a living owner
	Dead     int64       `json:"dead"`     // carried over
	Open     int64       `json:"open"`     // a person decides, or did
	Returned int64       `json:"returned"`
	Kept     int64       `json:"kept"`  // the book's, when a rollback came
	Again    int64       `json:"again"` // duplicates that were recognised and refused, of jobs counted above
	Still    int64       `json:"still"` // with the old system
	Balanced bool        `json:"balanced"`
	Wrong    []Misplaced `json:"wrong,omitempty"`
	// Of the open ones: how many nobody has decided yet, and the first of all.
	Undecided int64     `json:"undecided"`
	Opens     []OpenJob `json:"open_jobs,omitempty"`
}

// Misplaced is one job that isn't where it should be.
type Misplaced struct {
	ID   string `json:"id"`
	What string `json:"what"`
}

// BalanceOf adds up a cutover's items.
func BalanceOf(counts []daybook.ItemCount) Balance {
	var b Balance
	for _, c := range counts {
		if c.Arrived {
			b.Arrived += c.Items
		} else {
			b.Seen += c.Items
		}
		b.Again += c.Again
		if c.Term == daybook.TermFinished && c.Last != daybook.OldDone {
			b.Inferred += c.Items
		}
		into := map[daybook.Term]*int64{daybook.TermMoved: &b.Moved, daybook.TermFinished: &b.Finished,
			daybook.TermDead: &b.Dead, daybook.TermOpen: &b.Open, daybook.TermReturned: &b.Returned, daybook.TermKept: &b.Kept}
		if n := into[c.Term]; n != nil {
			*n += c.Items
		} else {
			b.Still += c.Items // still there, or on its way back
		}
	}
	return b
}

// Reconcile compares what was seen with what is, by id: the old store is swept
// and read once more, and each job must be in exactly one place. It balances when
// nothing is left over there and nothing is in two places.
func (e *Engine) Reconcile(ctx context.Context) (Balance, error) {
	c, err := e.in(ctx, "reconcile", daybook.PhaseRun, daybook.PhaseReconcile, daybook.PhaseRetire)
	if err != nil {
		return Balance{}, err
	}
	if c.Phase == daybook.PhaseRun {
		if c, err = e.advance(ctx, daybook.PhaseReconcile); err != nil {
			return Balance{}, err
		}
	}
	wrong, err := e.sweptAndWrong(ctx, c)
	if err != nil {
		return Balance{}, err
	}
	counts, err := e.book.ItemCounts(ctx, e.name)
	if err != nil {
		return Balance{}, err
	}
	b := BalanceOf(counts)
	b.Wrong = append(wrong, e.stillThere(ctx)...)
	o, err := opensOf(ctx, e.book, c, namedMost, 0)
	b.Undecided, b.Opens = o.undecided, o.named
	b.Balanced = b.Still == 0 && len(b.Wrong) == 0 &&
		b.Seen+b.Arrived == b.Moved+b.Finished+b.Dead+b.Open+b.Returned+b.Kept
	return b, err
}

// sweptAndWrong sweeps, and looks for what isn't where it should be. What a producer
// puts there between the two looks wrong, and isn't: only what looks so twice, with
// a sweep between, is.
func (e *Engine) sweptAndWrong(ctx context.Context, c daybook.Cutover) (wrong []Misplaced, err error) {
	for look := range 2 {
		if _, err := e.watchOnce(ctx, c); err != nil {
			return nil, err
		}
		now, err := e.inTwoPlaces(ctx)
		if err != nil || len(now) == 0 {
			return nil, err
		}
		if look > 0 && len(wrong) < namedMost {
			now = slices.DeleteFunc(now, func(m Misplaced) bool {
				return !slices.ContainsFunc(wrong, func(w Misplaced) bool { return w.ID == m.ID })
			})
		}
		wrong = now
	}
	return wrong, nil
}

// inTwoPlaces reads the old store once more: what is there and is accounted for
// elsewhere is in two places, and what is there and unknown was missed.
func (e *Engine) inTwoPlaces(ctx context.Context) (wrong []Misplaced, err error) {
	var batch []daybook.OldJob
	look := func() error {
		ids := make([]string, len(batch))
		for k, o := range batch {
			ids[k] = o.Name()
		}
		items, err := e.book.ItemsOf(ctx, e.name, ids)
		known := map[string]daybook.Item{}
		for _, i := range items {
			known[i.ID+" "+i.Hash] = i
		}
		for _, o := range batch {
			i, ok := known[o.Name()+" "+o.Hash()]
			switch {
			case len(wrong) >= namedMost:
			case o.Foreign:
				wrong = append(wrong, Misplaced{o.Name(), fmt.Sprintf("is %s in the old system and can't be read, so nobody "+
					"knows whose it is: look at it there, and take it away", o.State)})
			case !ok:
				wrong = append(wrong, Misplaced{o.Name(), fmt.Sprintf("is %s in the old system and in no list", o.State)})
			case i.Term != daybook.TermStill:
				wrong = append(wrong, Misplaced{o.Name(), fmt.Sprintf("is %s here and %s in the old system", i.Term, o.State)})
			}
		}
		batch = batch[:0]
		return err
	}
	_, err = e.old.Scan(ctx, 0, func(o daybook.OldJob) error {
		if o.State == daybook.OldGone || o.State == daybook.OldDone {
			return nil
		}
		if batch = append(batch, o); len(batch) < e.o.Batch {
			return nil
		}
		return look()
	})
	if err == nil {
		err = look()
	}
	return wrong, err
}

func (e *Engine) stillThere(ctx context.Context) (wrong []Misplaced) {
	for _, t := range []daybook.Term{daybook.TermStill, daybook.TermReturning} {
		page, err := e.book.Items(ctx, daybook.ItemFilter{Cutover: e.name, Term: t, Limit: namedMost})
		if err != nil {
			return append(wrong, Misplaced{"", "the list can't be read: " + err.Error()})
		}
		for _, i := range page.Items {
			wrong = append(wrong, Misplaced{i.ID, fmt.Sprintf("is %s; last seen %s at %s", t, i.Last, i.SeenAt)})
		}
	}
	return wrong
}
