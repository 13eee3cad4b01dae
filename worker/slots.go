package worker

import (
	"context"
	"time"

	"github.com/daybookdev/daybook"
)

// trusted reports whether the lease holds by this process's clock. It wants the
// lock.
func (e *engine) trusted() bool { return time.Now().Before(e.trust) }

// free is how many slots nobody wants yet. It wants the lock.
func (e *engine) free() int { return e.cfg.Concurrency - e.busy - len(e.queue) }

// room is how many claims the worker can take: free slots, and a few to wait
// for the next one. It wants the lock.
func (e *engine) room() int { return e.free() + e.pace.spare(e.cfg.Concurrency) }

// worthACall reports whether the room is worth a claim call: with a free slot always,
// and else with half of what may wait, so that fast handlers are claimed for in
// batches. It wants the lock.
func (e *engine) worthACall() bool { return e.room() >= max(1, e.pace.spare(e.cfg.Concurrency)/2) }

// fill starts a slot for what waits in the queue, unless one is about to begin:
// that one starts the next. So there are as many as handlers that block, and
// handlers that don't share a few. It wants the lock.
func (e *engine) fill() {
	if len(e.queue) == 0 || e.slots == e.cfg.Concurrency || e.starting {
		return
	}
	e.slots++
	e.starting = true
	go e.slot(true)
}

// slot runs one claim after the other until none waits. A handler that ends its
// goroutine hands the slot to a new one.
func (e *engine) slot(first bool) {
	left := false
	defer func() {
		if !left {
			go e.slot(false)
		}
	}()
	r := e.next(first, nil, daybook.Outcome{})
	for r != nil {
		r = e.next(false, r, e.attempt(r))
	}
	left = true
}

// next takes over how the claim before ended, and takes the next one for a slot;
// nil closes the slot. Nothing begins when the lease doesn't hold by this
// process's clock.
func (e *engine) next(first bool, before *run, out daybook.Outcome) *run {
	if before != nil {
		e.over(before)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if first {
		e.starting = false
	}
	if before != nil {
		e.returned(before, out)
	}
	if len(e.queue) == 0 || e.stopping || !e.trusted() {
		e.slots--
		e.tellRoom()
		e.tellIdle()
		return nil
	}
	r := e.queue[0]
	e.queue[0] = nil
	e.queue = e.queue[1:]
	e.busy++
	e.fill()
	r.place = placeRunning
	r.begin(e.base, time.Now())
	e.arm(r)
	e.tellRoom()
	return r
}

// tellRoom wakes the claim loop when it waits for room and there is some that is worth
// a call now: handlers may have got slower, or faster, since it began to wait. It
// wants the lock.
func (e *engine) tellRoom() {
	if e.cramped && e.worthACall() {
		e.cramped = false
		e.look()
	}
}

// attempt runs the handler and says how it ended, whatever it did. When the
// handler ends its goroutine nobody hears that, and it is passed on from here.
func (e *engine) attempt(r *run) (out daybook.Outcome) {
	returned := false
	var end func(daybook.Outcome) // of its span
	defer func() {
		if returned {
			return
		}
		panicked := recover()
		out = r.broken(panicked)
		if end != nil {
			end(out)
		}
		if panicked == nil {
			e.over(r)
			e.mu.Lock()
			defer e.mu.Unlock()
			e.returned(r, out)
		}
	}()
	if e.begun(r) {
		e.book.Reached(daybook.GapStart, r.job.ID)
		e.book.Reached(daybook.GapPause, r.job.ID)
		var ctx context.Context
		ctx, end = r.traced()
		out = r.kind.call(ctx, r)
		if end != nil {
			end(out)
		}
	} else {
		out = daybook.Outcome{Kind: daybook.OutcomeReleased}
	}
	returned = true
	return out
}

// over frees the run's context.
func (e *engine) over(r *run) {
	r.ctx.cancel(context.Canceled)
	e.book.Reached(daybook.GapComplete, r.job.ID)
}

// returned takes an outcome over for the flusher. It wants the lock.
func (e *engine) returned(r *run, out daybook.Outcome) {
	e.busy--
	if r.timer != nil {
		r.timer.Stop()
	}
	if r.leaked {
		r.leaked = false
		e.counters.leaked.Add(-1)
		e.log.Info("a handler returned long after its context ended", "job", r.job.ID)
	}
	if r.place == placeRunning {
		r.place = placeReturned
	}
	e.pace.add(time.Since(r.began))
	e.report(r, out)
}

// report puts an outcome into the outbox. It wants the lock.
func (e *engine) report(r *run, out daybook.Outcome) {
	out.Job, out.Owner = r.job.ID, r.owner
	e.outbox = append(e.outbox, ending{run: r, out: out})
	poke(e.flush)
}
