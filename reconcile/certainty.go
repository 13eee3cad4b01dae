package reconcile

import (
	"context"
	"log/slog"
	"time"

	"github.com/daybookdev/daybook"
)

// look is what the reconciler saw of the database's clock, and when by its own.
// Two clean looks in a row mean that database and process both ran on between
// them; only then is an old lease a sign of a dead worker, and not of a
// database that was away for all of them.
type look struct {
	clean  bool         // the database answered in time, and its clock went on as expected
	clock  daybook.Time // the database's clock
	before time.Time    // by this process's clock, before it was asked
	after  time.Time    // and after it answered
}

const (
	// jumpMax is how far the database's clock may run apart from the monotonic
	// one between two looks: less than the shortest lease.
	jumpMax = 500 * time.Millisecond
	// answerMax is how long the database may take to answer: a slower one may
	// keep renewals waiting too, and their sessions aren't dead.
	answerMax = time.Second
)

// clock reads the database's clock.
func (r *Reconciler) clock(ctx context.Context) (now daybook.Time, err error) {
	err = r.book.Store().Read(ctx, "reading the clock", func(v daybook.View) error {
		if p, ok := v.(daybook.Peeker); ok {
			_, now, err = p.PeekSetting(ctx, daybook.SettingPass) // one round trip
			return err
		}
		now = v.Now()
		return nil
	})
	return now, err
}

// judge looks at the database's clock and decides how far a pass may trust it:
// not at the first look, not after a failed or late one, and not when the clock
// jumped against the monotonic clock.
func (r *Reconciler) judge(ctx context.Context) daybook.Certainty {
	last := r.look
	before := time.Now()
	clock, err := r.clock(ctx)
	if err != nil {
		r.failed(ctx, err)
		return daybook.Unsure
	}
	r.look = look{clock: clock, before: before, after: time.Now()}
	why, by := r.look.doubt(last, r.opts.Every)
	if why != "" {
		r.opts.Log.Warn("the reconciler's pass only marks expired sessions", "why", why, "by", by)
		return daybook.Unsure
	}
	r.look.clean = true
	if !last.clean {
		return daybook.Unsure
	}
	return daybook.Sure
}

// doubt says what is wrong with a look, or "".
func (l look) doubt(last look, every time.Duration) (why string, by time.Duration) {
	switch {
	case l.after.Sub(l.before) > answerMax:
		return "the database was slow to answer", l.after.Sub(l.before)
	case !last.clean:
		return "", 0
	case l.before.Sub(last.after) > 2*every+answerMax:
		return "the pass is late", l.before.Sub(last.after)
	case l.jumped(last) > jumpMax:
		return "the database's clock jumped", l.jumped(last)
	}
	return "", 0
}

// jumped is by how much the database's clock moved more, or less, than the
// monotonic clock allows: each was read somewhere between before and after.
func (l look) jumped(last look) time.Duration {
	moved := l.clock.Sub(last.clock)
	least, most := l.before.Sub(last.after), l.after.Sub(last.before)
	return max(moved-most, least-moved, 0)
}

// failed notes that the database didn't answer, and logs it once.
func (r *Reconciler) failed(ctx context.Context, err error) {
	if !r.away && ctx.Err() == nil {
		r.opts.Log.Warn("the reconciler can't reach the database; it keeps trying", slog.Any("err", err))
	}
	r.look.clean, r.away = false, true
}

// healed notes that a whole pass succeeded. Less is no sign of that: a book that
// can't be written can still be read.
func (r *Reconciler) healed() {
	if r.away {
		r.opts.Log.Info("the reconciler reaches the database again")
	}
	r.away = false
}
