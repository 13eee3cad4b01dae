package main

import (
	"strings"
	"testing"
	"time"

	"github.com/daybookdev/daybook"
)

func TestClaimAndComplete(t *testing.T) { everywhere(t, testClaimAndComplete) }

func testClaimAndComplete(t *testing.T, c *cli) {
	c.enqueue(1)
	c.enqueue(2)
	var got claims
	c.json(statusDone, &got, "claim", "--queue", "empty", "--queue", "mail", "--limit", "5", "--worker", "w1",
		"--lease", "1m")
	if len(got.Claims) != 2 || got.Session.IsZero() || got.Claims[0].Job.State != daybook.Running ||
		got.Claims[0].Generation != 1 || got.Claims[0].LeaseUntil == 0 || len(got.Claims[0].Job.Args) == 0 {
		t.Fatalf("got %+v, want both jobs with args, generation and lease", got)
	}
	session := got.Session.String()
	c.json(statusDone, &got, "claim", "--queue", "mail", "--session", session)
	if len(got.Claims) != 0 || got.Claims == nil || got.Session.String() != session {
		t.Errorf("nothing eligible: got %+v, want an empty list of the same session", got)
	}
	var end ended
	o := owner(session, 1)
	c.json(statusDone, &end, append([]string{"complete", id(1), "--result", `{"sent":1.0}`}, o...)...)
	if end.State != daybook.Succeeded || end.Already {
		t.Errorf("got %+v, want succeeded", end)
	}
	c.json(statusDone, &end, append([]string{"complete", id(1), "--result", `{"sent":2}`}, o...)...)
	if !end.Already {
		t.Errorf("again: got %+v, want already", end)
	}
	if j := c.state(1, daybook.Succeeded); string(j.Result) != `{"sent":1.0}` {
		t.Errorf("got result %s, want the first to stay", j.Result)
	}
	c.want(statusNotFound, append([]string{"complete", id(77)}, o...)...)
}

func TestFailAndRelease(t *testing.T) { everywhere(t, testFailAndRelease) }

func testFailAndRelease(t *testing.T, c *cli) {
	c.enqueue(1, "--max-failures", "2")
	session, generation := c.claimJob(1)
	c.ok(append([]string{"fail", id(1), "--error", "boom\x00\nsecond", "--retry-in", "1h"},
		owner(session, generation)...)...)
	j := c.state(1, daybook.Waiting)
	if j.Failures != 1 || j.LastError == nil || !strings.HasPrefix(j.LastError.Text, "boom") {
		t.Errorf("got %+v, want one failure with its text", j)
	}
	c.want(statusRefused, "claim", "job", id(1))
	c.later(time.Hour)
	session, generation = c.claimJob(1)
	c.ok(append([]string{"release", id(1), "--in", "10s"}, owner(session, generation)...)...)
	if j := c.state(1, daybook.Waiting); j.Failures != 1 || j.RunAt <= daybook.At(c.clock()) {
		t.Errorf("got %+v, want a release that costs nothing", j)
	}
	c.later(10 * time.Second)
	session, generation = c.claimJob(1)
	c.ok(append([]string{"fail", id(1), "--error", "again"}, owner(session, generation)...)...)
	if j := c.state(1, daybook.SetAside); j.Reason != daybook.ReasonFailures {
		t.Errorf("got reason %s, want failures", j.Reason)
	}
	c.enqueue(2)
	session, generation = c.claimJob(2)
	c.ok(append([]string{"fail", id(2), "--error", "no", "--permanent"}, owner(session, generation)...)...)
	if j := c.state(2, daybook.SetAside); j.Reason != daybook.ReasonPermanent {
		t.Errorf("got reason %s, want permanent", j.Reason)
	}
	var list struct{ Attempts []daybook.Attempt }
	if c.json(statusDone, &list, "job", "attempts", id(1)); len(list.Attempts) != 3 ||
		list.Attempts[1].Outcome != daybook.OutcomeReleased {
		t.Errorf("got attempts %+v, want failed, released, failed", list.Attempts)
	}
}

// A claim that lapsed and was claimed again: whatever the old owner says is
// refused and shown, and the new owner isn't disturbed.
func TestLapsedOwnerIsFenced(t *testing.T) { everywhere(t, testLapsedOwnerIsFenced) }

