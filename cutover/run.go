package cutover

import (
	"context"
	"time"

	"github.com/daybookdev/daybook"
)

// Ran says what Run let go.
type Ran struct {
	Settled  Settled `json:"settled"`
	Released int64   `json:"released"`
}

// Run lets the book claim: its queue opens, and the holds of the moved jobs are
// released. It refuses while a job is still with an old worker.
func (e *Engine) Run(ctx context.Context) (Ran, error) {
	c, err := e.in(ctx, "run", daybook.PhaseSettle, daybook.PhaseRun)
	if err != nil {
		return Ran{}, err
	}
	var r Ran
	if c.Phase == daybook.PhaseSettle {
		if err := e.stillClosed(ctx, c); err != nil {
			return r, err
		}
		page, err := e.book.Items(ctx, daybook.ItemFilter{Cutover: e.name, Term: daybook.TermStill, Limit: 1})
		if err != nil {
			return r, err
		}
		if len(page.Items) > 0 {
			return r, daybook.Fail(daybook.CodeRefused, "job %s is still with the old system (%s); run cutover settle until "+
				"it ends", page.Items[0].ID, page.Items[0].Last)
		}
		if c, err = e.advance(ctx, daybook.PhaseRun); err != nil {
			return r, err
		}
		e.step(GapOpened)
	}
	r.Released, err = e.release(ctx, c)
	return r, err
}

// release lets the held jobs go, those that a person is asked about not.
func (e *Engine) release(ctx context.Context, c daybook.Cutover) (int64, error) {
	answer, err := e.book.Decide(ctx, daybook.Bulk{Move: daybook.MoveUnhold, By: e.o.By,
		Filter: daybook.Filter{Queue: c.Queue, HeldBy: c.Holder()},
		Seen:   func(n int64) { e.report("jobs released", n, 0) }})
	return answer.Done, err
}

// Watch looks for late arrivals until ctx ends or d has passed (0 looks once):
// what old producers and old workers still put into the old queue is recognised by
// its id, or moved in once. It keeps the old gate closed, measures the plan's
// conditions, and one that is declared to fire begins the rollback.
func (e *Engine) Watch(ctx context.Context, d time.Duration) (Swept, error) {
	var total Swept
	until := time.Now().Add(d)
	for {
		c, err := e.taking(ctx, "watch", daybook.PhaseRun, daybook.PhaseReconcile, daybook.PhaseRetire)
		if err != nil {
			return total, err
		}
		swept, err := e.watchOnce(ctx, c)
		total.add(swept)
		if err != nil {
			return total, err
		}
		e.report("late arrivals", total.Taken+total.Known, 0)
		if !time.Now().Before(until) || !wait(ctx, min(e.o.Sample, time.Until(until))) {
			return total, nil
		}
	}
}

func (e *Engine) watchOnce(ctx context.Context, c daybook.Cutover) (Swept, error) {
	swept, err := e.keepClosed(ctx, c)
	if err != nil {
		return swept, err
	}
	late, err := e.sweep(ctx, c)
	swept.add(late)
	if err != nil {
		return swept, err
	}
	if _, err := e.release(ctx, c); err != nil { // what a crash left held
		return swept, err
	}
	if err := e.hear(ctx); err != nil {
		return swept, err
	}
	left, err := e.old.Left(ctx)
	if err != nil {
		return swept, err
	}
	if c, err = e.note(ctx, func(n *Notes) {
		n.Late += swept.Taken + swept.Known
		empty := swept.Taken+swept.Known+swept.Leaked+swept.Opened == 0
		for _, jobs := range left {
			empty = empty && jobs == 0
		}
		switch {
		case !empty:
			n.EmptyFrom = 0
		case n.EmptyFrom == 0:
			n.EmptyFrom = daybook.At(time.Now())
		}
	}); err != nil || c.Phase == daybook.PhaseRetire {
		return swept, err
	}
	return swept, e.fire(ctx, c)
}

// LateReport is what an item says whose job was given up as lost, or is asked
// about, when the old system keeps a record that it was done after all.
const LateReport = "its old worker reported it done, after it was given up"

// hear notes late reports of old workers, for the person who decides about their
// jobs. Each is counted once. Systems that keep no record of what is done, or
// refuse such a report, stay silent.
func (e *Engine) hear(ctx context.Context) error {
	f := daybook.ItemFilter{Cutover: e.name, Term: daybook.TermOpen, Limit: e.o.Batch}
	for {
		page, err := e.book.Items(ctx, f)
		if err != nil {
			return err
		}
		ids := make([]string, len(page.Items))
		for k, i := range page.Items {
			ids[k] = i.ID
		}
		found := map[string]daybook.OldJob{}
		if len(ids) > 0 {
			if found, err = e.old.Find(ctx, ids); err != nil {
				return err
			}
		}
		var heard []daybook.Item
		for _, i := range page.Items {
			if among(i, found).State == daybook.OldDone {
				heard = append(heard, i)
			}
		}
		if len(heard) > 0 {
			if err := e.book.HearOld(ctx, e.name, heard, LateReport); err != nil {
				return err
			}
		}
		if f.Cursor = page.Cursor; f.Cursor == "" {
			return nil
		}
	}
}

// fire begins the rollback that a condition asks for.
func (e *Engine) fire(ctx context.Context, c daybook.Cutover) error {
	b, err := e.Board(ctx)
	if err != nil {
		return err
	}
	for _, g := range b.Gauges {
		if !g.Met || !g.Fires {
			continue
		}
		if _, err := e.note(ctx, func(n *Notes) { n.Fired = g.Condition.String() }); err != nil {
			return err
		}
		by := e.o.By
		by.Reason = "condition met: " + g.Measure
		if _, err := e.book.AdvanceCutover(ctx, e.name, daybook.PhaseReturning, by); err != nil {
			return err
		}
		return daybook.Fail(daybook.CodeRefused, "%s is %d, above %d: the rollback of cutover %s began; cutover rollback "+
			"ends it", g.Measure, g.Now, g.Above, c.Name)
	}
	return nil
}
