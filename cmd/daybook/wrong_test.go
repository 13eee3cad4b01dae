package main

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/daybookdev/daybook"
)

// Errors are in our words: they name flags as flags, say what is wanted, and
// show nothing of the libraries underneath.
func TestErrorsInOurWords(t *testing.T) {
	c := newCLI(t)
	for _, test := range []struct{ args, want string }{
		{"job list --limit abc", `--limit: wants a whole number, got "abc"; see daybook job list --help`},
		{"job list --limit 99999999999999999999",
			"--limit: is past every limit, got 99999999999999999999; see daybook job list --help"},
		{"job list --limit", "--limit: wants a value; see daybook job list --help"},
		{"job list --nope", "there is no flag --nope; see daybook job list --help"},
		{"job list -z", "there is no flag -z; see daybook job list --help"},
		{"job list -o yaml", `--output: wants one of table, json, jsonl, got "yaml"; see daybook job list --help`},
		{"backlog --watch=maybe", `--watch: wants true or false, got "maybe"; see daybook backlog --help`},
		{"demo --seed -1", `--seed: wants a whole number of 0 or more, got "-1"; see daybook demo --help`},
		{"enqueue --id x", `--id: wants a UUID like 0190a2b4-7c1e-7000-8000-000000000000, got "x"; ` +
			"see daybook enqueue --help"},
		{"job show", "daybook job show wants an argument; use it as daybook job show ID"},
		{"version extra", `daybook version can't take "extra"; use it as daybook version`},
		{"completion tcsh", `daybook completion can't take "tcsh"; use it as daybook completion bash|zsh|fish|powershell`},
		{"enqueue --queue q --kind k --max-failures 0", "--max-failures: wants 1…10000, got 0"},
		{"enqueue --queue q --kind k --timeout 8761h", "--timeout: wants 1ms…365d, got 8761h"},
		{"work --queue q --exec true --lease 48h", "--lease: wants 1s…24h, got 2d"},
		{"work --queue q=0 --exec true", "--queue: wants 1…1000, got 0 for q"},
		{"fail " + id(1) + " --session " + id(2) + " --generation 1 --error x --retry-in -1s",
			"--retry-in: wants 0s…36500d, got -1s"},
		{"--db sqlite::memory: enqueue --queue q --kind k",
			"--db sqlite::memory: would be forgotten when the command ends; give a file"},
	} {
		s := c.want(statusUsage, strings.Fields(test.args)...)
		if want := "daybook: " + test.want + "\n"; s.err != want {
			t.Errorf("daybook %s:\ngot  %swant %s", test.args, s.err, want)
		}
	}
}

// full is an output that takes nothing, like a full disk.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

// A job that is stored is named, also when its id can't be printed: else its
// caller would take it for refused.
func TestStoredThoughNothingCanBePrinted(t *testing.T) {
	everywhere(t, testStoredThoughNothingCanBePrinted)
}

func testStoredThoughNothingCanBePrinted(t *testing.T, c *cli) {
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"--queue", "q", "--kind", "k", "--id", id(1)}, "job " + id(1) + " is stored"},
		{[]string{"--from", "-"}, "2 lines are in the book"},
	} {
		var said strings.Builder
		a := &app{base: t.Context(), stdin: strings.NewReader(strings.Repeat(`{"queue":"q","kind":"k"}`+"\n", 2)),
			stdout: full{}, stderr: &said, terminal: func(any) bool { return false }}
		status := a.run(append(append(c.place(), "enqueue"), test.args...))
		if status != statusFailed || !strings.Contains(said.String(), test.want) {
			t.Errorf("got exit %d and %q, want exit 1 and %q", status, said.String(), test.want)
		}
	}
	c.state(1, daybook.Waiting)
}

// Refused lines are told in their order, whoever refuses them and when.
func TestRefusedLinesInOrder(t *testing.T) { everywhere(t, testRefusedLinesInOrder) }

func testRefusedLinesInOrder(t *testing.T, c *cli) {
	c.ok("enqueue", "--queue", "bulk", "--kind", "k", "--key", "taken")
	requests := requestLines(3*batchLines, func(i int) bool { return i%7 == 3 })
	lines := strings.Split(strings.TrimSuffix(requests, "\n"), "\n")
	for i := 5; i < len(lines); i += 11 {
		lines[i] = "{"
	}
	c.stdin = strings.Join(lines, "\n")
	s := c.want(statusFailed, "enqueue", "--from", "-")
	last, told := 0, 0
	for _, line := range strings.Split(s.err, "\n") {
		rest, found := strings.CutPrefix(line, "daybook: line ")
		if !found {
			continue
		}
		n := 0
		for _, digit := range rest[:strings.IndexByte(rest, ':')] {
			n = 10*n + int(digit-'0')
		}
		if n <= last {
			t.Fatalf("line %d was told after line %d", n, last)
		}
		last, told = n, told+1
	}
	if want := len(lines)/7 + len(lines)/11; told < want-len(lines)/77-2 {
		t.Errorf("got %d refused lines told, want about %d", told, want)
	}
}

