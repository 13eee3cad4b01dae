package client

import (
	"context"
	"encoding/json"

	"github.com/daybookdev/daybook"
)

// What people decide. The record shows the token's name as the actor, so the
// actor of a [daybook.By] isn't sent; its reason is wanted. A decision isn't sent
// again when its answer was lost: look at the job.

// decideOne sends one decision about one job.
func (c *Client) decideOne(ctx context.Context, id daybook.ID, move string, o *object) (job daybook.Job, err error) {
	err = c.do(ctx, post(path("v1", "jobs", id.String(), move), o.done()).many(1), &job)
	return job, err
}

// Cancel ends a job, or asks its owner to stop; see [daybook.Book.Cancel].
func (c *Client) Cancel(ctx context.Context, id daybook.ID, by daybook.By, force bool) (daybook.Job, error) {
	return c.decideOne(ctx, id, "cancel", new(object).field("force", force).always("reason", by.Reason))
}

// Revive sends a job that ended back to waiting; see [daybook.Book.Revive].
func (c *Client) Revive(ctx context.Context, id daybook.ID, by daybook.By) (daybook.Job, error) {
	return c.decideOne(ctx, id, "revive", new(object).always("reason", by.Reason))
}

// ReviveUnsafe is Revive of a job whose work happened, too.
func (c *Client) ReviveUnsafe(ctx context.Context, id daybook.ID, by daybook.By) (daybook.Job, error) {
	return c.decideOne(ctx, id, "revive", new(object).always("unsafe", true).always("reason", by.Reason))
}

// Unhold lets claims see a held job again.
func (c *Client) Unhold(ctx context.Context, id daybook.ID, by daybook.By) (daybook.Job, error) {
	return c.decideOne(ctx, id, "unhold", new(object).always("reason", by.Reason))
}

// Preview is one job as a decision would leave it, or the refusal; see
// [daybook.Book.Preview].
func (c *Client) Preview(ctx context.Context, id daybook.ID, k daybook.Bulk) (job daybook.Job, err error) {
	move, err := moveOf(k.Move)
	if err != nil {
		return job, err
	}
	o := new(object).always("dry_run", true).field("force", k.Force).field("unsafe", k.Unsafe)
	err = c.do(ctx, post(path("v1", "jobs", id.String(), move), o.done()).repeatable().many(1), &job)
	return job, err
}

func moveOf(m daybook.Move) (string, error) {
	switch m {
	case daybook.MoveCancel:
		return "cancel", nil
	case daybook.MoveRevive:
		return "revive", nil
	case daybook.MoveUnhold:
		return "unhold", nil
	}
	return "", daybook.Invalid("move", "wants cancel, revive or unhold")
}

// bulkAnswer is what came of a filter, or would.
type bulkAnswer struct {
	daybook.BulkAnswer
	Review *daybook.Review `json:"review"`
}

func filterBody(f daybook.Filter) json.RawMessage {
	var o object
	o.field("queue", f.Queue).field("kind", f.Kind).field("state", f.State).field("reason", f.Reason)
	return o.field("key", f.Key).done()
}

// lookAt asks what a decision about a filter would do.
func (c *Client) lookAt(ctx context.Context, move string, f daybook.Filter) (answer bulkAnswer, err error) {
	o := new(object).always("filter", filterBody(f)).always("dry_run", true)
	err = c.do(ctx, post(path("v1", "jobs", move), o.done()).repeatable().slow(), &answer)
	return answer, err
}

// Count counts the jobs that a filter matches, which has to name more than held
// ones: a queue, a kind, a state, a reason or a key. Without a state it counts
// jobs that a cancel could be about.
func (c *Client) Count(ctx context.Context, f daybook.Filter) (int64, error) {
	move := "cancel"
	if f.Held {
		move = "unhold"
	}
	answer, err := c.lookAt(ctx, move, f)
	return answer.Matched, err
}

// Review says beforehand what reviving all that a filter matches would do; see
// [daybook.Book.Review].
func (c *Client) Review(ctx context.Context, f daybook.Filter) (daybook.Review, error) {
	answer, err := c.lookAt(ctx, "revive", f)
	if err != nil || answer.Review == nil {
		return daybook.Review{}, err
	}
	return *answer.Review, nil
}

// Decide carries a bulk decision out; see [daybook.Book.Decide]. Seen is called
// once, at the end.
func (c *Client) Decide(ctx context.Context, k daybook.Bulk) (daybook.BulkAnswer, error) {
	move, err := moveOf(k.Move)
	if err != nil {
		return daybook.BulkAnswer{}, err
	}
	o := new(object).always("filter", filterBody(k.Filter)).always("reason", k.By.Reason)
	o.field("force", k.Force).field("unsafe", k.Unsafe)
	var answer bulkAnswer
	if err := c.do(ctx, post(path("v1", "jobs", move), o.done()).slow(), &answer); err != nil {
		return answer.BulkAnswer, err
	}
	if k.Seen != nil {
		k.Seen(answer.Matched)
	}
	return answer.BulkAnswer, nil
}

// Settle records what a person found out about an open effect; see
// [daybook.Book.Settle].
func (c *Client) Settle(ctx context.Context, id daybook.ID, name string, v daybook.Verdict, by daybook.By) (
	job daybook.Job, err error) {
	if err := checkDocument("result", v.Result, daybook.ResultMax); err != nil {
		return job, err
	}
	outcome := "absent"
	if v.Happened {
		outcome = "happened"
	}
	o := new(object).field("generation", v.Generation).always("outcome", outcome).field("result", v.Result)
	o.field("stay", v.Stay).always("reason", by.Reason)
	err = c.do(ctx, post(path("v1", "jobs", id.String(), "effects", name, "settle"), o.done()).many(1), &job)
	return job, naming(err, "effect", name)
}

// Pause stops claims from a queue; see [daybook.Book.Pause].
func (c *Client) Pause(ctx context.Context, queue string, by daybook.By) error {
	return c.steer(ctx, path("v1", "queues", queue, "pause"), by, nil)
}

// Resume lets claims take from the queue again; see [daybook.Book.Resume].
func (c *Client) Resume(ctx context.Context, queue string, by daybook.By) error {
	return naming(c.steer(ctx, path("v1", "queues", queue, "resume"), by, nil), "queue", queue)
}

// Quiet asks a worker to claim no more; see [daybook.Book.Quiet].
func (c *Client) Quiet(ctx context.Context, worker string, by daybook.By) (q daybook.Quieted, err error) {
	if worker == "" { // no path leads there
		return q, daybook.Invalid("worker", "is empty; name the worker")
	}
	err = c.steer(ctx, path("v1", "workers", worker, "quiet"), by, &q)
	return q, naming(err, "live worker", worker)
}

// steer sends a decision that changes nothing the second time.
func (c *Client) steer(ctx context.Context, path string, by daybook.By, out any) error {
	return c.do(ctx, post(path, new(object).always("reason", by.Reason).done()).repeatable(), out)
}
