package main

import (
	"testing"
	"time"
)

func TestParseDuration(t *testing.T) {
	for _, test := range []struct {
		in   string
		want time.Duration
	}{
		{"90s", 90 * time.Second}, {"24h", 24 * time.Hour}, {"7d", 168 * time.Hour}, {"1d12h", 36 * time.Hour},
		{"0.5d", 12 * time.Hour}, {"0", 0}, {"-5s", -5 * time.Second}, {"-1d", -24 * time.Hour},
	} {
		got, err := parseDuration(test.in)
		if err != nil || got != test.want {
			t.Errorf("parseDuration(%q): got %s, %v, want %s", test.in, got, err, test.want)
		}
	}
	for _, in := range []string{"", "5", "d", "1d1d", "1d-1h", "106752d", "999999999999999999999d",
		"1 d", "5y"} {
		if got, err := parseDuration(in); statusOf(err) != statusUsage {
			t.Errorf("parseDuration(%q): got %s, %v, want a refusal", in, got, err)
		}
	}
}

func TestShortDuration(t *testing.T) {
	for _, test := range []struct {
		in   time.Duration
		want string
	}{{24 * time.Hour, "24h"}, {168 * time.Hour, "7d"}, {90 * time.Second, "1m30s"}, {10 * time.Minute, "10m"},
		{30 * time.Second, "30s"}, {10 * time.Second, "10s"}, {25 * time.Hour, "25h"}} {
		got := shortDuration(test.in)
		if back, err := parseDuration(got); got != test.want || err != nil || back != test.in {
			t.Errorf("shortDuration(%s): got %s, which reads as %s, %v, want %s", test.in, got, back, err, test.want)
		}
	}
}

// What is wrong with a flag is wrong usage, and nothing is stored.
func TestWrongUsage(t *testing.T) {
	c := newCLI(t)
	for _, args := range [][]string{
		{"jobs"}, {"job", "shwo"}, {"--nope"}, {"enqueue", "--nope"}, {"enqueue", "extra"}, {"job", "show"},
		{"job", "show", "not-a-uuid"}, {"job", "list", "--state", "done"}, {"job", "list", "--limit", "0"},
		{"job", "list", "--limit", "1001"}, {"job", "list", "-o", "yaml"}, {"job", "list", "--log-level", "loud"},
		{"enqueue", "--queue", "q"}, {"enqueue", "--kind", "k"}, {"enqueue", "--queue", "q q", "--kind", "k"},
		{"enqueue", "--queue", "q", "--kind", "k", "--args", "{"},
		{"enqueue", "--queue", "q", "--kind", "k", "--args", ""},
		{"enqueue", "--queue", "q", "--kind", "k", "--key", ""},
		{"enqueue", "--queue", "q", "--kind", "k", "--in", "-1s"},
		{"enqueue", "--queue", "q", "--kind", "k", "--in", "1s", "--run-at", "2030-01-01T00:00:00Z"},
		{"enqueue", "--queue", "q", "--kind", "k", "--run-at", "2030-01-01T00:00:00"},
		{"enqueue", "--queue", "q", "--kind", "k", "--max-failures", "0"},
		{"enqueue", "--queue", "q", "--kind", "k", "--max-failures", "99999999999999999999"},
		{"enqueue", "--queue", "q", "--kind", "k", "--priority", "40000"},
		{"enqueue", "--queue", "q", "--kind", "k", "--on-lost", "shrug"},
		{"enqueue", "--queue", "q", "--kind", "k", "--timeout", "0s"},
		{"enqueue", "--queue", "q", "--kind", "k", "--from", "-"},
		{"enqueue", "--from", "no-such-file"}, {"enqueue", "--queue", "q", "--kind", "k", "--args-file",
			"no-such-file"},
		{"enqueue", "--queue", "q", "--kind", "k", "--args", `{"a":"\u0000"}`},
		{"claim"}, {"claim", "--queue", "q", "--limit", "0"}, {"claim", "--queue", "q", "--lease", "1ms"},
		{"claim", "--queue", "q", "--session", id(1), "--lease", "1m"}, {"claim", "job", "x"},
		{"complete", id(1)}, {"complete"}, {"complete", id(1), "--session", id(2)}, {"renew"},
		{"complete", id(1), "--session", id(2), "--generation", "1", "--result", "{"},
		{"fail", id(1), "--session", id(2), "--generation", "1"},
		{"release", id(1), "--session", id(2), "--generation", "1", "--in", "-1s"},
		{"job", "cancel"}, {"job", "cancel", id(1), "--queue", "q"},
		{"effect", "settle", id(1), "handler"}, {"effect", "settle", id(1), "handler", "--happened", "--absent"},
		{"effect", "settle", id(1), "handler", "--absent", "--result", "1"},
		{"queue", "pause"}, {"queue", "pause", "no good"}, {"backlog", "--every", "1ms"}, {"prune", "--keep", "1h"},
		{"schema", "restored"}, {"schema", "restored", "--since", "yesterday"}, {"completion", "tcsh"},
		{"completion"},
		{"reconcile", "--every", "-1s"}, {"queue", "pause", "q", "--reason", "two\nlines"},
		{"--db", "postgres:x", "job", "list"}, {"--db", "postgres://%zz", "job", "list"}, {"--db", "mysql:x", "job", "list"},
		{"--db", "postgres://127.0.0.1:1/x", "--schema", "", "job", "list"}, {"--schema", "s", "job", "list"},
		{"--db", "host=127.0.0.1 dbname=x", "job", "list"}, {"--bell", "postgres:", "job", "list"},
		{"--db", "x.db", "job", "list"},
		{"--db", "sqlite:", "job", "list"}, {"--bell", "redis:x", "job", "list"},
		{"--bell", "tower:", "job", "list"},
		{"--server", "http://localhost:1", "job", "list"}, {"--config", "no-such-file", "job", "list"},
	} {
		if s := c.want(statusUsage, args...); s.out != "" {
			t.Errorf("daybook %q printed %q beside its error", args, s.out)
		}
	}
	if got := c.ok("job", "list", "-o", "jsonl"); got != "" {
		t.Errorf("something was stored: %s", got)
	}
}
