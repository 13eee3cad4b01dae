package console

import (
	"encoding/json"

	"github.com/daybookdev/daybook"
)

// hide decides whether somebody may see what a job of a kind was given, and what
// it made: args, result, progress and the results of its effects.
func (c *Console) hide(kind string, who Viewer) bool {
	return c.opts.Sensitive != nil && c.opts.Sensitive(kind) && !who.Sensitive
}

// hidden takes out of a job what somebody may not see.
func (c *Console) hidden(j daybook.Job, who Viewer) daybook.Job {
	if c.hide(j.Kind, who) {
		j.Args, j.Result, j.Progress = nil, nil, nil
	}
	return j
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
