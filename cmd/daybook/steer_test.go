package main

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/daybookdev/daybook"
)

func TestQueuePauseResume(t *testing.T) { everywhere(t, testQueuePauseResume) }

func testQueuePauseResume(t *testing.T, c *cli) {
	c.enqueue(1)
	c.ok("queue", "pause", "mail", "--reason", "relay is down")
	c.ok("queue", "pause", "mail") // harmless
	var got struct{ Queues []daybook.Queue }
	c.json(statusDone, &got, "queue", "list")
	if len(got.Queues) != 1 || !got.Queues[0].Paused || got.Queues[0].PausedBy != "ada" ||
		got.Queues[0].PausedReason != "relay is down" {
		t.Errorf("got %+v, want the queue paused by ada, with the reason", got.Queues)
	}
	var given claims
	if c.json(statusDone, &given, "claim", "--queue", "mail"); len(given.Claims) != 0 {
		t.Errorf("got %+v from a paused queue", given.Claims)
	}
	c.ok("queue", "resume", "mail")
	if c.json(statusDone, &given, "claim", "--queue", "mail"); len(given.Claims) != 1 {
		t.Errorf("got %+v, want the job", given.Claims)
	}
}

func TestWorkerListAndQuiet(t *testing.T) { everywhere(t, testWorkerListAndQuiet) }

func testWorkerListAndQuiet(t *testing.T, c *cli) {
	c.enqueue(1)
	c.enqueue(2)
	session, _ := c.claimJob(1, "--worker", "w1", "--lease", "1s")
	var list struct{ Workers []daybook.Session }
	c.json(statusDone, &list, "worker", "list")
	if len(list.Workers) != 1 || list.Workers[0].Worker != "w1" || list.Workers[0].Running != 1 {
		t.Errorf("got %+v, want w1 with one job", list.Workers)
	}
	c.want(statusUsage, "worker", "quiet", "") // which is not everybody
	if c.json(statusDone, &list, "worker", "list"); len(list.Workers) != 1 || list.Workers[0].Quiet {
		t.Errorf("got %+v, want w1 not quieted by an empty name", list.Workers)
	}
	c.ok("worker", "quiet", "w1")
	var given claims
	if c.json(statusDone, &given, "claim", "--queue", "mail", "--session", session); len(given.Claims) != 0 {
		t.Errorf("got %+v, want no claim for a quiet worker", given.Claims)
	}
	c.want(statusNotFound, "worker", "quiet", "nobody")
	c.later(2 * time.Second)
	c.ok("reconcile", "--once")
	if c.json(statusDone, &list, "worker", "list"); len(list.Workers) != 0 {
		t.Errorf("got %+v, want no live worker", list.Workers)
	}
	if c.json(statusDone, &list, "worker", "list", "--all"); len(list.Workers) != 1 ||
		list.Workers[0].EndedAt == 0 {
		t.Errorf("got %+v, want the ended one", list.Workers)
	}
}

func TestBacklog(t *testing.T) { everywhere(t, testBacklog) }

func testBacklog(t *testing.T, c *cli) {
	c.enqueue(1)
	c.enqueue(2, "--in", "1h")
	c.enqueue(3)
	session, generation := c.claimJob(3)
	c.ok(append([]string{"fail", id(3), "--error", "x", "--permanent"}, owner(session, generation)...)...)
	var got snapshot
	c.json(statusDone, &got, "backlog")
	if len(got.Queues) != 1 || got.At == 0 {
		t.Fatalf("got %+v, want one queue", got)
	}
	q := got.Queues[0]
	if q.Eligible != 1 || q.Later != 1 || q.SetAside != 1 || q.Accepted != 3 || q.Attempts != 1 ||
		q.Reasons[daybook.ReasonPermanent] != 1 || !q.Counts.Balanced() {
		t.Errorf("got %+v, want one eligible, one later, one set aside", q)
	}
}

// lineSink hands each line that is written to it to a test, which may run
// other commands before the writer goes on.
type lineSink struct{ each func(line string) }

func (s lineSink) Write(p []byte) (int, error) {
	s.each(string(p))
	return len(p), nil
}

// Every way in which a queue gets longer or shorter is a flow of its own, and
// attempts aren't requests.
func TestBacklogWatchFlows(t *testing.T) { everywhere(t, testBacklogWatchFlows) }

