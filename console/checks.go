package console

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/daybookdev/daybook"
)

// checks runs one check at a time, and keeps the last.
type checks struct {
	mu  sync.Mutex
	now checkRun
}

// checkRun is a check of this process, under way or made.
type checkRun struct {
	Going  bool
	Full   bool
	By     string
	Reason string
	Begun  time.Time
	Took   time.Duration
	Walked int64
	Report *CheckReport
	Fault  string
}

// checkMax bounds a check.
const checkMax = 10 * time.Minute

// last is the run under way, or the last one.
func (k *checks) last() checkRun {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.now
}

func (k *checks) change(do func(run *checkRun)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	do(&k.now)
}

// checkPage shows the invariants, and what the last check found.
type checkPage struct {
	Run        checkRun
	Here       bool // this console can run one
	Clean      daybook.Time
	Invariants []daybook.Invariant
	Now        daybook.Time
	Age        string
	Said       string
}

func (c *Console) loadCheck(a *ask) (any, error) {
	h, err := c.health(a.ctx)
	if err != nil {
		return nil, err
	}
	p := checkPage{Run: c.check.last(), Here: c.opts.Check != nil, Invariants: daybook.Invariants, Now: h.At}
	if done := a.query.Get("done"); p.Run.Going && (done == "check" || done == "running") {
		p.Said = said(done)
	}
	p.Clean, _ = daybook.ParseTime("checked", h.Checked)
	if !p.Run.Begun.IsZero() {
		p.Age = lasted(time.Since(p.Run.Begun))
	}
	return p, nil
}

// doCheck starts a check, unless one runs.
func (c *Console) doCheck(a *ask) error {
	if c.opts.Check == nil {
		return daybook.Fail(daybook.CodeNotFound, "this console can't run a check; daybook check can")
	}
	by, err := c.by(a)
	if err != nil {
		return err
	}
	full, mine := a.r.PostFormValue("full") != "", false
	c.check.change(func(run *checkRun) {
		if mine = !run.Going; mine {
			*run = checkRun{Going: true, Full: full, By: by.Actor, Reason: by.Reason, Begun: time.Now()}
		}
	})
	done := "running"
	if mine {
		done = "check"
		c.log.Info("a check was asked for", "full", full, "actor", by.Actor, "reason", by.Reason)
		c.background(func() { c.runCheck(full) })
	}
	http.Redirect(a.w, a.r, c.url("/check", "done", done), http.StatusSeeOther)
	return nil
}

func (c *Console) runCheck(full bool) {
	ctx, cancel := context.WithTimeout(c.closing, checkMax)
	defer cancel()
	begun := time.Now()
	report, err := c.opts.Check(ctx, full, func(walked int64) {
		c.check.change(func(run *checkRun) { run.Walked += walked })
	})
	c.check.change(func(run *checkRun) {
		run.Going, run.Took = false, time.Since(begun)
		if err != nil {
			run.Fault = sayable(err)
		} else {
			run.Report = &report
		}
	})
	c.forget()
}
