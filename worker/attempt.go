package worker

import (
	"context"
	"encoding/json"
	"sync/atomic"
	"time"

	"github.com/daybookdev/daybook"
)

// place is where a claim stands inside the worker.
type place int

const (
	placeQueued   place = iota // waits for a slot
	placeRunning               // has a slot
	placeReturned              // its outcome waits to be recorded
	placeGone                  // nothing is left to do
)

// run is one claim and the attempt that the worker makes of it.
type run struct {
	engine *engine
	job    daybook.Job
	owner  daybook.Owner
	kind   *kind
	asked  time.Time     // before the claim was sent: the run limit counts from here
	got    time.Time     // when the claim arrived
	began  time.Time     // when a slot took it
	limit  time.Time     // when the run limit is over
	own    bool          // the limit is this worker's, shorter than the job's
	allow  time.Duration // the run limit that ends it

	result    atomic.Pointer[json.RawMessage]
	inTx      atomic.Bool // a fenced transaction of this claim runs
	completed atomic.Bool // and one committed the completion
	setAside  atomic.Bool // by the ledger, for a person: the attempt has ended

	// Of the handler, from its beginning on.

	ctx   *runContext
	timer *time.Timer // ends ctx at the limit, when that is near

	// Under the engine's lock.

	place  place
	lost   bool // the book took the claim back
	ended  bool // ctx was ended by the worker
	leaked bool // goes on though its context ended
}

func (r *run) ref() daybook.ClaimRef {
	return daybook.ClaimRef{Job: r.job.ID, Generation: r.owner.Generation}
}

func (r *run) resultSet() json.RawMessage {
	if doc := r.result.Load(); doc != nil {
		return *doc
	}
	return nil
}

// begin makes the handler's context. The run limit is the job's, counted from
// the claim, or the kind's or the worker's, counted from here.
func (r *run) begin(base context.Context, now time.Time) {
	r.began = now
	r.limit, r.allow = r.asked.Add(r.job.Timeout), r.job.Timeout
	for _, own := range []time.Duration{r.kind.opts.Timeout, r.engine.cfg.Timeout} {
		if own > 0 && now.Add(own).Before(r.limit) {
			r.limit, r.allow, r.own = now.Add(own), own, true
		}
	}
	inner, cancel := context.WithCancelCause(base)
	r.ctx = &runContext{Context: inner, cancel: cancel, limit: r.limit, run: r}
}

// runContext is a handler's context. It costs no timer and no entry in a parent
// (base never ends): the engine ends it. Deadlines are told all the same, so
// that clients inside the handler can see them.
type runContext struct {
	context.Context
	cancel context.CancelCauseFunc
	limit  time.Time
	run    *run
}

// runKey finds the run of a handler's context.
type runKey struct{}

// Value is of Run's context, and the run itself for [Effect].
func (c *runContext) Value(key any) any {
	if key == (runKey{}) {
		return c.run
	}
	return c.Context.Value(key)
}

// Deadline is when the run limit is over.
func (c *runContext) Deadline() (time.Time, bool) { return c.limit, true }

// Err is context.DeadlineExceeded when the run limit ended the context.
func (c *runContext) Err() error {
	err := c.Context.Err()
	if err != nil && context.Cause(c.Context) == ErrRunLimit {
		return context.DeadlineExceeded
	}
	return err
}
