package client

import (
	"context"
	"encoding/json"
	"math"
	"time"

	"github.com/daybookdev/daybook"
)

// What workers call.

// session adds what a new session is asked for with.
func (o *object) session(r daybook.SessionRequest) *object {
	return o.field("worker", r.Worker).span("lease_seconds", r.Lease).field("starts", r.Starts)
}

// StartSession makes a session; see [daybook.Book.StartSession]. One whose
// answer was lost runs out by itself.
func (c *Client) StartSession(ctx context.Context, r daybook.SessionRequest) (s daybook.Session, err error) {
	o := new(object).session(r).field("queues", r.Queues).field("kinds", r.Kinds)
	err = c.do(ctx, post("/v1/sessions", o.done()), &s)
	if s.Lease = r.Lease; s.Lease == 0 {
		s.Lease = daybook.LeaseDefault
	}
	return s, err
}

// EndSession closes a session; see [daybook.Book.EndSession].
func (c *Client) EndSession(ctx context.Context, id daybook.ID) error {
	return c.do(ctx, post(path("v1", "sessions", id.String(), "end"), nil).repeatable(), nil)
}

// QuietSession notes that a session claims no more; see
// [daybook.Book.QuietSession].
func (c *Client) QuietSession(ctx context.Context, id daybook.ID) error {
	return c.do(ctx, post(path("v1", "sessions", id.String(), "quiet"), nil).repeatable(), nil)
}

// claimed is one claim of an answer.
type claimed struct {
	Job     daybook.Job `json:"job"`
	Timeout float64     `json:"timeout_seconds"`
}

// Claim gives waiting jobs to a session; see [daybook.Book.Claim]. It doesn't wait
// for any: see [Client.ClaimWait]. The call is sent again by its id when its
// answer was lost, and gives the same claims then.
func (c *Client) Claim(ctx context.Context, r daybook.ClaimRequest) (daybook.Claimed, error) {
	return c.ClaimWait(ctx, r, 0)
}

// ClaimWait is Claim that waits for work so long, a minute at most. A claim of one
// job by its id doesn't wait.
func (c *Client) ClaimWait(ctx context.Context, r daybook.ClaimRequest, wait time.Duration) (out daybook.Claimed,
	err error) {
	if r.Call.IsZero() {
		r.Call = daybook.NewID()
	}
	o := new(object).field("queues", r.Queues).field("kinds", r.Kinds).field("session", r.Session)
	if r.Session.IsZero() {
		o.session(r.SessionRequest)
	}
	where := path("v1", "jobs", r.Job.String(), "claim")
	if r.Job.IsZero() {
		where = "/v1/claims"
		o.field("limit", r.Limit).field("oldest", r.Oldest).span("wait_seconds", wait)
	}
	k := post(where, o.done()).repeatable().many(max(1, r.Limit))
	k.key, k.within = r.Call.String(), c.opts.Timeout+wait
	var answer struct {
		Session    daybook.ID   `json:"session"`
		LeaseUntil daybook.Time `json:"lease_until"`
		Claims     []claimed    `json:"claims"`
		Full       bool         `json:"full"`
	}
	if err := c.do(ctx, k, &answer); err != nil {
		return out, err
	}
	// The answer to a repeat doesn't say whether there was more; then as many as were
	// asked for are a reason to think so.
	full := answer.Full || r.Job.IsZero() && len(answer.Claims) == max(1, r.Limit)
	out = daybook.Claimed{Full: full, Jobs: make([]daybook.Job, len(answer.Claims)),
		Session: daybook.Session{ID: answer.Session, Worker: r.Worker, Lease: r.Lease, ExpiresAt: answer.LeaseUntil}}
	for i, one := range answer.Claims {
		out.Jobs[i] = one.Job
		out.Jobs[i].Timeout = time.Duration(math.Round(one.Timeout*1e6)) * time.Microsecond
	}
	return out, nil
}

// Renew extends a session's lease; see [daybook.Book.Renew].
func (c *Client) Renew(ctx context.Context, session daybook.ID, claims []daybook.ClaimRef) (daybook.Renewal, error) {
	var o object
	if claims != nil {
		o.always("claims", claims)
	}
	var answer struct {
		LeaseUntil daybook.Time       `json:"lease_until"`
		Lost       []daybook.ClaimRef `json:"lost"`
		Cancel     []daybook.ClaimRef `json:"cancel"`
		Quiet      bool               `json:"quiet"`
	}
	err := c.do(ctx, post(path("v1", "sessions", session.String(), "renew"), o.done()).repeatable(), &answer)
	return daybook.Renewal(answer), err
}

// Started records that handlers of these claims begin, and answers which of them
// are lost; see [daybook.Book.Started].
func (c *Client) Started(ctx context.Context, session daybook.ID, claims []daybook.ClaimRef) ([]daybook.ClaimRef,
	error) {
	err := c.do(ctx, post(path("v1", "sessions", session.String(), "started"), encoded(claims)).repeatable(), nil)
	if lost, some := lostOf(err); some {
		return lost, nil
	}
	return nil, err
}

// owned is the beginning of every body that an owner sends.
func owned(o daybook.Owner) *object {
	return new(object).always("session", o.Session).always("generation", o.Generation)
}

// Progress keeps an owner's note of how far it is; see [daybook.Book.Progress].
func (c *Client) Progress(ctx context.Context, job daybook.ID, o daybook.Owner, progress []byte) error {
	if err := checkDocument("progress", progress, daybook.ProgressMax); err != nil {
		return err
	}
	body := owned(o).always("progress", json.RawMessage(progress)).done()
	return c.do(ctx, post(path("v1", "jobs", job.String(), "progress"), body).repeatable(), nil)
}

// checkDocument holds a document to its limit before it stands in a body.
func checkDocument(field string, doc []byte, most int) error {
	switch {
	case len(doc) == 0:
		return nil
	case len(doc) > most:
		return &daybook.Error{Code: daybook.CodeTooLarge, Field: field,
			Text: "at most " + daybook.Counter(int64(most)) + " bytes, got " + daybook.Counter(int64(len(doc)))}
	}
	return daybook.CheckJSON(field, doc)
}

// NextDue is not for clients: the server rings when jobs become due (see
// [Client.Bell]). It answers that it knows of none.
func (c *Client) NextDue(context.Context, []string, daybook.Time) (due, now daybook.Time, err error) {
	return 0, 0, nil
}

// Reached marks nothing: gaps are for drills, which have the book at hand.
func (c *Client) Reached(string, daybook.ID) {}
