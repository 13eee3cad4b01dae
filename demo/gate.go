package demo

import (
	"sync"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/internal/procs"
)

// gate is the hook of a child's book: it lets everybody through but the one
// passage that the parent armed. That one reports where it stands and waits,
// for the kill or for the word to go on. A child that is about to be stopped
// lets nobody through: it comes to rest, and holds no lock when it is stopped.
type gate struct {
	out *procs.Lines

	mu      sync.Mutex
	armed   arming
	waiting map[int]chan struct{} // by fault
	resting chan struct{}         // closed when the pause is over; nil without one
}

func newGate(out *procs.Lines) *gate { return &gate{out: out, waiting: map[int]chan struct{}{}} }

// arm replaces what is armed.
func (g *gate) arm(a arming) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.armed = a
}

// goOn lets the one go on that a fault stopped.
func (g *gate) goOn(fault int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	c := g.waiting[fault]
	if c == nil {
		return
	}
	if c == g.resting {
		g.resting = nil
	}
	delete(g.waiting, fault)
	close(c)
}

// reached is the daybook.Hook.
func (g *gate) reached(gap string, job daybook.ID) {
	fault, wait := g.stops(gap)
	if fault != 0 && g.out.Write(report{At: &standing{Fault: fault, Gap: gap, Job: job}}) != nil {
		return // nobody is there to say go on
	}
	if wait != nil {
		<-wait
	}
}

// stops counts the passage, and disarms the gate when it is the one: then it
// has a fault to report. wait is what to wait for, nil for nothing.
func (g *gate) stops(gap string) (fault int, wait chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.armed.Gap != gap {
		return 0, g.resting
	}
	if g.armed.Passage--; g.armed.Passage > 0 {
		return 0, g.resting
	}
	fault, wait = g.armed.Fault, make(chan struct{})
	g.armed, g.waiting[fault] = arming{}, wait
	if gap == daybook.GapPause {
		g.resting = wait
	}
	return fault, wait
}
