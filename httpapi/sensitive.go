package httpapi

import (
	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/cutover"
)

// seen is an answer as its reader may see it: what daybook.Sight hides is left
// out. Every answer with a job's documents in it has its line here, which a test
// holds the table to.
func (c *call) seen(out any) (any, error) {
	switch v := out.(type) {
	case daybook.Job:
		return c.sight.Job(v), nil
	case JobPage:
		for i := range v.Jobs {
			v.Jobs[i] = c.sight.Job(v.Jobs[i])
		}
		return v, nil
	case EffectPage:
		effects, err := c.s.book.Seen(c.ctx(), c.sight, v.Effects)
		v.Effects = effects
		return v, err
	case Timeline:
		kind, err := c.kind()
		v.Events = c.sight.Events(kind, v.Events)
		return v, err
	case Attempts:
		kind, err := c.kind()
		v.Attempts = c.sight.Attempts(kind, v.Attempts)
		return v, err
	case CutoverItems:
		if !c.sight.All() { // whose class is which kind only a mapping knows, so this is for all
			for i := range v.Items {
				v.Items[i].Hash = "" // short bodies could be guessed by it
			}
		}
		return v, nil
	case Cutovers, cutover.Board:
		return v, nil // ids, classes and what people decided
	}
	return out, nil
}

// kind is that of the job in the path. It never changes.
func (c *call) kind() (string, error) {
	id, err := c.id("id")
	if err != nil {
		return "", err
	}
	j, err := c.s.book.Job(c.ctx(), id)
	return j.Kind, err
}
