package cutover

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/daybookdev/daybook"
)

// Watch is who worked in the old system at the last look, by their last signs of
// life. Times have the book's clock.
type Watch struct {
	At      daybook.Time            `json:"at"`
	Workers map[string]daybook.Time `json:"workers,omitempty"`
}

// noteDeaths notes workers that should speak and don't, those that lost jobs, and
// those that went where nobody looked for so long that no farewell can be told from
// a death. It reports whether any is new. Who has said farewell isn't among them.
// began is before the jobs in hand were read.
func (e *Engine) noteDeaths(ctx context.Context, began daybook.Time, lost map[string]daybook.OldJob) (
	fresh bool, err error) {
	before, err := e.book.Clock(ctx)
	if err != nil {
		return false, err
	}
	g, now, err := e.gateState(ctx)
	if err != nil {
		return false, err
	}
	watch := Watch{Workers: map[string]daybook.Time{}}
	if watch.At, err = e.book.Clock(ctx); err != nil {
		return false, err
	}
	var dead []daybook.Death
	for _, w := range g.Claimants { // before the jobs' owners: theirs is the newest sign
		if w.Seen == 0 {
			continue
		}
		silent := now.Sub(w.Seen)
		// By the older clock, and no later than what hands showed: who looks slowly
		// mustn't take a sign for a later one.
		watch.Workers[w.Name] = min(before.Add(-silent), began)
		if silent > e.old.Patience() {
			dead = append(dead, daybook.Death{Worker: w.Name, Seen: watch.Workers[w.Name], Found: watch.At})
		}
	}
	for _, o := range lost {
		d := daybook.Death{Found: watch.At}
		if d.Worker, d.Seen, err = e.lastSign(ctx, o); err != nil {
			return false, err
		}
		dead = append(dead, d)
	}
	return e.noteWatch(ctx, watch, dead)
}

// noteWatch notes deaths, and where old systems forget those, who lives now.
func (e *Engine) noteWatch(ctx context.Context, watch Watch, dead []daybook.Death) (fresh bool, err error) {
	if e.old.Fades() == 0 {
		c, err := e.Load(ctx)
		if err != nil {
			return false, err
		}
		n, err := NotesOf(c)
		if _, fresh = addDeaths(n.Deaths, dead); err != nil || !fresh {
			return false, err
		}
	}
	_, err = e.note(ctx, func(n *Notes) {
		all := dead
		if e.old.Fades() > 0 {
			all = slices.Concat(dead, n.Watched.gone(watch, e.old.Fades()))
			n.Watched = &watch
		}
		n.Deaths, fresh = addDeaths(n.Deaths, all)
	})
	return fresh, err
}

// gone are those who are missed by the next look and may have died: had they, what
// they left has faded by now.
func (w *Watch) gone(next Watch, fades time.Duration) (dead []daybook.Death) {
	if w == nil {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(w.Workers)) {
		if _, there := next.Workers[name]; !there && next.At.Sub(w.Workers[name]) >= fades {
			dead = append(dead, daybook.Death{Worker: name, Seen: w.Workers[name], Found: next.At})
		}
	}
	return dead
}

func addDeaths(known, dead []daybook.Death) (all []daybook.Death, fresh bool) {
	for _, d := range dead {
		more, added := daybook.AddDeath(known, d)
		known, fresh = more, fresh || added
	}
	return known, fresh
}

// lastSign is a lost job's owner and its last sign of life, as the book noted them
// when the job was seen; 0 is not known.
func (e *Engine) lastSign(ctx context.Context, o daybook.OldJob) (owner string, seen daybook.Time, err error) {
	items, err := e.book.ItemsOf(ctx, e.name, []string{o.Name()})
	for _, i := range items {
		if i.Hash == o.Hash() && i.Owner != "" && (o.Owner == "" || i.Owner == o.Owner) {
			return i.Owner, i.OwnerSeen, err
		}
	}
	if o.Owner == "" {
		return "unknown", 0, err
	}
	return o.Owner, 0, err
}
