package main

import (
	"strings"
	"testing"
)

// A bell that can't be is told in one line, without the secrets in its URL, and
// before anything is done.
func TestWrongBell(t *testing.T) {
	c := newCLI(t)
	for _, url := range []string{
		"tower:", "redis:", "redis:x", "redis://u:hunter2@h:port/0", "redis://u:hunter2@h/zero",
		"redis://u:hunter2@h/0?nonsense=1", "redis://u:hunter2@h/?name=no%20good", "redis://u:hunter2@h/?name=%zz",
		"rediss:u:hunter2@h", "nats:", "nats://", "nats://u:hunter2@h:port", "nats://u:hunter2@h?nonsense=1",
		"postgres:", "postgres:x", "postgres://u:hunter2@127.0.0.1:port/x", "postgres://u:hunter2@h/x?sslmode=never",
		"amqp:", "amqp://u:hunter2@h:port/", "amqps:u:hunter2@h", "local", "local:x", "none:x", "none",
	} {
		s := c.want(statusUsage, "--bell", url, "enqueue", "--queue", "q", "--kind", "k")
		if s.out != "" || strings.Count(s.err, "\n") != 1 || !strings.Contains(s.err, "--bell") {
			t.Errorf("--bell %s: printed %q and %q, want one line about --bell", url, s.out, s.err)
		}
		if strings.Contains(s.err, "hunter2") {
			t.Errorf("--bell %s told the password: %s", url, s.err)
		}
	}
	if got := c.ok("job", "list", "-o", "jsonl"); got != "" {
		t.Errorf("something was stored: %s", got)
	}
}

// Without its server a bell costs latency and nothing else.
func TestBellThatIsAway(t *testing.T) {
	for _, url := range []string{"redis://u:hunter2@127.0.0.1:1/0", "nats://u:hunter2@127.0.0.1:1?jetstream=1",
		"amqp://u:hunter2@127.0.0.1:1/?name=shop", "postgres://u:hunter2@127.0.0.1:1/x"} {
		t.Run(strings.Split(url, ":")[0], func(t *testing.T) {
			c := newCLI(t)
			c.ok("--bell", url, "enqueue", "--queue", "q", "--kind", "k")
			s := c.want(statusDone, "--bell", url, "work", "--queue", "q", "--exec", "true", "--drain")
			if strings.Contains(s.err, "hunter2") {
				t.Errorf("the log tells the password: %s", s.err)
			}
			if got := c.ok("job", "list", "--state", "succeeded", "-o", "jsonl"); strings.Count(got, "\n") != 1 {
				t.Errorf("got %q, want the job done", got)
			}
		})
	}
}
