package main

import (
	"context"
	"io"
	"strings"
	"testing"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/store/postgres"
)

// hold sets a hold on job n as a cutover does.
func (c *cli) hold(n int) {
	c.t.Helper()
	a := &app{stderr: io.Discard, now: c.clock, flags: globals{db: c.db, schema: postgres.SchemaDefault}}
	err := a.onBook(c.t.Context(), func(ctx context.Context, book *daybook.Book) error {
		return book.Store().Write(ctx, "holding", func(tx daybook.Tx) error {
			job, err := daybook.ParseID(id(n))
			if err != nil {
				return err
			}
			jobs, err := tx.Lock(ctx, []daybook.ID{job})
			if err != nil {
				return err
			}
			held := jobs[0]
			held.HeldBy = "cutover"
			return tx.Save(ctx, []daybook.Change{{Move: daybook.MoveUnhold, Was: jobs[0], Now: held}})
		})
	})
	if err != nil {
		c.t.Fatal(err)
	}
}

func TestUnhold(t *testing.T) { everywhere(t, testUnhold) }

func testUnhold(t *testing.T, c *cli) {
	for n := range 4 {
		c.enqueue(n + 1)
	}
	for n := range 3 {
		c.hold(n + 1)
	}
	if out := c.ok("job", "unhold", id(1), "--dry-run"); !strings.Contains(out, "would be held no more") {
		t.Errorf("got %q, want what it would do", out)
	}
	if j := c.job(1); j.HeldBy != "cutover" {
		t.Errorf("got held by %q, want a dry run to leave it", j.HeldBy)
	}
	c.ok("job", "unhold", id(1), "--reason", "checked")
	e := c.timeline(1)
	if last := e[len(e)-1]; last.What != "unheld" || last.Actor != "ada" || last.Reason != "checked" {
		t.Errorf("got %+v, want who and why", last)
	}
	c.want(statusRefused, "job", "unhold", id(1))
	var got bulkAnswer
	if c.json(statusDone, &got, "job", "unhold", "--queue", "mail", "--dry-run"); got.Matched != 2 || got.Done != 0 {
		t.Errorf("got %+v, want the two that are held", got)
	}
	if c.json(statusDone, &got, "job", "unhold", "--queue", "mail", "-y"); got.Done != 2 {
		t.Errorf("got %+v, want both", got)
	}
	var given claims
	if c.json(statusDone, &given, "claim", "--queue", "mail", "--limit", "9"); len(given.Claims) != 4 {
		t.Errorf("got %d claims, want all four", len(given.Claims))
	}
}

// What nothing is called is named in the refusal, also by a server, which doesn't
// repeat what it was given; what nothing can be called is refused before.
func TestUnknownNames(t *testing.T) { everywhere(t, testUnknownNames) }

func testUnknownNames(t *testing.T, c *cli) {
	c.enqueue(1)
	for says, args := range map[string][]string{
		`no queue "nope"`:         {"queue", "resume", "nope"},
		`no live worker "nobody"`: {"worker", "quiet", "nobody"},
		`has no effect "mail"`:    {"effect", "settle", id(1), "mail", "--absent"},
	} {
		if said := c.want(statusNotFound, append(args, "--reason", "r")...).err; !strings.Contains(said, says) {
			t.Errorf("%q: said %q, want %q", args, said, says)
		}
	}
	for _, args := range [][]string{{"worker", "quiet", "a\xff"}, {"queue", "pause", "a\x00b"},
		{"job", "list", "--queue", "\x01"}, {"job", "list", "--key", "\xff"},
		{"job", "cancel", "--kind", "\x7f", "--state", "waiting", "-y"}} {
		c.want(statusUsage, args...)
	}
}

// The place that was named nearer to the command is spoken to; two that are as
// near are refused, by whoever needs one.
func TestPlaces(t *testing.T) {
	c := newCLI(t).onServer()
	c.enqueue(1)
	other := newCLI(t)
	flags := map[string][]string{"db": {"--db", other.db}, "server": {"--server", c.server, "--token", c.token},
		"": nil, "both": {"--db", other.db, "--server", c.server, "--token", c.token}}
	file := map[string]string{"": "", "db": "db = '" + other.db + "'\n", "server": "server = '" + c.server + "'\n"}
	file["both"] = file["db"] + file["server"]
	for _, test := range []struct{ flags, env, file, want string }{
		{"server", "db", "db", "server"}, {"db", "server", "server", "db"}, {"", "server", "db", "server"},
		{"", "db", "server", "db"}, {"", "", "server", "server"}, {"", "", "db", "db"}, {"both", "", "", "--db and --server"},
		{"", "both", "", "DAYBOOK_DB and DAYBOOK_SERVER are both set"}, {"db", "both", "", "db"},
		{"server", "both", "", "server"},
		{"", "", "both", "names both db and server"}, {"", "server", "both", "server"}, {"", "db", "both", "db"},
	} {
		t.Setenv("DAYBOOK_TOKEN", c.token)
		for name, value := range map[string]string{"db": other.db, "server": c.server} {
			if test.env != name && test.env != "both" {
				value = ""
			}
			t.Setenv(environment[name], value)
		}
		args := append([]string{"--config", writeFile(t, "daybook.toml", file[test.file])}, flags[test.flags]...)
		switch s := c.bare(append(args, "job", "list", "-o", "json")...); test.want {
		case "db", "server":
			if found := strings.Contains(s.out, id(1)); s.status != statusDone || found != (test.want == "server") {
				t.Errorf("%+v: got %+v", test, s)
			}
		default:
			if s.status != statusUsage || !strings.Contains(s.err, test.want) || strings.Count(s.err, "\n") != 1 {
				t.Errorf("%+v: got %+v", test, s)
			}
		}
		if s := c.bare(append(args, "version")...); test.flags != "both" && s.status != statusDone {
			t.Errorf("%+v: version asks for no book: got %+v", test, s)
		}
	}
}

