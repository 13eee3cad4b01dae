package drill

import (
	"context"
	"time"

	"github.com/daybookdev/daybook"
)

// ringScenes lie about rings: the job behind them must be done all the same.
var ringScenes = []scene{
	{name: "ring-twice", what: "every ring of a queue comes twice", needs: wantsBell, run: lie(ringTwice)},
	{name: "ring-late", what: "every ring of a queue comes past the lease", needs: wantsBell, run: lie(ringLate)},
	{name: "ring-never", what: "no ring of a queue comes", needs: wantsBell, run: lie(ringNever)},
	{name: "ring-elsewhere", what: "rings for nothing, for other queues and unknown jobs", needs: wantsBell,
		heard: true, run: ringElsewhere},
}

// hurtAll tells every process that rings what becomes of a queue's rings.
func (l *lane) hurtAll(h hurting) {
	l.hurts.set(h)
	for _, p := range l.ringers() {
		p.order(order{Hurt: &h})
	}
}

// ringers are the other processes that ring this lane's queue.
func (l *lane) ringers() []*process {
	all := append(l.load.listening(), l.workers...)
	if l.load.server != nil {
		all = append(all, l.load.server)
	}
	if l.puts != nil && l.puts.running() {
		all = append(all, l.puts)
	}
	return all
}

// spoiled sums what they have spoiled.
func (l *lane) spoiled(ctx context.Context) int {
	n := l.hurts.spoiled()
	for _, p := range l.ringers() {
		if t, err := p.tell(ctx); err == nil { // one that died has rung nothing more
			n += t.Hurt
		}
	}
	return n
}

// lie has one job's rings spoiled.
func lie(mode ringMode) func(context.Context, *lane, *evidence) error {
	return func(ctx context.Context, l *lane, e *evidence) error {
		if err := l.ready(ctx); err != nil {
			return err
		}
		l.hurtAll(hurting{l.queue, mode})
		defer l.hurtAll(hurting{Queue: l.queue})
		if err := l.order(ctx, e); err != nil {
			return err
		}
		if l.spoiled(ctx) == 0 {
			e.void = "no ring was spoiled"
		}
		l.once(e)
		return nil
	}
}

// ready fills the lane, and returns when its workers work.
func (l *lane) ready(ctx context.Context) error {
	if err := l.fill(); err != nil {
		return err
	}
	for _, p := range l.workers {
		if err := p.begun(ctx); err != nil {
			return err
		}
	}
	return nil
}

// order puts the scene's job in and waits until it is done.
func (l *lane) order(ctx context.Context, e *evidence) error {
	e.job.ID = daybook.NewID()
	e.order = "order-" + e.job.ID.String()
	e.hit()
	if err := l.put(ctx, e); err != nil {
		return err
	}
	return l.made(ctx, e)
}

// once wants the scene's job to be done, and to have happened once.
func (l *lane) once(e *evidence) {
	if e.job.State != daybook.Succeeded {
		e.say("the job ended %s %s", e.job.State, e.job.Reason)
	}
	if n := len(l.to["charge"].Acts(e.order)); n != 1 {
		e.say("it happened %d times", n)
	}
}

// ringElsewhere publishes rings that lead nowhere.
func ringElsewhere(ctx context.Context, l *lane, e *evidence) error {
	if err := l.ready(ctx); err != nil {
		return err
	}
	if err := l.order(ctx, e); err != nil { // the job that has ended
		return err
	}
	before, err := l.heard(ctx)
	if err != nil {
		return err
	}
	rings := []daybook.Ring{{Queue: "nobody-" + l.queue}, {Queue: l.queue, Job: daybook.NewID()},
		{Queue: l.queue, Job: e.job.ID}, {Queue: loadQueue, Job: e.job.ID}, {Queue: l.queue}}
	if err := l.hurts.Publish(ctx, rings); err != nil {
		e.void = "the bell didn't take the rings: " + err.Error()
		return nil
	}
	err = l.until(ctx, e, "a worker to hear a ring", func() (bool, error) {
		n, err := l.heard(ctx)
		if n == before {
			l.ring(ctx, l.queue)
		}
		return n > before, err
	})
	if err != nil {
		return err
	}
	if err := l.order(ctx, e); err != nil {
		return err
	}
	l.once(e)
	return nil
}

// heard sums the rings that the lane's workers heard.
func (l *lane) heard(ctx context.Context) (n int64, err error) {
	for _, p := range l.workers {
		t, err := p.tell(ctx)
		if err != nil {
			return 0, err
		}
		n += t.Worker.Rings
	}
	return n, nil
}

// hearing is how long workers get until they hear the bell.
const hearing = 5 * time.Second

// deaf says why the lane's workers can't hear the bell: then nothing can be done to
// what they hear.
func (l *lane) deaf(ctx context.Context) (why string, err error) {
	if err := l.ready(ctx); err != nil {
		return "", err
	}
	for late := time.Now().Add(hearing); ; {
		if hears, err := l.hears(ctx); hears || err != nil {
			return "", err
		}
		if time.Now().After(late) {
			return "the workers can't hear the bell: a pooler may stand before it", nil
		}
		if !sleep(ctx, lull) {
			return "", ctx.Err()
		}
	}
}

// hears reports whether the lane's first worker hears the bell now.
func (l *lane) hears(ctx context.Context) (bool, error) {
	t, err := l.workers[0].tell(ctx)
	return t.Worker.Bell != nil && t.Worker.Bell.Listening, err
}
