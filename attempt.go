package daybook

import (
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// OutcomeKind is how an attempt ended.
type OutcomeKind string

// The outcomes.
const (
	OutcomeSucceeded OutcomeKind = "succeeded"
	OutcomeFailed    OutcomeKind = "failed"
	OutcomeReleased  OutcomeKind = "released"
	OutcomeLost      OutcomeKind = "lost"
	OutcomeCancelled OutcomeKind = "cancelled"
	OutcomeAsked     OutcomeKind = "asked"
)

// Attempt is the history of one claim that ended, or of a run of releases
// folded into one row.
type Attempt struct {
	Generation int64       `json:"generation"`       // of the claim; the last one when folded
	First      int64       `json:"first,omitempty"`  // the lowest generation of a folded row
	Count      int64       `json:"count,omitempty"`  // how many attempts a folded row stands for
	Through    int64       `json:"-"`                // highest generation that this row accounts for
	Session    ID          `json:"session,omitzero"` // zero when nobody owned it
	Worker     string      `json:"worker,omitempty"`
	ClaimedAt  Time        `json:"claimed_at,omitzero"`
	StartedAt  Time        `json:"started_at,omitzero"`
	EndedAt    Time        `json:"ended_at,omitzero"`
	Outcome    OutcomeKind `json:"outcome"`
	Why        string      `json:"why,omitempty"` // what the reconciler or a person went by
	Error      *Problem    `json:"error,omitempty"`
	// Result of a success. It belongs to the job; only a store reads it here.
	Result json.RawMessage `json:"-"`
}

// Attempts is how many attempts the row stands for.
func (a Attempt) Attempts() int64 { return max(1, a.Count) }

// Fold joins two neighbouring releases into one row, so that ten thousand
// snoozes cost one row and not ten thousand (riverqueue/river #972). Only
// plain releases fold, and the newest attempt stays unfolded: older is the
// second newest. Rows that carry an error keep their own place.
func (a Attempt) Fold(older Attempt) (Attempt, bool) {
	if a.Outcome != OutcomeReleased || older.Outcome != OutcomeReleased ||
		a.Error != nil || older.Error != nil {
		return Attempt{}, false
	}
	folded := a
	folded.Count = a.Attempts() + older.Attempts()
	folded.First = older.firstGeneration()
	folded.ClaimedAt = older.ClaimedAt
	return folded, true
}

func (a Attempt) firstGeneration() int64 {
	if a.First != 0 {
		return a.First
	}
	return a.Generation
}

// Problem is an attempt's error as the book keeps it: cleaned, bounded, and
// marked when it was cut.
type Problem struct {
	Text  string `json:"text"`
	Kind  string `json:"kind,omitempty"`  // "panic", "timeout", a Go type, a signal
	Trace string `json:"trace,omitempty"` // where it happened
	Cut   bool   `json:"cut,omitempty"`
	// Hidden: text and trace are left out for this reader. See [Sight].
	Hidden bool `json:"hidden,omitempty"`
}

// NewProblem cleans an error's parts so that recording a failure can't itself
// fail: invalid UTF-8 and NUL become U+FFFD, and text past ErrorMax is cut on
// a rune and keeps its beginning.
func NewProblem(text, kind, trace string) *Problem {
	p := &Problem{}
	var cut [3]bool
	p.Text, cut[0] = cleanText(text, ErrorMax)
	p.Kind, cut[1] = cleanText(kind, NameMax)
	p.Trace, cut[2] = cleanText(trace, ErrorMax)
	p.Cut = cut[0] || cut[1] || cut[2]
	return p
}

const cutMark = "… (cut)"

// cleanText makes text storable in every database and bounds it, in bytes.
func cleanText(s string, most int) (string, bool) {
	cut := false
	if len(s) > most {
		s = s[:most-len(cutMark)]
		for len(s) > 0 && !utf8.RuneStart(s[len(s)-1]) {
			s = s[:len(s)-1]
		}
		if len(s) > 0 && s[len(s)-1] >= utf8.RuneSelf {
			s = s[:len(s)-1]
		}
		cut = true
	}
	s = strings.ToValidUTF8(s, "\uFFFD")
	s = strings.ReplaceAll(s, "\x00", "\uFFFD")
	// Each bad byte may have grown to three.
	for len(s) > most-len(cutMark) && (cut || len(s) > most) {
		_, size := utf8.DecodeLastRuneInString(s)
		s, cut = s[:len(s)-size], true
	}
	if cut {
		s += cutMark
	}
	return s, cut
}
