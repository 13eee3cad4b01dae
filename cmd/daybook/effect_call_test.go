package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/daybookdev/daybook"
)

func TestEffectByHand(t *testing.T) { everywhere(t, testEffectByHand) }

func testEffectByHand(t *testing.T, c *cli) {
	c.enqueue(1)
	session, generation := c.claimJob(1, "--lease", "1m")
	of := func(args ...string) []string {
		return append(append([]string{"effect"}, args...), append([]string{"--job", id(1)}, owner(session, generation)...)...)
	}
	var begun daybook.Begun
	key := daybook.EffectKey(c.job(1).ID, "charge", 0)
	c.json(statusDone, &begun, of("begin", "charge", "--policy", "keyed", "--window", "24h")...)
	if begun.Decision != daybook.DecisionCall || begun.Key != key || begun.CallUntil == 0 {
		t.Errorf("got %+v, want a call with key %s", begun, key)
	}
	c.want(statusRefused, of("begin", "charge", "--policy", "keyed", "--window", "24h")...) // twice in one attempt
	c.want(statusRefused, append([]string{"complete", id(1)}, owner(session, generation)...)...)
	var end daybook.EffectEnded
	c.json(statusDone, &end, of("finish", "charge", "--outcome", "done", "--result", `{"id":1.0}`)...)
	if end.State != daybook.EffectDone {
		t.Errorf("got %+v, want done", end)
	}
	c.ok(append([]string{"fail", id(1), "--error", "later", "--retry-in", "0s"}, owner(session, generation)...)...)

	session, generation = c.claimJob(1, "--lease", "1m")
	c.json(statusDone, &begun, of("begin", "charge", "--policy", "keyed", "--window", "24h")...)
	if begun.Decision != daybook.DecisionDone || string(begun.Result) != `{"id":1.0}` {
		t.Errorf("got %+v, want the result of the first attempt", begun)
	}
	c.want(statusDone, of("begin", "mail", "--policy", "ask")...)
	c.ok(append([]string{"fail", id(1), "--error", "no answer", "--retry-in", "0s"}, owner(session, generation)...)...)
	old := of("finish", "mail", "--outcome", "done", "--result", `"m-1"`)

	session, generation = c.claimJob(1, "--lease", "1m")
	begun = daybook.Begun{}
	c.json(statusRefused, &begun, of("begin", "mail", "--policy", "ask")...)
	if begun.Decision != daybook.DecisionAsk || begun.Reason != daybook.ReasonEffectOpen {
		t.Errorf("got %+v, want ask", begun)
	}
	c.state(1, daybook.SetAside)
	c.want(statusRefused, old...) // too late
	if all := c.ok("job", "timeline", id(1)); !strings.Contains(all, "effect finish mail refused") ||
		!strings.Contains(all, `done "m-1"`) {
		t.Errorf("the timeline doesn't show what came too late:\n%s", all)
	}
	if err := c.want(statusRefused, "job", "revive", id(1), "--reason", "again"); !strings.Contains(err.err, `"mail"`) {
		t.Errorf("got %q, want the open effect by name", err.err)
	}
	c.ok("effect", "settle", id(1), "mail", "--happened", "--result", `"m-1"`, "--reason", "found in the log")
	c.state(1, daybook.Waiting)
}

func TestEffectSettling(t *testing.T) { everywhere(t, testEffectSettling) }

