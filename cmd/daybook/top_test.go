package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/console"
)

// top prints one frame where the output is no terminal: what needs a person, and
// every queue, in the console's words.
func TestTop(t *testing.T) { onEach(t, testTop) }

func testTop(t *testing.T, c *cli) {
	if out := c.ok("top"); !strings.Contains(out, "Nothing needs a person.") || !strings.Contains(out, "no queue yet") {
		t.Errorf("an empty book: %s", out)
	}
	c.ok("enqueue", "--queue", "mail", "--kind", "k")
	c.ok("queue", "pause", "mail", "--reason", "the relay is down")
	c.ok("enqueue", "--queue", "pay", "--kind", "k")
	out := c.ok("top", "--once")
	for _, want := range []string{"What needs a person: 2", "No worker takes queue pay: 1 job ready",
		"Queue mail is paused: for",
		"the relay is down", "QUEUE", "mail (paused)", "all"} {
		if !strings.Contains(out, want) {
			t.Errorf("top doesn't say %q:\n%s", want, out)
		}
	}
	if strings.Contains(out, "\x1b") {
		t.Error("a pipe is steered like a terminal")
	}
	var g console.Glance
	if err := json.Unmarshal([]byte(c.ok("top", "-o", "json")), &g); err != nil || len(g.Queues) != 2 ||
		len(g.Needs) != 2 {
		t.Errorf("got %+v, %v", g, err)
	}
	for _, bad := range [][]string{{"top", "--sort", "colour"}, {"top", "--every", "1ms"}, {"top", "mail"}} {
		c.want(statusUsage, bad...)
	}
}

// A frame fits the screen, says what flowed since the one before, and escapes what
// would steer the terminal.
func TestTopFrame(t *testing.T) {
	var out bytes.Buffer
	second := daybook.Time(time.Second / time.Microsecond)
	now := console.Glance{At: 10 * second, Needs: []console.Need{{Grave: "warn", Text: "a\x1b[2Jb", More: "more"}}}
	for range 60 {
		now.Queues = append(now.Queues, daybook.Backlog{Queue: "q"})
	}
	before := console.Glance{At: 8 * second}
	now.Total.Accepted, now.Total.Succeeded = 10, 4
	if err := (&top{app: &app{}}).draw(&out, now, &before); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"a second: 5.0 in, 2.0 succeeded, 0.0 set aside", `a\x1b[2Jb: more`, "all"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the frame doesn't say %q:\n%s", want, out.String())
		}
	}
	lines := fit(strings.Split(strings.TrimSpace(out.String()), "\n"), 20, 10)
	if len(lines) != 9 || !strings.Contains(lines[8], "more lines") {
		t.Errorf("got %d lines: %q", len(lines), lines)
	}
	for _, line := range lines {
		if n := len([]rune(line)); n > 20 {
			t.Errorf("%q has %d columns", line, n)
		}
	}
}

// The console is at / of a server, the API beside it; each answers in its own way
// for what isn't there.
func TestServeConsole(t *testing.T) {
	c := newCLI(t)
	url := c.served()
	for path, want := range map[string]string{"/": "<h1>Overview</h1>", "/nothing": "there is no such page",
		"/v1/nothing": `"code":"not_found"`, "/metrics": "daybook_book_up"} {
		if _, text := ask(t, "", "GET", url+path, ""); !strings.Contains(text, want) {
			t.Errorf("%s doesn't say %q: %s", path, want, text)
		}
	}
}