// The bar's clock runs from the beginning, so that its first speed is true.
func TestProgressClock(t *testing.T) {
	a := &app{stderr: &strings.Builder{}, terminal: func(any) bool { return true }}
	if bar := a.progress(1000, "enqueueing", true); bar == nil || !bar.IsStarted() {
		t.Error("got a bar whose clock waits for the first step")
	}
}

// A pass by hand is noted like any other: doctor then sees a reconciler.
func TestReconcileOnceIsNoted(t *testing.T) { onEach(t, testReconcileOnceIsNoted) }

func testReconcileOnceIsNoted(t *testing.T, c *cli) {
	passed := func() bool {
		t.Helper()
		var got health
		s := c.run("doctor", "-o", "json")
		oneJSONLine(t, s.out, &got)
		for _, f := range got.Findings {
			if f.Name == "last reconciler's pass" {
				return f.OK
			}
		}
		t.Fatalf("got %+v, want a finding about the last pass", got.Findings)
		return false
	}
	c.enqueue(1)
	if passed() {
		t.Error("doctor saw a pass before there was one")
	}
	c.ok("reconcile", "--once")
	if !passed() {
		t.Error("doctor doesn't see the pass that was made")
	}
}

// A filter says which states it meant, asks only about something, and a dry run
// by id says what would happen.
func TestDecisionsSayWhatTheyMean(t *testing.T) { everywhere(t, testDecisionsSayWhatTheyMean) }

func testDecisionsSayWhatTheyMean(t *testing.T, c *cli) {
	c.enqueue(1)
	c.enqueue(2)
	c.claimJob(2)
	for _, test := range []struct {
		status     int
		args, want string
	}{
		{statusDone, "job revive --queue mail", "0 jobs match (set_aside; for others give --state)\n"},
		{statusDone, "job revive --queue mail --state expired", "0 jobs match\n"},
		{statusDone, "job cancel --queue mail --dry-run",
			"would cancel 2 jobs (running, set_aside or waiting; for others give --state)\n"},
		{statusDone, "job cancel " + id(1) + " --dry-run", id(1) + "  is waiting, would become cancelled\n"},
		{statusDone, "job cancel " + id(2) + " --dry-run", id(2) + "  is running, would be asked to stop\n"},
		{statusDone, "job cancel --force " + id(2) + " --dry-run", id(2) + "  is running, would become cancelled\n"},
		{statusRefused, "job revive " + id(1) + " --dry-run", id(1) + "  refused\n"},
		{statusRefused, "job unhold " + id(1) + " --dry-run", id(1) + "  refused\n"},
	} {
		if s := c.want(test.status, strings.Fields(test.args)...); s.out != test.want {
			t.Errorf("daybook %s: got %q, want %q", test.args, s.out, test.want)
		}
	}
	c.state(1, daybook.Waiting)
	c.state(2, daybook.Running)
	var got struct{ States []daybook.State }
	if c.json(statusDone, &got, "job", "revive", "--queue", "mail"); len(got.States) != 1 ||
		got.States[0] != daybook.SetAside {
		t.Errorf("got %+v, want it to say that set-aside jobs are meant", got)
	}
	if out := c.ok("job", "revive", "--help"); !strings.Contains(out, "without it a filter finds set_aside ones only") {
		t.Errorf("the help doesn't say which states a filter means: %s", out)
	}
}

func TestWorkerStates(t *testing.T) { everywhere(t, testWorkerStates) }

func testWorkerStates(t *testing.T, c *cli) {
	c.enqueue(1)
	c.claimJob(1, "--worker", "w1", "--lease", "1s")
	var list struct{ Workers []listed }
	state := func(more ...string) string {
		t.Helper()
		c.json(statusDone, &list, append([]string{"worker", "list"}, more...)...)
		if len(list.Workers) != 1 {
			t.Fatalf("got %+v, want one session", list.Workers)
		}
		return list.Workers[0].State
	}
	if got := state(); got != "live" {
		t.Errorf("got %s, want live", got)
	}
	var quieted daybook.Quieted
	s := c.want(statusDone, "worker", "quiet", "w1", "--reason", "host is moved", "-o", "json")
	oneJSONLine(t, s.out, &quieted)
	if quieted.Actor != "ada" || quieted.Reason != "host is moved" || quieted.Sessions != 1 {
		t.Errorf("got %+v, want who asked and why", quieted)
	}
	if c.server == "" && !strings.Contains(s.err, "actor=ada") ||
		c.server == "" && !strings.Contains(s.err, `reason="host is moved"`) { // a server logs it itself
		t.Errorf("got log %q, want who asked and why", s.err)
	}
	if got := state(); got != "quiet" {
		t.Errorf("got %s, want quiet", got)
	}
	c.want(statusUsage, "worker", "quiet", "w1", "--reason", "two\nlines")
	c.later(2 * time.Second)
	if got := state(); got != "lapsed" {
		t.Errorf("past its lease: got %s, want lapsed", got)
	}
	c.ok("reconcile", "--once")
	if got := state("--all"); got != "ended" {
		t.Errorf("got %s, want ended", got)
	}
}
