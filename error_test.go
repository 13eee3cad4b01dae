package daybook

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
)

func TestErrors(t *testing.T) {
	fenced := Fail(CodeFenced, "job %s is at generation %d", testJob, 5)
	wrapped := fmt.Errorf("completing: %w", fenced)
	if !errors.Is(wrapped, ErrFenced) || errors.Is(wrapped, ErrRefused) || CodeOf(wrapped) != CodeFenced {
		t.Errorf("%v: got code %s, want fenced", wrapped, CodeOf(wrapped))
	}
	if errors.Is(ErrFenced, fenced) {
		t.Error("a sentinel counts as one certain error")
	}
	if CodeOf(nil) != "" || CodeOf(io.EOF) != CodeInternal {
		t.Errorf("got codes %q and %q, want none and internal", CodeOf(nil), CodeOf(io.EOF))
	}
	for _, tt := range []struct {
		err  *Error
		want string
	}{
		{fenced, "job " + testJob.String() + " is at generation 5"},
		{Invalid("queue", "is missing"), "queue: is missing"},
		{ErrBusy, "busy"},
		{Unavailable("claiming", io.ErrUnexpectedEOF), "the database did not answer while claiming; try again"},
	} {
		if got := tt.err.Error(); got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
	if err := Unavailable("claiming", io.ErrUnexpectedEOF); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Error("the cause is gone")
	}
}

func TestQuote(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"", `""`}, {"a b", `"a b"`}, {"a\n\x1b[31m\u202e", `"a\n\x1b[31m\u202e"`},
		{strings.Repeat("x", 64), `"` + strings.Repeat("x", 64) + `"`},
		{strings.Repeat("x", 65), `"` + strings.Repeat("x", 64) + `"… (65 bytes)`},
		{strings.Repeat("€", 22), `"` + strings.Repeat(`\u20ac`, 21) + `\xe2"… (66 bytes)`},
	} {
		if got := quote(tt.in); got != tt.want {
			t.Errorf("%q: got %s, want %s", tt.in, got, tt.want)
		}
	}
}
