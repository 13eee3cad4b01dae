package console

import (
	"context"
	"slices"

	"github.com/daybookdev/daybook"
)

// Glance is the overview without its page: the same numbers and the same words,
// for a terminal.
type Glance struct {
	At       daybook.Time      `json:"at"`
	Needs    []Need            `json:"needs"`
	Total    daybook.Backlog   `json:"total"`
	Queues   []daybook.Backlog `json:"queues"`
	Sessions int               `json:"sessions"` // whose lease holds
}

// Need is something that wants a person, the gravest first.
type Need struct {
	Grave string `json:"grave"` // alarm, warn or note
	Text  string `json:"text"`
	More  string `json:"more,omitempty"`
}

// Glance looks at the book once, with everybody who looks at this moment.
func (c *Console) Glance(ctx context.Context) (g Glance, err error) {
	b, err := c.backlog(ctx)
	if err != nil {
		return g, err
	}
	h, err := c.health(ctx)
	if err != nil {
		return g, err
	}
	g = Glance{At: b.At, Total: b.Total, Queues: slices.Clone(b.Queues), Needs: []Need{}}
	for _, n := range c.needs(b, h) {
		g.Needs = append(g.Needs, Need{n.Class, n.Text, n.More})
	}
	for _, s := range h.Sessions {
		if s.ExpiresAt > h.At {
			g.Sessions++
		}
	}
	return g, nil
}
