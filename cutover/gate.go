package cutover

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/daybookdev/daybook"
)

// GateProof is what shows that nobody takes jobs out of the old queue any more.
type GateProof struct {
	Closed   daybook.Time `json:"closed_at,omitzero"`
	Proved   daybook.Time `json:"proved_at,omitzero"`
	How      string       `json:"how"`
	Canary   string       `json:"canary"`             // lay untouched for so long
	Took     []string     `json:"took,omitempty"`     // jobs that workers took after the gate, the first of them
	Leaks    int64        `json:"leaks"`              // how many those are
	Ways     []string     `json:"ways,omitempty"`     // known ways around the gate that are open
	Attempts int          `json:"attempts,omitempty"` // how often the proof began anew
	// Opened counts the looks that found it open while the book may claim, and
	// OpenedAt is the last of them. It was closed again each time.
	Opened   int64        `json:"opened,omitempty"`
	OpenedAt daybook.Time `json:"opened_at,omitzero"`
}

// Gate closes the way by which old workers take jobs and proves that it is
// closed: a canary at the taking end must lie untouched, and no job must come
// into a worker's hands, for longer than a take that began before may last. What
// leaks meanwhile begins the proof anew, and is told. It refuses while a question
// of the plan is open, and gives up after most. A gate that was proved and is
// open again, by hand or since an old worker was started, is closed and proved
// anew.
func (e *Engine) Gate(ctx context.Context, most time.Duration) (GateProof, error) {
	c, err := e.in(ctx, "gate", daybook.PhaseShadow, daybook.PhaseGate, daybook.PhaseMove, daybook.PhaseSettle)
	if err != nil {
		return GateProof{}, err
	}
	n, err := NotesOf(c)
	if err != nil {
		return GateProof{}, err
	}
	if n.Gate != nil && n.Gate.Proved != 0 {
		if g, err := e.old.GateState(ctx); err != nil || g.Closed {
			return *n.Gate, err
		}
	}
	p, err := PlanOf(c)
	if err != nil {
		return GateProof{}, err
	}
	if q, open := unanswered(Questions(c, p, n, nil)); open {
		return GateProof{}, daybook.Fail(daybook.CodeRefused, "the plan doesn't answer %q (%s): %s", q.Name, q.Asks,
			q.Missing)
	}
	if c.Phase == daybook.PhaseShadow {
		if err := e.early(ctx, c, p); err != nil {
			return GateProof{}, err
		}
		if _, err := e.sample(ctx, c); err != nil { // who has what, before it changes
			return GateProof{}, err
		}
		if c, err = e.advance(ctx, daybook.PhaseGate); err != nil {
			return GateProof{}, err
		}
	}
	if err := e.old.BeginTake(ctx, e.name); err != nil {
		return GateProof{}, err
	}
	if err := e.old.CloseGate(ctx); err != nil {
		return GateProof{}, err
	}
	e.step(GapClosed)
	if err := e.early(ctx, c, p); err != nil {
		return GateProof{}, err
	}
	if err := e.lookAtGate(ctx); err != nil {
		return GateProof{}, err
	}
	return e.prove(ctx, c, most)
}

// lookAtGate looks at the whole queue where the old system forgets what it had: what
// has gone by two looks, before and after the gate is proved, isn't in the hands of
// a worker that dies later.
func (e *Engine) lookAtGate(ctx context.Context) error {
	if e.old.Slip() == 0 {
		return nil
	}
	_, err := e.Inventory(ctx)
	return err
}

func (e *Engine) canary() string { return "daybook-canary-" + e.name }

func (e *Engine) prove(ctx context.Context, c daybook.Cutover, most time.Duration) (GateProof, error) {
	proof := GateProof{Closed: daybook.At(time.Now())}
	began, from := time.Now(), time.Now()
	hands, err := e.inHand(ctx)
	if err != nil {
		return proof, err
	}
	if err := e.old.PutCanary(ctx, e.canary()); err != nil {
		return proof, err
	}
	untouched := e.old.LongestTake() + time.Second
	for {
		if time.Since(from) >= untouched {
			if proof, done, err := e.proved(ctx, proof, untouched); done || err != nil {
				return proof, err
			}
			if err := e.old.CloseGate(ctx); err != nil { // for those that came since, or don't listen yet
				return proof, err
			}
		}
		if time.Since(began) > most {
			return proof, e.unproved(ctx, proof, most)
		}
		if !wait(ctx, min(time.Second, e.o.Sample)) {
			return proof, ctx.Err()
		}
		e.report("seconds without a claim", int64(time.Since(from)/time.Second), int64(untouched/time.Second))
		took, err := e.leaked(ctx, hands)
		if err != nil {
			return proof, err
		}
		if len(took) > 0 {
			proof.Leaks += int64(len(took))
			proof.Attempts++
			proof.Took = append(proof.Took, took[:min(len(took), max(namedMost-len(proof.Took), 0))]...)
			from = time.Now()
		}
		if _, err := e.sample(ctx, c); err != nil {
			return proof, err
		}
	}
}

func (e *Engine) inHand(ctx context.Context) (map[string]bool, error) {
	owned, err := e.old.Owned(ctx)
	hands := make(map[string]bool, len(owned))
	for _, o := range owned {
		hands[o.Name()] = true
	}
	return hands, err
}

// leaked is what came into workers' hands since hands were looked at, the canary
// too; hands learns of it, so that each is told once.
func (e *Engine) leaked(ctx context.Context, hands map[string]bool) (took []string, err error) {
	now, err := e.inHand(ctx)
	if err != nil {
		return nil, err
	}
	for id := range now {
		if !hands[id] {
			hands[id] = true
			took = append(took, id)
		}
	}
	there, err := e.old.CanaryThere(ctx, e.canary())
	if err == nil && !there {
		took = append(took, e.canary())
		err = e.old.PutCanary(ctx, e.canary())
	}
	return took, err
}

