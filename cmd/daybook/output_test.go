package main

import (
	"bytes"
	"strings"
	"testing"
)

func TestSafe(t *testing.T) {
	for _, test := range []struct{ in, want string }{
		{"plain", "plain"},
		{"größe 日本", "größe 日本"},
		{"a\nb", `a\x0ab`},
		{"\x1b[31mred", `\x1b[31mred`},
		{"tab\there", `tab\x09here`},
		{"bad \xff utf8", `bad \xff utf8`},
		{"turn \u202e around", `turn \u202e around`},
		{"del\x7f", `del\x7f`},
	} {
		if got := safe(test.in); got != test.want {
			t.Errorf("safe(%q): got %q, want %q", test.in, got, test.want)
		}
	}
	if got, want := safeLine("a\tb\nc"), "a\tb\\x0ac"; got != want {
		t.Errorf("safeLine: got %q, want %q", got, want)
	}
}

func TestTableAlignsAndCuts(t *testing.T) {
	tab := &table{head: []string{"ID", "WHAT"}}
	tab.row("1", "short")
	tab.row(strings.Repeat("x", 2*cellMax), strings.Repeat("y", 2*lastMax))
	var b bytes.Buffer
	if err := tab.write(&b); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
	if len(lines) != 3 {
		t.Fatalf("got %d lines, want 3:\n%s", len(lines), b.String())
	}
	at := strings.Index(lines[0], "WHAT")
	if at != cellMax+2 || strings.Index(lines[1], "short") != at {
		t.Errorf("the second column isn't aligned at %d:\n%s", cellMax+2, b.String())
	}
	cells := strings.Fields(lines[2])
	if got, want := len([]rune(cells[0])), cellMax; got != want {
		t.Errorf("first cell: got %d runes, want %d", got, want)
	}
	if got, want := len([]rune(cells[1])), lastMax; got != want || !strings.HasSuffix(cells[1], "…") {
		t.Errorf("last cell: got %d runes, want %d and a mark", got, want)
	}
}

func TestErrorsAreOneShortLine(t *testing.T) {
	got := oneLine("first\nsecond\r\n\x1b[2J" + strings.Repeat("z", 3*errorMax))
	if strings.ContainsAny(got, "\n\r\x1b") || !strings.HasPrefix(got, `first second \x1b[2J`) {
		t.Errorf("got %q…, want one line without control characters", got[:40])
	}
	if len(got) > errorMax+64 {
		t.Errorf("got %d bytes, want about %d at most", len(got), errorMax)
	}
}

// Everything that a stranger can put into a job is shown harmlessly in tables.
func TestHostileTextInTables(t *testing.T) { everywhere(t, testHostileTextInTables) }

func testHostileTextInTables(t *testing.T, c *cli) {
	evil := "\u202eevil\u200b"
	c.enqueue(1, "--key", evil, "--args", `{"note":"line\u000aforged"}`)
	session, generation := c.claimJob(1, "--worker", evil)
	c.ok(append([]string{"fail", id(1), "--error", "boom\x1b[2J\nforged line"},
		owner(session, generation)...)...)
	for _, args := range [][]string{{"job", "show", id(1)}, {"job", "timeline", id(1)},
		{"job", "attempts", id(1)},
		{"worker", "list"}, {"job", "list"}} {
		out := c.ok(args...)
		if strings.ContainsAny(out, "\x1b\u202e\u200b") || strings.Contains(out, "\nforged") {
			t.Errorf("daybook %q printed %q", args, out)
		}
	}
}
