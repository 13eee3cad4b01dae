package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/check"
	"github.com/daybookdev/daybook/internal/pgtest"
)

func TestCheck(t *testing.T) { everywhere(t, testCheck) }

func testCheck(t *testing.T, c *cli) {
	c.enqueue(1, "--key", "k1")
	session, generation := c.claimJob(1)
	c.ok(append([]string{"complete", id(1)}, owner(session, generation)...)...)
	c.enqueue(2)
	var got checked
	c.json(statusDone, &got, "check", "--full")
	if got.Violations != 0 || len(got.Invariants) != len(daybook.Invariants) ||
		got.Invariants[0].Sentence == "" {
		t.Errorf("got %+v, want every invariant and no violation", got)
	}
	for line := range strings.Lines(c.ok("check")) {
		if !strings.HasPrefix(line, "ok ") {
			t.Errorf("got line %q, want ok first", line)
		}
	}
	c.spoil("DELETE FROM daybook.request")
	c.json(statusViolation, &got, "check", "--full")
	i := slices.IndexFunc(got.Invariants, func(r check.Result) bool { return r.Name == "key-kept" })
	if got.Violations < 1 || got.Invariants[i].Rows < 1 {
		t.Errorf("got %+v, want the broken row found", got.Invariants[i])
	}
	if s := c.want(statusViolation, "check", "--full"); !strings.Contains(s.out, "\n1   key-kept") {
		t.Errorf("got %q, want the count first", s.out)
	}
}

// What an outside witness was told is accepted must be in the book.
func TestCheckAccepted(t *testing.T) { onEach(t, testCheckAccepted) }

func testCheckAccepted(t *testing.T, c *cli) {
	c.enqueue(1)
	c.enqueue(2)
	file := writeFile(t, "accepted", id(1)+"\n\n"+`{"id":"`+id(2)+`","replayed":false}`+"\n")
	var got checked
	if c.json(statusDone, &got, "check", "--accepted", file); got.Accepted == nil || got.Accepted.Accepted != 2 {
		t.Errorf("got %+v, want two ids found", got.Accepted)
	}
	c.stdin = id(1) + "\n" + id(7) + "\n"
	c.json(statusViolation, &got, "check", "--accepted", "-")
	last := got.Invariants[len(got.Invariants)-1]
	if got.Violations != 1 || last.Name != "accepted" || last.Rows != 1 ||
		got.Accepted.Missing[0].String() != id(7) {
		t.Errorf("got %+v, want job 7 missed", got)
	}
	c.stdin = "not an id\n"
	c.want(statusUsage, "check", "--accepted", "-")
	c.want(statusUsage, "check", "--accepted", filepath.Join(c.dir, "nothing"))
	c.want(statusUsage, "check", "--selftest", "--bell")
	c.want(statusUsage, "check", "--selftest", "--full")
}

func TestCheckSelftest(t *testing.T) { onEach(t, testCheckSelftest) }

// Once on each, since it takes a while: for people on PostgreSQL, and for
// programs on SQLite.
func testCheckSelftest(t *testing.T, c *cli) {
	if !c.postgres() {
		var got struct {
			OK         bool
			Invariants int
		}
		if c.json(statusDone, &got, "check", "--selftest"); !got.OK || got.Invariants != len(daybook.Invariants) {
			t.Errorf("got %+v, want all to have fired", got)
		}
		return
	}
	out := c.ok("check", "--selftest")
	for _, invariant := range daybook.Invariants {
		if !strings.Contains(out, invariant.Name) {
			t.Errorf("the selftest doesn't name %s", invariant.Name)
		}
	}
	schemas, err := pgtest.Psql(c.db, "SELECT nspname FROM pg_namespace WHERE nspname LIKE 'daybook%'")
	if err != nil || schemas != "daybook" {
		t.Errorf("got schemas %q, %v, want the scratch ones gone", schemas, err)
	}
}
