package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/daybookdev/daybook"
)

func TestEnqueueOne(t *testing.T) { everywhere(t, testEnqueueOne) }

func testEnqueueOne(t *testing.T, c *cli) {
	got := strings.TrimSpace(c.ok("enqueue", "--queue", "mail", "--kind", "welcome", "--id", id(1)))
	if got != id(1) {
		t.Errorf("got %q, want the id alone", got)
	}
	made := strings.TrimSpace(c.ok("enqueue", "--queue", "mail", "--kind", "welcome"))
	if _, err := daybook.ParseID(made); err != nil {
		t.Errorf("got %q, want a new id", made)
	}
	c.enqueue(2, "--priority", "-5", "--max-failures", "3", "--on-lost", "set_aside", "--in", "1d",
		"--expires-at", "9999-12-31T00:00:00+02:00", "--timeout", "90s", "--args", `[1,"<&>"]`)
	j := c.job(2)
	if j.Priority != -5 || j.MaxFailures != 3 || j.OnLost != daybook.LostSetAside ||
		string(j.Args) != `[1,"<&>"]` {
		t.Errorf("got %+v, want what was asked for", j)
	}
	if wait := j.RunAt.Sub(j.EnqueuedAt); wait != 24*time.Hour {
		t.Errorf("got due after %s, want 24h", wait)
	}
	if got, want := j.ExpiresAt.String(), "9999-12-30T22:00:00.000000Z"; got != want {
		t.Errorf("got expires_at %s, want %s", got, want)
	}
	c.enqueue(3, "--run-at", "2040-02-03T04:05:06.789012+01:00")
	if got, want := c.job(3).RunAt.String(), "2040-02-03T03:05:06.789012Z"; got != want {
		t.Errorf("got run_at %s, want %s", got, want)
	}
}

// L34: the same key with the same input, in whatever order and number form, is
// the same job; other input is a conflict and stores nothing.
func TestL34EnqueueKey(t *testing.T) { everywhere(t, testL34EnqueueKey) }

func testL34EnqueueKey(t *testing.T, c *cli) {
	base := []string{"enqueue", "--queue", "q", "--kind", "k", "--key", "a1"}
	var first, second daybook.Receipt
	c.json(statusDone, &first, append(base, "--args", `{"a":1,"b":2}`)...)
	c.json(statusDone, &second, append(base, "--args", `{"b":2.0, "a":1}`)...)
	if first.Replayed || !second.Replayed || first.ID != second.ID {
		t.Errorf("got %+v and %+v, want one job and its replay", first, second)
	}
	s := c.want(statusRefused, append(base, "--args", `{"a":9007199254740993,"b":2}`)...)
	if s.out != "" || !strings.Contains(s.err, first.ID.String()) {
		t.Errorf("got %+v, want the conflict to name the job", s)
	}
	var list struct{ Jobs []daybook.Job }
	if c.json(statusDone, &list, "job", "list", "--key", "a1"); len(list.Jobs) != 1 {
		t.Errorf("got %d jobs of the key, want 1", len(list.Jobs))
	}
}

// L22 and P6: what can't be stored is refused with its path, and what can is
// kept exactly.
func TestL22ArgsExact(t *testing.T) { everywhere(t, testL22ArgsExact) }

func testL22ArgsExact(t *testing.T, c *cli) {
	s := c.want(statusUsage, "enqueue", "--queue", "q", "--kind", "k", "--args", `{"a":["x","\u0000"]}`)
	if !strings.Contains(s.err, "/a/1") {
		t.Errorf("got %q, want the path /a/1", s.err)
	}
	for i, args := range []string{`{"a":"\\u0000"}`, `{"z":1.0,"a":9007199254740993,"e":1E400}`,
		`"<script>&amp;"`, `"日本\u00e9"`, `null`} {
		file := filepath.Join(c.dir, "args.json")
		if err := os.WriteFile(file, []byte(args), 0o600); err != nil {
			t.Fatal(err)
		}
		c.enqueue(i+1, "--args-file", file)
		if got := string(c.job(i + 1).Args); got != args {
			t.Errorf("got args %s, want %s", got, args)
		}
	}
	c.stdin = `{"from":"stdin"}`
	c.enqueue(99, "--args-file", "-")
	if got := string(c.job(99).Args); got != c.stdin {
		t.Errorf("got args %s, want %s", got, c.stdin)
	}
	c.stdin = `"` + strings.Repeat("x", daybook.ArgsMax) + `"`
	c.want(statusUsage, "enqueue", "--queue", "q", "--kind", "k", "--args-file", "-")
}

