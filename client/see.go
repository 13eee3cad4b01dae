package client

import (
	"context"
	"net/url"
	"strconv"

	"github.com/daybookdev/daybook"
)

// seeRows is how large the answers about all queues may be, in rows.
const seeRows = 100

// Backlog shows every queue in numbers; see [daybook.Book.Backlog].
func (c *Client) Backlog(ctx context.Context) (daybook.Time, []daybook.Backlog, error) {
	var answer struct {
		At     daybook.Time      `json:"at"`
		Queues []daybook.Backlog `json:"queues"`
	}
	err := c.do(ctx, get("/v1/backlog", nil).slow().many(seeRows), &answer)
	return answer.At, answer.Queues, err
}

// Inventory shows what the book has, and beside it the rings that lie in the
// server's bell; see [daybook.Book.Inventory].
func (c *Client) Inventory(ctx context.Context) (inv daybook.Inventory, err error) {
	err = c.do(ctx, get("/v1/inventory", nil).slow().many(seeRows), &inv)
	return inv, err
}

// Queues lists the queues in name order, without numbers: those are in Backlog.
func (c *Client) Queues(ctx context.Context, _ bool) ([]daybook.Queue, error) {
	var answer struct {
		Queues []daybook.Queue `json:"queues"`
	}
	err := c.do(ctx, get("/v1/queues", nil).many(seeRows), &answer)
	return answer.Queues, err
}

// SessionsAt lists sessions with the database's time; see
// [daybook.Book.SessionsAt]. Of the filter it takes Worker, WithEnded and Limit.
func (c *Client) SessionsAt(ctx context.Context, f daybook.SessionFilter) (daybook.Time, []daybook.Session, error) {
	q := url.Values{}
	set(q, "worker", f.Worker)
	setTrue(q, "ended", f.WithEnded)
	if f.Limit != 0 {
		q.Set("limit", strconv.Itoa(f.Limit))
	}
	var answer struct {
		At       daybook.Time      `json:"at"`
		Sessions []daybook.Session `json:"sessions"`
	}
	err := c.do(ctx, get("/v1/sessions", q).many(seeRows), &answer)
	return answer.At, answer.Sessions, err
}

// Report is what a check found.
type Report struct {
	Violations int      `json:"violations"` // 0 in a healthy book
	Full       bool     `json:"full"`       // all rows were walked
	Invariants []Result `json:"invariants"`
}

// Result is what became of one invariant.
type Result struct {
	Name     string              `json:"name"`
	Sentence string              `json:"sentence"`
	Rows     int                 `json:"rows"`            // that break it
	Walked   int64               `json:"walked"`          // rows looked at
	Found    []daybook.Violation `json:"found,omitempty"` // the first of them
}

// Check has the server hold the book to its invariants, reading only. One check
// runs at a time; another gets [daybook.ErrBusy].
func (c *Client) Check(ctx context.Context, full bool) (report Report, err error) {
	q := url.Values{}
	setTrue(q, "full", full)
	err = c.do(ctx, get("/v1/check", q).slow().many(seeRows), &report)
	return report, err
}
