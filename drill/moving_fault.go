package drill

import (
	"context"
	"time"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/cutover"
)

// fault has a mover stand in the hand-over, shows that it does, and kills it: the
// next one goes on. Or stops it, until another one and all workers are through with
// the steps that are left, and lets it go on with what it believes to be true.
func (m *moving) fault(ctx context.Context, left []string) error {
	p, err := m.start(setup{Role: roleMover, Old: m.at, Fault: m.drill.fault})
	if err != nil {
		return err
	}
	defer p.end()
	if err := p.begun(ctx); err != nil {
		return err
	}
	if err := p.arm(ctx, m.e.run, m.f.gap); err != nil {
		return err
	}
	p.order(order{Move: m.f.verb})
	stands, err := m.stands(ctx, p)
	if err != nil {
		return err
	}
	if !stands {
		m.e.void = "the mover didn't come to the hand-over"
		return nil
	}
	if m.e.void, err = m.between(ctx); err != nil || m.e.void != "" {
		return err
	}
	if m.e.fault == faultKill {
		if !p.kill() {
			m.e.void = "the mover was not killed: it " + p.cmd.ProcessState.String()
			return nil
		}
		m.e.hit()
		return m.step(ctx, m.f.verb)
	}
	return m.stopped(ctx, p, left)
}

// stands waits until the mover stands in the hand-over, or came to its step's end.
func (m *moving) stands(ctx context.Context, p *process) (bool, error) {
	waiting, stop := context.WithCancel(ctx)
	defer stop()
	ended := false
	victim, err := m.standing(waiting, []*process{p}, m.e, m.f.gap, func() {
		if len(p.moved) > 0 {
			ended = true
			stop()
		}
	})
	if ended {
		return false, ctx.Err()
	}
	return victim != nil, err
}

// stopped stops the mover until all is done without it.
func (m *moving) stopped(ctx context.Context, p *process, left []string) error {
	if err := m.freeze(ctx, p); err != nil {
		return err
	}
	m.e.since = time.Now()
	err := m.without(ctx, left)
	if err := errorsOf(err, m.goOn(p, m.e)); err != nil {
		return err
	}
	if err := p.await(ctx, p.on, m.e.run); err != nil {
		return err
	}
	m.e.injected = true
	late := time.NewTimer(m.patience)
	defer late.Stop()
	select {
	case end := <-p.moved:
		switch end.Code {
		case "", daybook.CodeRefused, daybook.CodeFenced: // by the book, or by the old store
		default:
			m.e.say("the mover that was stopped ended with %s: %s", end.Code, end.Text)
		}
	case <-p.gone:
		return p.ended()
	case <-late.C:
		m.e.say("the mover that was stopped didn't end within %s", m.patience)
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// without takes the steps that are left while a mover stands, and waits until all
// jobs are done.
func (m *moving) without(ctx context.Context, left []string) error {
	for n, verb := range left {
		if n > 0 { // what comes before the first has been
			if err := m.prepare(ctx, verb); err != nil {
				return err
			}
		}
		if err := m.step(ctx, verb); err != nil {
			return err
		}
	}
	return m.finish(ctx)
}

// between says why the mover isn't shown to stand between the two hands of its
// step, "" that it does, by what book and old store say of the job there.
func (m *moving) between(ctx context.Context) (string, error) {
	c, err := m.Load(ctx)
	if err != nil {
		return "", err
	}
	g, err := m.old.GateState(ctx)
	if err != nil {
		return "", err
	}
	held, err := m.old.Held(ctx, moverBatch)
	if err != nil {
		return "", err
	}
	id := m.number(m.f.of)
	items, err := m.book.ItemsOf(ctx, m.at.Cutover, []string{id})
	if err != nil {
		return "", err
	}
	found, err := m.old.Find(ctx, []string{id})
	if err != nil {
		return "", err
	}
	var of daybook.Item
	if len(items) > 0 {
		of = items[0]
	}
	isHeld := false
	for _, o := range held {
		isHeld = isHeld || o.Name() == id
	}
	there, here := found[id].State != daybook.OldGone, !of.Job.IsZero()
	shown := map[string]bool{
		cutover.GapClosed:   g.Closed && c.Phase == daybook.PhaseGate,
		cutover.GapTaken:    isHeld && !here,
		cutover.GapImported: isHeld && here,
		cutover.GapDropped:  !isHeld && !there && here,
		cutover.GapJudged:   found[id].State == daybook.OldOwnerLost && !here && c.Phase == daybook.PhaseSettle,
		cutover.GapOpened:   c.Phase == daybook.PhaseRun && here && m.heldHere(ctx, of.Job, c.Holder()),
		cutover.GapMarked:   of.Term == daybook.TermReturning && !there,
		cutover.GapReturned: there && (of.Term == daybook.TermReturning || m.f.of == heldJob && len(held) > 0),
		cutover.GapReopened: !g.Closed && c.Phase == daybook.PhaseReturning,
	}
	if shown[m.f.gap] {
		return "", nil
	}
	return "the mover stands elsewhere: phase " + string(c.Phase) + ", job " + m.f.of + " is " + string(of.Term) +
		" here and " + string(found[id].State) + " there", nil
}

func (m *moving) heldHere(ctx context.Context, id daybook.ID, holder string) bool {
	j, err := m.book.Job(ctx, id)
	return err == nil && j.HeldBy == holder
}

// judge holds both systems to the balance: each job happened as often as it should,
// in one of them, and is in exactly one term.
func (m *moving) judge(ctx context.Context, happen map[string]int) error {
	for id, want := range happen {
		switch n := len(m.to["charge"].Acts(id)); {
		case n > want:
			m.e.say("job %s of the old queue happened %d times, want %d: in both, or twice in one", id, n, want)
		case n < want:
			m.e.say("job %s of the old queue is lost: it happened %d times, want %d", id, n, want)
		}
	}
	if m.f.back() {
		return m.judgeBack(ctx)
	}
	b, err := m.Reconcile(ctx)
	if err != nil {
		return err
	}
	if !b.Balanced || b.Still != 0 || b.Seen+b.Arrived != int64(len(happen)) {
		m.e.say("the cutover doesn't balance: %+v", b)
	}
	return nil
}

// judgeBack wants the old system to have its jobs again, and nothing done here.
func (m *moving) judgeBack(ctx context.Context) error {
	c, err := m.Load(ctx)
	if err != nil {
		return err
	}
	done, err := m.book.Count(ctx, daybook.Filter{Queue: m.at.Queue, State: daybook.Succeeded})
	if err != nil {
		return err
	}
	counts, err := m.book.ItemCounts(ctx, m.at.Cutover)
	if err != nil {
		return err
	}
	b := cutover.BalanceOf(counts)
	if c.Phase != daybook.PhaseReturned || done != 0 || b.Moved+b.Dead+b.Open+b.Kept != 0 {
		m.e.say("after the way back the cutover is %s, %d jobs were done here, and the balance is %+v", c.Phase, done, b)
	}
	return nil
}
