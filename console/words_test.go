package console

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/daybookdev/daybook"
)

func TestWords(t *testing.T) {
	for d, want := range map[time.Duration]string{0: "0 ms", 999 * time.Millisecond: "999 ms",
		1500 * time.Millisecond: "1.5 s",
		time.Minute:             "1 min", 61 * time.Second: "1 min 1 s",
		25 * time.Hour: "1 d 1 h", 24*time.Hour + time.Minute: "1 d",
		-time.Second: "0 ms"} {
		if got := lasted(d); got != want {
			t.Errorf("%s: got %q, want %q", d, got, want)
		}
	}
	for in, want := range map[string]string{"plain": "plain", "a\u202eb": `a\u202eb`, "a\x00\x1b[2J": `a\x00\x1b[2J`,
		"\u200b": `\u200b`, "ä€": "ä€", "\xff": `\xff`} {
		if got := safe(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
	if got := num(-1234567) + " " + num(999) + " " + count(int64(1), "job"); got != "-1,234,567 999 1 job" {
		t.Errorf("got %s", got)
	}
	a := likeness(daybook.NewProblem("dial 10.0.0.1:5432 by 3f2a-11: timeout after 3.5s\nmore", "", ""))
	b := likeness(daybook.NewProblem("dial 10.0.9.7:5433 by 7e-9: timeout after 12s", "", ""))
	if strings.ReplaceAll(a, "#.#", "#") != strings.ReplaceAll(b, "#.#", "#") || !strings.HasPrefix(a, "dial ") {
		t.Errorf("not alike: %q, %q", a, b)
	}
}

// The drawing has each gap once.
func TestDrawing(t *testing.T) {
	drawing := string(drawGaps())
	for i, g := range daybook.Gaps {
		if strings.Count(drawing, `href="#gap-`+g.Name+`"`) != 1 ||
			!strings.Contains(drawing, fmt.Sprintf(">%d</text>", i+1)) {
			t.Errorf("gap %s isn't drawn once", g.Name)
		}
	}
	if len(slices.Collect(func(yield func(stroke) bool) {
		for _, s := range gapStrokes {
			if s.gap != "" && !yield(s) {
				return
			}
		}
	})) != len(daybook.Gaps) {
		t.Error("the drawing has a gap that isn't one")
	}
}
