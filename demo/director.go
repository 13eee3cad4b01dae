package demo

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/daybookdev/daybook"
)

// director is the parent's loop: it lets deliveries in, arms the planned
// faults one after the other, kills or pauses who reports from a gap, and
// replaces who died. Only its own goroutine touches it.
type director struct {
	dir         string
	opts        Options
	book        *daybook.Book
	destination *destination
	log         *slog.Logger
	plan        plan

	tell    chan said
	resumed chan pauseEnd
	live    map[*process]bool
	starts  int // processes started so far, for their names

	next   int // index of the fault that is armed, or will be
	armed  bool
	mark   int                     // jobs that had ended when the last fault happened
	chunk  int                     // index of the next chunk to let in
	unsure [enqueuers]map[int]bool // deliveries sent to an enqueuer and not answered
	acks   [][]ack                 // by delivery
	gaps   map[string]int
	kills  int
	pauses int // under way

	began, ended time.Time
	moved        time.Time // when something happened last
	counts       daybook.Counts
}

func newDirector(dir string, o Options, book *daybook.Book, to *destination, log *slog.Logger) *director {
	d := &director{dir: dir, opts: o, book: book, destination: to, log: log,
		plan: newPlan(o.Jobs, o.Workers, o.Seed), tell: make(chan said), resumed: make(chan pauseEnd),
		live: map[*process]bool{}, acks: make([][]ack, o.Jobs), gaps: map[string]int{}}
	for i := range d.unsure {
		d.unsure[i] = map[int]bool{}
	}
	return d
}

// direct makes the run. However it ends, no child is left.
func (d *director) direct(ctx context.Context) (err error) {
	pausing, stop := context.WithCancel(ctx)
	defer func() {
		stop()
		d.clear()
	}()
	d.began, d.moved = time.Now(), time.Now()
	for slot := range enqueuers {
		if err := d.start(roleEnqueuer, slot); err != nil {
			return err
		}
	}
	for slot := range d.opts.Workers {
		if err := d.start(roleWorker, slot); err != nil {
			return err
		}
	}
	d.letIn()
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	for !d.done() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case s := <-d.tell:
			err = d.hear(pausing, s)
		case p := <-d.resumed:
			err = d.resume(p)
		case <-look.C:
			err = d.look(ctx)
		}
		if err != nil {
			return err
		}
	}
	d.part()
	return nil
}

// start starts the process of a slot, or its replacement.
func (d *director) start(r role, slot int) error {
	d.starts++
	s := setup{Role: r, Name: fmt.Sprintf("%s-%d", r, d.starts), Book: bookPath(d.dir),
		Destination: d.destination.url, Jobs: d.opts.Jobs}
	p, err := start(d.opts.Command, d.dir, s, slot, d.tell)
	if err != nil {
		return err
	}
	d.live[p] = true
	p.order(order{Arm: new(d.arming(p))})
	if r == roleEnqueuer && len(d.unsure[slot]) > 0 {
		// GitHub got no answer to these, so it sends them again.
		p.order(order{Send: slices.Sorted(maps.Keys(d.unsure[slot]))})
	}
	return nil
}

// clear kills who is left, and waits until they are gone.
func (d *director) clear() {
	for p := range d.live {
		p.kill()
	}
	for len(d.live) > 0 || d.pauses > 0 {
		select {
		case s := <-d.tell:
			if s.ended {
				delete(d.live, s.by)
			}
		case <-d.resumed:
			d.pauses--
		}
	}
}

// part lets the children end by themselves, for a while.
func (d *director) part() {
	for p := range d.live {
		p.end()
	}
	late := time.After(parting)
	for len(d.live) > 0 {
		select {
		case s := <-d.tell:
			if s.ended {
				delete(d.live, s.by)
			}
		case <-late:
			return
		}
	}
}

// hear takes one report in.
func (d *director) hear(ctx context.Context, s said) error {
	d.moved = time.Now()
	switch r := s.report; {
	case s.ended:
		return d.gone(s.by)
	case r.Error != "":
		return daybook.Fail(daybook.CodeInternal, "%s of the demo failed: %s", s.by.Name, r.Error)
	case r.Ack != nil:
		d.acked(s.by, *r.Ack)
	case r.At != nil:
		return d.at(ctx, s.by, *r.At)
	}
	return nil
}

// gone replaces a process that was killed; any other end is a failure.
func (d *director) gone(p *process) error {
	delete(d.live, p)
	if !p.doomed {
		return daybook.Fail(daybook.CodeInternal, "%s of the demo ended by itself (%s)", p.Name, p.cmd.ProcessState)
	}
	return d.start(p.Role, p.slot)
}

// acked notes an answer that a caller got.
func (d *director) acked(p *process, a ack) {
	d.acks[a.Delivery] = append(d.acks[a.Delivery], a)
	delete(d.unsure[p.slot], a.Delivery)
}

// letIn sends the next chunk of deliveries.
func (d *director) letIn() {
	if d.chunk == len(d.plan.Chunks) {
		return
	}
	var to [enqueuers][]int
	for _, s := range d.plan.Chunks[d.chunk] {
		to[s.Enqueuer] = append(to[s.Enqueuer], s.Delivery)
		d.unsure[s.Enqueuer][s.Delivery] = true
	}
	d.chunk++
	for p := range d.live {
		if p.Role == roleEnqueuer && len(to[p.slot]) > 0 {
			p.order(order{Send: to[p.slot]})
		}
	}
}

// unanswered is how many requests wait for their answer.
func (d *director) unanswered() (n int) {
	for _, u := range d.unsure {
		n += len(u)
	}
	return n
}

// look reads the book, and lets more deliveries in when nothing waits.
func (d *director) look(ctx context.Context) error {
	queues, err := d.book.Queues(ctx, true)
	if err != nil {
		return err
	}
	for _, q := range queues {
		if q.Counts != d.counts {
			d.counts, d.moved = q.Counts, time.Now()
		}
	}
	_, more := d.fault()
	for !more && d.chunk < len(d.plan.Chunks) {
		d.letIn()
	}
	if d.counts.Waiting == 0 && d.unanswered() == 0 {
		d.letIn() // what was let in has passed, and the plan isn't done
	}
	d.armWhenDue()
	d.progress()
	if time.Since(d.moved) > stuckAfter {
		return daybook.Fail(daybook.CodeInternal, "the demo is stuck: %s", d.doing())
	}
	return nil
}

// done reports whether everything was let in, answered and ended, and every
// fault had its time.
func (d *director) done() bool {
	c := d.counts
	if d.chunk < len(d.plan.Chunks) || d.unanswered() > 0 || d.pauses > 0 ||
		c.Accepted < int64(d.opts.Jobs) || c.Waiting+c.Running > 0 {
		return false
	}
	d.ended = time.Now()
	return true
}
