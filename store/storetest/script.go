package storetest

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
)

// line is one command of a scenario. Every word of it must be read: a typo
// fails the test instead of being ignored.
type line struct {
	t    *testing.T
	td   *datadriven.TestData
	read map[int]bool
}

func newLine(t *testing.T, td *datadriven.TestData) *line {
	return &line{t: t, td: td, read: map[int]bool{}}
}

func (l *line) fail(format string, args ...any) {
	l.t.Helper()
	l.td.Fatalf(l.t, format, args...)
}

// next takes the next bare word, or "".
func (l *line) next() string {
	for i, a := range l.td.CmdArgs {
		if !l.read[i] && len(a.Vals) == 0 {
			l.read[i] = true
			return a.Key
		}
	}
	return ""
}

// name takes the next bare word and wants one.
func (l *line) name() string {
	l.t.Helper()
	word := l.next()
	if word == "" {
		l.fail("%s wants a name", l.td.Cmd)
	}
	return word
}

// names takes all bare words that are left.
func (l *line) names() (words []string) {
	for word := l.next(); word != ""; word = l.next() {
		words = append(words, word)
	}
	return words
}

// flag reports whether a bare word is there.
func (l *line) flag(word string) bool {
	for i, a := range l.td.CmdArgs {
		if a.Key == word && len(a.Vals) == 0 {
			l.read[i] = true
			return true
		}
	}
	return false
}

// given returns the text of word=text; text with spaces stands in parentheses.
func (l *line) given(word string) (text string, found bool) {
	for i, a := range l.td.CmdArgs {
		if a.Key == word && len(a.Vals) > 0 {
			l.read[i] = true
			return strings.Join(a.Vals, ", "), true
		}
	}
	return "", false
}

func (l *line) text(word, otherwise string) string {
	if text, found := l.given(word); found {
		return text
	}
	return otherwise
}

// list reads word=a,b as its parts; none of them for word=none.
func (l *line) list(word string) (parts []string, found bool) {
	text, found := l.given(word)
	if !found || text == "none" {
		return []string{}, found
	}
	return strings.Split(text, ","), true
}

func (l *line) number(word string, otherwise int) int {
	l.t.Helper()
	text, found := l.given(word)
	if !found {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		l.fail("%s=%s is not a number", word, text)
	}
	return n
}

func (l *line) duration(word string) time.Duration {
	l.t.Helper()
	text, found := l.given(word)
	if !found {
		return 0
	}
	return l.parseDuration(text)
}

// parseDuration reads Go's durations, and days as 30d.
func (l *line) parseDuration(text string) time.Duration {
	l.t.Helper()
	if days, found := strings.CutSuffix(text, "d"); found {
		if n, err := strconv.Atoi(days); err == nil {
			return time.Duration(n) * 24 * time.Hour
		}
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		l.fail("%s is not a duration", text)
	}
	return d
}

// end fails the test when a word was left unread.
func (l *line) end() {
	l.t.Helper()
	for i, a := range l.td.CmdArgs {
		if !l.read[i] {
			l.fail("%s doesn't know %q", l.td.Cmd, a.Key)
		}
	}
}
