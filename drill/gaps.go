package drill

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/examples/effects"
)

// gap makes one run of a gap of the list, whoever stands in it.
func (l *lane) gap(ctx context.Context, r planned) (evidence, error) {
	if slices.Contains(Gaps, r.gap) {
		return l.run(ctx, r)
	}
	e := evidence{planned: r, order: fmt.Sprintf("order-%d-%s", r.run, daybook.NewID())}
	e.job.ID = daybook.NewID()
	if err := l.fill(); err != nil {
		return e, err
	}
	for _, p := range l.workers {
		if err := p.begun(ctx); err != nil {
			return e, err
		}
	}
	var err error
	switch r.gap {
	case daybook.GapAccept, daybook.GapPublish:
		err = l.enqueuerGap(ctx, &e)
	case daybook.GapMark:
		err = l.relayGap(ctx, &e)
	default:
		err = l.workerGap(ctx, &e)
	}
	if err != nil {
		return e, err
	}
	if e.void != "" {
		if _, err := l.book.Job(ctx, e.job.ID); errors.Is(err, daybook.ErrNotFound) {
			e.unseen = true
			return e, nil
		}
	}
	return e, l.collect(ctx, &e)
}

// args are what the job of a run is about.
func (e *evidence) args() []byte {
	args, err := json.Marshal(effects.Order{Number: e.order, Value: "12.00"})
	if err != nil {
		return nil // of two strings: can't be
	}
	return args
}

// put enqueues the job of a run from here.
func (l *lane) put(ctx context.Context, e *evidence) error {
	_, err := l.book.Enqueue(ctx, daybook.Request{ID: e.job.ID, Queue: l.queue, Kind: "charge", Args: e.args()})
	return err
}

// workerGap has a worker stand between a ring and its handler. To hear or to
// claim is what both would do: there only one is armed, unless both only poll, when
// the other one may be first each time.
func (l *lane) workerGap(ctx context.Context, e *evidence) error {
	one := e.gap == daybook.GapDeliver
	if e.gap == daybook.GapClaim {
		hears, err := l.hears(ctx)
		if err != nil {
			return err
		}
		one = hears
	}
	armed := l.workers
	if one {
		armed = l.workers[e.run%2 : e.run%2+1]
	}
	for _, p := range armed {
		if err := p.arm(ctx, e.run, e.gap); err != nil {
			return err
		}
	}
	if err := l.put(ctx, e); err != nil {
		return err
	}
	victim, err := l.standing(ctx, armed, e, e.gap, func() { l.ring(ctx, l.queue) })
	if err != nil {
		return err
	}
	for _, p := range armed {
		if p == victim {
			continue
		}
		if err := p.arm(ctx, -e.run, ""); err != nil {
			return err
		}
		p.order(order{Go: e.run}) // if it stands there too
	}
	switch {
	case victim == nil:
		e.void = "no worker came to the gap"
		return nil
	case e.fault == faultKill:
		return l.kill(ctx, victim, e)
	}
	return l.stop(ctx, victim, e)
}

// ring rings a queue once more, from here.
func (d *drill) ring(ctx context.Context, queue string) {
	if b := d.book.Bell(); b != nil {
		b.Ring(ctx, queue)
	}
}

// enqueuerGap has an enqueuer stand before its commit, or between that and its
// ring. A caller whose answer didn't come asks again under the same id.
func (l *lane) enqueuerGap(ctx context.Context, e *evidence) error {
	at := e.gap
	if at == daybook.GapAccept && e.fault == faultStop {
		at = gapReceived
	}
	p, err := l.enqueuer(ctx)
	if err != nil {
		return err
	}
	if err := p.arm(ctx, e.run, at); err != nil {
		return err
	}
	p.order(order{Send: &request{ID: e.job.ID, Queue: l.queue, Args: e.args()}})
	victim, err := l.standing(ctx, []*process{p}, e, at, nil)
	switch {
	case err != nil:
		return err
	case victim == nil:
		e.void = "the enqueuer didn't come to the gap"
		return nil
	case e.fault == faultKill:
		return l.killEnqueuer(ctx, p, e)
	}
	return l.stopEnqueuer(ctx, p, e)
}

