package worker

import (
	"context"
	"time"

	"github.com/daybookdev/daybook"
)

// Tracer sees what a worker does begin and end, to make spans of it; package
// telemetry has one for OpenTelemetry. Its methods are called from many
// goroutines and must not wait for anything: the worker waits for them.
type Tracer interface {
	// Claimed tells of a claim call that got something, after its answer came.
	Claimed(asked time.Time, jobs []daybook.Job)
	// Attempt begins the span of an attempt. The handler gets the context that it
	// returns, which must be made of ctx and carry the span's trace (see
	// daybook.WithTrace). end is called once, with what the worker is about to
	// report.
	Attempt(ctx context.Context, job daybook.Job) (in context.Context, end func(out daybook.Outcome))
	// Effect begins the span of one use of the ledger, in a handler's context. end
	// is called once, with what the ledger said last, "" for nothing, and the
	// error that the handler gets.
	Effect(ctx context.Context, name string, policy daybook.Policy) (
		in context.Context, end func(said daybook.Decision, err error))
	// Current is the trace of the innermost span in a context, or none.
	Current(ctx context.Context) daybook.Trace
}

// traced begins the attempt's span. Without a tracer the handler's context carries
// the job's own trace, so that jobs which it enqueues belong to it too.
func (r *run) traced() (ctx context.Context, end func(daybook.Outcome)) {
	switch tracer := r.engine.cfg.Tracer; {
	case tracer != nil:
		return tracer.Attempt(r.ctx, r.job)
	case r.job.Traceparent != "":
		return daybook.WithTrace(r.ctx, r.job.Trace()), nil
	}
	return r.ctx, nil
}
