//go:build unix

package main

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/daybookdev/daybook"
)

// These tests see the program as its users do: real processes on one file.

var timing = flag.Bool("timing", false, "hold SIGTERM to the grace and a second, on a machine that isn't busy")

// L35: a hundred processes ask at once with one key: one job, 99 replays.
func TestL35HundredProcessesOneKey(t *testing.T) {
	t.Parallel()
	everywhere(t, testL35HundredProcessesOneKey)
}

func testL35HundredProcessesOneKey(t *testing.T, c *cli) {
	c.ok("schema", "up")
	all := make([]*process, 100)
	for i := range all {
		all[i] = c.start("enqueue", "--queue", "q", "--kind", "k", "--key", "a1", "--args", `{"n":1}`, "-o", "json")
	}
	fresh, ids := 0, map[daybook.ID]bool{}
	for _, p := range all {
		p.ends(statusDone)
		var got daybook.Receipt
		oneJSONLine(t, p.out.String(), &got)
		if ids[got.ID] = true; !got.Replayed {
			fresh++
		}
	}
	if fresh != 1 || len(ids) != 1 {
		t.Errorf("got %d new jobs and %d ids, want one", fresh, len(ids))
	}
	p := c.start("enqueue", "--queue", "q", "--kind", "k", "--key", "a1", "--args", `{"n":2}`)
	if p.ends(statusRefused); p.out.Len() > 0 {
		t.Errorf("other args under the key printed %q", p.out.String())
	}
	var list struct{ Jobs []daybook.Job }
	if c.json(statusDone, &list, "job", "list"); len(list.Jobs) != 1 {
		t.Errorf("got %d jobs, want 1", len(list.Jobs))
	}
}

// A claim that lapsed is taken over by a worker; whatever the old owner then
// says is refused, told and kept, and the new owner isn't disturbed.
func TestLapsedClaimIsTakenOver(t *testing.T) {
	t.Parallel()
	everywhere(t, testLapsedClaimIsTakenOver)
}

func testLapsedClaimIsTakenOver(t *testing.T, c *cli) {
	c.enqueue(1)
	old, generation := c.claimJob(1, "--lease", "1s", "--worker", "by-hand")
	gate := c.dir + "/gate"
	if err := syscall.Mkfifo(gate, 0o600); err != nil {
		t.Fatal(err)
	}
	c.start("reconcile", "--every", "50ms")
	p := c.start("work", "--queue", "mail", "--poll", "50ms", "--exec", "echo mine >&2; cat "+gate)
	p.says("mine", 1)
	for _, args := range [][]string{{"complete", id(1), "--result", `"late"`},
		{"fail", id(1), "--error", "late"}, {"release", id(1)}} {
		late := c.start(append(args, owner(old, generation)...)...)
		late.ends(statusRefused)
	}
	j := c.state(1, daybook.Running)
	stranger := c.start(append([]string{"complete", id(1)}, owner(old, j.Generation)...)...)
	stranger.ends(statusRefused)
	open := c.start("worker", "list") // anything, to see that the book isn't held up
	open.ends(statusDone)
	writeGate(t, gate, `"new owner"`)
	p.signal(syscall.SIGTERM)
	p.ends(statusDone)
	if j := c.state(1, daybook.Succeeded); string(j.Result) != `"new owner"` {
		t.Errorf("got result %s, want the new owner's", j.Result)
	}
	events := c.timeline(1)
	if n := countWhat(events, "fenced"); n < 4 {
		t.Errorf("got %d fenced events, want four: %+v", n, events)
	}
	for _, want := range []string{"complete refused", "fail refused", "release refused", "late"} {
		if !strings.Contains(fmt.Sprint(events), want) {
			t.Errorf("the timeline doesn't show %q: %+v", want, events)
		}
	}
}

// L8: a worker killed on the only attempt that its job has.
func TestL8KilledOnTheLastAttempt(t *testing.T) {
	t.Parallel()
	everywhere(t, testL8KilledOnTheLastAttempt)
}

