package worker

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/daybookdev/daybook"
)

// EffectPolicy says what an open effect means for the next attempt. A
// consequential action declares one; there is no default.
type EffectPolicy struct {
	policy daybook.Policy
	window time.Duration
	quiet  time.Duration
	probe  func(ctx context.Context, key string) (json.RawMessage, bool, error)
}

// Repeatable is for what may be done twice: call again.
var Repeatable = EffectPolicy{policy: daybook.PolicyRepeatable}

// Ask is for destinations that offer nothing: set the job aside, and a person
// says whether it happened (daybook effect settle).
var Ask = EffectPolicy{policy: daybook.PolicyAsk}

// Keyed is for destinations that enforce the effect key, and do an action once
// for a key that they know. window is how long they know it, counted from the
// first begin: inside it call again with the same key, past it ask a person.
func Keyed(window time.Duration) EffectPolicy {
	return EffectPolicy{policy: daybook.PolicyKeyed, window: window}
}

// Checked is for destinations that can be asked whether it happened. quiet is how
// long after a call was given up its trace may still appear: until then the job is
// given back. The probe says with what result it happened, or that it didn't; its
// error means that it can't tell, and then a person is asked.
func Checked[T any](probe func(ctx context.Context, key string) (result T, happened bool, err error),
	quiet time.Duration) EffectPolicy {
	return EffectPolicy{policy: daybook.PolicyChecked, quiet: quiet,
		probe: func(ctx context.Context, key string) (json.RawMessage, bool, error) {
			result, happened, err := probe(ctx, key)
			if err != nil || !happened {
				return nil, false, err
			}
			doc, err := encode("result", result)
			return doc, true, err
		}}
}

// EffectOption changes one effect.
type EffectOption func(*effect)

// CallLimit bounds the call, which is given up by then: its context ends. The
// default is half of the worker's lease, and it can't be longer.
func CallLimit(d time.Duration) EffectOption { return func(e *effect) { e.begin.Limit = d } }

// Input says what the call is about to do, as JSON: when another attempt's input
// differs, the job is set aside (effect_changed) instead of doing something else
// under the same name.
func Input(input any) EffectOption { return func(e *effect) { e.input, e.compared = input, true } }

// NextKey calls with a new key after the call before certainly didn't happen,
// for destinations that replay errors which they stored under the old one.
func NextKey() EffectOption { return func(e *effect) { e.begin.NextKey = true } }

// notHappened is an error of a call that certainly had no effect.
type notHappened struct{ err error }

func (n *notHappened) Error() string { return n.err.Error() }
func (n *notHappened) Unwrap() error { return n.err }

// NotHappened, returned by the function of an effect, says that the call
// certainly didn't happen: the connection was refused, the destination said no.
// Any other error leaves the effect open: a timeout is not a no. It speaks for
// this call alone: while nobody knows what an earlier attempt's call came to, the
// effect stays open and its policy decides. NotHappened(nil) is nil.
func NotHappened(err error) error {
	if err == nil {
		return nil
	}
	return &notHappened{err}
}

// effect is one use of the ledger by a handler.
type effect struct {
	*run
	policy   EffectPolicy
	begin    daybook.Begin
	input    any
	compared bool
	said     daybook.Decision // by the ledger, last
}

// Effect does one outside action of a job through the ledger. ctx is the
// handler's, or one made of it.
//
// When the effect is done already, by an earlier attempt or as a person said,
// its recorded result is returned and nothing is called. Else it is recorded as
// begun, then call runs with the effect's key, the same over all attempts, and what
// it came to is recorded. An error of call leaves the effect open unless it is
// NotHappened; the policy decides what the next attempt makes of that. Return the
// error of Effect from the handler: it may end the attempt in a way of its own
// (given back, set aside).
//
// Each action of a job has a name of its own, of 1–128 letters, digits and
// . _ - :. The result is kept as JSON, at most daybook.ResultMax bytes.
func Effect[T any](ctx context.Context, name string, policy EffectPolicy,
	call func(ctx context.Context, key string) (T, error), options ...EffectOption) (T, error) {
	var result T
	r, ok := ctx.Value(runKey{}).(*run)
	if !ok {
		return result, daybook.Invalid("ctx", "wants the context of a handler, or one made of it")
	}
	e := &effect{run: r, policy: policy}
	e.begin = daybook.Begin{Name: name, Policy: policy.policy, Window: policy.window, Quiet: policy.quiet}
	for _, o := range options {
		o(e)
	}
	ended := errBroken
	if tracer := r.engine.cfg.Tracer; tracer != nil {
		in, end := tracer.Effect(ctx, name, policy.policy)
		ctx = in
		defer func() { end(e.said, ended) }()
	}
	doc, err := e.do(ctx, func(ctx context.Context, key string) (json.RawMessage, error) {
		result, err := call(ctx, key)
		if err != nil {
			return nil, err
		}
		doc, err := encode("result", result)
		if err != nil {
			err = &badResult{err}
		}
		return doc, err
	})
	if err == nil && len(doc) > 0 {
		err = decode(doc, &result)
	}
	ended = err
	return result, err
}