func testEffectSettling(t *testing.T, c *cli) {
	c.enqueue(1)
	session, generation := c.claimJob(1, "--lease", "1m")
	of := func(args ...string) []string {
		return append(append([]string{"effect"}, args...), append([]string{"--job", id(1)}, owner(session, generation)...)...)
	}
	checked := []string{"begin", "mail", "--policy", "checked", "--quiet", "30s", "--call", "10s"}
	c.ok(of(checked...)...)
	c.ok(append([]string{"release", id(1)}, owner(session, generation)...)...)
	session, generation = c.claimJob(1, "--lease", "1m")
	var begun daybook.Begun
	c.json(exitTryLater, &begun, of(checked...)...)
	if begun.Decision != daybook.DecisionWait || begun.WaitUntil == 0 {
		t.Errorf("got %+v, want wait", begun)
	}
	c.later(41 * time.Second)
	c.ok("renew", "--session", session)
	begun = daybook.Begun{}
	c.json(statusDone, &begun, of(checked...)...)
	if begun.Decision != daybook.DecisionProbe {
		t.Errorf("got %+v, want probe", begun)
	}
	c.want(statusRefused, of("finish", "mail", "--outcome", "unknown")...)
	if j := c.state(1, daybook.SetAside); j.Reason != daybook.ReasonEffectOpen {
		t.Errorf("got reason %s, want effect_open", j.Reason)
	}
}

func TestEffectWrong(t *testing.T) {
	c := newCLI(t)
	c.enqueue(1)
	session, generation := c.claimJob(1)
	for _, args := range [][]string{
		{"begin", "charge"}, {"begin", "charge", "--policy", "maybe"}, {"begin", "charge", "--policy", "keyed"},
		{"begin", "charge", "--policy", "ask", "--window", "1h"}, {"begin", "handler", "--policy", "ask"},
		{"begin", "a b", "--policy", "ask"}, {"begin", "charge", "--policy", "ask", "--quiet", "1s"},
		{"begin", "charge", "--policy", "ask", "--fingerprint", strings.Repeat("x", 256)},
		{"finish", "charge"}, {"finish", "charge", "--outcome", "maybe"},
		{"finish", "charge", "--outcome", "absent", "--result", "1"},
		{"finish", "charge", "--outcome", "done", "--result", "{"},
	} {
		all := append(append([]string{"effect"}, args...), append([]string{"--job", id(1)}, owner(session, generation)...)...)
		c.want(statusUsage, all...)
	}
	o := append([]string{"--job", id(1)}, owner(session, generation)...)
	c.want(statusNotFound, append([]string{"effect", "finish", "charge", "--outcome", "done"}, o...)...)
	c.want(statusNotFound, append([]string{"effect", "begin", "charge", "--policy", "ask", "--job", id(9)},
		owner(session, generation)...)...)
	c.want(statusRefused, append([]string{"effect", "begin", "charge", "--policy", "ask", "--call", "1h"}, o...)...)
	var list struct{ Effects []json.RawMessage }
	if c.json(statusDone, &list, "effect", "list"); len(list.Effects) != 0 {
		t.Errorf("refused begins left %s", list.Effects)
	}
}

// Inside work --exec the ledger knows whose effect it is: an attempt that fails
// behind its call doesn't call again.
func TestEffectInExec(t *testing.T) {
	c := newCLI(t)
	c.onPath()
	c.enqueue(1)
	script := `set -e
set -- $(daybook effect begin main --policy keyed --window 24h)
if [ "$1" = call ]; then
	[ "$2" = "$DAYBOOK_EFFECT_KEY" ]
	daybook effect finish main --outcome done --result '"ch_1"' >&2
	exit 1
fi
[ "$1" = done ]
echo "$2"`
	c.ok("work", "--queue", "mail", "--drain", "--exec", script)
	c.later(time.Minute)
	c.ok("work", "--queue", "mail", "--drain", "--exec", script)
	if j := c.state(1, daybook.Succeeded); string(j.Result) != `"ch_1"` || j.Failures != 1 {
		t.Errorf("got %s after %d failures, want the first call's result after one", j.Result, j.Failures)
	}
	c.enqueue(2)
	c.ok("work", "--queue", "mail", "--drain", "--exec", "daybook effect begin main --policy ask >&2")
	if j := c.job(2); j.State == daybook.Succeeded {
		t.Error("a command that left its effect open succeeded")
	}
	c.later(time.Minute)
	c.ok("work", "--queue", "mail", "--drain", "--exec", "daybook effect begin main --policy ask >&2")
	if j := c.state(2, daybook.SetAside); j.Reason != daybook.ReasonEffectOpen {
		t.Errorf("got reason %s, want effect_open", j.Reason)
	}
}