func TestEnqueueFromReportsExactLines(t *testing.T) { everywhere(t, testEnqueueFromReportsExactLines) }

func testEnqueueFromReportsExactLines(t *testing.T, c *cli) {
	c.ok("enqueue", "--queue", "q", "--kind", "k", "--key", "taken", "--args", "1")
	c.stdin = "\xef\xbb\xbf" + strings.Join([]string{
		`{"queue":"q","kind":"k"}`, // 1
		``,                         // 2
		`not json`,                 // 3
		`{"queue":"q","kind":"k","key":"taken","args":2}`,                          // 4
		"\t" + `{"queue":"q","kind":"k","key":"taken","args":1.0}` + "\r",          // 5: a replay
		`{"queue":"q","kind":"k","colour":"red"}`,                                  // 6
		`{"queue":"q q","kind":"k"}`,                                               // 7
		`{"queue":"q","kind":"k","args":"` + strings.Repeat("x", 2*lineMax) + `"}`, // 8
		`{"queue":"q","kind":"k","run_at":"2030-01-01"}`,                           // 9
		`{"queue":"q","kind":"k","in_seconds":1.5,"priority":3}`,                   // 10, without an end of line
	}, "\n")
	var got fromAnswer
	c.json(statusFailed, &got, "enqueue", "--from", "-")
	if got.Accepted != 2 || got.Replayed != 1 {
		t.Errorf("got accepted %d, replayed %d, want 2 and 1", got.Accepted, got.Replayed)
	}
	want := []refusedLine{{3, daybook.CodeMalformed, ""}, {4, daybook.CodeKeyConflict, ""},
		{6, daybook.CodeInvalid, "colour"},
		{7, daybook.CodeInvalid, "queue"}, {8, daybook.CodeTooLarge, ""}, {9, daybook.CodeInvalid, "run_at"}}
	if len(got.Refused) != len(want) {
		t.Fatalf("got %+v, want %+v", got.Refused, want)
	}
	for i, w := range want {
		g := got.Refused[i]
		if g.Line != w.Line || g.Code != w.Code || g.Error == "" || !strings.HasPrefix(g.Error, w.Error) {
			t.Errorf("got %+v, want %+v", g, w)
		}
	}
	c.stdin = ""
	if c.json(statusDone, &got, "enqueue", "--from", "-"); got.Accepted != 0 || got.Refused == nil {
		t.Errorf("nothing: got %+v, want noughts and an empty list", got)
	}
}

// requestLines writes n requests; bad ones, by their number from 0, are refused by the
// book itself.
func requestLines(n int, bad func(i int) bool) string {
	var b bytes.Buffer
	for i := range n {
		key := fmt.Sprintf("key-%d", i)
		if bad(i) {
			key = "taken"
		}
		fmt.Fprintf(&b, `{"queue":"bulk","kind":"k","key":%q,"args":{"i":%d}}`+"\n", key, i)
	}
	return b.String()
}

// Refused lines are taken out of their batch wherever they stand in it, and the
// rest goes in whole.
func TestEnqueueFromTakesRefusedLinesOut(t *testing.T) {
	everywhere(t, testEnqueueFromTakesRefusedLinesOut)
}