// errBroken is what a span is told of a call that panicked.
var errBroken error = &daybook.Error{Code: daybook.CodeInternal, Text: "the call didn't return"}

// badResult is a result that can't be kept, of a call that happened.
type badResult struct{ err error }

func (b *badResult) Error() string { return b.err.Error() }
func (b *badResult) Unwrap() error { return b.err }

type outsideCall func(ctx context.Context, key string) (json.RawMessage, error)

// prepare fills in what the worker knows better than the handler.
func (e *effect) prepare() error {
	if err := e.outsideTx("effect " + e.begin.Name); err != nil {
		return err
	}
	most := e.engine.cfg.Lease / 2
	if e.begin.Limit == 0 {
		e.begin.Limit = most
		if e.policy.policy == daybook.PolicyKeyed && e.policy.window > 0 {
			e.begin.Limit = min(most, e.policy.window)
		}
	}
	if e.begin.Limit < 0 || e.begin.Limit > most {
		return daybook.Invalid("CallLimit", "wants more than 0 and at most half of the worker's lease, %s; got %s", most,
			e.begin.Limit)
	}
	if e.compared {
		doc, err := encode("Input", e.input)
		if err != nil {
			return err
		}
		sum := sha256.Sum256(doc)
		e.begin.Fingerprint = hex.EncodeToString(sum[:16])
	}
	return nil
}

// do asks the ledger, and does as it says.
func (e *effect) do(ctx context.Context, call outsideCall) (json.RawMessage, error) {
	if err := e.prepare(); err != nil {
		return nil, err
	}
	for probed := false; ; probed = true {
		sent := time.Now()
		begun, err := e.ask(ctx)
		if err != nil {
			return nil, err
		}
		switch e.said = begun.Decision; begun.Decision {
		case daybook.DecisionDone:
			return begun.Result, nil
		case daybook.DecisionCall:
			return e.call(ctx, sent, begun.Key, call)
		case daybook.DecisionWait:
			return nil, &settling{e.begin.Name, givenBack{max(time.Millisecond, time.Until(begun.WaitUntil.Std()))}}
		case daybook.DecisionAsk:
			return nil, e.asked()
		}
		if probed || e.policy.probe == nil {
			return nil, daybook.Fail(daybook.CodeRefused, "effect %s has no probe that the book could rely on", e.begin.Name)
		}
		if doc, happened, err := e.probe(ctx, begun.Key); err != nil || happened {
			return doc, err
		}
	}
}

// settling is the wish to give the job back until an earlier call must show.
type settling struct {
	name string
	givenBack
}

func (s *settling) Error() string { return "effect " + s.name + " is settling; " + s.givenBack.Error() }
func (s *settling) Unwrap() error { return &s.givenBack }

// asked ends the attempt: the book has set the job aside.
func (e *effect) asked() error {
	e.setAside.Store(true)
	return daybook.Fail(daybook.CodeEffectOpen, "effect %s may have happened; the job is set aside for a person",
		e.begin.Name)
}

// ask makes the begin, with a lease that holds longer than the call, and again
// while the database is away.
func (e *effect) ask(ctx context.Context) (daybook.Begun, error) {
	e.begin.Call = daybook.NewID()
	again := retry{log: e.engine.log, doing: "beginning an effect"}
	for {
		if err := e.trusted(ctx); err != nil {
			return daybook.Begun{}, err
		}
		if e.engine.leaseLeft() < e.begin.Limit {
			e.engine.renew(&retry{log: e.engine.log, doing: "renewing the lease"})
		}
		begun, err := e.engine.book.BeginEffect(ctx, e.job.ID, e.owner, e.begin)
		switch {
		case err == nil:
			return begun, nil
		case errors.Is(err, daybook.ErrFenced):
			e.engine.lose(e.ref())
			return daybook.Begun{}, errors.Join(ErrLeaseLost, err)
		case !passing(err) || !sleep(ctx, again.after(err)):
			return daybook.Begun{}, err
		}
	}
}

