package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/daybookdev/daybook"
)

func TestJobListFiltersAndPages(t *testing.T) { everywhere(t, testJobListFiltersAndPages) }

func testJobListFiltersAndPages(t *testing.T, c *cli) {
	for n := range 5 {
		c.enqueue(n+1, "--priority", fmt.Sprint(n))
	}
	c.ok("enqueue", "--queue", "other", "--kind", "report", "--key", "k7", "--id", id(7))
	type list struct {
		Jobs   []daybook.Job
		Cursor *string
	}
	var page list
	c.json(statusDone, &page, "job", "list", "--queue", "mail", "--state", "waiting", "--limit", "3")
	if len(page.Jobs) != 3 || page.Cursor == nil || *page.Cursor == "" || page.Jobs[0].ID.String() != id(5) {
		t.Fatalf("got %+v, want the three of highest priority and a cursor", page)
	}
	var rest list
	c.json(statusDone, &rest, "job", "list", "--queue", "mail", "--state", "waiting", "--limit", "3", "--cursor",
		*page.Cursor)
	if len(rest.Jobs) != 2 || *rest.Cursor != "" || rest.Jobs[1].ID.String() != id(1) {
		t.Errorf("got %+v, want the last two and no cursor", rest)
	}
	for _, args := range [][]string{{"--kind", "report"}, {"--key", "k7"}, {"--queue", "other"}} {
		var got list
		c.json(statusDone, &got, append([]string{"job", "list"}, args...)...)
		if len(got.Jobs) != 1 || got.Jobs[0].ID.String() != id(7) {
			t.Errorf("%v: got %+v, want job 7 alone", args, got.Jobs)
		}
	}
	if s := c.want(statusDone, "job", "list", "--limit", "2"); !strings.Contains(s.err, "--cursor ") {
		t.Errorf("got %q, want the table to say how to go on", s.err)
	}
	c.want(statusUsage, "job", "list", "--cursor", "zzz")
}

func TestJobWhy(t *testing.T) { everywhere(t, testJobWhy) }

func testJobWhy(t *testing.T, c *cli) {
	c.enqueue(1)
	c.enqueue(2, "--in", "1h")
	c.ok("enqueue", "--queue", "slow", "--kind", "k", "--id", id(3))
	c.ok("queue", "pause", "slow", "--reason", "night")
	c.enqueue(4, "--on-lost", "set_aside")
	c.claimJob(4, "--lease", "1s")
	c.later(2 * time.Second)
	c.ok("reconcile", "--once")
	for n, want := range map[int]string{1: "no_worker", 2: "later", 3: "paused", 4: "lost"} {
		var why daybook.Why
		c.json(statusDone, &why, "job", "why", id(n))
		if why.Because != want || why.Sentence == "" {
			t.Errorf("job %d: got %+v, want because %s", n, why, want)
		}
		if n == 4 && (why.Safe == nil || why.Safe.Yes) {
			t.Errorf("job 4: got %+v, want it not to be safe", why.Safe)
		}
	}
	if out := c.ok("job", "why", id(4)); !strings.Contains(out, "not safe to retry") {
		t.Errorf("got %q, want it to say not safe", out)
	}
	c.want(statusNotFound, "job", "why", id(9))
}

func TestCancelAndReviveByID(t *testing.T) { everywhere(t, testCancelAndReviveByID) }

func testCancelAndReviveByID(t *testing.T, c *cli) {
	c.enqueue(1)
	c.enqueue(2)
	session, generation := c.claimJob(2)
	type answer struct{ Jobs []decided }
	var got answer
	c.json(statusDone, &got, "job", "cancel", id(1), id(2), "--reason", "called off")
	if len(got.Jobs) != 2 || got.Jobs[0].State != daybook.Cancelled || got.Jobs[1].Asked == 0 {
		t.Fatalf("got %+v, want one cancelled and one asked", got.Jobs)
	}
	c.ok(append([]string{"release", id(2)}, owner(session, generation)...)...)
	c.state(2, daybook.Cancelled)
	for _, e := range c.timeline(1) {
		if e.What == "cancelled" && (e.Actor != "ada" || e.Reason != "called off") {
			t.Errorf("got %+v, want actor and reason", e)
		}
	}
	c.json(statusRefused, &got, "job", "cancel", id(1), id(2))
	if len(got.Jobs) != 2 || got.Jobs[0].Code != daybook.CodeRefused {
		t.Errorf("again: got %+v, want both refused", got.Jobs)
	}
	c.json(statusNotFound, &got, "job", "revive", id(50), id(1))
	if len(got.Jobs) != 2 || got.Jobs[0].Code != daybook.CodeNotFound || got.Jobs[1].State != daybook.Waiting {
		t.Errorf("got %+v, want the unknown one not to stop the other", got.Jobs)
	}
	c.ok("job", "revive", id(2), "--dry-run")
	c.state(2, daybook.Cancelled)
	c.ok("job", "revive", id(2))
	c.claimJob(2)
	c.ok("job", "cancel", id(2), "--force")
	if j := c.state(2, daybook.Cancelled); j.Generation <= generation {
		t.Errorf("got generation %d, want it revoked above %d", j.Generation, generation)
	}
	c.want(statusRefused, "job", "unhold", id(1))
}

