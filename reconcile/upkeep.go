package reconcile

import (
	"context"
	"time"

	"github.com/daybookdev/daybook"
)

// settingUpkeep is the book's note of when upkeep was last done, so that a
// fleet does it once a minute and not each process once a minute.
const settingUpkeep = "upkeep"

const (
	upkeepEvery = time.Minute
	// upkeepMax bounds each half of an upkeep: ten million old rows must not
	// delay the repair of a lost job. What is left waits a minute.
	upkeepMax = 2 * time.Second
)

// upkeep removes what is past its retention and folds what was counted, when it
// is due. A person's order (AtOnce) doesn't wait for that.
func (r *Reconciler) upkeep(ctx context.Context, report *Report) error {
	begun := time.Now()
	defer func() { report.Upkeep = time.Since(begun) }()
	if report.Certainty != daybook.AtOnce {
		due, err := r.takeUpkeep(ctx)
		if err != nil || !due {
			return err
		}
	}
	err := within(ctx, func(ctx context.Context) (err error) {
		report.Pruned, err = r.book.Prune(ctx, daybook.PruneOptions{Keep: r.opts.Keep})
		return err
	})
	if err != nil {
		return err
	}
	err = within(ctx, func(ctx context.Context) (err error) {
		report.Swept, err = r.book.Sweep(ctx)
		return err
	})
	if err != nil {
		return err
	}
	return r.book.Upkeep(ctx, r.opts.Keep)
}

// within gives do its time. Running out of it is no error.
func within(ctx context.Context, do func(context.Context) error) error {
	bounded, cancel := context.WithTimeout(ctx, upkeepMax)
	defer cancel()
	err := do(bounded)
	if bounded.Err() != nil && ctx.Err() == nil {
		return nil
	}
	return err
}

// takeUpkeep makes this process the one that does the upkeep now.
func (r *Reconciler) takeUpkeep(ctx context.Context) (bool, error) {
	last, err := r.book.Setting(ctx, settingUpkeep)
	if err != nil {
		return false, err
	}
	now, err := r.clock(ctx)
	if err != nil {
		return false, err
	}
	at, err := daybook.ParseTime(settingUpkeep, last)
	if err == nil && at <= now && now.Sub(at) < upkeepEvery {
		return false, nil
	}
	return r.book.SaveSetting(ctx, settingUpkeep, last, now.String())
}