func (e *Engine) unproved(ctx context.Context, p GateProof, most time.Duration) error {
	g, err := e.old.GateState(ctx)
	if err != nil {
		return err
	}
	who := ""
	if !g.Closed {
		who = "; it is open: " + g.How
	}
	for _, w := range g.Claimants {
		if !w.Quiet {
			who += fmt.Sprintf("; %s may still take jobs: stop it", w.Name)
			break
		}
	}
	return daybook.Fail(daybook.CodeRefused, "the gate isn't proved after %s: %d jobs were taken since it was closed%s; "+
		"run cutover gate again, or cutover rollback", most, p.Leaks, who)
}

// proved notes the proof, once the old system itself says that its gate is closed.
func (e *Engine) proved(ctx context.Context, p GateProof, untouched time.Duration) (_ GateProof, done bool, err error) {
	g, err := e.old.GateState(ctx)
	if err != nil || !g.Closed {
		return p, false, err
	}
	if err := e.lookAtGate(ctx); err != nil {
		return p, false, err
	}
	if err := e.old.DropCanary(ctx, e.canary()); err != nil {
		return p, false, err
	}
	p.Proved, p.How, p.Ways = daybook.At(time.Now()), g.How, g.Leaks
	p.Canary = "untouched for " + untouched.String()
	_, err = e.note(ctx, func(n *Notes) { n.Gate = &p })
	return p, true, err
}

// stillClosed refuses to move jobs while the old gate is open: somebody may have
// opened it by hand.
func (e *Engine) stillClosed(ctx context.Context, c daybook.Cutover) error {
	n, err := NotesOf(c)
	if err != nil {
		return err
	}
	if n.Gate == nil || n.Gate.Proved == 0 {
		return daybook.Fail(daybook.CodeRefused, "the gate of cutover %s isn't proved; run cutover gate first", c.Name)
	}
	g, err := e.old.GateState(ctx)
	if err == nil && !g.Closed {
		err = daybook.Fail(daybook.CodeRefused, "the old system's gate is open again: %s; run cutover gate, which closes "+
			"and proves it anew", g.How)
	}
	return err
}

// keepClosed looks at the old gate while the book may claim: there must not be two
// who do. One that is open is closed again, and what old workers took meanwhile is
// counted, noted, and followed until it ends over there or is lost. It answers what
// there is to tell.
func (e *Engine) keepClosed(ctx context.Context, c daybook.Cutover) (s Swept, err error) {
	g, err := e.old.GateState(ctx)
	if err != nil {
		return s, err
	}
	if !g.Closed {
		if s.Opened, err = 1, e.old.CloseGate(ctx); err != nil {
			return s, err
		}
		e.o.Log.Warn("the old gate was open while the book may claim; it is closed again", "cutover", c.Name, "how", g.How)
	}
	took, err := e.tookSince(ctx, c)
	if err != nil {
		return s, err
	}
	if s.Leaked = int64(len(took)); s.Leaked > 0 {
		e.o.Log.Warn("old workers took jobs while the book may claim", "cutover", c.Name, "jobs", len(took))
	}
	if s.Opened+s.Leaked > 0 {
		if _, err := e.note(ctx, func(n *Notes) { n.Gate = n.Gate.leaked(took, s.Opened) }); err != nil {
			return s, err
		}
	}
	return s, e.follow(ctx, c, took)
}

// leaked is the proof with what came after it.
func (p *GateProof) leaked(took []string, opened int64) *GateProof {
	var now GateProof
	if p != nil {
		now = *p
	}
	now.Leaks += int64(len(took))
	now.Took = append(slices.Clone(now.Took), took[:min(len(took), max(namedMost-len(now.Took), 0))]...)
	if now.Opened += opened; opened > 0 {
		now.OpenedAt = daybook.At(time.Now())
	}
	return &now
}

// tookSince names jobs in the hands of old workers that live, once each. What was
// given up as lost, and is in a hand that moves again, is none of them.
func (e *Engine) tookSince(ctx context.Context, c daybook.Cutover) (took []string, err error) {
	n, err := NotesOf(c)
	if err != nil {
		return nil, err
	}
	owned, err := e.old.Owned(ctx)
	if err != nil {
		return nil, err
	}
	owned = slices.DeleteFunc(owned, func(o daybook.OldJob) bool {
		return o.State != daybook.OldOwned || n.Gate != nil && slices.Contains(n.Gate.Took, o.Name())
	})
	ids := make([]string, len(owned))
	for k, o := range owned {
		ids[k] = o.Name()
	}
	if len(ids) == 0 {
		return nil, nil
	}
	items, err := e.book.ItemsOf(ctx, e.name, ids)
	if err != nil {
		return nil, err
	}
	for _, o := range owned {
		if !slices.ContainsFunc(items, func(i daybook.Item) bool {
			return i.ID == o.Name() && i.Hash == o.Hash() && (i.Term == daybook.TermOpen || i.Term == daybook.TermStill)
		}) {
			took = append(took, o.Name())
		}
	}
	return took, nil
}

// follow judges what is still with the old system though the book may claim: there
// is nothing, unless something leaked.
func (e *Engine) follow(ctx context.Context, c daybook.Cutover, took []string) error {
	page, err := e.book.Items(ctx, daybook.ItemFilter{Cutover: e.name, Term: daybook.TermStill, Limit: 1})
	if err != nil || len(page.Items)+len(took) == 0 {
		return err
	}
	p, err := PlanOf(c)
	if err != nil {
		return err
	}
	var settled Settled
	return e.settleOnce(ctx, c, p, &settled)
}