// TestReviveReview: of what a filter finds only what is safe goes on, and a
// preview says beforehand how much that is, and why the rest stays.
func TestReviveReview(t *testing.T) { everywhere(t, testReviveReview) }

func testReviveReview(t *testing.T, c *cli) {
	for n := 1; n <= 3; n++ {
		c.enqueue(n)
		session, generation := c.claimJob(n)
		if n == 3 {
			begin := []string{"effect", "begin", "charge", "--policy", "ask", "--job", id(n)}
			c.ok(append(begin, owner(session, generation)...)...)
		}
		c.ok(append([]string{"fail", id(n), "--error", "no", "--permanent"}, owner(session, generation)...)...)
	}
	var got bulkAnswer
	c.json(statusDone, &got, "job", "revive", "--queue", "mail", "--dry-run")
	if r := got.Review; r == nil || r.Matched != 3 || r.Safe != 2 || len(r.Unsafe) != 1 || !r.Unsafe[0].Open {
		t.Errorf("got %+v, want two of three safe", got.Review)
	}
	said := c.ok("job", "revive", "--queue", "mail", "--dry-run")
	if !strings.Contains(said, "would revive 2 of 3 jobs") ||
		!strings.Contains(said, "settle first: 1 job, effect charge (ask) is open") {
		t.Errorf("got %q, want how many, and why not the rest", said)
	}
	c.json(statusRefused, &got, "job", "revive", "--queue", "mail", "-y", "--unsafe", "--reason", "fixed")
	if got.Done != 2 || got.Refused[daybook.CodeEffectOpen] != 1 {
		t.Errorf("got %+v, want two revived", got)
	}
	c.state(1, daybook.Waiting)
	c.state(3, daybook.SetAside)
	var why daybook.Why
	if c.json(statusDone, &why, "job", "why", id(3)); why.Safe == nil || why.Safe.Yes || len(why.Safe.Open) != 1 {
		t.Errorf("got %+v, want unsafe for charge", why)
	}
}

// TestEffectDoubtful: a person said that it didn't happen, and then its owner, too
// late, that it did: nothing calls again before a person has looked.
func TestEffectDoubtful(t *testing.T) { everywhere(t, testEffectDoubtful) }

func testEffectDoubtful(t *testing.T, c *cli) {
	c.enqueue(1)
	session, generation := c.claimJob(1, "--lease", "1m")
	of := func(args ...string) []string {
		return append(append([]string{"effect"}, args...), append([]string{"--job", id(1)}, owner(session, generation)...)...)
	}
	c.ok(of("begin", "charge", "--policy", "ask")...)
	late := of("finish", "charge", "--outcome", "done", "--result", `"ch_1"`)
	c.ok(append([]string{"fail", id(1), "--error", "no answer", "--permanent"}, owner(session, generation)...)...)
	c.ok("effect", "settle", id(1), "charge", "--absent", "--stay", "--reason", "not in the dashboard")
	c.want(statusRefused, late...)
	var why daybook.Why
	if c.json(statusDone, &why, "job", "why", id(1)); why.Safe == nil || why.Safe.Yes ||
		!strings.Contains(why.Safe.Grounds, "said too late") {
		t.Errorf("got %+v, want doubt", why.Safe)
	}
	if list := c.ok("effect", "list"); !strings.Contains(list, "absent, late word") {
		t.Errorf("got %q, want the late word", list)
	}
	c.ok("job", "revive", id(1), "--reason", "go on")
	session, generation = c.claimJob(1, "--lease", "1m")
	c.want(statusRefused, of("begin", "charge", "--policy", "ask")...)
	if j := c.state(1, daybook.SetAside); j.Reason != daybook.ReasonEffectOpen {
		t.Errorf("set aside for %s, want effect_open", j.Reason)
	}
	said := c.want(statusDone, "effect", "settle", id(1), "charge", "--happened", "--result", `"ch_1"`)
	if !strings.Contains(said.err, `too late: done "ch_1"`) {
		t.Errorf("got %q, want what the late owner said", said.err)
	}
	c.state(1, daybook.Waiting)
}

