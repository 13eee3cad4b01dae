package demo

import (
	"context"
	"slices"
	"time"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/internal/procs"
	"github.com/daybookdev/daybook/store/sqlite"
)

// pauseEnd says how a pause went.
type pauseEnd struct {
	by     *process
	fenced bool // it came back, reported, and was refused
	err    error
}

const (
	pausePatience = 30 * time.Second       // for each step of a pause
	probeBusy     = 300 * time.Millisecond // the book answers a probe so soon, or is blocked
)

// pause stops a worker that stands before a handler until its job is somebody
// else's, continues it, and waits until what it says then was refused.
func (d *director) pause(ctx context.Context, p *process, s standing) pauseEnd {
	fenced := false
	err := func() error {
		before, err := d.book.Job(ctx, s.Job)
		if err != nil {
			return err
		}
		if err := d.stop(ctx, p); err != nil {
			return err
		}
		err = until(ctx, func() (bool, error) {
			now, err := d.book.Job(ctx, s.Job)
			return now.Generation > before.Generation, err
		})
		if err != nil {
			return err
		}
		if err := procs.Continue(p.cmd.Process); err != nil {
			return err
		}
		p.order(order{Go: s.Fault})
		return until(ctx, func() (bool, error) {
			fenced, err = d.refused(ctx, s.Job, before.Generation)
			return fenced, err
		})
	}()
	return pauseEnd{by: p, fenced: fenced, err: err}
}

// resume takes a worker back in that was paused.
func (d *director) resume(e pauseEnd) error {
	d.pauses--
	d.moved = time.Now()
	e.by.paused = false
	if e.fenced {
		d.gaps[daybook.GapPause]++
	}
	e.by.order(order{Arm: new(d.arming(e.by))})
	return e.err
}

// stop stops the process, at a moment at which it doesn't hold the lock under
// which the book is written: on SQLite nobody else could write then.
func (d *director) stop(ctx context.Context, p *process) error {
	probe, err := sqlite.Open(ctx, bookPath(d.dir), sqlite.Options{Busy: probeBusy,
		Book: daybook.Options{Log: d.log}})
	if err != nil {
		return err
	}
	defer probe.Close()
	return until(ctx, func() (bool, error) {
		if err := procs.Stop(p.cmd.Process); err != nil {
			return false, err
		}
		err := probe.Store().Write(ctx, "probing", func(daybook.Tx) error { return nil })
		if err == nil {
			return true, nil
		}
		d.log.Info("the stopped worker holds the book's lock; once more", "process", p.Name, "err", err)
		return false, procs.Continue(p.cmd.Process)
	})
}

// refused reports whether the book keeps a fenced write of that generation.
func (d *director) refused(ctx context.Context, id daybook.ID, generation int64) (found bool, err error) {
	job, err := d.book.Job(ctx, id)
	if err != nil {
		return false, err
	}
	err = d.book.Store().Read(ctx, "reading a job's history", func(v daybook.View) error {
		h, err := v.History(ctx, job)
		found = slices.ContainsFunc(h.Refusals, func(r daybook.Refusal) bool { return r.Generation == generation })
		return err
	})
	return found, err
}

// until asks again and again, for as long as a step of a pause may take. What
// didn't come about by then shows in what the caller counts.
func until(ctx context.Context, ask func() (bool, error)) error {
	bounded, cancel := context.WithTimeout(ctx, pausePatience)
	defer cancel()
	for {
		if done, err := ask(); done || err != nil {
			return err
		}
		again := time.NewTimer(50 * time.Millisecond) // a whole pause, however long asking took
		select {
		case <-bounded.Done():
			again.Stop()
			return ctx.Err()
		case <-again.C:
		}
	}
}
