package cutover

import (
	"context"

	"github.com/daybookdev/daybook"
)

// noteDeaths notes workers that should speak and don't, and those that lost jobs,
// and reports whether any is new. Who has said farewell isn't among them.
func (e *Engine) noteDeaths(ctx context.Context, lost map[string]daybook.OldJob) (fresh bool, err error) {
	g, now, err := e.gateState(ctx)
	if err != nil {
		return false, err
	}
	at, err := e.book.Clock(ctx)
	if err != nil {
		return false, err
	}
	var dead []daybook.Death
	for _, w := range g.Claimants { // before the jobs' owners: theirs is the newest sign
		if silent := now.Sub(w.Seen); w.Seen != 0 && silent > e.old.Patience() {
			dead = append(dead, daybook.Death{Worker: w.Name, Seen: at.Add(-silent), Found: at})
		}
	}
	for owner, o := range lost {
		d := daybook.Death{Worker: owner, Found: at}
		if d.Seen, err = e.lastSign(ctx, o); err != nil {
			return false, err
		}
		dead = append(dead, d)
	}
	if len(dead) == 0 {
		return false, nil
	}
	c, err := e.Load(ctx)
	if err != nil {
		return false, err
	}
	n, err := NotesOf(c)
	if _, fresh = addDeaths(n.Deaths, dead); err != nil || !fresh {
		return false, err
	}
	_, err = e.note(ctx, func(n *Notes) { n.Deaths, fresh = addDeaths(n.Deaths, dead) })
	return fresh, err
}

func addDeaths(known, dead []daybook.Death) (all []daybook.Death, fresh bool) {
	for _, d := range dead {
		more, added := daybook.AddDeath(known, d)
		known, fresh = more, fresh || added
	}
	return known, fresh
}

// lastSign is the last sign of life of a lost job's owner, as the book noted it
// when the job was seen; 0 is not known.
func (e *Engine) lastSign(ctx context.Context, o daybook.OldJob) (daybook.Time, error) {
	items, err := e.book.ItemsOf(ctx, e.name, []string{o.Name()})
	for _, i := range items {
		if i.Hash == o.Hash() && i.Owner == o.Owner {
			return i.OwnerSeen, err
		}
	}
	return 0, err
}
