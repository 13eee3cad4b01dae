package worker

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/daybookdev/daybook"
)

// Why a handler's context ended, by context.Cause.
var (
	// ErrLeaseLost: the book gave the job to somebody else, or the worker could
	// not renew its lease in time and must assume so.
	ErrLeaseLost error = &daybook.Error{Code: daybook.CodeFenced,
		Text: "the lease is lost; another worker may run this job"}
	// ErrCancelRequested: a person asked to cancel the job.
	ErrCancelRequested error = &daybook.Error{Code: daybook.CodeRefused, Text: "the job was asked to cancel"}
	// ErrRunLimit: the attempt ran as long as it may. The context's Err is
	// context.DeadlineExceeded then.
	ErrRunLimit error = &daybook.Error{Code: daybook.CodeRefused, Text: "the run limit is over"}
	// ErrStopping: the worker stops, and its grace is over.
	ErrStopping error = &daybook.Error{Code: daybook.CodeUnavailable, Text: "the worker stops"}
)

// permanent is an error that trying again can't cure.
type permanent struct {
	err    error
	reason daybook.Reason
}

func (p *permanent) Error() string { return p.err.Error() }
func (p *permanent) Unwrap() error { return p.err }

// Permanent marks an error as one that trying again can't cure: the job is set
// aside at once, whatever attempts it has left. Permanent(nil) is nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &permanent{err, daybook.ReasonPermanent}
}

// givenBack is the wish to give the claim back without blame.
type givenBack struct{ in time.Duration }

func (g *givenBack) Error() string {
	if g.in == 0 {
		return "the job was given back"
	}
	return "the job was given back for " + g.in.String()
}

// Snooze, returned by a handler, gives the job back without blame, to be tried
// again after d (0 … daybook.DelayMax; beyond is cut to it). Endless snoozing
// ends: see daybook.SnoozeMax.
func Snooze(d time.Duration) error { return &givenBack{min(max(0, d), daybook.DelayMax)} }

// Release, returned by a handler, gives the job back without blame, for any
// worker to take at once.
func Release() error { return Snooze(0) }

// outcome says what a handler's ending means for the job.
func (r *run) outcome(err error) daybook.Outcome {
	if r.setAside.Load() { // the attempt has ended, in the book already
		return daybook.Outcome{Kind: daybook.OutcomeReleased}
	}
	if err == nil || r.completed.Load() { // what a transaction completed stays so
		return daybook.Outcome{Kind: daybook.OutcomeSucceeded, Result: r.resultSet()}
	}
	if g, ok := errors.AsType[*givenBack](err); ok {
		return daybook.Outcome{Kind: daybook.OutcomeReleased, In: g.in}
	}
	if p, ok := errors.AsType[*permanent](err); ok {
		out := r.failure(p.err)
		out.Permanent, out.Reason, out.RetryIn = true, p.reason, nil
		return out
	}
	switch cause := context.Cause(r.ctx); cause {
	case ErrLeaseLost, ErrStopping:
		// The worker broke the attempt off, whatever the handler calls it.
		return daybook.Outcome{Kind: daybook.OutcomeReleased}
	case ErrCancelRequested:
		if errors.Is(err, context.Canceled) || errors.Is(err, cause) {
			return daybook.Outcome{Kind: daybook.OutcomeReleased} // the book makes it cancelled
		}
	case ErrRunLimit:
		out := r.failure(fmt.Errorf("ran past its run limit of %s: %w", r.allow, err))
		out.Problem.Kind = "timeout"
		return out
	}
	return r.failure(err)
}

// failure is a failed attempt that counts, with the kind's own retry curve.
func (r *run) failure(err error) daybook.Outcome {
	out := daybook.Outcome{Kind: daybook.OutcomeFailed,
		Problem: daybook.NewProblem(textOf(err), errorKind(err), "")}
	if curve := r.kind.opts.Retry; curve != (daybook.Backoff{}) {
		d := curve.Delay(int64(r.job.Failures)+1, rand.Float64())
		out.RetryIn = &d
	}
	return out
}

// errorKind is the class of an error, by which people group them: what the error
// calls itself by a method ErrorKind, or else its innermost type.
func errorKind(err error) string {
	if named, ok := errors.AsType[interface {
		error
		ErrorKind() string
	}](err); ok {
		return named.ErrorKind()
	}
	return fmt.Sprintf("%T", innermost(err))
}

// innermost is the error that others wrap: its type says most.
func innermost(err error) error {
	for {
		next := errors.Unwrap(err)
		if next == nil {
			return err
		}
		err = next
	}
}
