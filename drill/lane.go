package drill

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/examples/effects"
)

// lane makes one run after the other, on a queue of its own with two workers:
// one gets the fault, the other goes on.
type lane struct {
	*drill
	queue   string
	starts  int // for the workers' names
	leaves  int // how often what it had was left, for the queue's
	workers []*process
	puts    *process // an enqueuer, once one was wanted
	*stand           // the whole drill that the lane is part of; nil in that of effects
}

// again is how often a run is made whose fault couldn't be shown to have
// happened. What is void then stays so.
const again = 3

// work makes runs until there are no more. However it ends, no worker is left.
func (l *lane) work(ctx context.Context) error {
	defer l.end()
	for r, more := l.next(); more; r, more = l.next() {
		for try := 1; ; try++ {
			e, err := l.run(ctx, r)
			if err != nil {
				return err
			}
			if e.void == "" || try == again {
				l.note(r, e)
				break
			}
			l.log.Warn("once more", "run", r.run, "void", e.void)
		}
	}
	return nil
}

// end ends the lane's processes.
func (l *lane) end() {
	for _, p := range l.workers {
		p.end()
	}
	if l.puts != nil {
		l.puts.end()
	}
}

// fill starts what is missing of the lane's two workers.
func (l *lane) fill() error {
	l.workers = slices.DeleteFunc(l.workers, func(p *process) bool { return !p.running() })
	for len(l.workers) < 2 {
		p, err := l.start(setup{Fault: l.fault})
		if err != nil {
			return err
		}
		l.workers = append(l.workers, p)
	}
	return nil
}

// start starts a process of the lane's, with what all of them have in common.
func (l *lane) start(s setup) (*process, error) {
	l.starts++
	s.Name, s.Queue = fmt.Sprintf("%s%s-%d", l.queue, s.Role, l.starts), l.queue
	s.Bells, s.Poll = l.bells, cmp.Or(s.Poll, l.pollLane)
	return l.begin(s)
}

// begin starts a process of the drill's.
func (d *drill) begin(s setup) (*process, error) {
	s.Lease, s.Where = cmp.Or(s.Lease, d.lease), cmp.Or(s.Where, d.Where)
	s.To = effects.Handlers{Payments: d.to["charge"].URL, Mail: d.to["mail"].URL, Prices: d.to["price"].URL,
		Legacy: d.to["letter"].URL, Window: window, Quiet: quiet}
	return start(d.Command, d.dir, s, d.hub)
}

// run makes one run: both workers are armed, the first to stand in the gap gets
// the fault, and the other is let alone.
func (l *lane) run(ctx context.Context, r planned) (e evidence, err error) {
	e = evidence{planned: r, order: fmt.Sprintf("order-%d-%s", r.run, daybook.NewID())}
	if err := l.fill(); err != nil {
		return e, err
	}
	for _, p := range l.workers {
		if err := p.arm(ctx, r.run, r.gap); err != nil {
			return e, err
		}
	}
	args, err := json.Marshal(effects.Order{Number: e.order, Value: "12.00"})
	if err != nil {
		return e, err
	}
	receipt, err := l.book.Enqueue(ctx, daybook.Request{Queue: l.queue, Kind: r.policy.kind, Args: args})
	if err != nil {
		return e, err
	}
	e.job.ID = receipt.ID
	victim, err := l.standing(ctx, l.workers, &e, r.gap, nil)
	if err != nil {
		return e, err
	}
	for _, p := range l.workers {
		if p != victim {
			if err := p.arm(ctx, -r.run, ""); err != nil {
				return e, err
			}
			p.order(order{Go: r.run}) // if it came there too
		}
	}
	switch {
	case victim == nil:
		e.void = "no worker came to the gap"
	case r.fault == faultKill:
		err = l.kill(ctx, victim, &e)
	default:
		err = l.stop(ctx, victim, &e)
	}
	if err != nil {
		return e, err
	}
	return e, l.collect(ctx, &e)
}