func testLapsedOwnerIsFenced(t *testing.T, c *cli) {
	c.enqueue(1)
	old, g1 := c.claimJob(1, "--lease", "1s", "--worker", "old")
	c.later(2 * time.Second)
	c.ok("reconcile", "--once")
	now, g2 := c.claimJob(1, "--lease", "1h", "--worker", "new")
	if g2 <= g1 {
		t.Fatalf("got generation %d after %d, want it to rise", g2, g1)
	}
	for _, args := range [][]string{{"complete", id(1), "--result", `"late"`},
		{"fail", id(1), "--error", "late"}, {"release", id(1)}} {
		if s := c.want(statusRefused, append(args, owner(old, g1)...)...); s.out != "" {
			t.Errorf("%v printed %q", args, s.out)
		}
	}
	c.want(statusRefused, "renew", "--session", old)
	c.want(statusRefused, append([]string{"complete", id(1)}, owner(old, g2)...)...)
	if j := c.state(1, daybook.Running); j.Session.String() != now || j.Generation != g2 {
		t.Errorf("got %+v, want the new owner undisturbed", j)
	}
	c.ok(append([]string{"complete", id(1)}, owner(now, g2)...)...)
	events := c.timeline(1)
	if n := countWhat(events, "fenced"); n < 4 {
		t.Errorf("got %d fenced events, want each of four: %+v", n, events)
	}
	if n := countWhat(events, "lost"); n != 1 {
		t.Errorf("got %d lost events, want 1", n)
	}
}

func TestRenew(t *testing.T) { everywhere(t, testRenew) }

func testRenew(t *testing.T, c *cli) {
	c.enqueue(1)
	session, _ := c.claimJob(1, "--lease", "1s")
	c.later(5 * time.Second)
	var got renewed
	c.json(statusDone, &got, "renew", "--session", session)
	if got.LeaseUntil <= daybook.At(c.clock()) || got.Lost == nil || got.Cancel == nil {
		t.Errorf("got %+v, want a lease in the future and empty lists", got)
	}
	c.ok("reconcile", "--once")
	c.state(1, daybook.Running)
	c.ok("job", "cancel", id(1))
	if c.json(statusDone, &got, "renew", "--session", session); len(got.Cancel) != 1 {
		t.Errorf("got %+v, want the cancel to be told", got)
	}
	c.want(statusNotFound, "renew", "--session", id(50))
}

// Under work --exec the claim is known from the environment; for another job
// than its own it isn't.
func TestOwnerFromEnvironment(t *testing.T) { everywhere(t, testOwnerFromEnvironment) }

func testOwnerFromEnvironment(t *testing.T, c *cli) {
	c.enqueue(1)
	c.enqueue(2)
	session, _ := c.claimJob(1)
	t.Setenv(envJob, id(1))
	t.Setenv(envSession, session)
	t.Setenv(envGeneration, "1")
	c.ok("renew")
	c.want(statusUsage, "complete", id(2))
	c.ok("complete", "--result", "5")
	if j := c.state(1, daybook.Succeeded); string(j.Result) != "5" {
		t.Errorf("got result %s, want 5", j.Result)
	}
	t.Setenv(envGeneration, "one")
	c.want(statusUsage, "complete")
}

func TestClaimJobStates(t *testing.T) { everywhere(t, testClaimJobStates) }

func testClaimJobStates(t *testing.T, c *cli) {
	c.want(statusNotFound, "claim", "job", id(1))
	c.enqueue(1, "--in", "1h")
	c.want(statusRefused, "claim", "job", id(1))
	c.enqueue(2)
	c.ok("queue", "pause", "mail")
	c.want(statusRefused, "claim", "job", id(2))
	c.ok("queue", "resume", "mail")
	session, generation := c.claimJob(2)
	c.want(statusRefused, "claim", "job", id(2))
	c.ok(append([]string{"complete", id(2)}, owner(session, generation)...)...)
	c.want(statusRefused, "claim", "job", id(2))
	c.want(statusNotFound, "claim", "--queue", "mail", "--session", id(60))
}

// A result past the limit fails the attempt for good, since running again
// would make the same one.
func TestCompleteTooLarge(t *testing.T) { everywhere(t, testCompleteTooLarge) }

func testCompleteTooLarge(t *testing.T, c *cli) {
	c.enqueue(1)
	session, generation := c.claimJob(1)
	c.want(statusFailed, append([]string{"complete", id(1), "--result",
		`"` + strings.Repeat("x", daybook.ResultMax) + `"`},
		owner(session, generation)...)...)
	if j := c.state(1, daybook.SetAside); j.Reason != daybook.ReasonPermanent {
		t.Errorf("got reason %s, want permanent", j.Reason)
	}
}