// What needs the book itself says so in one line, and so do flags that mean
// nothing to a server.
func TestNotAtAServer(t *testing.T) {
	c := newCLI(t).onServer()
	const needs = "needs the book itself"
	for line, want := range map[string]string{
		"schema up": needs, "schema status": needs, "schema print": needs, "prune --dry-run": needs, "relay": needs,
		"schema restored --since 2026-01-01T00:00:00Z": needs, "reconcile --once": needs, "serve": needs, "demo": needs,
		"drill": needs, "doctor": needs, "bench": needs, "top --once": needs, "cutover status": needs,
		"token list": needs, "token create x --scope read": needs,
		"token revoke ada": needs, "check --selftest": needs, "check --bell": "need the book itself",
		"check --accepted -": "need the book itself", "work --queue q --exec true --listen 127.0.0.1:0": "--listen",
		"job list --actor ada": "leave --actor out", "job list --schema x": "leave --schema out",
		"job list --bell none:": "leave --bell out", "job list --db sqlite:x": "--db and --server",
	} {
		s := c.bare(append([]string{"--server", c.server, "--token", c.token}, strings.Fields(line)...)...)
		if s.status != statusUsage || s.out != "" || strings.Count(s.err, "\n") != 1 || !strings.Contains(s.err, want) {
			t.Errorf("daybook %s: got %+v, want one line with %q", line, s, want)
		}
	}
	if s := c.bare("job", "list", "--token", "x", "--db", c.db); s.status != statusUsage {
		t.Errorf("a token for no server: got %+v", s)
	}
	if s := c.bare("demo", "--jobs", "0"); s.status != statusUsage || !strings.Contains(s.err, "--jobs") {
		t.Errorf("a demo beside nothing: got %+v", s)
	}
}

// Who isn't let in is refused with 4, a server that isn't there is 6, and the
// token is told nobody.
func TestServerRefusals(t *testing.T) {
	c := newCLI(t).onServer()
	secret := strings.TrimSpace(c.ok("token", "create", "reader", "--scope", "read"))
	reader := lastWord(secret)
	for _, test := range []struct {
		token, line string
		status      int
		want        string
	}{
		{"hunter2", "job list", statusRefused, "not known, expired or revoked"},
		{"hunter2", "work --queue q --exec true", statusRefused, "not known, expired or revoked"},
		{"hunter2", "backlog --watch", statusRefused, "not known, expired or revoked"},
		{"", "job list", statusRefused, "a token is wanted"},
		{"hunter2 3", "job list", statusUsage, "--token: "},
	} {
		s := c.bare(append([]string{"--server", c.server, "--token", test.token, "--log-level", "debug"},
			strings.Fields(test.line)...)...)
		if s.status != test.status || s.out != "" || !strings.Contains(s.err, test.want) ||
			strings.Contains(s.err, "hunter2") {
			t.Errorf("daybook %s with %q: got %+v, want %d and %q", test.line, test.token, s, test.status, test.want)
		}
	}
	t.Setenv("DAYBOOK_SERVER", c.server)
	await(t, "the new token let in", func() bool { // the server looks for new ones now and then
		return c.bare("--token", reader, "job", "list").status == statusDone
	})
	if s := c.bare("--token", reader, "enqueue", "--queue", "q", "--kind", "k"); s.status != statusRefused ||
		!strings.Contains(s.err, "scope enqueue") {
		t.Errorf("with another scope: got %+v", s)
	}
	t.Setenv("DAYBOOK_SERVER", "http://127.0.0.1:1")
	for _, line := range []string{"job list", "enqueue --queue q --kind k", "backlog", "queue pause q", "check",
		"work --queue q --exec true --drain", "claim --queue q", "effect list", "worker list", "job cancel --queue q -y",
		"inventory", "job revive " + id(1)} {
		s := c.bare(append([]string{"--token", "hunter2"}, strings.Fields(line)...)...)
		if s.status != statusUnavailable || s.out != "" || !strings.Contains(s.err, "127.0.0.1:1: nobody listens there") ||
			strings.Contains(s.err, "hunter2") {
			t.Errorf("daybook %s: got %+v, want exit 6", line, s)
		}
	}
}

// lastWord is the secret of a token that was shown.
func lastWord(text string) string {
	words := strings.Fields(text)
	return words[len(words)-1]
}

// At a server the record shows the token's name, and that no reason was given.
func TestServerRecordsTheToken(t *testing.T) {
	c := newCLI(t).onServer()
	c.enqueue(1)
	c.ok("job", "cancel", id(1))
	e := c.timeline(1)
	if last := e[len(e)-1]; last.Actor != "ada" || last.Reason != noReason {
		t.Errorf("got %+v, want the token's name and that no reason was given", last)
	}
}
