package worker

import (
	"time"

	"github.com/daybookdev/daybook"
)

const (
	// watchEvery is the pause between two looks at what the worker holds. Only
	// run limits nearer than two looks get a timer, so that the usual ones, of
	// hours, cost nothing.
	watchEvery = 5 * time.Second
	// leakAfter is how long a handler may go on after its context ended before
	// it counts as leaked.
	leakAfter = 5 * time.Second
)

// watch looks at what is held, until the engine ends.
func (e *engine) watch() {
	for sleep(e.hard, watchEvery) {
		e.watchOnce(time.Now())
	}
}

func (e *engine) watchOnce(now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.pace.stuck(e.slots, watchEvery)
	var stale []*run
	for _, r := range e.held {
		switch {
		case r.place == placeRunning:
			e.arm(r)
		case r.place == placeQueued && now.Sub(r.got) >= watchEvery:
			stale = append(stale, r)
		}
	}
	// The handlers became slow, or the lease is in doubt: others may be free.
	for _, r := range stale {
		e.giveBack(r)
	}
}

// arm sets the timer of a run limit that is near. It wants the lock.
func (e *engine) arm(r *run) {
	if left := time.Until(r.limit); r.timer == nil && left < 2*watchEvery {
		r.timer = time.AfterFunc(left, func() {
			e.mu.Lock()
			defer e.mu.Unlock()
			if r.place == placeRunning {
				e.endContext(r, ErrRunLimit)
			}
		})
	}
}

// endContext tells a handler to stop, and why; the first cause stands. It wants
// the lock.
func (e *engine) endContext(r *run, cause error) {
	if r.ended {
		return
	}
	r.ended = true
	if r.timer != nil {
		r.timer.Stop()
	}
	r.ctx.cancel(cause)
	r.timer = time.AfterFunc(leakAfter, func() { e.leak(r, cause) })
}

// leak marks a handler that ignores the end of its context. Its slot stays
// taken, since what the handler uses is in use, and people must see it. When
// the limit was this worker's own, shorter than the job's, the worker reports
// it in the handler's place: the book would wait for the job's own limit.
func (e *engine) leak(r *run, cause error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if r.place != placeRunning || r.leaked {
		return
	}
	r.leaked = true
	e.counters.leaked.Add(1)
	e.log.Warn("a handler ignores the end of its context; its slot is taken until it returns",
		"job", r.job.ID, "kind", r.job.Kind, "cause", cause)
	switch {
	case r.lost:
		e.drop(r)
	case cause == ErrRunLimit && r.own:
		e.report(r, r.overdue())
	}
}

// overdue is what the worker reports of a handler that ran past its limit and
// goes on: a failure that counts, or a person's case where the job says so.
func (r *run) overdue() daybook.Outcome {
	out := r.failure(daybook.Fail(daybook.CodeRefused,
		"ran past its run limit of %s and ignored the end of its context", r.allow))
	out.Problem.Kind = "timeout"
	if r.job.OnLost == daybook.LostSetAside {
		out.Permanent, out.Reason, out.RetryIn = true, daybook.ReasonTimeout, nil
	}
	return out
}
