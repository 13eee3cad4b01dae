package client

import (
	"context"
	"net/url"
	"strconv"

	"github.com/daybookdev/daybook"
)

// Enqueue accepts one job; see [daybook.Book.Enqueue]. The call may be sent more
// than once: a request without a key and id gets an id here.
func (c *Client) Enqueue(ctx context.Context, r daybook.Request) (daybook.Receipt, error) {
	receipts, err := c.EnqueueMany(ctx, []daybook.Request{r})
	if err != nil {
		return daybook.Receipt{}, err
	}
	return receipts[0], nil
}

// EnqueueMany accepts up to [daybook.EnqueueMax] jobs, all or none; see
// [daybook.Book.EnqueueMany]. A refusal names the request by its index.
func (c *Client) EnqueueMany(ctx context.Context, requests []daybook.Request) ([]daybook.Receipt, error) {
	// Refused here, what is wrong is told with what was given.
	if _, err := daybook.PrepareMany(requests); err != nil || len(requests) == 0 {
		return nil, err
	}
	bodies := make([][]byte, len(requests))
	mine := make([]daybook.ID, len(requests))
	for i, r := range requests {
		if r.Key == "" && r.ID.IsZero() {
			r.ID = daybook.NewID()
			mine[i] = r.ID
		}
		bodies[i] = requestBody(r)
	}
	var receipts []daybook.Receipt
	if len(requests) == 1 {
		var one daybook.Receipt
		if err := c.do(ctx, post("/v1/jobs", bodies[0]).repeatable(), &one); err != nil {
			return nil, err
		}
		receipts = []daybook.Receipt{one}
	} else {
		var many struct {
			Jobs []daybook.Receipt `json:"jobs"`
		}
		if err := c.do(ctx, post("/v1/jobs/batch", list(bodies)).repeatable(), &many); err != nil {
			return nil, err
		}
		receipts = many.Jobs
	}
	if len(receipts) != len(requests) {
		return nil, daybook.Fail(daybook.CodeInternal, "the server answered %d of %d requests", len(receipts), len(requests))
	}
	for i := range receipts {
		if receipts[i].ID == mine[i] {
			receipts[i].Replayed = false // by another try of this very call
		}
	}
	return receipts, nil
}

func requestBody(r daybook.Request) []byte {
	var o object
	o.field("id", r.ID).field("queue", r.Queue).field("kind", r.Kind).field("args", r.Args).field("key", r.Key)
	o.field("run_at", daybook.At(r.RunAt)).span("in_seconds", r.In).field("expires_at", daybook.At(r.ExpiresAt))
	o.field("priority", r.Priority).field("max_failures", r.MaxFailures).field("on_lost", r.OnLost)
	o.span("timeout_seconds", r.Timeout).field("traceparent", r.Traceparent).field("tracestate", r.Tracestate)
	return o.done()
}

// pageQuery asks for part of a list.
func pageQuery(limit int, cursor string) (url.Values, int, error) {
	if limit == 0 {
		limit = daybook.ListDefault
	}
	if limit < 1 || limit > daybook.ListMax {
		return nil, 0, daybook.Invalid("limit", "wants 1…%d, got %d", daybook.ListMax, limit)
	}
	q := url.Values{"limit": {strconv.Itoa(limit)}}
	set(q, "cursor", cursor)
	return q, limit, nil
}

// set adds a parameter that isn't empty.
func set(q url.Values, name, value string) {
	if value != "" {
		q.Set(name, value)
	}
}

func setTrue(q url.Values, name string, value bool) {
	if value {
		q.Set(name, "true")
	}
}

// Jobs lists a page of jobs; see [daybook.Book.Jobs]. HeldBy isn't looked at.
func (c *Client) Jobs(ctx context.Context, f daybook.Filter) (page daybook.Page[daybook.Job], err error) {
	if err := f.Check(); err != nil {
		return page, err
	}
	q, rows, err := pageQuery(f.Limit, f.Cursor)
	if err != nil {
		return page, err
	}
	set(q, "queue", f.Queue)
	set(q, "kind", f.Kind)
	set(q, "state", string(f.State))
	set(q, "reason", string(f.Reason))
	set(q, "key", f.Key)
	setTrue(q, "held", f.Held)
	var answer struct {
		Jobs   []daybook.Job `json:"jobs"`
		Cursor string        `json:"cursor"`
	}
	err = c.do(ctx, get("/v1/jobs", q).many(rows), &answer)
	return daybook.Page[daybook.Job]{Items: answer.Jobs, Cursor: answer.Cursor}, err
}

// Job loads one job; see [daybook.Book.Job].
func (c *Client) Job(ctx context.Context, id daybook.ID) (job daybook.Job, err error) {
	err = c.do(ctx, get(path("v1", "jobs", id.String()), nil).many(1), &job)
	return job, err
}

// Timeline is all that happened to a job, in time order.
func (c *Client) Timeline(ctx context.Context, id daybook.ID) ([]daybook.Event, error) {
	var answer struct {
		Events []daybook.Event `json:"events"`
	}
	err := c.do(ctx, get(path("v1", "jobs", id.String(), "timeline"), nil).many(historyRows), &answer)
	return answer.Events, err
}

// historyRows is how large a job's history may be, in rows.
const historyRows = 100

// Attempts lists a job's attempts that ended; see [daybook.Book.Attempts].
func (c *Client) Attempts(ctx context.Context, id daybook.ID) ([]daybook.Attempt, error) {
	var answer struct {
		Attempts []daybook.Attempt `json:"attempts"`
	}
	err := c.do(ctx, get(path("v1", "jobs", id.String(), "attempts"), nil).many(historyRows), &answer)
	return answer.Attempts, err
}

// Why says why a job stands where it stands, and whether it may be retried.
func (c *Client) Why(ctx context.Context, id daybook.ID) (why daybook.Why, err error) {
	err = c.do(ctx, get(path("v1", "jobs", id.String(), "why"), nil), &why)
	return why, err
}
