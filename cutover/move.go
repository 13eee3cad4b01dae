package cutover

import (
	"context"

	"github.com/daybookdev/daybook"
)

// Swept says what a sweep did.
type Swept struct {
	Taken int64 `json:"taken"` // became jobs of the book
	Known int64 `json:"known"` // were jobs of the book already
	Asked int64 `json:"asked"` // same id, another body: held for a person
	Aside int64 `json:"aside"` // carried over as set aside: dead, or not readable
	// Of a watch: how many jobs old workers took though the book may claim, and in
	// how many looks the old gate was open. It was closed again each time.
	Leaked int64 `json:"leaked,omitempty"`
	Opened int64 `json:"gate_opened,omitempty"`
}

func (s *Swept) add(t Swept) {
	s.Taken, s.Known, s.Asked, s.Aside = s.Taken+t.Taken, s.Known+t.Known, s.Asked+t.Asked, s.Aside+t.Aside
	s.Leaked, s.Opened = s.Leaked+t.Leaked, s.Opened+t.Opened
}

// Move takes out every job that nobody works on, until none is left, and records
// each here as held. Each step leaves a job in one place, or in both with the
// same origin, which the next step recognises.
func (e *Engine) Move(ctx context.Context) (Swept, error) {
	c, err := e.taking(ctx, "move", daybook.PhaseGate, daybook.PhaseMove, daybook.PhaseSettle)
	if err != nil {
		return Swept{}, err
	}
	if err := e.stillClosed(ctx, c); err != nil {
		return Swept{}, err
	}
	if c.Phase == daybook.PhaseGate {
		if _, err := e.Inventory(ctx); err != nil { // what there is, before the first is taken
			return Swept{}, err
		}
		if c, err = e.advance(ctx, daybook.PhaseMove); err != nil {
			return Swept{}, err
		}
	}
	return e.sweep(ctx, c)
}

// sweep takes what there is, first what a dead mover left in the held list.
func (e *Engine) sweep(ctx context.Context, c daybook.Cutover) (total Swept, err error) {
	for {
		held, err := e.old.Held(ctx, e.o.Batch)
		if err != nil {
			return total, err
		}
		if len(held) == 0 {
			if held, err = e.old.Take(ctx, e.o.Batch); err != nil || len(held) == 0 {
				return total, err
			}
			e.step(GapTaken)
		}
		done, err := e.record(ctx, c, held)
		if err != nil {
			return total, err
		}
		total.add(done)
		e.report("jobs moved", total.Taken+total.Known, 0)
	}
}

// record makes jobs of the held list the book's and drops them there.
func (e *Engine) record(ctx context.Context, c daybook.Cutover, held []daybook.OldJob) (s Swept, err error) {
	p, err := PlanOf(c)
	if err != nil {
		return s, err
	}
	arriving := make([]daybook.Arriving, len(held))
	for i, o := range held {
		arriving[i] = e.arrive(c, p, o)
	}
	arrived, err := e.book.ImportOld(ctx, e.name, arriving)
	if err != nil {
		return s, err
	}
	e.step(GapImported)
	for i, a := range arrived {
		switch {
		case !a.Taken:
			s.Known++
			continue
		case a.Item.Asked:
			s.Asked++
		case arriving[i].Aside != "":
			s.Aside++
		}
		s.Taken++
	}
	if err := e.old.Drop(ctx, held); err != nil {
		return s, err
	}
	e.step(GapDropped)
	return s, nil
}
