package console

import (
	"context"

	"github.com/daybookdev/daybook"
)

// effectsPage shows what nobody knows the end of.
type effectsPage struct {
	All     bool
	Rows    []effectRow
	Next    string
	Later   bool
	Open    int64
	Doubled int64
	Queues  []daybook.Backlog // with doubled effects
	Now     daybook.Time
}

// effectsShown bounds a page: each row looks its job up.
const effectsShown = 25

// effectList is what one look at the ledger saw.
type effectList struct {
	Page daybook.Page[daybook.Effect]
	Jobs map[daybook.ID]daybook.Job
	Now  daybook.Time
}

func (c *Console) ledger(ctx context.Context, f daybook.EffectFilter) (effectList, error) {
	key := "effects " + query("cursor", f.Cursor, "open", string("1"[:btoi(f.Open)]))
	return see(ctx, c, key, func(ctx context.Context) (l effectList, err error) {
		l.Jobs = map[daybook.ID]daybook.Job{}
		err = c.book.Store().Read(ctx, "listing effects", func(v daybook.View) (err error) {
			l.Now = v.Now()
			if l.Page, err = v.Effects(ctx, f); err != nil {
				return err
			}
			for _, e := range l.Page.Items {
				if _, known := l.Jobs[e.Job]; known {
					continue
				}
				j, found, err := v.Job(ctx, e.Job)
				if err != nil {
					return err
				}
				if j.Args, j.Result, j.Progress = nil, nil, nil; found {
					l.Jobs[e.Job] = j
				}
			}
			return nil
		})
		return l, err
	})
}

func (c *Console) loadEffects(a *ask) (any, error) {
	b, err := c.backlog(a.ctx)
	if err != nil {
		return nil, err
	}
	p := effectsPage{All: a.query.Get("all") != "", Open: b.Total.Open, Doubled: b.Total.Doubled,
		Later: a.query.Get("cursor") != ""}
	for _, q := range b.Queues {
		if q.Doubled > 0 {
			p.Queues = append(p.Queues, q)
		}
	}
	l, err := c.ledger(a.ctx, daybook.EffectFilter{Open: !p.All, Limit: effectsShown, Cursor: a.query.Get("cursor")})
	if err != nil {
		return nil, err
	}
	p.Now, p.Next = l.Now, l.Page.Cursor
	for _, e := range l.Page.Items {
		j := l.Jobs[e.Job]
		p.Rows = append(p.Rows, c.effectSeen(e, j, a.who))
	}
	return p, nil
}
