package cutover

import (
	"context"

	"github.com/daybookdev/daybook"
)

// OldInventory is a count of the old queue by state, of ids that were read at one
// instant.
type OldInventory struct {
	Place      Place                       `json:"place"`
	At         daybook.Time                `json:"at,omitzero"`
	Jobs       int64                       `json:"jobs"`
	States     map[daybook.OldState]int64  `json:"states"`
	Unreadable int64                       `json:"unreadable"` // among them
	Reasons    map[string]int64            `json:"unreadable_reasons,omitempty"`
	Named      []string                    `json:"unreadable_ids,omitempty"` // the first of them
	Classes    map[string]map[string]int64 `json:"classes"`                  // by class and state
	Notes      []string                    `json:"notes,omitempty"`
}

// namedMost bounds how many unreadable jobs, and classes, an inventory names.
const namedMost = 100

// Take takes an inventory without changing anything, neither there nor here.
// asOf judges leases and due times; 0 is now.
func Take(ctx context.Context, old Source, asOf daybook.Time, report func(what string, done, total int64)) (
	OldInventory, error) {
	place, err := old.Check(ctx)
	if err != nil {
		return OldInventory{}, err
	}
	n := newInventory(place)
	scan, err := old.Scan(ctx, asOf, func(o daybook.OldJob) error {
		n.count(o)
		if report != nil && n.Jobs%1000 == 0 {
			report("jobs read", n.Jobs, 0)
		}
		return nil
	})
	n.At, n.Notes = scan.At, scan.Notes
	return n, err
}

func newInventory(place Place) OldInventory {
	return OldInventory{Place: place, States: map[daybook.OldState]int64{}, Reasons: map[string]int64{},
		Classes: map[string]map[string]int64{}}
}

func (n *OldInventory) count(o daybook.OldJob) {
	if o.State == daybook.OldGone {
		return // it ended between the two reads
	}
	n.Jobs++
	n.States[o.State]++
	class := o.Class
	if _, known := n.Classes[class]; !known && len(n.Classes) >= namedMost {
		class = "others"
	}
	if n.Classes[class] == nil {
		n.Classes[class] = map[string]int64{}
	}
	n.Classes[class][string(o.State)]++
	if o.Unreadable == "" {
		return
	}
	n.Unreadable++
	if _, known := n.Reasons[o.Unreadable]; known || len(n.Reasons) < namedMost {
		n.Reasons[o.Unreadable]++
	}
	if len(n.Named) < namedMost {
		n.Named = append(n.Named, o.Name())
	}
}

// Inventory takes an inventory and notes every job of it in the cutover, in any
// phase that isn't over.
func (e *Engine) Inventory(ctx context.Context) (OldInventory, error) {
	c, err := e.Load(ctx)
	if err != nil {
		return OldInventory{}, err
	}
	place, err := e.old.Check(ctx)
	if err != nil {
		return OldInventory{}, err
	}
	n := newInventory(place)
	began, err := e.book.Clock(ctx)
	if err != nil {
		return n, err
	}
	see := e.seeing(ctx, c, began)
	scan, err := e.old.Scan(ctx, 0, func(o daybook.OldJob) error {
		n.count(o)
		return see.add(o)
	})
	if err == nil {
		err = see.flush()
	}
	n.At, n.Notes = scan.At, scan.Notes
	if err == nil {
		err = e.book.MissOld(ctx, e.name, began, e.old.Slip(), e.o.Batch)
	}
	if err != nil {
		return n, err
	}
	_, err = e.note(ctx, func(notes *Notes) {
		notes.Inventory = &n
		if notes.Gate == nil {
			notes.Before = &n
		}
	})
	return n, err
}

// seeing notes jobs of the old system in batches.
type seeing struct {
	e     *Engine
	ctx   context.Context
	since daybook.Time // when the look began
	gated bool
	jobs  []daybook.OldJob
	seen  int64
	fresh int64
}

func (e *Engine) seeing(ctx context.Context, c daybook.Cutover, since daybook.Time) *seeing {
	return &seeing{e: e, ctx: ctx, since: since, gated: c.EnteredAt(daybook.PhaseGate) != 0}
}

func (s *seeing) add(o daybook.OldJob) error {
	if o.State == daybook.OldGone || o.Foreign {
		return nil
	}
	if s.jobs = append(s.jobs, o); len(s.jobs) < s.e.o.Batch {
		return nil
	}
	return s.flush()
}

func (s *seeing) flush() error {
	if len(s.jobs) == 0 {
		return nil
	}
	now, err := s.e.old.Now(s.ctx)
	if err != nil {
		return err
	}
	for i, o := range s.jobs {
		s.jobs[i].OwnerSilent = max(now.Sub(o.OwnerSeen), 0)
	}
	fresh, err := s.e.book.SeeOld(s.ctx, s.e.name, s.jobs, s.since, s.gated)
	s.fresh += int64(fresh)
	s.seen += int64(len(s.jobs))
	s.jobs = s.jobs[:0]
	s.e.report("jobs noted", s.seen, 0)
	return err
}