func TestDecideByFilter(t *testing.T) { everywhere(t, testDecideByFilter) }

func testDecideByFilter(t *testing.T, c *cli) {
	for n := range 4 {
		c.enqueue(n + 1)
	}
	c.ok("enqueue", "--queue", "other", "--kind", "k", "--id", id(9))
	session, generation := c.claimJob(4)
	c.ok(append([]string{"complete", id(4)}, owner(session, generation)...)...)
	var got struct {
		Matched, Done int64
		DryRun        bool `json:"dry_run"`
		Refused       map[string]int64
	}
	for _, empty := range [][]string{{"--queue", "", "--kind", "k"}, {"--queue", "mail", "--kind", ""},
		{"--queue", "mail", "--key", ""}} {
		c.want(statusUsage, append([]string{"job", "cancel", "--dry-run"}, empty...)...)
		c.want(statusUsage, append([]string{"job", "list"}, empty...)...)
	}
	c.json(statusDone, &got, "job", "cancel", "--queue", "mail", "--dry-run")
	if got.Matched != 3 || got.Done != 0 || !got.DryRun {
		t.Errorf("dry run: got %+v, want 3 matched and none done", got)
	}
	if s := c.want(statusUsage, "job", "cancel", "--queue", "mail"); !strings.Contains(s.err, "3 jobs") ||
		!strings.Contains(s.err, "-y") {
		t.Errorf("without a terminal: got %q, want the number and -y", s.err)
	}
	c.state(1, daybook.Waiting)
	c.person, c.stdin = true, "no\n"
	if s := c.run("job", "cancel", "--queue", "mail"); s.status != statusFailed ||
		!strings.Contains(s.err, "nothing was changed") {
		t.Errorf("answered no: got %+v, want exit 1", s)
	}
	c.state(1, daybook.Waiting)
	c.stdin = "y\n"
	const asked = "This will cancel 3 jobs (running, set_aside or waiting; for others give --state). [y/N]"
	if s := c.want(statusDone, "job", "cancel", "--queue", "mail", "--reason", "off"); !strings.Contains(s.err, asked) {
		t.Errorf("got %q, want the question", s.err)
	}
	for n := range 3 {
		c.state(n+1, daybook.Cancelled)
	}
	c.state(9, daybook.Waiting)
	c.person = false
	c.json(statusRefused, &got, "job", "revive", "--queue", "mail", "--state", "succeeded", "-y")
	if got.Matched != 1 || got.Done != 0 || got.Refused["refused"] != 1 {
		t.Errorf("got %+v, want the finished job refused", got)
	}
	c.json(statusDone, &got, "job", "revive", "--queue", "mail", "--state", "cancelled", "-y")
	if got.Done != 3 {
		t.Errorf("got %+v, want 3 revived", got)
	}
	c.json(statusDone, &got, "job", "unhold", "--queue", "mail", "-y")
	if got.Matched != 0 {
		t.Errorf("got %+v, want no held job", got)
	}
}

func TestEffects(t *testing.T) { everywhere(t, testEffects) }

func testEffects(t *testing.T, c *cli) {
	for n := 1; n <= 2; n++ {
		c.enqueue(n, "--on-lost", "set_aside")
		c.claimJob(n, "--lease", "1s")
	}
	c.later(2 * time.Second)
	c.ok("reconcile", "--once")
	var list struct {
		Effects []daybook.Effect
		Cursor  *string
	}
	c.json(statusDone, &list, "effect", "list", "--open")
	if len(list.Effects) != 2 || list.Cursor == nil || list.Effects[0].Name != daybook.HandlerEffect {
		t.Fatalf("got %+v, want both open effects", list)
	}
	if s := c.want(statusRefused, "job", "revive", id(1)); !strings.Contains(s.err, "handler") {
		t.Errorf("got %q, want the open effect named", s.err)
	}
	c.want(statusNotFound, "effect", "settle", id(1), "charge", "--absent")
	c.want(statusRefused, "effect", "settle", id(1), "handler", "--absent", "--generation", "99")
	c.ok("effect", "settle", id(1), "handler", "--happened", "--result", `{"sent":1.0}`, "--reason", "seen")
	if j := c.state(1, daybook.Succeeded); string(j.Result) != `{"sent":1.0}` {
		t.Errorf("got result %s, want what the person said", j.Result)
	}
	c.ok("effect", "settle", id(2), "handler", "--absent", "--stay")
	c.state(2, daybook.SetAside)
	c.ok("job", "revive", id(2))
	if c.json(statusDone, &list, "effect", "list", "--open"); len(list.Effects) != 0 {
		t.Errorf("got %+v, want none open", list.Effects)
	}
	if c.json(statusDone, &list, "effect", "list", "--job", id(1)); len(list.Effects) != 1 ||
		list.Effects[0].State != daybook.EffectDone {
		t.Errorf("got %+v, want the settled one", list.Effects)
	}
	c.want(statusRefused, "effect", "settle", id(1), "handler", "--absent")
}
