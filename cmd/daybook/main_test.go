package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/internal/pgtest"
)

// asProgram makes the test binary behave as the program itself, so that tests
// can start real processes of what they test.
const asProgram = "DAYBOOK_TEST_AS_PROGRAM"

// programFolder is the folder that tests of real processes made, if any did.
var programFolder atomic.Pointer[string]

// peakFile names the file into which a process writes how it used memory.
const peakFile = "DAYBOOK_TEST_PEAK"

// notePeak copies what Linux says of this process. (The parent can't ask for
// it: what it is told counts the parent's own memory in.)
func notePeak(file string) {
	if file == "" {
		return
	}
	if status, err := os.ReadFile("/proc/self/status"); err == nil {
		_ = os.WriteFile(file, status, 0o600)
	}
}

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		status := run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
		notePeak(os.Getenv(peakFile))
		os.Exit(status)
	}
	status := pgtest.Around(m).Run()
	if made := programFolder.Load(); made != nil {
		_ = os.RemoveAll(*made)
	}
	os.Exit(status)
}

// cli runs commands inside the test's process, on a book and a clock of its own.
type cli struct {
	t     *testing.T
	dir   string
	db    string
	stdin string

	person bool // sits at a terminal

	server, token string // speaks to this server; "" has the book at hand

	mu    sync.Mutex
	ahead time.Duration
}

// later moves the book's clock, as if so much time had passed.
func (c *cli) later(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ahead += d
}

func (c *cli) clock() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.ahead)
}

// said is what a command answered.
type said struct {
	status   int
	out, err string
}

// run runs a command on the test's book.
func (c *cli) run(args ...string) said {
	c.t.Helper()
	return c.bare(append(c.place(args...), args...)...)
}

// place are the flags that name the test's book to a command, and who it is that
// speaks: the server's token has the same name.
func (c *cli) place(args ...string) []string {
	if c.server == "" || needsBook(args) {
		return []string{"--db", c.db, "--actor", "ada"}
	}
	return []string{"--server", c.server, "--token", c.token}
}

// bare runs a command as it stands.
func (c *cli) bare(args ...string) said {
	c.t.Helper()
	var out, err bytes.Buffer
	a := &app{base: c.t.Context(), stdin: strings.NewReader(c.stdin), stdout: &out, stderr: &err, now: c.clock,
		terminal: func(stream any) bool {
			_, input := stream.(*strings.Reader)
			return c.person && input
		}}
	status := a.run(args)
	return said{status, out.String(), err.String()}
}

// want runs a command and holds it to an exit status.
func (c *cli) want(status int, args ...string) said {
	c.t.Helper()
	s := c.run(args...)
	if s.status != status {
		c.t.Fatalf("daybook %q: got exit %d, want %d\nstdout: %s\nstderr: %s", args, s.status, status, s.out, s.err)
	}
	if status != statusDone && status != statusViolation {
		oneErrorLine(c.t, s.err)
	}
	return s
}

// ok runs a command that must succeed and returns what it printed.
func (c *cli) ok(args ...string) string {
	c.t.Helper()
	return c.want(statusDone, args...).out
}

// json runs a command with -o json, which must print one line of JSON and
// nothing else, and decodes it.
func (c *cli) json(status int, into any, args ...string) {
	c.t.Helper()
	s := c.want(status, append(args, "-o", "json")...)
	oneJSONLine(c.t, s.out, into)
}

func oneJSONLine(t *testing.T, out string, into any) {
	t.Helper()
	line, found := strings.CutSuffix(out, "\n")
	if !found || strings.Contains(line, "\n") || !json.Valid([]byte(line)) {
		t.Fatalf("got %q, want one line of JSON", out)
	}
	if err := json.Unmarshal([]byte(line), into); err != nil {
		t.Fatalf("decoding %s: %v", line, err)
	}
}

// oneErrorLine holds the last thing on standard error to the form of errors.
func oneErrorLine(t *testing.T, stderr string) {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(stderr, "\n"), "\n")
	if last := lines[len(lines)-1]; !strings.HasPrefix(last, "daybook: ") || len(last) < len("daybook: x") {
		t.Fatalf("got standard error %q, want its last line to say daybook: …", stderr)
	}
}

// id makes a job id that a person can tell from others.
func id(n int) string { return fmt.Sprintf("01900000-0000-7000-8000-%012x", n) }

// enqueue accepts job n in queue mail.
func (c *cli) enqueue(n int, more ...string) {
	c.t.Helper()
	c.ok(append([]string{"enqueue", "--queue", "mail", "--kind", "welcome", "--id", id(n)}, more...)...)
}

// claimJob claims job n by its id and returns the owner's flags.
func (c *cli) claimJob(n int, more ...string) (session string, generation int64) {
	c.t.Helper()
	var got claims
	c.json(statusDone, &got, append([]string{"claim", "job", id(n)}, more...)...)
	if len(got.Claims) != 1 || got.Claims[0].Job.ID.String() != id(n) {
		c.t.Fatalf("claim job %s: got %+v, want that job", id(n), got)
	}
	return got.Session.String(), got.Claims[0].Generation
}

func owner(session string, generation int64) []string {
	return []string{"--session", session, "--generation", fmt.Sprint(generation)}
}

// job reads job n.
func (c *cli) job(n int) daybook.Job {
	c.t.Helper()
	var j daybook.Job
	c.json(statusDone, &j, "job", "show", id(n))
	return j
}

// state holds job n to a state.
func (c *cli) state(n int, want daybook.State) daybook.Job {
	c.t.Helper()
	j := c.job(n)
	if j.State != want {
		c.t.Fatalf("job %d: got state %s (%s), want %s", n, j.State, j.Reason, want)
	}
	return j
}

// timeline reads what happened to job n.
func (c *cli) timeline(n int) []daybook.Event {
	c.t.Helper()
	var got struct{ Events []daybook.Event }
	c.json(statusDone, &got, "job", "timeline", id(n))
	return got.Events
}

// countWhat counts the events of a name.
func countWhat(events []daybook.Event, what string) (n int) {
	for _, e := range events {
		if e.What == what {
			n++
		}
	}
	return n
}
