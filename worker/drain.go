package worker

import (
	"context"
	"time"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/reconcile"
)

// drainPatience is how long a worker that drains waits for a database that
// doesn't answer, when its lease isn't longer: its caller waits for the end.
const drainPatience = 10 * time.Second

// giveUp ends a drain whose calls have failed since then for too long. It
// reports whether it did; a worker that doesn't drain never gives up.
func (e *engine) giveUp(since time.Time, err error) bool {
	if !e.drain || time.Since(since) < max(e.cfg.Lease, drainPatience) {
		return false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.gaveUp == nil {
		e.gaveUp = err
		e.log.Error("the worker gives up draining", "failing_for", time.Since(since), "err", err)
	}
	e.look()
	return true
}

// failure is why the drain was given up, or nil.
func (e *engine) failure() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.gaveUp
}

// failed pauses after a claim call, or the start of a session, that failed.
func (c *claimer) failed(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	pause := c.again.after(err)
	if !c.giveUp(c.again.since, err) {
		sleep(ctx, pause)
	}
}

// repair makes the one pass of the reconciler that a drain owes the book before
// it ends: its own loop may not have come to its first. The pass is unsure, as a
// first one is. It reports whether there was one to make.
func (c *claimer) repair(ctx context.Context) bool {
	book := c.atHand()
	if c.repaired || c.cfg.NoLoops || book == nil {
		return false
	}
	c.repaired = true
	report, err := reconcile.New(book, c.cfg.Reconcile).Pass(ctx, daybook.Unsure)
	switch {
	case err != nil && ctx.Err() == nil:
		c.log.Warn("not all could be repaired before the end of the drain", "err", err)
	case report.Repaired():
		c.log.Info("reconciled", "report", report)
	}
	return true
}
