package daybook

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// TestL21NewProblem: an error's text never keeps a failure from being
// recorded: it is cleaned, bounded, cut on a rune and marked when it was cut
// (fazer-ai/agents #243).
func TestL21NewProblem(t *testing.T) {
	long := func(s string, n int) string { return strings.Repeat(s, n) }
	for _, tt := range []struct {
		name, text, want string
		cut              bool
	}{
		{"plain", "boom", "boom", false},
		{"empty", "", "", false},
		{"several lines", "boom\n\tat f()", "boom\n\tat f()", false},
		{"NUL", "boom\x00", "boom\uFFFD", false},
		{"invalid UTF-8", "a\xffb\xc3", "a\uFFFDb\uFFFD", false},
		{"a lone surrogate's bytes", "a\xed\xa0\x80b", "a\uFFFDb", false},
		{"at the limit", long("x", ErrorMax), long("x", ErrorMax), false},
		{"one over", long("x", ErrorMax+1), long("x", ErrorMax-len(cutMark)) + cutMark, true},
		{"runes of two", long("é", ErrorMax/2), long("é", ErrorMax/2), false},
		{"runes of four", long("😀", ErrorMax/4+1), long("😀", (ErrorMax-len(cutMark))/4) + cutMark, true},
		{"NULs that grow", long("\x00", ErrorMax), long("\uFFFD", (ErrorMax-len(cutMark))/3) + cutMark, true},
		{"NULs that just fit", long("\x00", ErrorMax/3), long("\uFFFD", ErrorMax/3), false},
		{"10 MB", long("x", 10<<20), long("x", ErrorMax-len(cutMark)) + cutMark, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := NewProblem(tt.text, "", "")
			if p.Text != tt.want || p.Cut != tt.cut {
				t.Errorf("got %d bytes %.40q…%q cut %v, want %d bytes cut %v",
					len(p.Text), p.Text, p.Text[max(0, len(p.Text)-20):], p.Cut, len(tt.want), tt.cut)
			}
		})
	}
}

// TestL21NewProblemParts: kind and trace are held like the text.
func TestL21NewProblemParts(t *testing.T) {
	big := strings.Repeat("\xff\x00é", 5<<20)
	p := NewProblem(big, big, big)
	for _, f := range []struct {
		name, text string
		most       int
	}{{"text", p.Text, ErrorMax}, {"kind", p.Kind, NameMax}, {"trace", p.Trace, ErrorMax}} {
		checkStorable(t, f.name, f.text, f.most)
		if len(f.text) < f.most-16 || !strings.HasSuffix(f.text, cutMark) {
			t.Errorf("%s: %d bytes ending in %q, want nearly %d and the mark", f.name, len(f.text),
				f.text[len(f.text)-12:], f.most)
		}
	}
	if !p.Cut {
		t.Error("it isn't marked as cut")
	}
	if p := NewProblem("x", strings.Repeat("k", NameMax+1), ""); !p.Cut || p.Text != "x" {
		t.Errorf("a long kind alone: %+v, want it marked as cut", p)
	}
}

// checkStorable holds cleaned text to what every database takes.
func checkStorable(t *testing.T, name, text string, most int) {
	t.Helper()
	if len(text) > most || !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
		t.Errorf("%s of %d bytes (at most %d) can't be stored: %.60q", name, len(text), most, text)
	}
}
