package ring

import (
	"context"
	"math/rand/v2"
	"time"
)

// Pause grows with each failure in a row and is jittered, so that a fleet
// doesn't come back to its server in step. It is one goroutine's.
type Pause struct {
	// Least is the first pause, and Most the longest; 0 are PauseLeast and
	// PauseMost.
	Least, Most time.Duration
	next        time.Duration
}

// The pauses of a bell: a restarted server is found soon, and one that is away
// for long isn't flooded.
const PauseLeast, PauseMost = 50 * time.Millisecond, 5 * time.Second

// Next is how long to wait now: between half and all of a length that doubles.
func (p *Pause) Next() time.Duration {
	least, most := p.Least, p.Most
	if least <= 0 {
		least = PauseLeast
	}
	if most <= 0 {
		most = PauseMost
	}
	p.next = min(max(2*p.next, least), most)
	return Jitter(p.next)
}

// Over begins anew: what was waited for succeeded.
func (p *Pause) Over() { p.next = 0 }

// Wait waits for the next pause, and is false when ctx ended first.
func (p *Pause) Wait(ctx context.Context) bool {
	wait := time.NewTimer(p.Next())
	defer wait.Stop()
	select {
	case <-wait.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// Jitter is between half of d and all of it.
func Jitter(d time.Duration) time.Duration {
	if d <= 1 {
		return d
	}
	return d/2 + rand.N(d/2+1)
}