// passing reports whether a call may fare better a little later.
func passing(err error) bool {
	return errors.Is(err, daybook.ErrUnavailable) || errors.Is(err, daybook.ErrBusy)
}

// trusted refuses when the attempt is over: nothing may be begun outside.
func (e *effect) trusted(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	e.engine.mu.Lock()
	defer e.engine.mu.Unlock()
	if e.lost || !e.engine.trusted() {
		return ErrLeaseLost
	}
	return nil
}

// call does the outside action, bounded by what the ledger was told, and records
// what it came to.
func (e *effect) call(ctx context.Context, sent time.Time, key string, call outsideCall) (json.RawMessage, error) {
	bounded, cancel := context.WithDeadline(ctx, sent.Add(e.begin.Limit))
	defer cancel()
	// What a process does that is stopped between this check and the send, only a
	// destination that enforces the key can tell.
	if err := errors.Join(e.trusted(ctx), bounded.Err()); err != nil {
		return nil, errors.Join(err, e.finish(daybook.OutcomeAbsent, nil))
	}
	doc, err := call(bounded, key)
	if bad, ok := errors.AsType[*badResult](err); ok {
		return nil, beside(Permanent(bad.err), e.finish(daybook.OutcomeDone, nil))
	}
	if not, ok := errors.AsType[*notHappened](err); ok {
		return nil, beside(not, e.finish(daybook.OutcomeAbsent, nil))
	}
	if err != nil {
		return nil, fmt.Errorf("effect %s: %w", e.begin.Name, err)
	}
	return e.happened(doc)
}

// beside is an error, and what went wrong while it was recorded, if anything did:
// alone it stays what it is, for the attempt's kind of error.
func beside(err, recording error) error {
	if recording == nil {
		return err
	}
	return errors.Join(err, recording)
}

// happened records that the action was done, and its result, if that can be kept:
// another attempt would make the same one.
func (e *effect) happened(doc json.RawMessage) (json.RawMessage, error) {
	var wrong error
	switch {
	case len(doc) > daybook.ResultMax:
		wrong = daybook.Invalid("result", "of effect %s: at most %d bytes, got %d; it happened, but isn't kept",
			e.begin.Name, daybook.ResultMax, len(doc))
	case len(doc) > 0:
		wrong = daybook.CheckJSON("result", doc)
	}
	if wrong != nil {
		return nil, beside(Permanent(wrong), e.finish(daybook.OutcomeDone, nil))
	}
	return doc, e.finish(daybook.OutcomeDone, doc)
}

// probe asks the destination whether the call of an earlier attempt happened.
func (e *effect) probe(ctx context.Context, key string) (doc json.RawMessage, happened bool, err error) {
	bounded, cancel := context.WithTimeout(ctx, e.begin.Limit)
	defer cancel()
	doc, happened, err = e.policy.probe(bounded, key)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, false, err // the attempt is over, and the next one asks again
	case err != nil:
		if finished := e.finish(daybook.OutcomeUnknown, nil); finished != nil {
			return nil, false, finished
		}
		return nil, false, errors.Join(e.asked(), err)
	case happened:
		doc, err = e.happened(doc)
		return doc, true, err
	}
	return nil, false, e.finish(daybook.OutcomeAbsent, nil)
}

// finish records what is known now, again and again until the book takes or
// refuses it: also when the handler's context has ended, since what happened
// happened.
func (e *effect) finish(outcome daybook.EffectOutcome, result json.RawMessage) error {
	again := retry{log: e.engine.log, doing: "recording an effect"}
	for {
		ctx, cancel := context.WithTimeout(e.engine.hard, e.engine.patience())
		_, err := e.engine.book.FinishEffect(ctx, e.job.ID, e.owner,
			daybook.EffectEnd{Name: e.begin.Name, Outcome: outcome, Result: result})
		late := ctx.Err() != nil
		cancel()
		switch {
		case err == nil:
			return nil
		case errors.Is(err, daybook.ErrFenced):
			e.engine.lose(e.ref())
			return errors.Join(ErrLeaseLost, err)
		case !late && !passing(err) || !sleep(e.engine.hard, again.after(err)):
			return err
		}
	}
}

// leaseLeft is how long the lease still holds by this process's clock.
func (e *engine) leaseLeft() time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	return time.Until(e.trust)
}
