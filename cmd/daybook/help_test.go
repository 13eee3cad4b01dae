//go:build unix

package main

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// commands lists every command of the program.
func commands() []*cobra.Command {
	var all []*cobra.Command
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		all = append(all, c)
		for _, sub := range c.Commands() {
			if sub.Hidden { // only says that it isn't in this version yet
				continue
			}
			walk(sub)
		}
	}
	walk((&app{}).rootCommand())
	return all
}

func examplesOf(c *cobra.Command) []string {
	var lines []string
	for line := range strings.SplitSeq(c.Example, "\n") {
		lines = append(lines, strings.TrimSpace(line))
	}
	return lines
}

// The help of every command has one line of purpose, flags that say their
// default or limit, and two examples.
func TestHelp(t *testing.T) {
	all := commands()
	if len(all) < 36 {
		t.Fatalf("got %d commands, want all of them", len(all))
	}
	for _, c := range all {
		name := c.CommandPath()
		if c.Short == "" || strings.ContainsAny(c.Short, "\n") || strings.HasSuffix(c.Short, ".") ||
			len(c.Short) > 100 {
			t.Errorf("%s: got purpose %q, want one line without a full stop", name, c.Short)
		}
		if n := len(examplesOf(c)); n < 2 {
			t.Errorf("%s: got %d examples, want two", name, n)
		}
		for _, e := range examplesOf(c) {
			if !strings.Contains(e, name) && c.HasParent() && !c.HasSubCommands() {
				t.Errorf("%s: the example %q doesn't run it", name, e)
			}
		}
		c.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
			if f.Usage == "" {
				t.Errorf("%s: --%s says nothing", name, f.Name)
			}
			if (f.Value.Type() == "duration" || f.Value.Type() == "int") && !strings.Contains(f.Usage, "(") {
				t.Errorf("%s: --%s doesn't say its limits: %q", name, f.Name, f.Usage)
			}
		})
	}
	c := newCLI(t)
	for _, args := range [][]string{{"--help"}, {"help", "job", "list"}, {"job", "list", "--help"},
		{"enqueue", "-h"}} {
		if out := c.ok(args...); !strings.Contains(out, "Examples:\n  daybook ") || !strings.Contains(out, "--db") {
			t.Errorf("daybook %q: got %q…, want examples and global flags", args, out[:min(100, len(out))])
		}
	}
	c.want(statusUsage, "help", "nothing")
}

// exampleBook makes the book that the examples speak of: jobs 1 and 2 wait, 3
// failed for good, 4 and 5 were lost with an open effect, and session $SESSION of
// worker by-hand owns 10, 11 and $JOB, which began effect mail.
func exampleBook(c *cli) (session string) {
	c.t.Helper()
	c.enqueue(4, "--on-lost", "set_aside")
	c.enqueue(5, "--on-lost", "set_aside")
	c.ok("claim", "--queue", "mail", "--limit", "2", "--lease", "1s")
	c.later(2 * time.Second)
	c.ok("reconcile", "--once")
	c.later(-2 * time.Second)
	c.enqueue(3, "--max-failures", "1")
	session, generation := c.claimJob(3, "--worker", "by-hand", "--lease", "24h")
	c.ok(append([]string{"fail", id(3), "--error", "no such address"}, owner(session, generation)...)...)
	c.enqueue(10)
	c.enqueue(11)
	c.enqueue(12)
	c.ok("claim", "--queue", "mail", "--limit", "3", "--session", session)
	c.ok(append([]string{"effect", "begin", "mail", "--policy", "ask", "--job", id(12)}, owner(session, 1)...)...)
	c.enqueue(1)
	c.enqueue(2)
	c.ok("token", "create", "deploy", "--scope", "read")
	return session
}

// exampleURL is the PostgreSQL database that examples speak of.
const exampleURL = "postgres://daybook@localhost/app"

// onItsServer makes an example on PostgreSQL speak of the test's own database.
// On SQLite there is no such example.
func (c *cli) onItsServer(line string) string {
	if !strings.Contains(line, exampleURL) {
		return line
	}
	if !c.postgres() {
		return ""
	}
	return strings.ReplaceAll(line, exampleURL, "'"+c.db+"'")
}

// Every example of every command runs, in order, on a book of its own: those
// that name no database on either, and once at a server. (A PostgreSQL database
// that a server is connected to can't be copied; what a server answers is the
// same.)
func TestExamplesRun(t *testing.T) {
	t.Parallel()
	onEach(t, testExamplesRun)
	t.Run("server", func(t *testing.T) { testExamplesRun(t, newCLI(t).onServer()) })
}

func testExamplesRun(t *testing.T, made *cli) {
	if !made.postgres() && made.server == "" {
		made.db = "sqlite:" + filepath.Join(made.dir, "daybook.db") // where they look without being told
	}
	session := exampleBook(made)
	for _, command := range commands() {
		if made.postgres() && command.Name() == "demo" {
			continue // it has a book of its own
		}
		if strings.HasPrefix(command.CommandPath(), "daybook cutover") && command.Name() != "status" {
			continue // wants an old system: the cutovers' own tests run them
		}
		t.Run(command.CommandPath(), func(t *testing.T) {
			c := made.copied(t)
			for _, line := range examplesOf(command) {
				if line = c.onItsServer(line); line == "" {
					continue
				}
				if command.Name() == "serve" {
					line = "exec " + strings.Replace(line, "serve", "serve --listen 127.0.0.1:0", 1) // a port nobody has
				}
				cmd := exec.Command("sh", "-c", line)
				cmd.Dir = c.dir
				cmd.Env = append(c.environ(strings.Fields(command.CommandPath())[1:]), "SESSION="+session, "JOB="+id(12))
				if !c.postgres() && c.server == "" {
					cmd.Env = append(cmd.Env, "DAYBOOK_DB=")
				}
				if command.Name() == "serve" {
					serveExample(t, cmd)
					continue
				}
				out, err := cmd.CombinedOutput()
				if c.postgres() && command.Name() == "doctor" && cmd.ProcessState.ExitCode() == statusFailed {
					continue // a test's server doesn't sync its disk
				}
				if err != nil {
					t.Errorf("%s\n%v: %s", line, err, out)
				}
			}
		})
	}
}
