package cutover

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/daybookdev/daybook"
)

// Settled says what became of the jobs that were in old workers' hands.
type Settled struct {
	Finished int64 `json:"finished"` // under their old owners
	Lost     int64 `json:"lost"`     // their owner died: set aside with the open effect handler, or moved
	Moved    int64 `json:"moved"`    // given back by their owners, and swept in
	Waiting  int64 `json:"waiting"`  // still with a live owner
	Blocked  int64 `json:"blocked"`  // waiting for other jobs in the old system
}

// Settle waits for the jobs in old workers' hands, up to the plan's time: each
// ends under its owner, or comes back and is swept in, or loses its owner. A live
// owner is never robbed: what is left when the time is over is told, and the next
// call goes on waiting.
func (e *Engine) Settle(ctx context.Context) (Settled, error) {
	c, err := e.taking(ctx, "settle", daybook.PhaseMove, daybook.PhaseSettle)
	if err != nil {
		return Settled{}, err
	}
	p, err := PlanOf(c)
	if err != nil {
		return Settled{}, err
	}
	if err := e.stillClosed(ctx, c); err != nil {
		return Settled{}, err
	}
	if c.Phase == daybook.PhaseMove {
		if c, err = e.advance(ctx, daybook.PhaseSettle); err != nil {
			return Settled{}, err
		}
	}
	var total Settled
	until := time.Now().Add(time.Duration(p.Wait))
	for {
		swept, err := e.sweep(ctx, c)
		total.Moved += swept.Taken
		if err != nil {
			return total, err
		}
		if err := e.settleOnce(ctx, c, p, &total); err != nil {
			return total, err
		}
		if total.Waiting == 0 {
			return total, nil
		}
		if !time.Now().Before(until) {
			return total, daybook.Fail(daybook.CodeRefused, "%d jobs are still with old workers after %s: stop those and run "+
				"cutover settle again, which goes on where this stopped", total.Waiting, p.Wait)
		}
		e.report("jobs with old workers", total.Waiting, 0)
		if !wait(ctx, min(e.o.Sample, time.Until(until)+time.Millisecond)) {
			return total, ctx.Err()
		}
	}
}

// settleOnce looks at every job that still stands with the old system.
func (e *Engine) settleOnce(ctx context.Context, c daybook.Cutover, p Plan, total *Settled) error {
	looked, err := e.book.Clock(ctx)
	if err != nil {
		return err
	}
	if _, err := e.sample(ctx, c); err != nil {
		return err
	}
	if c, err = e.Load(ctx); err != nil { // with the deaths that the sample found
		return err
	}
	total.Waiting, total.Blocked = 0, 0
	alive, err := e.alive(ctx)
	if err != nil {
		return err
	}
	f := daybook.ItemFilter{Cutover: e.name, Term: daybook.TermStill, Whole: true, Limit: e.o.Batch}
	for {
		page, err := e.book.Items(ctx, f)
		if err != nil {
			return err
		}
		if len(page.Items) > 0 {
			if err := e.judge(ctx, c, p, looked, page.Items, alive, total); err != nil {
				return err
			}
		}
		if f.Cursor = page.Cursor; f.Cursor == "" {
			return nil
		}
	}
}

// living are the workers that gave a sign of life within the system's patience.
type living []string

// owns reports whether one of them is an owner of that name.
func (l living) owns(owner string) bool {
	return slices.ContainsFunc(l, func(name string) bool { return owner == name || strings.HasPrefix(owner, name+":") })
}

func (e *Engine) alive(ctx context.Context) (l living, err error) {
	g, now, err := e.gateState(ctx)
	for _, w := range g.Claimants {
		if now.Sub(w.Seen) <= e.old.Patience() {
			l = append(l, w.Name)
		}
	}
	return l, err
}

// judge decides about items by what was known when looked was read, or later.
func (e *Engine) judge(ctx context.Context, c daybook.Cutover, p Plan, looked daybook.Time, items []daybook.Item,
	alive living, total *Settled) error {
	n, err := NotesOf(c)
	if err != nil {
		return err
	}
	ids := make([]string, len(items))
	for k, i := range items {
		ids[k] = i.ID
	}
	found, err := e.old.Find(ctx, ids)
	if err != nil {
		return err
	}
	missed, err := e.book.Clock(ctx)
	if err != nil {
		return err
	}
	fates := make([]daybook.Fate, len(items))
	var lost []lostJob
	for k, i := range items {
		now := among(i, found)
		if i.MissedAt == 0 && now.State == daybook.OldGone {
			i.MissedAt = missed
		}
		look := daybook.Look{At: looked, OwnerLives: alive.owns(i.Owner), Patience: e.old.Patience(), Slip: e.old.Slip(),
			Deaths: n.Deaths}
		if fates[k] = i.FateOf(now, look); fates[k] == daybook.FateLost {
			i.Died = i.BlamedOn(look)
		}
		items[k] = i
		switch {
		case fates[k] == daybook.FateFinished, fates[k] == daybook.FateGone:
			total.Finished++
		case fates[k] == daybook.FateLost, now.State == daybook.OldBlocked:
			lost = append(lost, lostJob{now: now, last: i.Old, there: now.State != daybook.OldGone})
		default:
			total.Waiting++
		}
	}
	if err := e.book.JudgeOld(ctx, e.name, items, fates, "ended under its old owner"); err != nil {
		return err
	}
	e.step(GapJudged)
	return e.takeLost(ctx, c, p, lost, total)
}

// among finds where the old store has the item's job. Another job that came
// under its id is not it.
func among(i daybook.Item, found map[string]daybook.OldJob) daybook.OldJob {
	now, ok := found[i.ID]
	if !ok || now.State == "" || len(now.Body) > 0 && now.Hash() != i.Hash {
		return daybook.OldJob{ID: i.ID, State: daybook.OldGone}
	}
	return now
}

// lostJob is a job without an owner, where it is and as it was last seen whole.
type lostJob struct {
	now   daybook.OldJob
	last  *daybook.OldJob
	there bool // the old store has it
}

// takeLost records jobs that lost their owners, and blocked ones. Those that the
// old store still has are taken out of it, by way of the held list.
func (e *Engine) takeLost(ctx context.Context, c daybook.Cutover, p Plan, lost []lostJob, total *Settled) error {
	for _, l := range lost {
		if l.there {
			taken, err := e.old.TakeLost(ctx, l.now)
			if err != nil {
				return err
			}
			if !taken {
				total.Waiting++ // it isn't lost after all
				continue
			}
			e.step(GapTaken)
			if _, err := e.sweep(ctx, c); err != nil {
				return err
			}
		} else if err := e.importLost(ctx, c, p, l); err != nil {
			return err
		}
		if l.now.State == daybook.OldBlocked {
			total.Blocked++
		} else {
			total.Lost++
		}
	}
	return nil
}

// importLost records a job of which the old store has no trace any more.
func (e *Engine) importLost(ctx context.Context, c daybook.Cutover, p Plan, l lostJob) error {
	o := l.now
	if l.last != nil {
		o = *l.last
	}
	o.State = daybook.OldOwnerLost
	_, err := e.book.ImportOld(ctx, e.name, []daybook.Arriving{e.arrive(c, p, o)})
	return err
}

// arrive is what a job becomes here, by mapping and plan.
func (e *Engine) arrive(c daybook.Cutover, p Plan, o daybook.OldJob) daybook.Arriving {
	a := e.mapping(p).Arrive(c, o)
	if p.Intake == IntakeDouble {
		a.Twin = o.Name()
	}
	if p.Owners == OwnersSafe {
		a.OwnerDied = false
	}
	return a
}
