package drill

import (
	"context"
	"errors"
	"time"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/cutover"
	"github.com/daybookdev/daybook/cutover/asynq"
)

// The steps of a cutover, as the command line calls them.
const (
	stepGate     = "gate"
	stepMove     = "move"
	stepSettle   = "settle"
	stepRun      = "run"
	stepWatch    = "watch"
	stepRollback = "rollback"
)

const (
	// moverBatch is how many jobs a mover takes at once: fewer than there are, so
	// that a fault leaves some on either side.
	moverBatch = 3
	// moverSample is how often it looks.
	moverSample = 200 * time.Millisecond
)

// engineAt makes the engine of a cutover, and its source, which the caller closes.
func engineAt(book *daybook.Book, at oldPlace, fault planted, step func(gap string)) (*cutover.Engine, cutover.Old,
	error) {
	old, err := asynq.Open(asynq.Options{URL: at.URL, Queue: at.Queue})
	if err != nil {
		return nil, nil, err
	}
	moves := cutover.Old(old)
	if fault == careless {
		moves = forgetsHeld{old}
	}
	return cutover.New(book, moves, at.Cutover, cutover.Options{Batch: moverBatch, Sample: moverSample, By: person,
		Step: step}), old, nil
}

// forgetsHeld is a source that a drill must find out about: what a dead mover held
// is lost.
type forgetsHeld struct{ cutover.Old }

// Held drops all that it should list.
func (f forgetsHeld) Held(ctx context.Context, n int) ([]daybook.OldJob, error) {
	held, err := f.Old.Held(ctx, n)
	if err != nil {
		return nil, err
	}
	return nil, f.Old.Drop(ctx, held)
}

// carry takes one step.
func carry(ctx context.Context, e *cutover.Engine, verb string) (err error) {
	switch verb {
	case stepGate:
		_, err = e.Gate(ctx, patience)
	case stepMove:
		_, err = e.Move(ctx)
	case stepSettle:
		_, err = e.Settle(ctx)
	case stepRun:
		_, err = e.Run(ctx)
	case stepWatch:
		_, err = e.Watch(ctx, 0)
	case stepRollback:
		_, err = e.Rollback(ctx)
	}
	return err
}

// mover is a process that takes the steps it is told to, and stands still between
// two hands of one when it is armed to.
func (c *child) mover(book *daybook.Book) (live func(context.Context) error, err error) {
	e, old, err := engineAt(book, c.Old, c.Fault, func(gap string) { c.gate.reached(gap, daybook.ID{}) })
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		for {
			select {
			case <-ctx.Done():
				return old.Close()
			case verb := <-c.moves:
				m := moved{Verb: verb}
				if err := carry(ctx, e, verb); err != nil {
					m.Code, m.Text = daybook.CodeOf(err), err.Error()
				}
				if err := c.out.Write(report{Moved: &m}); err != nil {
					return errors.Join(err, old.Close())
				}
			}
		}
	}, nil
}