func testL8KilledOnTheLastAttempt(t *testing.T, each *cli) {
	for name, test := range map[string]struct {
		onLost string
		reason daybook.Reason
	}{"retry": {"retry", daybook.ReasonCrashes}, "set aside": {"set_aside", daybook.ReasonLost}} {
		t.Run(name, func(t *testing.T) {
			c := each.another(t)
			c.enqueue(1, "--max-failures", "1", "--on-lost", test.onLost)
			p := c.start("work", "--queue", "mail", "--lease", "1s", "--exec", "echo begun >&2; exec sleep 1000")
			p.says("begun", 1)
			p.kill()
			c.later(5 * time.Second)
			c.ok("reconcile", "--once")
			j := c.state(1, daybook.SetAside)
			if j.Reason != test.reason {
				t.Errorf("got reason %s, want %s", j.Reason, test.reason)
			}
			if n := countWhat(c.timeline(1), "lost"); n != 1 {
				t.Errorf("got %d lost events, want 1", n)
			}
		})
	}
}

// L55: SIGTERM with twenty commands running: the worker ends within the grace
// and a second, and nobody is blamed.
func TestL55TermWithTwentyRunning(t *testing.T) { everywhere(t, testL55TermWithTwentyRunning) }

func testL55TermWithTwentyRunning(t *testing.T, c *cli) {
	for n := range 25 {
		c.enqueue(n + 1)
	}
	const grace = time.Second
	most := 10 * time.Second // a busy machine; far less than the commands would take
	if *timing {
		most = grace + time.Second
	}
	p := c.start("work", "--queue", "mail", "--concurrency", "20", "--grace", grace.String(),
		"--exec", `case $DAYBOOK_JOB in *1) echo begun >&2; sleep 0.2;; *) trap '' TERM; echo begun >&2; sleep 1000;; esac`)
	p.says("begun", 20)
	p.signal(syscall.SIGTERM)
	if d := timed(func() { p.ends(statusDone) }); d > most {
		t.Errorf("ended after %s, want within %s", d, most)
	}
	// A machine too busy to end the session within that second says so, and leaves
	// to the lease what it didn't give back.
	late := !*timing && p.said("the session could not be ended")
	succeeded, waiting := 0, 0
	for n := range 25 {
		j := c.job(n + 1)
		switch j.State {
		case daybook.Succeeded:
			succeeded++
		case daybook.Waiting:
			waiting++
		case daybook.Running:
			if late {
				waiting++
				continue
			}
		}
		if j.Failures != 0 || j.Crashes != 0 || j.LastError != nil {
			t.Errorf("job %d: got %+v, want nobody blamed", n+1, j)
		}
		var list struct{ Attempts []daybook.Attempt }
		c.json(statusDone, &list, "job", "attempts", id(n+1))
		for _, a := range list.Attempts {
			if a.Outcome != daybook.OutcomeReleased && a.Outcome != daybook.OutcomeSucceeded {
				t.Errorf("job %d: got an attempt %s, want released or succeeded", n+1, a.Outcome)
			}
		}
	}
	if succeeded == 0 || waiting == 0 || succeeded+waiting != 25 {
		t.Errorf("got %d succeeded and %d waiting, want some of both and 25 together", succeeded, waiting)
	}
}

// A second SIGTERM doesn't wait for the grace.
func TestSecondTermEndsAtOnce(t *testing.T) {
	t.Parallel()
	everywhere(t, testSecondTermEndsAtOnce)
}

func testSecondTermEndsAtOnce(t *testing.T, c *cli) {
	c.enqueue(1)
	p := c.start("work", "--queue", "mail", "--grace", "10m", "--exec", "echo begun >&2; sleep 1000",
		"--log-level", "debug")
	p.says("begun", 1)
	p.signal(syscall.SIGTERM)
	p.says("told to stop", 1)
	p.signal(syscall.SIGTERM)
	p.ends(statusDone)
	if j := c.state(1, daybook.Waiting); j.Failures != 0 {
		t.Errorf("got %+v, want no failure", j)
	}
}

// SIGUSR1 quiets: what runs runs on, and nothing new is claimed.
func TestQuietSignal(t *testing.T) {
	t.Parallel()
	everywhere(t, testQuietSignal)
}

