package storetest

import (
	"errors"
	"time"

	"github.com/daybookdev/daybook"
)

// unlessDone lets a caller's own repeat be told that the decision is taken.
func unlessDone(err error) error {
	if errors.Is(err, daybook.ErrRefused) {
		return nil
	}
	return err
}

// decision is one person's decision about a job. Its first answer must not be
// a refusal, whatever the database did; a caller's own repeat may be.
func decision(prepare func(w *world) daybook.ID, state daybook.State, attempts int,
	decide func(w *world, id daybook.ID) error) func(w *world) (func() error, func()) {
	return func(w *world) (func() error, func()) {
		id := prepare(w)
		tries := 0
		do := func() error {
			tries++
			err := decide(w, id)
			if tries > 1 {
				err = unlessDone(err)
			}
			return err
		}
		return do, func() { w.ended(id, state, attempts) }
	}
}

func cancelling(force bool) func(w *world, id daybook.ID) error {
	return func(w *world, id daybook.ID) error {
		_, err := w.book.Cancel(w.ctx, id, someone, force)
		return err
	}
}

func waitingJob(w *world) daybook.ID { return w.enqueue(daybook.Request{Queue: w.fresh()}) }
func runningJob(w *world) daybook.ID { return w.owned(daybook.Request{}).ID }

func asideJob(w *world) daybook.ID {
	j := w.owned(daybook.Request{})
	_, err := w.book.Fail(w.ctx, j.ID, owner(j), daybook.Failure{Permanent: true}, nil)
	w.ok(err)
	return j.ID
}

func heldJob(w *world) daybook.ID {
	id := waitingJob(w)
	w.hold(id, "cutover")
	return id
}

func openJob(w *world) daybook.ID {
	j := w.owned(daybook.Request{OnLost: daybook.LostSetAside})
	w.lapse()
	return j.ID
}

var faultyPeople = []operation{
	{name: "cancel", prepare: decision(waitingJob, daybook.Cancelled, 0, cancelling(false))},
	{name: "ask to cancel", prepare: decision(runningJob, daybook.Running, 0, cancelling(false))},
	{name: "cancel by force", prepare: decision(runningJob, daybook.Cancelled, 1, cancelling(true))},
	{name: "revive", prepare: decision(asideJob, daybook.Waiting, 1, func(w *world, id daybook.ID) error {
		_, err := w.book.Revive(w.ctx, id, someone)
		return err
	})},
	{name: "unhold", prepare: decision(heldJob, daybook.Waiting, 0, func(w *world, id daybook.ID) error {
		_, err := w.book.Unhold(w.ctx, id, someone)
		return err
	})},
	{name: "settle", prepare: decision(openJob, daybook.Succeeded, 1, func(w *world, id daybook.ID) error {
		_, err := w.book.Settle(w.ctx, id, daybook.HandlerEffect, daybook.Verdict{Happened: true}, someone)
		return err
	})},
	{name: "pause", prepare: func(w *world) (func() error, func()) {
		const queue = "paused" // pausing may look at every queue there is
		do := func() error { return w.book.Pause(w.ctx, queue, someone) }
		return do, func() {
			c, err := w.book.Claim(w.ctx, daybook.ClaimRequest{Session: w.session("w").ID, Queues: []string{queue}})
			w.ok(err)
			same(w, "claims", len(c.Jobs), 0)
			w.ok(w.book.Resume(w.ctx, queue, someone))
		}
	}},
}

var faultyRepairs = []operation{
	{name: "a reconciler's pass", prepare: func(w *world) (func() error, func()) {
		j := w.owned(daybook.Request{})
		w.clock.advance(daybook.LeaseDefault + time.Second)
		do := func() error {
			_, _, err := w.book.EndExpiredSessions(w.ctx, daybook.AtOnce)
			if err == nil {
				_, err = w.book.RevokeLost(w.ctx)
			}
			return err
		}
		return do, func() {
			got := w.ended(j.ID, daybook.Waiting, 1)
			same(w, "generation", got.Generation, 2)
			same(w, "crashes", got.Crashes, 1)
			_, err := w.book.Cancel(w.ctx, j.ID, someone, false)
			w.ok(err)
		}
	}},
	{name: "run limits", prepare: func(w *world) (func() error, func()) {
		j := w.owned(daybook.Request{Timeout: time.Second})
		w.clock.advance(time.Second)
		do := func() error {
			_, err := w.book.RevokeOverdue(w.ctx)
			return err
		}
		return do, func() { same(w, "failures", w.ended(j.ID, daybook.Waiting, 1).Failures, 1) }
	}},
	{name: "expiry", prepare: func(w *world) (func() error, func()) {
		id := w.enqueue(daybook.Request{Queue: w.fresh(), ExpiresAt: w.clock.now().Add(time.Second)})
		w.clock.advance(time.Second)
		do := func() error {
			_, err := w.book.ExpireWaiting(w.ctx)
			return err
		}
		return do, func() { w.ended(id, daybook.Expired, 0) }
	}},
	{name: "prune", prepare: pruneOne},
	{name: "sweep", prepare: sweepOne},
}

func pruneOne(w *world) (func() error, func()) {
	r := daybook.Request{Key: daybook.NewID().String()}
	j := w.owned(r)
	w.complete(j)
	w.clock.advance(daybook.RetentionDefault)
	do := func() error {
		_, err := w.book.Prune(w.ctx, daybook.PruneOptions{})
		return err
	}
	return do, func() {
		_, err := w.book.Job(w.ctx, j.ID)
		w.refused(err, daybook.CodeNotFound)
		k, err := w.book.Key(w.ctx, r.Key)
		w.ok(err)
		same(w, "the key's state", k.State, daybook.Succeeded)
		same(w, "the key's result", string(k.Result), `"done"`)
		c := w.counted(j.Queue)
		same(w, "succeeded", c.Succeeded, 1)
		same(w, "balanced", c.Balanced(), true)
	}
}

func sweepOne(w *world) (func() error, func()) {
	j := w.owned(daybook.Request{})
	w.complete(j)
	before := w.counted(j.Queue)
	w.clock.advance(2 * daybook.FoldAge)
	do := func() error {
		_, err := w.book.Sweep(w.ctx)
		return err
	}
	return do, func() {
		same(w, "counts", w.counted(j.Queue), before)
		n, err := w.book.Sweep(w.ctx)
		w.ok(err)
		same(w, "left to sweep", n, 0)
	}
}
