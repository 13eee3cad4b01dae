package reconcile

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/daybookdev/daybook"
)

// EveryDefault is the pause between two passes over the whole book. It doesn't
// depend on leases: a lost job waits its lease and about one pause.
const EveryDefault = 5 * time.Second

// Options of a reconciler. The zero value works.
type Options struct {
	Every time.Duration // pause between passes, ±20 %; 0 is EveryDefault
	Keep  time.Duration // finished jobs stay this long; 0 is daybook.RetentionDefault
	Log   *slog.Logger  // nil is the book's
	Seen  func(Report)  // called after each pass that this process made; may be nil
}

// Reconciler repairs one book. Use one per process.
type Reconciler struct {
	book *daybook.Book
	opts Options
	look look // at the database's clock, of the pass before
	away bool // it was logged that the database can't be reached
}

// New makes a reconciler; options out of range are refused by Run and Pass.
func New(book *daybook.Book, opts Options) *Reconciler {
	if opts.Every == 0 {
		opts.Every = EveryDefault
	}
	if opts.Keep == 0 {
		opts.Keep = daybook.RetentionDefault
	}
	if opts.Log == nil {
		opts.Log = book.Log()
	}
	return &Reconciler{book: book, opts: opts}
}

func (o Options) check() error {
	if o.Every < time.Millisecond || o.Every > daybook.LeaseMax {
		return daybook.Invalid("every", "wants 1ms…%s, got %s", daybook.LeaseMax, o.Every)
	}
	if o.Keep < daybook.RetentionMin || o.Keep > daybook.DelayMax {
		return daybook.Invalid("keep", "wants %s…%s, got %s", daybook.RetentionMin, daybook.DelayMax, o.Keep)
	}
	return nil
}

// Run looks every so often whether a pass is due, and makes it if no other
// process did, until ctx ends; then it returns nil. A database that is away is
// logged once and waited for. Options out of range are the only error.
func (r *Reconciler) Run(ctx context.Context) error {
	if err := r.opts.check(); err != nil {
		return err
	}
	wait := time.NewTimer(r.pause())
	defer wait.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-wait.C:
		}
		r.turn(ctx)
		wait.Reset(r.pause())
	}
}

// pause spreads the passes of processes that started together.
func (r *Reconciler) pause() time.Duration {
	return time.Duration(float64(r.opts.Every) * (0.8 + 0.4*rand.Float64()))
}

// turn looks at the clock, and makes the pass if it is this process's.
func (r *Reconciler) turn(ctx context.Context) {
	certainty := r.judge(ctx)
	begun := time.Now()
	// Less than the shortest pause, so that a lone process makes every pass.
	mine, err := r.book.TakePass(ctx, r.opts.Every*3/4)
	if err != nil {
		r.failed(ctx, err)
	}
	if err != nil || !mine {
		return
	}
	if time.Since(begun) > answerMax {
		certainty = daybook.Unsure // renewals had to wait as well
	}
	report, err := r.Pass(ctx, certainty)
	if err != nil || time.Since(begun)-report.Upkeep > r.opts.Every+answerMax {
		r.look.clean = false // a failed or late pass: the next one can't be sure
	}
	if err == nil {
		r.healed()
	}
	if r.opts.Seen != nil {
		r.opts.Seen(report)
	}
	if report.Repaired() {
		r.opts.Log.Info("reconciled", "report", report)
	}
}
