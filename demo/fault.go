package demo

import (
	"context"
	"fmt"

	"github.com/daybookdev/daybook"
)

// fault is the next one of the plan; false when the plan is done.
func (d *director) fault() (fault, bool) {
	if d.next == len(d.plan.Faults) {
		return fault{}, false
	}
	return d.plan.Faults[d.next], true
}

// armWhenDue arms the next fault once enough jobs ended since the last one, or
// when no more work is to come. The first process to reach it gets it.
func (d *director) armWhenDue() {
	f, more := d.fault()
	if d.armed || !more || d.jobsEnded() < d.mark+f.After && d.chunk < len(d.plan.Chunks) {
		return
	}
	d.armed = true
	d.armAll()
}

func (d *director) armAll() {
	for p := range d.live {
		if !p.doomed && !p.paused {
			p.order(order{Arm: new(d.arming(p))})
		}
	}
}

// arming is what a process must know of the fault that is armed now.
func (d *director) arming(p *process) arming {
	if f, _ := d.fault(); d.armed && f.inEnqueuer() == (p.Role == roleEnqueuer) {
		return arming{Fault: d.next + 1, Gap: f.Gap, Passage: f.Passage}
	}
	return arming{}
}

// jobsEnded is how many jobs have ended, as of the last look.
func (d *director) jobsEnded() int {
	return int(d.counts.Accepted - d.counts.Waiting - d.counts.Running)
}

// at is for a child that stands in a gap. Who comes second, or too late, goes
// on; the first is killed there, or paused.
func (d *director) at(ctx context.Context, p *process, s standing) error {
	if p.doomed {
		return nil
	}
	if !d.armed || s.Fault != d.next+1 {
		p.order(order{Go: s.Fault})
		return nil
	}
	spare, err := d.condemns(ctx, p)
	if err != nil {
		return err
	}
	if spare {
		p.order(order{Go: s.Fault})
		p.order(order{Arm: new(d.arming(p))})
		return nil
	}
	d.log.Info("fault", "number", s.Fault, "gap", s.Gap, "process", p.Name, "job", s.Job)
	if s.Gap == daybook.GapPause {
		p.paused = true
		d.pauses++
		go func() { d.resumed <- d.pause(ctx, p, s) }()
	} else {
		d.gaps[s.Gap]++
		d.kills++
		p.kill()
	}
	d.next++
	d.armed, d.mark = false, d.jobsEnded()
	d.armAll() // takes the arming back from the others
	d.letIn()
	return nil
}

// condemns reports whether the loss of this worker would be one too many for a
// job that it holds: five lost owners set a job aside, as they should, but
// here it is the plan that kills and not the job.
func (d *director) condemns(ctx context.Context, p *process) (bool, error) {
	if p.Role != roleWorker {
		return false, nil
	}
	sessions, err := d.book.Sessions(ctx, daybook.SessionFilter{Worker: p.Name})
	if err != nil {
		return false, err
	}
	condemned := false
	err = d.book.Store().Read(ctx, "looking at a worker's claims", func(v daybook.View) error {
		for _, s := range sessions {
			_, jobs, _, err := v.Claims(ctx, daybook.ClaimsOf{Session: s.ID})
			if err != nil {
				return err
			}
			for _, j := range jobs {
				condemned = condemned || j.Crashes+1 >= j.CrashLimit()
			}
		}
		return nil
	})
	return condemned, err
}

// progress tells who watches how far the run is.
func (d *director) progress() {
	if d.opts.Progress == nil {
		return
	}
	d.opts.Progress(Progress{Jobs: d.opts.Jobs, Ended: d.jobsEnded(),
		Faults: d.next - d.pauses, Planned: len(d.plan.Faults), Doing: d.doing()})
}

// doing says what the run waits for.
func (d *director) doing() string {
	f, more := d.fault()
	switch {
	case more && f.Gap == daybook.GapPause:
		return "stopping a worker past its lease"
	case more && f.inEnqueuer():
		return "killing an enqueuer in the gap " + f.Gap
	case more:
		return "killing a worker in the gap " + f.Gap
	case d.pauses > 0:
		return "waiting for stopped workers to be replaced"
	}
	return fmt.Sprintf("waiting for %d jobs to end", d.counts.Waiting+d.counts.Running)
}
