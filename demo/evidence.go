package demo

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"time"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/check"
	"github.com/daybookdev/daybook/examples/webhooks"
)

// entry is what the book says of one job.
type entry struct {
	State  daybook.State
	Reason daybook.Reason
	Key    string
	Args   [sha256.Size]byte
	Result json.RawMessage
}

// evidence is all that a verdict rests on: what callers were told, what the
// destination did, and what the book says.
type evidence struct {
	Jobs, Workers int
	Seed          uint64

	Deliveries []webhooks.Delivery
	Acks       [][]ack // by delivery
	Acts       []act
	Asked      int
	Book       map[daybook.ID]entry
	Counts     daybook.Counts
	Fenced     int
	FencedJob  daybook.ID // the first that has a fenced write
	Gaps       map[string]int
	Kills      int
	Checked    check.Report
	Took       time.Duration
}

// evidence collects it, once the run is over.
func (d *director) evidence(ctx context.Context) (evidence, error) {
	e := evidence{Jobs: d.opts.Jobs, Workers: d.opts.Workers, Seed: d.opts.Seed,
		Deliveries: deliveries(d.opts.Jobs), Acks: d.acks, Book: map[daybook.ID]entry{},
		Gaps: d.gaps, Kills: d.kills, Took: d.ended.Sub(d.began)}
	e.Acts, e.Asked = d.destination.ledger()
	queues, err := d.book.Queues(ctx, true)
	if err != nil {
		return e, err
	}
	for _, q := range queues {
		e.Counts.Add(q.Counts)
	}
	if err := e.readJobs(ctx, d.book); err != nil {
		return e, err
	}
	e.Checked, err = check.Run(ctx, d.book, check.Options{Full: true})
	return e, err
}

// readJobs reads every job of the book, and counts the fenced writes it keeps.
func (e *evidence) readJobs(ctx context.Context, book *daybook.Book) error {
	filter := daybook.Filter{Limit: daybook.ListMax}
	for {
		page, err := book.Jobs(ctx, filter)
		if err != nil {
			return err
		}
		for _, j := range page.Items {
			e.Book[j.ID] = entry{State: j.State, Reason: j.Reason, Key: j.Key,
				Args: sha256.Sum256(j.Args), Result: j.Result}
		}
		if err := e.readRefusals(ctx, book, page.Items); err != nil {
			return err
		}
		if filter.Cursor = page.Cursor; filter.Cursor == "" {
			return nil
		}
	}
}

// readRefusals counts fenced writes. Only a job that was owned more than once
// can have one.
func (e *evidence) readRefusals(ctx context.Context, book *daybook.Book, jobs []daybook.Job) error {
	return book.Store().Read(ctx, "reading fenced writes", func(v daybook.View) error {
		for _, j := range jobs {
			if j.Generation < 2 {
				continue
			}
			h, err := v.History(ctx, j)
			if err != nil {
				return err
			}
			if e.Fenced += len(h.Refusals); e.Fenced > 0 && e.FencedJob.IsZero() {
				e.FencedJob = j.ID
			}
		}
		return nil
	})
}
