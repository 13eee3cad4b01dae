package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/drill"
)

// drillEffects makes a drill around effects and shows its result. Its workers are
// this program again.
func (a *app) drillEffects(ctx context.Context, f drillFlags) error {
	o := drill.Options{Seed: f.seed, Gaps: f.gaps, Times: f.times, For: f.length(), Lanes: f.lanes}
	self, err := os.Executable()
	if err != nil {
		return daybook.Fail(daybook.CodeInternal, "the drill can't find its own program to start it again")
	}
	o.Command = []string{self, "drill", "--process"}
	o.Open = a.drillOpener(false)
	if err := o.Check(); err != nil {
		return err
	}
	db, err := a.database()
	if err != nil {
		return err
	}
	book, err := db.drill(ctx)
	if err != nil {
		return err
	}
	where, err := json.Marshal(book)
	if err != nil {
		return err
	}
	o.Where, o.Dir = string(where), book.dir
	o.Progress = a.drillProgress(o)
	result, err := drill.Run(ctx, o)
	if err == nil && result.Violations == 0 || ctx.Err() != nil {
		return errors.Join(err, book.clear(), a.showDrill(result, f, err))
	}
	book.dir = cmp.Or(book.dir, result.Dir)
	a.tellKept(book, false)
	return errors.Join(err, a.showDrill(result, f, err))
}

// drillProgress says how far the drill is: on a terminal as a bar, and else now
// and then.
func (a *app) drillProgress(o drill.Options) func(done int) {
	runs := int64(o.Rows() * o.Times)
	if runs == 0 {
		runs = -1 // nobody knows
	}
	if bar := a.progress(runs, "faults", false); bar != nil {
		return func(done int) { _ = bar.Set(done) }
	}
	last := time.Now()
	return func(done int) {
		if time.Since(last) > 30*time.Second {
			last = time.Now()
			a.note("%d faults so far", done)
		}
	}
}

// showDrill shows a result, if there is one, and makes it the exit status.
func (a *app) showDrill(r drill.Result, f drillFlags, failed error) error {
	if failed != nil {
		return nil
	}
	r.Replay = a.replay(f)
	if a.json() {
		if err := daybook.EncodeJSON(a.stdout, r); err != nil {
			return err
		}
	} else if err := r.Table(a.stdout); err != nil {
		return err
	}
	switch {
	case r.Violations > 0:
		return exitError{statusViolation, fmt.Sprintf("the drill found %s; replay it by %s",
			count(r.Violations, "violation"), r.Replay)}
	case r.Void > 0:
		return exitError{statusFailed, fmt.Sprintf("the drill is void: %s without the fault", count(r.Void, "run"))}
	}
	return nil
}
