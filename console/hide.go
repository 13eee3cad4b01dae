package console

import (
	"encoding/json"
	"slices"

	"github.com/daybookdev/daybook"
)

// sight is what somebody may see of jobs. Every page looks through it; looks are
// shared, so it is put on behind them.
func (c *Console) sight(who Viewer) daybook.Sight {
	return daybook.SightOf(c.opts.Sensitive, who.Sensitive)
}

// jobsSeen are jobs as somebody may see them.
func (c *Console) jobsSeen(jobs []daybook.Job, who Viewer) []daybook.Job {
	sight := c.sight(who)
	if sight.All() {
		return jobs
	}
	seen := make([]daybook.Job, len(jobs))
	for i, j := range jobs {
		seen[i] = sight.Job(j)
	}
	return seen
}

// seen is a job with all that is known of it, as somebody may see it.
func (c *Console) seen(s story, who Viewer) story {
	sight, kind := c.sight(who), s.Job.Kind
	if !sight.Hides(kind) {
		return s
	}
	s.Job = sight.Job(s.Job)
	s.Timeline = sight.Events(kind, s.Timeline)
	s.History.Attempts = sight.Attempts(kind, s.History.Attempts)
	s.History.Effects = slices.Clone(s.History.Effects)
	for i, e := range s.History.Effects {
		s.History.Effects[i] = sight.Effect(kind, e)
	}
	return s
}

// effectSeen is a row about an effect as somebody may see it. Of one whose job is
// gone nobody knows the kind any more, so nothing is shown where something is
// hidden.
func (c *Console) effectSeen(e daybook.Effect, j daybook.Job, who Viewer) effectRow {
	sight, kind := c.sight(who), j.Kind
	if j.ID.IsZero() && !sight.All() {
		kind = c.opts.Sensitive[0]
	}
	e = sight.Effect(kind, e)
	return effectRow{Effect: e, Kind: j.Kind, Queue: j.Queue, State2: j.State,
		Doc: documentOf("result", e.Result, "", e.Hidden)}
}

// document is JSON as a page shows it.
type document struct {
	Name   string
	Text   string // laid out, its numbers as they were given
	Bytes  int
	Fold   bool   // too large to stand open
	Cut    bool   // only the beginning; Raw has all of it
	Raw    string // path of the whole document, byte for byte
	Hidden bool   // somebody else may see it
}

const (
	// foldAbove is from how many bytes on a document is folded, and shownMost how much
	// of it a page shows.
	foldAbove, shownMost = 2 << 10, 64 << 10
)

// documentOf lays a document out for a page. raw is the path of it as given.
func documentOf(name string, doc json.RawMessage, raw string, hidden bool) document {
	d := document{Name: name, Bytes: len(doc), Raw: raw, Hidden: hidden}
	if hidden {
		return d
	}
	d.Fold = len(doc) > foldAbove
	if len(doc) > shownMost {
		d.Text, d.Cut = safe(string([]rune(string(doc[:shownMost])))), true
		return d
	}
	if d.Text = pretty(doc); len(d.Text) > 2*shownMost { // deep nesting is mostly blanks
		d.Text = safe(string(doc))
	}
	return d
}