func testQuietSignal(t *testing.T, c *cli) {
	c.enqueue(1)
	gate := c.dir + "/gate"
	if err := syscall.Mkfifo(gate, 0o600); err != nil {
		t.Fatal(err)
	}
	p := c.start("work", "--queue", "mail", "--poll", "20ms", "--exec", "echo begun >&2; cat "+gate)
	p.says("begun", 1)
	p.signal(syscall.SIGUSR1)
	p.says("quiet:", 1)
	c.enqueue(2)
	writeGate(t, gate, "1")
	other := c.start("work", "--queue", "mail", "--drain", "--exec", "echo other >&2")
	other.says("other", 1)
	other.ends(statusDone)
	p.signal(syscall.SIGTERM)
	p.ends(statusDone)
	c.state(1, daybook.Succeeded)
	c.state(2, daybook.Succeeded)
	if n := countWhat(c.timeline(2), "claimed"); n != 1 {
		t.Errorf("job 2: got %d claims, want one by the other worker", n)
	}
}

// L19: one poison job among many in one process kills each worker that takes
// it: it alone is set aside.
func TestL19PoisonJob(t *testing.T) {
	t.Parallel()
	everywhere(t, testL19PoisonJob)
}

func testL19PoisonJob(t *testing.T, c *cli) {
	const others = 300
	c.stdin = strings.Repeat(`{"queue":"mail","kind":"k"}`+"\n", others)
	c.ok("enqueue", "--from", "-")
	c.enqueue(1)
	loop := c.start("reconcile", "--every", "50ms")
	// The poison kills the worker, which is the parent of the shell.
	script := `[ $DAYBOOK_JOB != ` + id(1) + ` ] || kill -9 $PPID`
	for range daybook.CrashesMax {
		p := c.start("work", "--queue", "mail", "--lease", "1s", "--poll", "50ms", "--no-loops", "--exec", script)
		p.ends(-1)
	}
	loop.says("claims_lost", daybook.CrashesMax)
	c.ok("work", "--queue", "mail", "--drain", "--exec", "true")
	if j := c.state(1, daybook.SetAside); j.Reason != daybook.ReasonCrashes || j.Crashes != daybook.CrashesMax {
		t.Errorf("got %s after %d crashes, want crashes after %d", j.Reason, j.Crashes, daybook.CrashesMax)
	}
	var got snapshot
	c.json(statusDone, &got, "backlog")
	if q := got.Queues[0]; q.SetAside != 1 || q.Succeeded != others {
		t.Errorf("got %d set aside and %d succeeded, want 1 and %d", q.SetAside, q.Succeeded, others)
	}
}

// L6: a command that runs longer than the lease keeps it, and runs once.
func TestL6LongCommandKeepsItsLease(t *testing.T) {
	t.Parallel()
	everywhere(t, testL6LongCommandKeepsItsLease)
}

func testL6LongCommandKeepsItsLease(t *testing.T, c *cli) {
	c.enqueue(1)
	c.start("reconcile", "--every", "50ms")
	p := c.start("work", "--queue", "mail", "--lease", "1s", "--drain", "--exec", "sleep 2.5; echo done")
	p.ends(statusDone)
	if j := c.state(1, daybook.Succeeded); j.Generation != 1 || j.Crashes != 0 {
		t.Errorf("got generation %d and %d crashes, want one undisturbed attempt", j.Generation, j.Crashes)
	}
}

// L11: a worker that was killed and started again under its name doesn't own
// what its predecessor had; the lease gives it back.
func TestL11RestartedWorkerOfTheSameName(t *testing.T) {
	t.Parallel()
	everywhere(t, testL11RestartedWorkerOfTheSameName)
}

