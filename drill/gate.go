package drill

import (
	"os"
	"sync"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/internal/procs"
)

// gate is the hook of a child's book: it lets everybody through but the first
// who comes to the gap that the parent armed. That one reports where it stands
// and waits, for the kill or for the word to go on.
type gate struct {
	out  *procs.Lines
	deaf bool

	mu      sync.Mutex
	armed   arming
	waiting map[int]chan struct{} // by run
}

func newGate(out *procs.Lines) *gate { return &gate{out: out, waiting: map[int]chan struct{}{}} }

// arm replaces what is armed.
func (g *gate) arm(a arming) {
	g.mu.Lock()
	g.armed = a
	if g.deaf {
		g.armed.Gap = ""
	}
	g.mu.Unlock()
	_ = g.out.Write(report{Armed: a.Run}) // the parent is gone: so will this process be
}

// goOn lets the one go on whom a run made stand.
func (g *gate) goOn(run int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if c := g.waiting[run]; c != nil {
		delete(g.waiting, run)
		close(c)
	}
}

// hook is the daybook.Hook. The gap pause is the drill's own: see sending.
func (g *gate) hook(gap string, job daybook.ID) {
	if gap != daybook.GapPause {
		g.reached(gap, job)
	}
}

func (g *gate) reached(gap string, job daybook.ID) {
	run, wait := g.stands(gap)
	if run == 0 {
		return
	}
	if g.out.Write(report{At: &standing{Run: run, PID: os.Getpid(), Gap: gap, Job: job}}) != nil {
		return // nobody is there to say go on
	}
	<-wait
	_ = g.out.Write(report{On: run})
}

func (g *gate) stands(gap string) (run int, wait chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.armed.Gap != gap {
		return 0, nil
	}
	run, wait = g.armed.Run, make(chan struct{})
	g.armed, g.waiting[run] = arming{}, wait
	return run, wait
}