func testBacklogWatchFlows(t *testing.T, c *cli) {
	c.enqueue(1)
	c.enqueue(2, "--expires-at", c.clock().Add(time.Hour).UTC().Format(time.RFC3339))
	c.enqueue(3)
	c.enqueue(4)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var steps []interval
	sink := lineSink{func(line string) {
		var step interval
		oneJSONLine(t, line, &step)
		if steps = append(steps, step); len(steps) > 1 {
			stop()
			return
		}
		c.enqueue(5)
		session, generation := c.claimJob(1, "--lease", "24h")
		c.ok(append([]string{"release", id(1)}, owner(session, generation)...)...)
		session, generation = c.claimJob(1, "--lease", "24h")
		c.ok(append([]string{"complete", id(1)}, owner(session, generation)...)...)
		c.later(2 * time.Hour)
		c.ok("reconcile", "--once") // expires job 2
		c.ok("job", "cancel", id(3))
		session, generation = c.claimJob(4)
		c.ok(append([]string{"fail", id(4), "--error", "x", "--permanent"}, owner(session, generation)...)...)
		c.ok("job", "revive", id(3))
	}}
	a := &app{base: ctx, stdin: strings.NewReader(""), stdout: sink, stderr: sink, now: c.clock,
		terminal: func(any) bool { return false }}
	status := a.run(append(c.place(), "backlog", "--watch", "--every", "10ms", "-o", "jsonl"))
	if status != statusDone {
		t.Fatalf("got exit %d, want 0 when the person has seen enough", status)
	}
	if len(steps) < 2 || steps[0].Seconds != 0 || steps[1].Seconds < 7200 {
		t.Fatalf("got %+v, want two looks", steps)
	}
	got := steps[1].Queues[0].Flow
	want := flow{Accepted: 1, Revived: 1, Attempts: 3, Succeeded: 1, Cancelled: 1, Expired: 1, SetAside: 1}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if first := steps[0].Queues[0].Flow; first != (flow{}) {
		t.Errorf("first look: got %+v, want no flow", first)
	}
}

func TestReconcileOnce(t *testing.T) { onEach(t, testReconcileOnce) }

func testReconcileOnce(t *testing.T, c *cli) {
	c.enqueue(1)
	c.claimJob(1, "--lease", "1s")
	var got map[string]int
	if c.json(statusDone, &got, "reconcile", "--once"); got["claims_lost"] != 0 {
		t.Errorf("within the lease: got %+v, want nothing done", got)
	}
	c.later(2 * time.Second)
	if c.json(statusDone, &got, "reconcile", "--once"); got["sessions_ended"] != 1 || got["claims_lost"] != 1 {
		t.Errorf("past the lease: got %+v, want the session ended and the claim lost", got)
	}
	c.state(1, daybook.Waiting)
}

// The loop repairs by itself, and ends well when it is told to.
func TestReconcileLoop(t *testing.T) { onEach(t, testReconcileLoop) }

func testReconcileLoop(t *testing.T, c *cli) {
	c.enqueue(1)
	c.claimJob(1, "--lease", "1s")
	c.later(2 * time.Second)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	logged := lineSink{func(line string) {
		if strings.Contains(line, "sessions_marked=1") {
			c.later(2 * time.Second)
		}
		if strings.Contains(line, "claims_lost=1") {
			stop()
		}
	}}
	a := &app{base: ctx, stdin: strings.NewReader(""), stdout: io.Discard, stderr: logged, now: c.clock,
		terminal: func(any) bool { return false }}
	if status := a.run([]string{"--db", c.db, "reconcile", "--every", "20ms"}); status != statusDone {
		t.Errorf("got exit %d, want 0", status)
	}
	c.state(1, daybook.Waiting)
}

func TestSchema(t *testing.T) { onEach(t, testSchema) }

