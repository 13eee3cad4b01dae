package client

import (
	"context"
	"encoding/json"
	"strconv"
	"time"

	"github.com/daybookdev/daybook"
)

// Complete reports that an attempt succeeded; see [daybook.Book.Complete].
func (c *Client) Complete(ctx context.Context, job daybook.ID, o daybook.Owner, result json.RawMessage) (
	daybook.Answer, error) {
	return c.finishOne(ctx, daybook.Outcome{Job: job, Owner: o, Kind: daybook.OutcomeSucceeded, Result: result})
}

// Fail reports a failed attempt; see [daybook.Book.Fail].
func (c *Client) Fail(ctx context.Context, job daybook.ID, o daybook.Owner, f daybook.Failure,
	retryIn *time.Duration) (daybook.Answer, error) {
	return c.finishOne(ctx, daybook.Outcome{Job: job, Owner: o, Kind: daybook.OutcomeFailed, Problem: f.Problem,
		Permanent: f.Permanent, Reason: f.Reason, RetryIn: retryIn})
}

// Release gives a claim back without blame; see [daybook.Book.Release].
func (c *Client) Release(ctx context.Context, job daybook.ID, o daybook.Owner, in time.Duration) (daybook.Answer,
	error) {
	return c.finishOne(ctx, daybook.Outcome{Job: job, Owner: o, Kind: daybook.OutcomeReleased, In: in})
}

func (c *Client) finishOne(ctx context.Context, o daybook.Outcome) (daybook.Answer, error) {
	answers, err := c.Finish(ctx, []daybook.Outcome{o})
	if err != nil {
		return daybook.Answer{}, err
	}
	return answers[0], answers[0].Err
}

// finishMost is how many bytes of outcomes go into one call; the server takes
// [daybook.BatchBytesMax].
const finishMost = daybook.BatchBytesMax / 4

// Finish records how attempts ended, up to [daybook.BatchMax]; see
// [daybook.Book.Finish]. Large ones go in several calls. When one of these fails,
// repeat all: those that were recorded answer that they are.
func (c *Client) Finish(ctx context.Context, outcomes []daybook.Outcome) ([]daybook.Answer, error) {
	if len(outcomes) > daybook.BatchMax {
		return nil, &daybook.Error{Code: daybook.CodeTooLarge, Field: "outcomes",
			Text: "at most " + strconv.Itoa(daybook.BatchMax) + " in one call, got " + strconv.Itoa(len(outcomes))}
	}
	answers := make([]daybook.Answer, 0, len(outcomes))
	var rows [][]byte
	bytes := 0
	flush := func() error {
		if len(rows) == 0 {
			return nil
		}
		some, err := c.finish(ctx, rows)
		answers, rows, bytes = append(answers, some...), nil, 0
		return err
	}
	for _, o := range outcomes {
		row := outcomeBody(o.Normal())
		if bytes += len(row); bytes > finishMost {
			if err := flush(); err != nil {
				return nil, err
			}
			bytes = len(row)
		}
		rows = append(rows, row)
	}
	if err := flush(); err != nil {
		return nil, err
	}
	for i := range answers {
		answers[i].Job = outcomes[i].Job
	}
	return answers, nil
}

func outcomeBody(o daybook.Outcome) []byte {
	b := owned(o.Owner).always("id", o.Job).always("outcome", o.Kind)
	switch o.Kind {
	case daybook.OutcomeSucceeded:
		b.field("result", o.Result)
	case daybook.OutcomeReleased:
		b.span("in_seconds", o.In)
	case daybook.OutcomeFailed:
		if p := o.Problem; p != nil {
			b.always("error", p.Text).field("error_kind", p.Kind).field("trace", p.Trace).field("cut", p.Cut)
		}
		b.field("permanent", o.Permanent).field("reason", o.Reason)
		if o.RetryIn != nil {
			b.always("retry_in_seconds", o.RetryIn.Seconds())
		}
	}
	return b.done()
}

// finish sends rows in one call.
func (c *Client) finish(ctx context.Context, rows [][]byte) ([]daybook.Answer, error) {
	var said []struct {
		State   daybook.State `json:"state"`
		Already bool          `json:"already"`
		Code    daybook.Code  `json:"code"`
		Detail  string        `json:"detail"`
	}
	if err := c.do(ctx, post("/v1/outcomes", list(rows)).repeatable().many(len(rows)), &said); err != nil {
		return nil, err
	}
	if len(said) != len(rows) {
		return nil, daybook.Fail(daybook.CodeInternal, "the server answered %d of %d outcomes", len(said), len(rows))
	}
	answers := make([]daybook.Answer, len(said))
	for i, a := range said {
		answers[i] = daybook.Answer{State: a.State, Already: a.Already}
		if a.Code != "" {
			answers[i].Err = daybook.Fail(a.Code, "%s", a.Detail)
		}
	}
	return answers, nil
}
