package relay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/daybookdev/daybook"
)

// Report says what a pass did.
type Report struct {
	Batches int     `json:"batches"`
	Rows    int     `json:"rows"`           // of the outbox, published
	Rung    int     `json:"queues_rung"`    // rings published, one a queue and batch
	Removed int     `json:"rows_removed"`   // by this relay; others may have been faster
	Oldest  float64 `json:"oldest_seconds"` // age of the oldest row that was found
}

// Pass publishes everything that lies in the outbox when it begins. The error is
// the bell's or the database's; what was published before it is out of the
// outbox, and the rest stays. Where the bell is none that other processes hear
// it does nothing.
func (r *Relay) Pass(ctx context.Context) (Report, error) {
	var report Report
	if err := r.opts.check(); err != nil || r.bell == nil {
		return report, err
	}
	from, until := int64(0), daybook.Time(0)
	for {
		batch, _, err := r.take(ctx, from, &report)
		if err != nil {
			return report, err
		}
		if until == 0 {
			until = batch.Now
		}
		if !batch.Full || batch.Rows[0].At > until {
			return report, nil
		}
		from = batch.Next
	}
}

// take reads a batch, publishes it, and takes it out of the outbox.
func (r *Relay) take(ctx context.Context, from int64, report *Report) (daybook.RingBatch, time.Time, error) {
	batch, err := r.book.Outbox(ctx, from)
	looked := time.Now()
	if err != nil {
		r.missed(ctx, "database", err)
		return batch, looked, err
	}
	if len(batch.Rows) == 0 {
		return batch, looked, nil
	}
	report.Batches++
	report.Oldest = max(report.Oldest, batch.Now.Sub(batch.Rows[0].At).Seconds())
	queues := batch.Queues()
	r.book.Reached(daybook.GapPublish, daybook.ID{})
	if err := r.publish(ctx, queues); err != nil {
		r.missed(ctx, "bell", err)
		return batch, looked, err
	}
	report.Rows += len(batch.Rows)
	report.Rung += len(queues)
	r.book.Reached(daybook.GapMark, daybook.ID{})
	n, err := r.book.Rung(ctx, batch.Rows)
	report.Removed += n
	if err != nil {
		r.missed(ctx, "database", err)
	}
	return batch, looked, err
}

// publish rings queues, in bounded time.
func (r *Relay) publish(ctx context.Context, queues []string) error {
	rings := make([]daybook.Ring, len(queues))
	for i, q := range queues {
		rings[i].Queue = q
	}
	bounded, cancel := context.WithTimeout(ctx, r.opts.Deadline)
	defer cancel()
	err := r.bell.Publish(bounded, rings)
	if _, told := errors.AsType[*daybook.Error](err); err != nil && !told {
		err = &daybook.Error{Code: daybook.CodeUnavailable, Err: err,
			Text: fmt.Sprintf("the bell didn't take %d rings within %s; jobs go on without it", len(rings), r.opts.Deadline)}
	}
	return err
}

// missed notes that something didn't answer, and logs it once.
func (r *Relay) missed(ctx context.Context, what string, err error) {
	if r.away != what && ctx.Err() == nil {
		r.away = what
		r.opts.Log.Warn("the relay can't reach the "+what+"; it keeps trying, and jobs go on", slog.Any("err", err))
	}
}

// healed notes that a batch went through.
func (r *Relay) healed() {
	if r.away != "" {
		r.opts.Log.Info("the relay reaches the " + r.away + " again")
	}
	r.away = ""
}
