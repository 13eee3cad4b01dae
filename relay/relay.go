package relay

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/daybookdev/daybook"
)

// The defaults and limits.
const (
	// EveryDefault is the pause of a relay that is alone. Together the relays of
	// a fleet make about one pass in that time.
	EveryDefault = 100 * time.Millisecond
	// EveryMax bounds the pause of a relay that finds rows which no other has
	// come to, however large the fleet is. It is the workers' own poll: who
	// waits longer for a ring has found the job by then.
	EveryMax = daybook.PollDefault
	// SpreadMax bounds it while the others keep up.
	SpreadMax = time.Minute
	// DeadlineMax bounds Options.Deadline.
	DeadlineMax = time.Minute
)

// Options of a relay. The zero value works.
type Options struct {
	// Every is the pause between passes, ±20 %; 0 is EveryDefault for each
	// session that is alive, up to SpreadMax, so that a fleet in which every
	// process has a relay asks the database about as often as one. Where fewer
	// have one, rows are found late, and those pass more often.
	Every    time.Duration
	Deadline time.Duration // for publishing one batch; 0 is daybook.PublishMax
	Log      *slog.Logger  // nil is the book's
}

// Relay publishes the outbox of one book. Use one per process.
type Relay struct {
	book *daybook.Book
	bell daybook.Outside // nil: there is nothing to publish
	opts Options

	mark    int64         // where the next look begins
	walking bool          // through all rows, from the first on
	spent   time.Duration // on looks of that walk
	walk    time.Time     // when the next one may begin
	fleet   int           // live sessions, as of counted
	counted time.Time
	alone   float64 // how much shorter the pause is than the fleet's size says; 0 is not
	failed  int     // passes in a row
	away    string  // what was logged as away
}

// New makes a relay; options out of range are refused by Run and Pass.
func New(book *daybook.Book, opts Options) *Relay {
	if opts.Deadline == 0 {
		opts.Deadline = daybook.PublishMax
	}
	if opts.Log == nil {
		opts.Log = book.Log()
	}
	return &Relay{book: book, bell: book.Outside(), opts: opts}
}

func (o Options) check() error {
	if o.Every != 0 && (o.Every < time.Millisecond || o.Every > time.Hour) {
		return daybook.Invalid("every", "wants 1ms…%s, or 0 to go by the fleet, got %s", time.Hour, o.Every)
	}
	if o.Deadline < time.Millisecond || o.Deadline > DeadlineMax {
		return daybook.Invalid("deadline", "wants 1ms…%s, got %s", DeadlineMax, o.Deadline)
	}
	return nil
}

// Run makes passes until ctx ends; then it returns nil. A database or a bell
// that is away is logged once and waited for. Where the bell is none that other
// processes hear there is nothing to do, and it only waits. Options out of range
// are the only error.
func (r *Relay) Run(ctx context.Context) error {
	if err := r.opts.check(); err != nil {
		return err
	}
	if r.bell == nil {
		<-ctx.Done()
		return nil
	}
	wait := time.NewTimer(r.pause(ctx, false))
	defer wait.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-wait.C:
		}
		wait.Reset(r.pause(ctx, r.turn(ctx)))
	}
}

// turn publishes one batch, and reports whether there is more to do at once.
func (r *Relay) turn(ctx context.Context) (more bool) {
	begun := time.Now()
	if !r.walking && begun.After(r.walk) {
		r.walking, r.spent, r.mark = true, 0, 0
	}
	var report Report
	batch, looked, err := r.take(ctx, r.mark, &report)
	if err != nil {
		if ctx.Err() == nil {
			r.failed++
		}
		return false
	}
	r.mark, r.failed = batch.Next, 0
	r.healed()
	r.learn(report.Oldest)
	if r.walking {
		r.spent += looked.Sub(begun)
	}
	if r.walking && !batch.Full {
		r.walking, r.walk = false, looked.Add(r.spent*(100/walkShare-1))
	}
	return batch.Full
}

// walkShare is how many percent of its time a relay spends on walks through all
// rows, at most. Rows that were taken out can be slow to pass by, for as long as
// the database must keep them for somebody's old snapshot.
const walkShare = 5

// backoffMax bounds the pause between tries to reach a bell or a database that
// is away.
const backoffMax = 5 * time.Second

// pause is how long to wait for the next pass.
func (r *Relay) pause(ctx context.Context, more bool) time.Duration {
	if more {
		return 0
	}
	every := r.opts.Every
	if every == 0 {
		fleet := EveryDefault * time.Duration(r.processes(ctx))
		every = max(min(fleet, EveryMax), time.Duration(float64(fleet)/max(r.alone, 1)))
	}
	if r.failed > 0 {
		every = max(every, min(EveryDefault<<min(r.failed, 10), backoffMax))
	}
	return time.Duration(float64(every) * (0.8 + 0.4*rand.Float64()))
}

// lateAfter is how old a row may be when a relay finds it, in seconds: far more
// than a fleet in which every process has a relay leaves one. A relay that finds
// older ones closes in to lateAim, and goes back when it finds no more.
const lateAfter, lateAim, goBack = 1.0, 0.5, 1.25

// learn goes by the age of the oldest row that a pass found: sessions don't say
// whether their process has a relay.
func (r *Relay) learn(oldest float64) {
	if r.alone = max(r.alone, 1); oldest > lateAfter {
		r.alone = min(r.alone*oldest/lateAim, float64(SpreadMax/EveryMax))
	} else {
		r.alone = max(r.alone/goBack, 1)
	}
}

// countEvery is how often a relay counts the fleet.
const countEvery = 5 * time.Second

// processes is how many processes the fleet has, about: one a session. More
// than make the longest pause aren't counted.
func (r *Relay) processes(ctx context.Context) int {
	if r.counted.IsZero() || time.Since(r.counted) > countEvery {
		r.counted = time.Now()
		if n, err := r.book.LiveSessions(ctx, int(SpreadMax/EveryDefault)); err == nil {
			r.fleet = n
		}
	}
	return max(r.fleet, 1)
}
