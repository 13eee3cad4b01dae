package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/daybookdev/daybook"
)

func writeFile(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Flags win over the environment, and the environment over the file.
func TestConfigPrecedence(t *testing.T) {
	dir := t.TempDir()
	url := func(name string) string { return "sqlite:" + filepath.Join(dir, name) }
	conf := writeFile(t, "daybook.toml", "db = '"+url("file.db")+"'\noutput = 'json'\n")
	made := func(name string) bool {
		_, err := os.Stat(filepath.Join(dir, name))
		return err == nil
	}
	call := func(args ...string) string {
		var out strings.Builder
		if status := run(t.Context(), args, strings.NewReader(""), &out, os.Stderr); status != statusDone {
			t.Fatalf("daybook %q: got exit %d, want 0", args, status)
		}
		return out.String()
	}
	if out := call("--config", conf, "queue", "list"); out != "{\"queues\":[]}\n" || !made("file.db") {
		t.Errorf("the file's settings weren't used: printed %q", out)
	}
	t.Setenv("DAYBOOK_DB", url("environment.db"))
	if call("--config", conf, "queue", "list"); !made("environment.db") {
		t.Error("the file won over the environment")
	}
	out := call("--config", conf, "--db", url("flag.db"), "-o", "table", "queue", "list")
	if !made("flag.db") || !strings.HasPrefix(out, "QUEUE") {
		t.Errorf("the flags didn't win: printed %q", out)
	}
}

// The schema comes from the same places as the database; beside a SQLite file
// only the command line's own is refused.
func TestConfigSchema(t *testing.T) {
	c := newCLI(t)
	conf := writeFile(t, "daybook.toml", "db = 'postgres://127.0.0.1:1/x'\nschema = 'from file'\n")
	schemaOf := func(args ...string) string {
		t.Helper()
		var out strings.Builder
		args = append(args, "--config", conf, "schema", "print")
		if status := run(t.Context(), args, strings.NewReader(""), &out, os.Stderr); status != statusDone {
			t.Fatalf("daybook %q: got exit %d, want 0", args, status)
		}
		first, _, _ := strings.Cut(out.String(), "\n")
		return first
	}
	if got := schemaOf(); !strings.Contains(got, `"from file"`) {
		t.Errorf("got %q, want the file's schema", got)
	}
	t.Setenv("DAYBOOK_SCHEMA", "from environment")
	if got := schemaOf(); !strings.Contains(got, `"from environment"`) {
		t.Errorf("got %q, want the environment's schema", got)
	}
	if got := schemaOf("--schema", "from flag"); !strings.Contains(got, `"from flag"`) {
		t.Errorf("got %q, want the flag's schema", got)
	}
	c.ok("job", "list")
	s := c.want(statusUsage, "job", "list", "--schema", "jobs")
	if !strings.Contains(s.err, "--schema is for postgres:// URLs") {
		t.Errorf("got %q, want --schema refused beside a file", s.err)
	}
}

func TestConfigRefusals(t *testing.T) {
	c := newCLI(t)
	for _, test := range []struct{ text, want string }{
		{"databse = 'x'", "databse"},
		{"[work]\nqueues = ['a']", "work.queues"},
		{"[serve]\nlisten-to = 'x'", "serve.listen-to"},
		{"[kind.mail]\nretries = 3", "kind.mail.retries"},
		{"[enqueue]\nqueue = 'x'", "[enqueue]"},
		{"db = {a = 1}", "[db]"},
		{"db = 2020-01-01", "db"},
		{"db = ", "line 1"},
		{"log-level = 'loud'", "log-level"},
		{"config = 'other.toml'", "config"},
		{"[kind.'no good']\ntimeout = '1s'", "kind"},
	} {
		s := c.want(statusUsage, "--config", writeFile(t, "bad.toml", test.text), "queue", "list")
		if !strings.Contains(s.err, test.want) {
			t.Errorf("%q: got %q, want it to name %s", test.text, s.err, test.want)
		}
	}
}

// What the file says of a kind fills in what an enqueue leaves open.
func TestConfigKinds(t *testing.T) { everywhere(t, testConfigKinds) }

func testConfigKinds(t *testing.T, c *cli) {
	conf := writeFile(t, "daybook.toml",
		"[kind.welcome]\nmax-failures = 3\non-lost = 'set_aside'\npriority = 7\ntimeout = '90s'\n[serve]\nlisten = ':1'\n")
	c.enqueue(1, "--config", conf)
	c.enqueue(2, "--config", conf, "--max-failures", "9")
	first, second := c.job(1), c.job(2)
	if first.MaxFailures != 3 || first.OnLost != daybook.LostSetAside || first.Priority != 7 {
		t.Errorf("got %+v, want what the file says", first)
	}
	if second.MaxFailures != 9 || second.Priority != 7 {
		t.Errorf("got %+v, want the flag to win", second)
	}
	c.claimJob(1, "--lease", "24h")
	c.later(2 * time.Minute)
	c.ok("reconcile", "--once")
	if j := c.state(1, daybook.SetAside); j.Reason != daybook.ReasonTimeout {
		t.Errorf("got reason %s, want the file's run limit to have passed", j.Reason)
	}
}