// standing waits for the process that stands in a gap with a run's job; nil is none.
// They are one or two. nudge, if there is one, is called now and then meanwhile.
func (l *lane) standing(ctx context.Context, of []*process, e *evidence, gap string, nudge func()) (*process, error) {
	run, job := e.run, e.job.ID
	late := time.NewTimer(l.patience / 4)
	defer late.Stop()
	again := time.NewTicker(lull)
	defer again.Stop()
	one, two := of[0], of[len(of)-1]
	for {
		var at standing
		var by *process
		select {
		case at = <-one.at:
			by = one
		case at = <-two.at:
			by = two
		case <-one.gone:
			return nil, one.ended()
		case <-two.gone:
			return nil, two.ended()
		case <-late.C:
			return nil, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-again.C:
			if nudge != nil {
				nudge()
			}
			continue
		}
		mine := at.Run == run && at.Gap == gap && at.PID == by.cmd.Process.Pid
		if mine && (at.Job.IsZero() || at.Job == job) {
			return by, nil
		}
		by.order(order{Go: at.Run})
		if mine { // it stood there with what another run had left
			by.order(order{Arm: &arming{Run: run, Gap: gap}})
		}
	}
}

// lull is how often a drill that waits does something about it.
const lull = 300 * time.Millisecond

// rests waits until the job has ended or waits for a person.
func (l *lane) rests(ctx context.Context, e *evidence) error {
	return l.until(ctx, e, "the job to end", func() (bool, error) {
		job, err := l.book.Job(ctx, e.job.ID)
		if err != nil {
			return false, err
		}
		e.job = job
		return job.State != daybook.Waiting && job.State != daybook.Running, nil
	})
}

// until asks again and again, for as long as a step of a run may take. What
// doesn't come about by then is noted in the evidence, as a violation.
func (l *lane) until(ctx context.Context, e *evidence, what string, ask func() (bool, error)) error {
	late := time.Now().Add(l.patience)
	for {
		done, err := ask()
		if err == nil && done || err != nil && (ctx.Err() != nil || !isAway(err)) {
			return err
		}
		if time.Now().After(late) {
			if err != nil && !l.answers(ctx) { // nobody knows what would have come about
				return err
			}
			e.stuck = append(e.stuck, "waited "+l.patience.String()+" for "+what+", in vain")
			return nil
		}
		again := time.NewTimer(25 * time.Millisecond)
		select {
		case <-ctx.Done():
			again.Stop()
			return ctx.Err()
		case <-again.C:
		}
	}
}

// answers reports whether the book's server lets somebody else in: then a book that
// is away for so long is wrong.
func (l *lane) answers(ctx context.Context) bool {
	if l.stand == nil || l.site.Server == nil {
		return false
	}
	_, err := l.site.Server.Began(ctx)
	return err == nil
}

// collect settles what is left to a person, and reads what book and destination
// say of the run in the end.
func (l *lane) collect(ctx context.Context, e *evidence) error {
	for settled := true; settled; {
		if err := l.rests(ctx, e); err != nil {
			return err
		}
		var err error
		if settled, err = l.settle(ctx, e); err != nil {
			return err
		}
	}
	page, err := l.book.Effects(ctx, daybook.EffectFilter{Job: e.job.ID})
	if err != nil {
		return err
	}
	e.effects = len(page.Items)
	if e.effects > 0 {
		e.effect = page.Items[0]
	}
	to := l.to[e.policy.kind]
	e.acts, e.asked = to.Acts(e.order), to.Asked(e.order)
	return nil
}

// refusals are the fenced writes of one generation of a job.
func (l *lane) refusals(ctx context.Context, id daybook.ID, generation int64) (found []daybook.Refusal, err error) {
	job, err := l.book.Job(ctx, id)
	if err != nil {
		return nil, err
	}
	err = l.book.Store().Read(ctx, "reading a job's history", func(v daybook.View) error {
		h, err := v.History(ctx, job)
		found = slices.DeleteFunc(h.Refusals, func(r daybook.Refusal) bool { return r.Generation != generation })
		return err
	})
	return found, err
}

// speaksOf reports whether a fenced write is about an effect's end.
func speaksOf(r daybook.Refusal, effect string) bool {
	return strings.HasSuffix(r.Operation, ":"+effect) && strings.HasPrefix(r.Operation, "effect_finish")
}
