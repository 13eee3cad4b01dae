package worker

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/daybookdev/daybook"
)

// KindOptions are the settings of one kind of job, in one place. Those of the
// enqueue (Timeout, MaxFailures, OnLost) belong to the job's row and are fixed
// when it is enqueued: by [Worker.Enqueue], or with Fill where no worker is.
type KindOptions struct {
	Timeout     time.Duration   // run limit of one attempt; 0 is the job's own
	MaxFailures int             // failures that set a job aside; 0 is daybook.MaxFailuresDefault
	OnLost      daybook.OnLost  // what a lost attempt means; "" is daybook.LostRetry
	Retry       daybook.Backoff // pause after a failure; zero is daybook.BackoffDefault
	Sensitive   bool            // args and error texts stay out of the logs
}

// Fill puts the options into what a request leaves open.
func (o KindOptions) Fill(r daybook.Request) daybook.Request {
	if r.Timeout == 0 {
		r.Timeout = o.Timeout
	}
	if r.MaxFailures == 0 {
		r.MaxFailures = o.MaxFailures
	}
	if r.OnLost == "" {
		r.OnLost = o.OnLost
	}
	return r
}

// Handler runs one attempt of a job that it gets as it is, and says how the
// attempt ended; the worker fills in whose it was.
type Handler func(ctx context.Context, job daybook.Job) daybook.Outcome

// kind is what the worker knows of one kind of job.
type kind struct {
	opts KindOptions
	call func(ctx context.Context, r *run) daybook.Outcome
}

// Handle registers the handler for a kind of job. Its args are decoded into T
// by encoding/json; args that don't decode set the job aside (undecodable),
// since another attempt would fail in the same way. Take json.RawMessage to
// get them byte for byte. At most one KindOptions may follow. Register before
// Run; what is wrong is told by Run.
func Handle[T any](w *Worker, name string, fn func(context.Context, *Claim[T]) error, opts ...KindOptions) {
	w.register(name, func(ctx context.Context, r *run) daybook.Outcome {
		c := &Claim[T]{run: r}
		if err := decode(r.job.Args, &c.Args); err != nil {
			if r.kind.opts.Sensitive {
				err = daybook.Fail(daybook.CodeInvalid, "args don't decode into %T", c.Args)
			}
			return r.outcome(&permanent{err, daybook.ReasonUndecodable})
		}
		return r.outcome(fn(ctx, c))
	}, opts)
}

// decode reads args into a handler's type. Raw JSON needs no second look: it was
// checked when the job was accepted.
func decode[T any](args json.RawMessage, into *T) error {
	if raw, ok := any(into).(*json.RawMessage); ok {
		*raw = args
		return nil
	}
	return json.Unmarshal(args, into)
}

// HandleRaw registers a handler that gets the job as it is; "" stands for every
// kind that has no handler of its own.
func (w *Worker) HandleRaw(name string, fn Handler, opts ...KindOptions) {
	w.register(name, func(ctx context.Context, r *run) daybook.Outcome {
		out := fn(ctx, r.job)
		if cause := context.Cause(r.ctx); out.Kind == daybook.OutcomeFailed && !out.Permanent &&
			(cause == ErrLeaseLost || cause == ErrStopping) {
			return daybook.Outcome{Kind: daybook.OutcomeReleased} // see outcome
		}
		return out
	}, opts)
}

func (w *Worker) register(name string, call func(context.Context, *run) daybook.Outcome, opts []KindOptions) {
	k := &kind{call: call}
	var err error
	switch {
	case name != "" && daybook.CheckName("kind", name) != nil:
		err = daybook.CheckName("kind", name)
	case len(opts) > 1:
		err = daybook.Invalid("kind", "%s has %d options; give one", name, len(opts))
	case w.kinds[name] != nil:
		err = daybook.Invalid("kind", "%q has two handlers; register one", name)
	}
	if len(opts) == 1 {
		k.opts = opts[0]
		if _, bad := k.opts.Fill(daybook.Request{Queue: "q", Kind: "k"}).Prepare(); err == nil && bad != nil {
			err = bad
		}
	}
	if err != nil && w.wrong == nil {
		w.wrong = err
	}
	w.kinds[name] = k
}

// kindOf is the handler for a kind of job, or nil.
func (w *Worker) kindOf(name string) *kind {
	if k := w.kinds[name]; k != nil {
		return k
	}
	return w.kinds[""]
}

// claimKinds is what to claim: every kind (nil) when a handler takes them all.
func (w *Worker) claimKinds() []string {
	if w.kinds[""] != nil {
		return nil
	}
	return slices.Sorted(maps.Keys(w.kinds))
}

// Enqueue accepts a job, with the options of its kind in what the request
// leaves open; else it is [daybook.Book.Enqueue].
func (w *Worker) Enqueue(ctx context.Context, r daybook.Request) (daybook.Receipt, error) {
	if k := w.kindOf(r.Kind); k != nil {
		r = k.opts.Fill(r)
	}
	return w.book.Enqueue(ctx, r)
}