func testL11RestartedWorkerOfTheSameName(t *testing.T, c *cli) {
	c.enqueue(1)
	c.start("reconcile", "--every", "50ms")
	script := `echo begun $DAYBOOK_GENERATION >&2; [ $DAYBOOK_GENERATION != 1 ] || sleep 1000`
	first := c.start("work", "--name", "w1", "--queue", "mail", "--lease", "1s", "--exec", script)
	first.says("begun 1", 1)
	first.kill()
	second := c.start("work", "--name", "w1", "--queue", "mail", "--lease", "1s", "--poll", "50ms",
		"--exec", script)
	second.says("begun 3", 1) // the revocation was 2
	second.signal(syscall.SIGTERM)
	second.ends(statusDone)
	if j := c.state(1, daybook.Succeeded); j.Crashes != 1 {
		t.Errorf("got %d crashes, want 1", j.Crashes)
	}
}

// L12: a worker that is stopped past its lease and goes on is told, its command
// is ended, and the other worker's outcome stands.
func TestL12StoppedPastItsLease(t *testing.T) {
	t.Parallel()
	everywhere(t, testL12StoppedPastItsLease)
}

func testL12StoppedPastItsLease(t *testing.T, c *cli) {
	c.enqueue(1)
	c.start("reconcile", "--every", "50ms")
	script := `echo begun $DAYBOOK_GENERATION >&2; trap 'echo told $DAYBOOK_GENERATION >&2; exit 0' TERM
		[ $DAYBOOK_GENERATION != 1 ] || while :; do sleep 0.05; done; echo '"second"'`
	first := c.start("work", "--name", "first", "--queue", "mail", "--lease", "1s", "--no-loops",
		"--exec", script)
	first.says("begun 1", 1)
	first.signal(syscall.SIGSTOP)
	second := c.start("work", "--name", "second", "--queue", "mail", "--poll", "50ms", "--no-loops",
		"--exec", script)
	second.says("begun 3", 1)
	second.signal(syscall.SIGTERM)
	second.ends(statusDone)
	first.signal(syscall.SIGCONT)
	first.says("told 1", 1)
	first.signal(syscall.SIGTERM)
	first.ends(statusDone)
	if j := c.state(1, daybook.Succeeded); string(j.Result) != `"second"` {
		t.Errorf("got result %s, want the second worker's", j.Result)
	}
	if n := countWhat(c.timeline(1), "fenced"); n != 1 {
		t.Errorf("got %d fenced events, want the first worker's late success: %+v", n, c.timeline(1))
	}
	var got checked
	if c.json(statusDone, &got, "check", "--full"); got.Violations != 0 {
		t.Errorf("got %+v, want no violation", got)
	}
}

// A worker hears of what another process puts into its file, without a poll.
func TestWorkerHearsOtherProcesses(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	p := c.start("work", "--queue", "mail", "--poll", "0", "--no-loops", "--exec", "echo ran $DAYBOOK_JOB >&2")
	p.says("session starts", 1)
	for n := range 3 {
		c.enqueue(n + 1)
		p.says("ran "+id(n+1), 1)
	}
	p.signal(syscall.SIGTERM)
	p.ends(statusDone)
}

// A command whose worker is killed right after it began reads all of its args:
// with part of them it would do part of the work, or the wrong one. Here what
// the command started reads them, which nothing ends with the worker.
func TestKilledWorkerLeavesWholeInput(t *testing.T) {
	t.Parallel()
	everywhere(t, testKilledWorkerLeavesWholeInput)
}

func testKilledWorkerLeavesWholeInput(t *testing.T, c *cli) {
	args := `"` + strings.Repeat("x", daybook.ArgsMax-2) + `"`
	c.stdin = args
	c.enqueue(1, "--args-file", "-")
	gate, read := c.dir+"/gate", c.dir+"/read"
	for _, pipe := range []string{gate, read} {
		if err := syscall.Mkfifo(pipe, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p := c.start("work", "--queue", "mail", "--no-loops",
		"--exec", "exec 3<&0; (cat "+gate+" >"+os.DevNull+"; cat <&3 >"+read+") & echo begun >&2; wait")
	p.says("begun", 1)
	p.kill()
	writeGate(t, gate, "go")
	if got, err := os.ReadFile(read); err != nil || string(got) != args {
		t.Errorf("got %d bytes, %v, want all %d", len(got), err, len(args))
	}
}
