package daybook

import (
	"context"
	"slices"
	"strings"
)

// Sight is what one reader may see of jobs. Of sensitive kinds everything is
// hidden that its users or its handler said: args, result and progress, error
// texts and traces, results of effects, and what came too late. What hides is
// left out, and the value that it is left out of says hidden. Names, ids, keys,
// states, times and people's reasons stay. The zero Sight sees all.
//
// Everything that shows jobs to readers who aren't all allowed everything goes
// through here: the HTTP API and the console.
type Sight struct{ hidden []string }

// SightOf is the sight of a reader: allowed says that its token has
// ScopeSensitive.
func SightOf(sensitiveKinds []string, allowed bool) Sight {
	if allowed {
		return Sight{}
	}
	return Sight{sensitiveKinds}
}

// All reports that nothing is hidden.
func (s Sight) All() bool { return len(s.hidden) == 0 }

// Hides reports whether jobs of a kind are hidden.
func (s Sight) Hides(kind string) bool { return slices.Contains(s.hidden, kind) }

// Job is the job as the reader sees it.
func (s Sight) Job(j Job) Job {
	if !s.Hides(j.Kind) {
		return j
	}
	j.Args, j.Result, j.Progress, j.Hidden = nil, nil, nil, true
	j.LastError = j.LastError.hide()
	if j.Origin != nil {
		origin := *j.Origin
		origin.PayloadHash = "" // short args could be guessed by it
		j.Origin = &origin
	}
	return j
}

// hide keeps the kind of an error, by which people group them.
func (p *Problem) hide() *Problem {
	if p == nil {
		return nil
	}
	return &Problem{Kind: p.Kind, Cut: p.Cut, Hidden: true}
}

// Attempts are a job's attempts as the reader sees them.
func (s Sight) Attempts(kind string, attempts []Attempt) []Attempt {
	if !s.Hides(kind) {
		return attempts
	}
	attempts = slices.Clone(attempts)
	for i := range attempts {
		attempts[i].Error, attempts[i].Result = attempts[i].Error.hide(), nil
	}
	return attempts
}

// tellsNothing are the events whose detail is the book's own words. Of others it
// may be a handler's.
var tellsNothing = []string{"accepted", "moved in", "imported", "replayed", "claimed", "started", "set aside",
	"settled", "revived", "unheld", "expired", "moved out", "effect begun", "effect done", "effect absent",
	"effect left open", "effect doubled", "lost", "asked", "released"}

// Events is a job's timeline as the reader sees it.
func (s Sight) Events(kind string, events []Event) []Event {
	if !s.Hides(kind) {
		return events
	}
	events = slices.Clone(events)
	for i, e := range events {
		if e.Detail == "" || slices.Contains(tellsNothing, e.What) {
			continue
		}
		events[i].Detail, events[i].Hidden = "", true
		if refused, _, fenced := strings.Cut(e.Detail, notOwner); fenced && e.What == "fenced" {
			events[i].Detail = refused + notOwner
		}
	}
	return events
}

// Effect is one effect of a job of a kind as the reader sees it.
func (s Sight) Effect(kind string, e Effect) Effect {
	if !s.Hides(kind) {
		return e
	}
	e.Result, e.Fingerprint, e.Hidden = nil, "", true
	e.Late = slices.Clone(e.Late)
	for i := range e.Late {
		e.Late[i].Said = ""
	}
	return e
}

// Seen are effects of many jobs as the reader sees them. It asks the book for the
// jobs' kinds where it must.
func (b *Book) Seen(ctx context.Context, s Sight, effects []Effect) ([]Effect, error) {
	if s.All() {
		return effects, nil
	}
	kinds := map[ID]string{}
	seen := make([]Effect, len(effects))
	err := b.read(ctx, "reading the kinds of effects", func(v View) error {
		for i, e := range effects {
			kind, known := kinds[e.Job]
			if !known {
				j, found, err := v.Job(ctx, e.Job)
				if err != nil {
					return err
				}
				if kind = j.Kind; !found {
					kind = s.hidden[0] // gone meanwhile: nobody knows any more, so nothing is shown
				}
				kinds[e.Job] = kind
			}
			seen[i] = s.Effect(kind, e)
		}
		return nil
	})
	return seen, err
}
