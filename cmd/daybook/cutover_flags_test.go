package main

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/cutover"
	"github.com/daybookdev/daybook/store/postgres"
)

// What is wrong with a flag is said of that flag, and in one line of our words.
func TestCutoverFlags(t *testing.T) {
	c := newCLI(t)
	mapping := func(text string) string {
		file := filepath.Join(t.TempDir(), "classes.toml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	plan := []string{"plan", "mail", "--system", "rq", "--queue", "mail", "--from", "redis://127.0.0.1:1/0"}
	for _, bad := range []struct {
		want string
		args []string
	}{
		{"--for: wants 0s or more, got -1s; see", []string{"shadow", "mail", "--for", "-1s"}},
		{"--for: wants 0s or more, got -5s; see", []string{"watch", "mail", "--for", "-5s"}},
		{"--for: wants 1s or more, got 0s; see", []string{"gate", "mail", "--for", "0s"}},
		{"--quiet: wants 0s or more, got -1d; see", []string{"retire", "mail", "--quiet", "-1d"}},
		{"--owners-wait: wants 0s or more, got -1s; see", append(plan, "--owners-wait", "-1s")},
		{"--worker-ttl: wants from 1s to 24h, got 1ms\n", append(plan, "--worker-ttl", "1ms")},
		{"daybook: --to: wants letters, digits, . _ - : only, got \"a b\"\n", append(plan, "--to", "a b")},
		{"daybook: --from: wants a Redis URL: ", append(plan, "--from", "localhost")},
		{`line 3: class "A" can't have "kid"; a class has kind, args, on-lost, safe, max-failures, timeout` + "\n",
			append(plan, "--map", mapping("[A]\nkind = 'a'\nkid = 'b'\n"))},
		{`line 2: safe of class "A" wants true or false` + "\n", append(plan, "--map", mapping("[A]\nsafe = 'yes'\n"))},
		{`line 1: max-failures of class "A" wants a whole number` + "\n",
			append(plan, "--map", mapping("A.max-failures = 'x'"))},
		{`line 1: "kind" stands outside of a class; `, append(plan, "--map", mapping("kind = 'a'\n"))},
		{"line 2: ", append(plan, "--map", mapping("[A]\n=\n"))},
	} {
		s := c.want(statusUsage, append([]string{"cutover"}, bad.args...)...)
		if !strings.Contains(s.err, bad.want) || strings.Count(s.err, "\n") != 1 || strings.Contains(s.err, "struct") {
			t.Errorf("%q: got %q, want %q", bad.args, s.err, bad.want)
		}
	}
	t.Setenv(environmentFrom, "localhost")
	s := c.want(statusUsage, "cutover", "inventory", "--system", "rq", "--queue", "mail")
	if !strings.HasPrefix(s.err, "daybook: "+environmentFrom+": wants a Redis URL") {
		t.Errorf("got %+v", s)
	}
}

// Work that was interrupted, or overtaken by a rollback, says so, and doesn't blame the
// database, which it could no longer ask.
func TestCutoverCutShort(t *testing.T) {
	q := newOldQueue(t)
	if q == nil {
		return
	}
	q.put("queue:mail", "a1", time.Time{})
	q.carry("gate")
	lost := daybook.Unavailable("moving jobs in", context.Canceled)
	a := &app{stderr: io.Discard, now: q.clock, flags: globals{db: q.db, schema: postgres.SchemaDefault}}
	cut := func(ctx context.Context, f oldFlags, work func(context.Context, *cutover.Engine) error) error {
		f.from, f.batch = q.url, cutover.BatchDefault
		a.terminal = func(any) bool { return false }
		return a.engine(ctx, "mail", &f, work)
	}
	away := func(context.Context, *cutover.Engine) error { return lost }
	if err := cut(t.Context(), oldFlags{}, away); !errors.Is(err, lost) {
		t.Errorf("got %v of a database that did not answer", err)
	}
	ctx, interrupt := context.WithCancel(t.Context())
	err := cut(ctx, oldFlags{}, func(context.Context, *cutover.Engine) error {
		interrupt()
		return lost
	})
	if statusOf(err) != statusFailed || !strings.Contains(err.Error(), "it goes on where it stopped") {
		t.Errorf("got %v of an interruption", err)
	}
	overtaken := func(context.Context, *cutover.Engine) error {
		return errors.Join(lost, q.atBook(func(ctx context.Context, book *daybook.Book) error {
			_, err := book.AdvanceCutover(ctx, "mail", daybook.PhaseReturning, daybook.By{})
			return err
		}))
	}
	if err := cut(t.Context(), oldFlags{}, overtaken); statusOf(err) != statusRefused ||
		!strings.Contains(err.Error(), "a rollback of cutover mail has overtaken this") {
		t.Errorf("got %v of a rollback by another process", err)
	}
	if err := cut(t.Context(), oldFlags{}, overtaken); statusOf(err) != statusUnavailable {
		t.Errorf("got %v where the rollback had begun before", err)
	}
}

// A queue that has no job may be another one than was meant, and a key of the old system
// that has something else is named.
func TestCutoverElsewhere(t *testing.T) {
	q := newOldQueue(t)
	if q == nil {
		return
	}
	ctx := t.Context()
	out := q.ok("cutover", "inventory", "--system", "rq", "--queue", "mail")
	if !strings.Contains(out, "no job of queue mail is at "+q.url+": make sure") {
		t.Errorf("nothing says that there is no such queue:\n%s", out)
	}
	q.must(q.redis.Set(ctx, "rq:job:str1", "x", 0).Err())
	q.must(q.redis.LPush(ctx, "rq:queue:mail", "str1").Err())
	s := q.want(statusRefused, "cutover", "inventory", "--system", "rq", "--queue", "mail")
	if !strings.Contains(s.err, `under the key "rq:job:str1" that is wanted for `) {
		t.Errorf("got %+v", s)
	}
}

// The guide says of each measure what it counts.
func TestCutoverGuideMeasures(t *testing.T) {
	guide, err := os.ReadFile(filepath.Join("..", "..", "docs", "cutover.md"))
	if err != nil {
		t.Fatal(err)
	}
	for measure := range cutover.Measures {
		if !strings.Contains(string(guide), "\n| `"+measure+"` | ") {
			t.Errorf("the guide doesn't define %s", measure)
		}
	}
}