// TestEffectKeptKey: what a person found absent is called with the same key while
// its destination knows that, whatever the handler would like.
func TestEffectKeptKey(t *testing.T) { everywhere(t, testEffectKeptKey) }

func testEffectKeptKey(t *testing.T, c *cli) {
	c.enqueue(1)
	session, generation := c.claimJob(1, "--lease", "1m")
	of := func(args ...string) []string {
		return append(append([]string{"effect"}, args...), append([]string{"--job", id(1)}, owner(session, generation)...)...)
	}
	begin := func() (b daybook.Begun) {
		c.json(statusDone, &b, of("begin", "charge", "--policy", "keyed", "--window", "1h", "--next-key")...)
		return b
	}
	first := begin()
	c.ok(append([]string{"fail", id(1), "--error", "500", "--permanent"}, owner(session, generation)...)...)
	c.ok("effect", "settle", id(1), "charge", "--absent", "--reason", "not found")
	c.ok("job", "revive", id(1), "--reason", "again")
	session, generation = c.claimJob(1, "--lease", "1m")
	if b := begin(); b.Decision != daybook.DecisionCall || b.Key != first.Key {
		t.Errorf("got %+v, want the key %s", b, first.Key)
	}
	c.ok(of("finish", "charge", "--outcome", "absent")...)
	c.ok(append([]string{"fail", id(1), "--error", "declined", "--retry-in", "0s"}, owner(session, generation)...)...)
	session, generation = c.claimJob(1, "--lease", "1m")
	if b := begin(); b.Decision != daybook.DecisionCall || b.Key == first.Key {
		t.Errorf("got %+v, want the next key", b)
	}
	c.ok(of("finish", "charge", "--outcome", "done", "--result", "1")...)
	var end daybook.EffectEnded
	if c.json(statusDone, &end, of("finish", "charge", "--outcome", "done", "--result", "2")...); !end.Already {
		t.Errorf("got %+v, want already", end)
	}
}

// TestEffectOtherInput: another input stops the job, until a person has said that
// the first one didn't happen.
func TestEffectOtherInput(t *testing.T) { everywhere(t, testEffectOtherInput) }

func testEffectOtherInput(t *testing.T, c *cli) {
	c.enqueue(1)
	session, generation := c.claimJob(1, "--lease", "1m")
	begin := func(status int, input string) (b daybook.Begun) {
		args := []string{"effect", "begin", "charge", "--policy", "ask", "--fingerprint", input, "--job", id(1)}
		c.json(status, &b, append(args, owner(session, generation)...)...)
		return b
	}
	first := begin(statusDone, "5 EUR")
	c.ok(append([]string{"fail", id(1), "--error", "no answer", "--retry-in", "0s"}, owner(session, generation)...)...)
	session, generation = c.claimJob(1, "--lease", "1m")
	if b := begin(statusRefused, "6 EUR"); b.Reason != daybook.ReasonEffectChanged {
		t.Errorf("got %+v, want effect_changed", b)
	}
	c.ok("effect", "settle", id(1), "charge", "--absent", "--reason", "not in the dashboard")
	c.ok("job", "revive", id(1), "--reason", "the amount was wrong")
	session, generation = c.claimJob(1, "--lease", "1m")
	if b := begin(statusDone, "6 EUR"); b.Decision != daybook.DecisionCall || b.Key == first.Key {
		t.Errorf("got %+v, want a call with another key", b)
	}
}
