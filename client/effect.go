package client

import (
	"context"

	"github.com/daybookdev/daybook"
)

// BeginEffect asks the ledger's leave to do something outside; see
// [daybook.Book.BeginEffect].
func (c *Client) BeginEffect(ctx context.Context, job daybook.ID, o daybook.Owner, b daybook.Begin) (
	begun daybook.Begun, err error) {
	if err := daybook.CheckName("effect", b.Name); err != nil {
		return begun, err
	}
	if b.Call.IsZero() {
		b.Call = daybook.NewID() // the same in every try
	}
	body := owned(o).always("policy", b.Policy).span("window_seconds", b.Window).span("quiet_seconds", b.Quiet)
	body.span("call_seconds", b.Limit).field("fingerprint", b.Fingerprint).field("next_key", b.NextKey)
	body.always("call", b.Call)
	k := post(path("v1", "jobs", job.String(), "effects", b.Name, "begin"), body.done())
	err = c.do(ctx, k.repeatable().many(1), &begun)
	return begun, err
}

// FinishEffect records what an outside call, or a probe, came to; see
// [daybook.Book.FinishEffect].
func (c *Client) FinishEffect(ctx context.Context, job daybook.ID, o daybook.Owner, f daybook.EffectEnd) (
	end daybook.EffectEnded, err error) {
	if err := daybook.CheckName("effect", f.Name); err != nil {
		return end, err
	}
	if err := checkDocument("result", f.Result, daybook.ResultMax); err != nil {
		return end, err
	}
	body := owned(o).always("outcome", f.Outcome).field("result", f.Result)
	k := post(path("v1", "jobs", job.String(), "effects", f.Name, "finish"), body.done())
	err = c.do(ctx, k.repeatable(), &end)
	return end, err
}

// Effects lists a page of the ledger; see [daybook.Book.Effects].
func (c *Client) Effects(ctx context.Context, f daybook.EffectFilter) (page daybook.Page[daybook.Effect], err error) {
	q, rows, err := pageQuery(f.Limit, f.Cursor)
	if err != nil {
		return page, err
	}
	setTrue(q, "open", f.Open)
	if !f.Job.IsZero() {
		q.Set("job", f.Job.String())
	}
	var answer struct {
		Effects []daybook.Effect `json:"effects"`
		Cursor  string           `json:"cursor"`
	}
	err = c.do(ctx, get("/v1/effects", q).many(rows), &answer)
	return daybook.Page[daybook.Effect]{Items: answer.Effects, Cursor: answer.Cursor}, err
}
