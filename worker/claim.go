package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/daybookdev/daybook"
)

// Claim is one attempt of a job, as its handler sees it. It belongs to the
// handler until that returns.
type Claim[T any] struct {
	Args T // the job's input, decoded
	run  *run
}

var _ daybook.TxClaim = (*Claim[struct{}])(nil)

// Book is where the claim was made; nil when that was through a server.
func (c *Claim[T]) Book() *daybook.Book { return c.run.engine.atHand() }

// Job is the job as it was claimed, with the lease as it was last renewed.
func (c *Claim[T]) Job() daybook.Job {
	j := c.run.job
	j.LeaseUntil = max(j.LeaseUntil, c.run.engine.leaseOf(j.Session))
	return j
}

// Owner is the session and generation that own the claim: what every write in
// its name must carry.
func (c *Claim[T]) Owner() daybook.Owner { return c.run.owner }

// Generation is the fencing token of this attempt: higher than that of every
// attempt before it.
func (c *Claim[T]) Generation() int64 { return c.run.owner.Generation }

// Attempt counts from 1: one more than what failed or crashed since the job was
// enqueued or revived. Attempts that were given back don't count.
func (c *Claim[T]) Attempt() int { return c.run.job.Failures + c.run.job.Crashes + 1 }

// EffectKey is a key for one outside action of this job: the same in every
// attempt, so that a destination that enforces it does the action once.
func (c *Claim[T]) EffectKey(name string) string { return daybook.EffectKey(c.run.job.ID, name, 0) }

// Progress keeps a note of how far the attempt is, for people to see: a JSON
// document of at most daybook.ProgressMax bytes that replaces the one before.
// The error is daybook.ErrFenced when the claim is lost; the handler's context
// ends then.
func (c *Claim[T]) Progress(ctx context.Context, note any) error {
	doc, err := encode("progress", note)
	if err == nil {
		err = c.run.outsideTx("progress")
	}
	if err != nil {
		return err
	}
	err = c.run.engine.book.Progress(ctx, c.run.job.ID, c.run.owner, doc)
	if errors.Is(err, daybook.ErrFenced) {
		c.run.engine.lose(c.run.ref())
	}
	return err
}

// SetResult sets what the job's success will say, a JSON document of at most
// daybook.ResultMax bytes; a larger one fails the attempt for good. The last
// call counts. Without success the result is dropped.
func (c *Claim[T]) SetResult(result any) error {
	doc, err := encode("result", result)
	if err == nil {
		c.run.result.Store(&doc)
	}
	return err
}

// Result is what was set with SetResult, or nil.
func (c *Claim[T]) Result() json.RawMessage { return c.run.resultSet() }

// EnterTx is for ClaimTx of the store packages: see daybook.TxClaim.
func (c *Claim[T]) EnterTx() (leave func(completed bool), err error) {
	if err := c.run.outsideTx("another transaction"); err != nil {
		return nil, err
	}
	if !c.run.inTx.CompareAndSwap(false, true) {
		return nil, c.run.outsideTx("another transaction")
	}
	return func(completed bool) {
		if completed {
			c.run.completed.Store(true)
		}
		c.run.inTx.Store(false)
	}, nil
}

// outsideTx refuses an owner write while a fenced transaction of the same claim
// runs: it would wait for its own caller.
func (r *run) outsideTx(what string) error {
	if !r.inTx.Load() {
		return nil
	}
	return daybook.Fail(daybook.CodeRefused, "job %s: %s inside its own transaction would wait for itself",
		r.job.ID, what)
}

// encode writes a value as JSON without the escapes of <, > and &; raw JSON
// stays byte for byte.
func encode(field string, value any) (json.RawMessage, error) {
	if raw, ok := value.(json.RawMessage); ok {
		return slices.Clone(raw), nil
	}
	var b bytes.Buffer
	if err := daybook.EncodeJSON(&b, value); err != nil {
		return nil, &daybook.Error{Code: daybook.CodeInvalid, Field: field,
			Text: "can't be written as JSON: " + textOf(err), Err: err}
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