func testEnqueueFromTakesRefusedLinesOut(t *testing.T, each *cli) {
	for name, bad := range map[string]func(int) bool{
		"none":         func(int) bool { return false },
		"first":        func(i int) bool { return i%batchLines == 0 },
		"last":         func(i int) bool { return i%batchLines == batchLines-1 },
		"here and now": func(i int) bool { return i%97 == 5 || i%101 == 7 },
		"every":        func(int) bool { return true },
	} {
		t.Run(name, func(t *testing.T) {
			c := each.another(t)
			c.ok("enqueue", "--queue", "bulk", "--kind", "k", "--key", "taken")
			n := 2*batchLines + 7
			file := filepath.Join(c.dir, "lines.jsonl")
			if err := os.WriteFile(file, []byte(requestLines(n, bad)), 0o600); err != nil {
				t.Fatal(err)
			}
			var want []int64
			for i := range n {
				if bad(i) {
					want = append(want, int64(i+1))
				}
			}
			status := statusDone
			if len(want) > 0 {
				status = statusFailed
			}
			var got fromAnswer
			c.json(status, &got, "enqueue", "--from", file)
			if got.Accepted != int64(n-len(want)) || got.Replayed != 0 || len(got.Refused) != len(want) {
				t.Fatalf("got accepted %d, replayed %d, refused %d, want %d, 0 and %d",
					got.Accepted, got.Replayed, len(got.Refused), n-len(want), len(want))
			}
			for i, r := range got.Refused {
				if r.Line != want[i] || r.Code != daybook.CodeKeyConflict {
					t.Fatalf("refusal %d: got %+v, want line %d", i, r, want[i])
				}
			}
			if c.json(status, &got, "enqueue", "--from", file); got.Accepted != 0 ||
				got.Replayed != int64(n-len(want)) {
				t.Errorf("again: got accepted %d, replayed %d, want 0 and %d", got.Accepted, got.Replayed, n-len(want))
			}
		})
	}
}

// In a table, refusals are told as they come, each on a line of its own.
func TestEnqueueFromTable(t *testing.T) { everywhere(t, testEnqueueFromTable) }

func testEnqueueFromTable(t *testing.T, c *cli) {
	c.stdin = `{"queue":"q","kind":"k"}` + "\n{\n"
	s := c.want(statusFailed, "enqueue", "--from", "-")
	if !strings.Contains(s.err, "daybook: line 2: ") || !strings.HasPrefix(s.out, "ACCEPTED") {
		t.Errorf("got %+v, want line 2 on standard error and the numbers on standard output", s)
	}
}

func TestLineReader(t *testing.T) {
	long := strings.Repeat("y", lineMax)
	r := newLineReader(strings.NewReader("a\n \n" + long + "\n" + long + "zzz\nb"))
	for _, want := range []struct {
		number int64
		size   int
		code   daybook.Code
	}{{1, 1, ""}, {3, lineMax, ""}, {4, 0, daybook.CodeTooLarge}, {5, 1, ""}} {
		line, number, err := r.next()
		if number != want.number || len(line) != want.size || daybook.CodeOf(err) != want.code {
			t.Errorf("got line %d of %d bytes, %v, want %+v", number, len(line), err, want)
		}
	}
	if _, _, err := r.next(); err == nil {
		t.Error("got a line behind the last, want the end")
	}
}

func TestJSONLinesOfLists(t *testing.T) { everywhere(t, testJSONLinesOfLists) }

func testJSONLinesOfLists(t *testing.T, c *cli) {
	c.enqueue(1)
	c.enqueue(2)
	out := c.ok("job", "list", "-o", "jsonl")
	rows := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	if len(rows) != 2 {
		t.Fatalf("got %d lines, want 2: %s", len(rows), out)
	}
	for _, row := range rows {
		var j daybook.Job
		if err := json.Unmarshal([]byte(row), &j); err != nil || j.Queue != "mail" {
			t.Errorf("got %q, %v, want a job", row, err)
		}
	}
}
