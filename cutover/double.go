package cutover

import (
	"context"

	"github.com/daybookdev/daybook"
)

// early refuses the gate of a cutover whose producers write to both systems when
// one of them began before it: an old worker does such a job over there, and the
// book would do its copy once more. Jobs that producers wrote here alone are none
// of that, but with this intake there are none: the plan says that up to the gate
// new jobs enter the old queue alone.
func (e *Engine) early(ctx context.Context, c daybook.Cutover, p Plan) error {
	if p.Intake != IntakeDouble || c.Phase != daybook.PhaseShadow && c.Phase != daybook.PhaseGate {
		return nil
	}
	n, first, err := e.writtenEarly(ctx, c)
	if err != nil || n == 0 {
		return err
	}
	return daybook.Fail(daybook.CodeRefused, "%d jobs were written to queue %s before the gate, such as %s, and with "+
		"--intake double old workers do their copies: have producers write to the old queue alone until the gate is "+
		"proved, cancel these here (job cancel --queue %s --state waiting), and run cutover gate again", n, c.Queue,
		first, c.Queue)
}

// writtenEarly counts the jobs that wait here from before the gate.
func (e *Engine) writtenEarly(ctx context.Context, c daybook.Cutover) (n int64, first daybook.ID, err error) {
	gate := c.EnteredAt(daybook.PhaseGate)
	f := daybook.Filter{Queue: c.Queue, State: daybook.Waiting, Brief: true, Limit: daybook.ListMax}
	for {
		page, err := e.book.Jobs(ctx, f)
		if err != nil {
			return n, first, err
		}
		for _, j := range page.Items {
			if j.Origin == nil && (gate == 0 || j.EnqueuedAt < gate) {
				n, first = n+1, j.ID
			}
		}
		if f.Cursor = page.Cursor; f.Cursor == "" {
			return n, first, nil
		}
	}
}
