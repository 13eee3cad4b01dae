package worker

import (
	"log/slog"
	"math/rand/v2"
	"time"
)

// retry is one kind of call that is made again until the database answers. It
// logs the first failure and the recovery, and nothing between.
type retry struct {
	log   *slog.Logger
	doing string
	tries int
	since time.Time
}

const (
	retryFirst = 50 * time.Millisecond
	retryMost  = 5 * time.Second
	// patienceMost bounds one call: a connection that accepts and never answers
	// must not hold a loop (riverqueue/river PR #1251).
	patienceMost = 10 * time.Second
)

// after is the pause after a failed call: from 50 ms doubling to 5 s, spread by
// half so that a fleet doesn't return in step.
func (r *retry) after(err error) time.Duration {
	if r.tries == 0 {
		r.since = time.Now()
		r.log.Warn("a call to the book failed; it is made again until it succeeds", "doing", r.doing, "err", err)
	}
	d := min(retryFirst<<min(r.tries, 10), retryMost)
	r.tries++
	return time.Duration(float64(d) * (0.5 + rand.Float64()))
}

// healed notes that the call succeeded.
func (r *retry) healed() {
	if r.tries > 0 {
		r.log.Info("the book answers again", "doing", r.doing, "after", time.Since(r.since), "tries", r.tries)
	}
	r.tries = 0
}

// patience is how long one call may take.
func (e *engine) patience() time.Duration { return min(e.cfg.Lease, patienceMost) }