// enqueuer is the lane's, started when there is none.
func (l *lane) enqueuer(ctx context.Context) (*process, error) {
	if l.puts != nil && l.puts.running() {
		return l.puts, nil
	}
	p, err := l.start(setup{Role: roleEnqueuer, Accepted: filepath.Join(l.dir, "accepted-"+l.queue)})
	if err != nil {
		return nil, err
	}
	l.puts = p
	return p, p.begun(ctx)
}

func (l *lane) killEnqueuer(ctx context.Context, p *process, e *evidence) error {
	if !p.kill() {
		e.void = "the enqueuer was not killed: it " + p.cmd.ProcessState.String()
		return nil
	}
	e.hit()
	_, err := l.book.Job(ctx, e.job.ID)
	in := err == nil
	if err != nil && !errors.Is(err, daybook.ErrNotFound) {
		return err
	}
	if want := e.gap == daybook.GapPublish; in != want {
		e.say("the job of a killed enqueuer is in the book: %t, want %t", in, want)
	}
	again, err := l.enqueuer(ctx)
	if err != nil {
		return err
	}
	again.order(order{Send: &request{ID: e.job.ID, Queue: l.queue, Args: e.args()}})
	if err := l.answered(ctx, again, e); err != nil {
		return err
	}
	return l.made(ctx, e)
}

// answered waits for what the enqueuer was answered, which is the job itself.
func (l *lane) answered(ctx context.Context, p *process, e *evidence) error {
	late := time.NewTimer(l.patience)
	defer late.Stop()
	for {
		select {
		case s := <-p.sent:
			if s.ID != e.job.ID {
				continue
			}
			if s.Error != "" {
				e.say("the enqueuer was answered %s", s.Error)
			}
			if was := e.gap == daybook.GapPublish && e.fault == faultKill; s.Replayed != was {
				e.say("the repeated request was answered as replayed: %t, want %t", s.Replayed, was)
			}
			return nil
		case <-p.gone:
			return p.ended()
		case <-late.C:
			e.say("the enqueuer was not answered within %s", l.patience)
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (l *lane) stopEnqueuer(ctx context.Context, p *process, e *evidence) error {
	if err := l.freeze(ctx, p); err != nil {
		return err
	}
	e.hit()
	if e.gap == daybook.GapPublish { // the others do it while this one stands
		if err := l.made(ctx, e); err != nil {
			return errorsOf(err, l.goOn(p, e))
		}
	}
	pause(ctx, time.Until(e.since.Add(l.lease+l.lease/4)))
	if err := l.goOn(p, e); err != nil {
		return err
	}
	if err := l.answered(ctx, p, e); err != nil {
		return err
	}
	return l.made(ctx, e)
}

// relayGap has a relay stand before or behind its ring.
func (l *lane) relayGap(ctx context.Context, e *evidence) error {
	l.relaying.Lock()
	defer l.relaying.Unlock()
	p, err := l.relay(ctx)
	if err != nil {
		return err
	}
	if err := p.arm(ctx, e.run, e.gap); err != nil {
		return err
	}
	if err := l.put(ctx, e); err != nil {
		return err
	}
	victim, err := l.standing(ctx, []*process{p}, e, e.gap, func() {
		if err := l.more(ctx, l.book); err != nil { // for a relay that found nothing: another one was faster
			l.log.Warn("no other job", "err", err)
		}
	})
	switch {
	case err != nil:
		return err
	case victim == nil:
		e.void = "the relay didn't come to the gap"
		return p.arm(ctx, -e.run, "")
	case e.fault == faultKill:
		return l.kill(ctx, p, e)
	}
	if err := l.freeze(ctx, p); err != nil {
		return err
	}
	e.hit()
	err = l.made(ctx, e)
	pause(ctx, time.Until(e.since.Add(l.lease+l.lease/4)))
	if err := errorsOf(err, l.goOn(p, e)); err != nil {
		return err
	}
	return p.await(ctx, p.on, e.run)
}
