package reconcile

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/daybookdev/daybook"
)

// Report says what one pass did.
type Report struct {
	Certainty daybook.Certainty `json:"-"`
	Ended     int               `json:"sessions_ended"`
	Marked    int               `json:"sessions_marked"` // expired, and not sure to be dead yet
	Lost      int               `json:"claims_lost"`     // of sessions that ended
	Overdue   int               `json:"claims_overdue"`  // past their run limit
	Expired   int               `json:"jobs_expired"`
	Pruned    int               `json:"jobs_pruned"`
	Swept     int               `json:"rows_swept"` // counting rows, keys, sessions and calls
	Rung      int               `json:"queues_rung"`
	Upkeep    time.Duration     `json:"-"` // how long pruning and sweeping took
}

// Repaired reports whether anything but upkeep was done.
func (r Report) Repaired() bool { return r.Ended+r.Marked+r.Lost+r.Overdue+r.Expired > 0 }

// LogValue shows the numbers that aren't zero.
func (r Report) LogValue() slog.Value {
	var attrs []slog.Attr
	for _, n := range []struct {
		name  string
		count int
	}{{"sessions_ended", r.Ended}, {"sessions_marked", r.Marked}, {"claims_lost", r.Lost},
		{"claims_overdue", r.Overdue}, {"jobs_expired", r.Expired}, {"jobs_pruned", r.Pruned},
		{"rows_swept", r.Swept}, {"queues_rung", r.Rung}} {
		if n.count != 0 {
			attrs = append(attrs, slog.Int(n.name, n.count))
		}
	}
	return slog.GroupValue(attrs...)
}

// step is one kind of repair.
type step struct {
	name string
	do   func(context.Context) error
}

// Pass makes one pass over the book, whoever made the last one. Certainty
// decides what becomes of sessions past their lease: daybook.AtOnce is a
// person's order to end them now. A step that fails is logged and doesn't stop
// the others; the error is the first of them.
func (r *Reconciler) Pass(ctx context.Context, certainty daybook.Certainty) (Report, error) {
	if err := r.opts.check(); err != nil {
		return Report{}, err
	}
	report := Report{Certainty: certainty}
	steps := []step{
		{"ending expired sessions", func(ctx context.Context) error { return r.endSessions(ctx, &report) }},
		{"revoking lost claims", counted(&report.Lost, r.book.RevokeLost)},
		{"revoking overdue claims", counted(&report.Overdue, r.book.RevokeOverdue)},
		{"expiring jobs", counted(&report.Expired, r.book.ExpireWaiting)},
		{"pruning and sweeping", func(ctx context.Context) error { return r.upkeep(ctx, &report) }},
		{"ringing for eligible work", counted(&report.Rung, r.book.RingEligible)},
	}
	var first error
	for _, s := range steps {
		if err := r.run(ctx, s); err != nil && first == nil {
			first = err
		}
	}
	return report, first
}

// run carries one step out, within a time that lets the others follow.
func (r *Reconciler) run(ctx context.Context, s step) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	bounded, cancel := context.WithTimeout(ctx, stepMax)
	defer cancel()
	err := s.do(bounded)
	switch {
	case err == nil || ctx.Err() != nil:
	case errors.Is(err, daybook.ErrFenced):
		// Somebody moved the row between the look and the write. Their write
		// stands, and the next pass looks again (riverqueue/river #1302).
		r.opts.Log.Info("lost race", "step", s.name, "err", err)
		return nil
	default:
		r.opts.Log.Warn("a step of the reconciler failed; the others go on", "step", s.name, "err", err)
	}
	return err
}

// stepMax bounds one step: what is left waits for the next pass.
const stepMax = 30 * time.Second

func counted(into *int, do func(context.Context) (int, error)) func(context.Context) error {
	return func(ctx context.Context) error {
		n, err := do(ctx)
		*into += n
		return err
	}
}

// endSessions ends or marks sessions past their lease, a batch at a time until
// a look changes nothing.
func (r *Reconciler) endSessions(ctx context.Context, report *Report) error {
	for {
		ended, marked, err := r.book.EndExpiredSessions(ctx, report.Certainty)
		report.Ended += ended
		report.Marked += marked
		if err != nil || ended+marked == 0 {
			return err
		}
	}
}
