package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/cutover"
	"github.com/daybookdev/daybook/internal/oldqueue"
)

// runs takes a queue of Asynq's with one job to the phase in which the book may
// claim, with these flags of its plan beside.
func (q *oldQueue) runs(flags ...string) *oldqueue.Queue {
	q.t.Helper()
	old, err := oldqueue.Open(q.url, "mail")
	q.must(err)
	q.t.Cleanup(func() { old.Close() })
	q.must(old.Put(q.t.Context(), oldqueue.Job{ID: "w1", Class: "mail", Args: []byte(`1`), State: daybook.OldWaiting}))
	q.ok(append([]string{"cutover", "plan", "mail", "--system", "asynq", "--queue", "mail", "--intake", "deploy",
		"--owners", "ask"}, flags...)...)
	q.ok("cutover", "shadow", "mail", "--for", "0s")
	for _, verb := range []string{"gate", "move", "settle", "run"} {
		q.ok("cutover", verb, "mail")
	}
	return old
}

// leak opens the old gate by hand, and has an old worker take a late job.
func (q *oldQueue) leak(old *oldqueue.Queue) {
	q.t.Helper()
	ctx := q.t.Context()
	q.must(q.redis.Del(ctx, "asynq:{mail}:paused").Err())
	q.must(old.Put(ctx, oldqueue.Job{ID: "l1", Class: "mail", Args: []byte(`2`), State: daybook.OldWaiting}))
	if id, err := old.Take(ctx); id != "l1" || err != nil {
		q.t.Fatalf("the old worker took %q, %v", id, err)
	}
}

// An old gate that is opened while the book may claim is closed again, and what an
// old worker took meanwhile is told and followed to its end.
func TestCutoverWatchesTheGate(t *testing.T) {
	q := newOldQueue(t)
	if q == nil {
		return
	}
	old := q.runs("--no-rollback")
	q.ok("cutover", "watch", "mail")
	q.leak(old)
	said := q.want(statusRefused, "cutover", "watch", "mail", "-o", "json", "--log-format", "json")
	warning, _, _ := strings.Cut(said.err, "\n")
	var line struct{ Level, Msg string }
	if err := json.Unmarshal([]byte(warning), &line); err != nil || line.Level != "WARN" ||
		!strings.Contains(line.Msg, "the old gate was open") {
		t.Errorf("the warning isn't in the log's format: %s", said.err)
	}
	var swept cutover.Swept
	if err := json.Unmarshal([]byte(said.out), &swept); err != nil || swept.Leaked != 1 || swept.Opened != 1 {
		t.Errorf("got %+v, %v; want one job that leaked by one open gate: %s", swept, err, said.err)
	}
	q.must(old.Put(t.Context(), oldqueue.Job{ID: "l2", Class: "mail", Args: []byte(`3`), State: daybook.OldWaiting}))
	if id, err := old.Take(t.Context()); id != "" || err != nil {
		t.Errorf("behind a gate that was closed again an old worker took %q, %v", id, err)
	}
	if out := q.ok("cutover", "status", "mail"); !strings.Contains(out, "1 times since the book may claim") {
		t.Errorf("the board says\n%s", out)
	}
	q.must(old.Done(t.Context(), "l1"))
	q.ok("cutover", "watch", "mail")
	var b cutover.Balance
	q.json(statusDone, &b, "cutover", "reconcile", "mail")
	if b.Seen != 1 || b.Arrived != 2 || b.Moved != 2 || b.Finished != 1 {
		t.Errorf("got %+v, want l1 finished over there and the others here", b)
	}
	if out := q.ok("cutover", "status", "mail"); b.Inferred != 1 || !strings.Contains(out, "1 (1 of them without") {
		t.Errorf("of those that finished without a record reconcile says %d, and the board\n%s", b.Inferred, out)
	}
	q.ok("check", "--full")
}

// A plan that says so is rolled back by an open gate.
func TestCutoverOpenGateFires(t *testing.T) {
	q := newOldQueue(t)
	if q == nil {
		return
	}
	old := q.runs("--rollback-when", "gate_opened>0")
	q.ok("cutover", "watch", "mail")
	q.leak(old)
	s := q.want(statusRefused, "cutover", "watch", "mail")
	if !strings.Contains(s.err, "the rollback of cutover mail began") {
		t.Errorf("got %+v", s)
	}
}
