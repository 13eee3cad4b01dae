package worker

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/daybookdev/daybook"
)

const (
	// dueFloor is the shortest pause before a look for a due job. Each look that
	// came to nothing doubles it, so that due jobs which this worker can't take
	// cost no more than the poll floor.
	dueFloor = 10 * time.Millisecond
	// readEvery bounds how often a worker asks the book what is due next.
	readEvery = 100 * time.Millisecond
	// alarmMost bounds an alarm: a job may be due in the year 9999.
	alarmMost = 24 * time.Hour
)

// alarm wakes the claim loop when the next waiting job of its queues becomes
// due: nobody rings for that.
type alarm struct {
	timer  *time.Timer  // nil until first used
	at     time.Time    // when it rings; past when it isn't set
	reread bool         // it is for asking again, and not for a look
	read   time.Time    // when the book was asked last
	looked bool         // and a claim call came to its end since
	passed daybook.Time // the database's clock of the last answer that followed a look
	vain   int          // looks in a row that an alarm began and that came to nothing
}

// ring is the timer's channel, nil while there is none.
func (a *alarm) ring() <-chan time.Time {
	if a.timer == nil {
		return nil
	}
	return a.timer.C
}

func (a *alarm) set(d time.Duration, reread bool) {
	a.at, a.reread = time.Now().Add(d), reread
	if a.timer == nil {
		a.timer = time.NewTimer(d)
		return
	}
	a.timer.Reset(d)
}

// again puts the next read off, when the last one was just now. What rings
// before that begins a look, which reads too.
func (a *alarm) again() bool {
	now := time.Now()
	next := a.read.Add(readEvery)
	if !now.Before(next) {
		return false
	}
	if !a.at.After(now) || a.at.After(next) {
		a.set(next.Sub(now), true)
	}
	return true
}

// setAlarm asks the book when the next job is due and sets the alarm for it, a
// little later so that a fleet doesn't wake as one. looked says that a claim
// call came before: what it left though it was eligible is not for this worker.
// A book that doesn't answer is left to the poll floor.
func (c *claimer) setAlarm(ctx context.Context, looked bool) {
	a := &c.alarm
	a.looked = a.looked || looked
	if a.again() {
		return
	}
	bounded, cancel := context.WithTimeout(ctx, c.patience())
	defer cancel()
	due, now, err := c.book.NextDue(bounded, c.cfg.Queues, a.passed)
	a.read = time.Now()
	if err != nil {
		return
	}
	if a.looked {
		a.passed, a.looked = now, false
	}
	c.alarmFor(due, now)
}

// alarmFor sets the alarm for the next due job; 0 is none.
func (c *claimer) alarmFor(due, now daybook.Time) {
	floor := min(dueFloor<<min(c.alarm.vain, 20), daybook.PollDefault)
	wait := alarmMost
	if due != 0 {
		wait = min(max(floor, due.Sub(now)), alarmMost)
	}
	c.alarm.set(wait+rand.N(dueFloor), false)
}

// polled reports whether a look is due now that it is time to poll. That is asked
// first: most polls find nothing, and of a thousand idle workers a question that
// is one read costs a fifth of the claims. Only a claim learns that the session is
// gone.
func (c *claimer) polled(ctx context.Context) bool {
	c.mu.Lock()
	none := c.session.ID.IsZero()
	c.mu.Unlock()
	if none {
		return true
	}
	bounded, cancel := context.WithTimeout(ctx, c.patience())
	defer cancel()
	due, now, err := c.book.NextDue(bounded, c.cfg.Queues, 0)
	if err != nil || due != 0 && due <= now {
		return true
	}
	c.alarm.read, c.alarm.passed, c.alarm.looked = time.Now(), now, false
	c.alarmFor(due, now)
	return false
}

// alarmed reports whether a look is due now that the alarm rang.
func (c *claimer) alarmed(ctx context.Context) bool {
	if c.alarm.reread {
		c.setAlarm(ctx, false)
		return false
	}
	c.alarm.vain++
	return true
}