func testSchema(t *testing.T, c *cli) {
	var state schemaState
	for _, verb := range []string{"up", "status"} {
		if c.json(statusDone, &state, "schema", verb); !state.Current || state.Version < 1 ||
			state.Version != state.Want {
			t.Errorf("schema %s: got %+v, want the current version", verb, state)
		}
	}
	if out := c.ok("schema", "print"); !strings.Contains(strings.ReplaceAll(out, "daybook.", ""), "CREATE TABLE job") {
		t.Errorf("got %q…, want the tables", out[:min(80, len(out))])
	}
	c.enqueue(1)
	_, before := c.claimJob(1, "--lease", "1s")
	var restored struct{ Incarnation int64 }
	c.json(statusDone, &restored, "schema", "restored", "--since", "2026-01-01T00:00:00Z", "--reason", "backup")
	c.later(2 * time.Second)
	c.ok("reconcile", "--once")
	_, after := c.claimJob(1)
	if restored.Incarnation < 1 || after < restored.Incarnation*daybook.GenerationStep || after <= before {
		t.Errorf("got incarnation %d and generation %d after %d, want it lifted", restored.Incarnation,
			after, before)
	}
}

func TestL33Prune(t *testing.T) { onEach(t, testL33Prune) }

func testL33Prune(t *testing.T, c *cli) {
	c.enqueue(1, "--key", "k")
	session, generation := c.claimJob(1)
	c.ok(append([]string{"complete", id(1)}, owner(session, generation)...)...)
	c.enqueue(2)
	var got struct {
		Pruned int
		DryRun bool `json:"dry_run"`
	}
	if c.json(statusDone, &got, "prune"); got.Pruned != 0 {
		t.Errorf("at once: got %+v, want nothing removed", got)
	}
	c.later(8 * 24 * time.Hour)
	if c.json(statusDone, &got, "prune", "--dry-run"); got.Pruned != 1 || !got.DryRun {
		t.Errorf("dry run: got %+v, want 1", got)
	}
	if c.json(statusDone, &got, "prune", "--keep", "30d"); got.Pruned != 0 {
		t.Errorf("--keep 30d: got %+v, want nothing removed", got)
	}
	if c.json(statusDone, &got, "prune"); got.Pruned != 1 {
		t.Errorf("got %+v, want 1 removed", got)
	}
	c.want(statusNotFound, "job", "show", id(1))
	c.state(2, daybook.Waiting)
	var replay daybook.Receipt
	c.json(statusDone, &replay, "enqueue", "--queue", "mail", "--kind", "welcome", "--key", "k")
	if !replay.Replayed || replay.ID.String() != id(1) {
		t.Errorf("the key after pruning: got %+v, want a replay of the same job", replay)
	}
}

// health is the answer of doctor.
type health struct {
	OK       bool
	Findings []finding
}

func TestDoctor(t *testing.T) {
	c := newCLI(t)
	var got health
	c.json(statusFailed, &got, "doctor") // nobody reconciles yet
	all := true
	for _, f := range got.Findings {
		all = all && f.OK
		if f.Name == "" || f.OK != (f.Advice == "") {
			t.Errorf("got %+v, want advice where something isn't right", f)
		}
	}
	if len(got.Findings) < 3 || got.OK || all {
		t.Errorf("got %+v, want ok to sum the findings up", got)
	}
	if s := c.want(statusFailed, "doctor"); !strings.Contains(s.out, "\n!!  last reconciler's pass") {
		t.Errorf("got %q, want what is bad marked", s.out)
	}
	c.ok("reconcile", "--once")
	if c.json(statusDone, &got, "doctor"); !got.OK {
		t.Errorf("after a pass: got %+v, want nothing bad", got)
	}
}

func TestVersionAndCompletion(t *testing.T) {
	c := newCLI(t)
	var v versionAnswer
	if c.json(statusDone, &v, "version"); v.Version == "" || v.Go == "" || len(v.Databases) != 2 {
		t.Errorf("got %+v, want version, Go and two databases", v)
	}
	if out := c.ok("__complete", "job", "list", "--db", ""); !strings.HasPrefix(out, "sqlite:\npostgres://\n") {
		t.Errorf("completing --db: got %q, want how URLs begin", out)
	}
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if out := c.ok("completion", shell); !strings.Contains(out, "daybook") {
			t.Errorf("completion %s: got %d bytes without the name", shell, len(out))
		}
	}
}

// A database that can't be opened is exit 6, with one line and no driver's text.
func TestUnreachable(t *testing.T) {
	c := newCLI(t)
	c.db = "sqlite:" + c.dir + "/no/such/folder/book.db"
	if s := c.want(statusUnavailable, "job", "list"); s.out != "" {
		t.Errorf("got %q on standard output", s.out)
	}
}
