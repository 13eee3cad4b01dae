//go:build unix

package main

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/worker"
)

// writeGate lets a command go on that reads from a named pipe.
func writeGate(t *testing.T, gate, text string) {
	t.Helper()
	if err := os.WriteFile(gate, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestWorkDrains(t *testing.T) { everywhere(t, testWorkDrains) }

func testWorkDrains(t *testing.T, c *cli) {
	c.enqueue(1, "--args", `{"n": 1.0}`)
	c.enqueue(2, "--in", "1h")
	c.ok("enqueue", "--queue", "other", "--kind", "k", "--id", id(3))
	c.ok("work", "--queue", "mail", "--exec", "cat", "--drain")
	if j := c.state(1, daybook.Succeeded); string(j.Result) != `{"n":1.0}` {
		t.Errorf("got result %s, want the args", j.Result)
	}
	c.state(2, daybook.Waiting)
	c.state(3, daybook.Waiting)
}

func TestWorkExitStatuses(t *testing.T) { everywhere(t, testWorkExitStatuses) }

func testWorkExitStatuses(t *testing.T, c *cli) {
	for n, status := range []string{"0", "65", "75", "9"} {
		c.enqueue(n+1, "--args", status)
	}
	s := c.want(statusDone, "work", "--queue", "mail", "--drain", "--exec",
		`read s; echo "says $s" >&2; exit $s`)
	c.state(1, daybook.Succeeded)
	if j := c.state(2, daybook.SetAside); j.Reason != daybook.ReasonPermanent || j.LastError.Text != "says 65" {
		t.Errorf("exit 65: got %s, %+v, want permanent with what it said", j.Reason, j.LastError)
	}
	if j := c.state(3, daybook.Waiting); j.Failures != 0 || j.RunAt <= j.ClaimedAt {
		t.Errorf("exit 75: got %+v, want it later, without a failure", j)
	}
	if j := c.state(4, daybook.Waiting); j.Failures != 1 || j.LastError.Text != "says 9" ||
		j.LastError.Kind != "exit status 9" {
		t.Errorf("exit 9: got %+v, %+v, want one failure", j, j.LastError)
	}
	if !strings.Contains(s.err, id(4)+" says 9\n") {
		t.Errorf("got %q, want what the command said, with its job's id", s.err)
	}
}

// onPath lets commands find the program under test by its name.
func (c *cli) onPath() {
	c.t.Helper()
	dir, err := programs()
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	c.t.Setenv(asProgram, "1")
}

// The command knows whose job it works on, and daybook works inside it.
func TestWorkEnvironment(t *testing.T) { everywhere(t, testWorkEnvironment) }

func testWorkEnvironment(t *testing.T, c *cli) {
	c.onPath()
	c.enqueue(1)
	script := `printf '["%s","%s","%s","%s","%s","%s"]' "$DAYBOOK_JOB" "$DAYBOOK_GENERATION" "$DAYBOOK_ATTEMPT" \
		"$DAYBOOK_QUEUE" "$DAYBOOK_KIND" "$DAYBOOK_EFFECT_KEY"; cd / && daybook job show "$DAYBOOK_JOB" -o json >&2`
	s := c.want(statusDone, "work", "--queue", "mail", "--exec", script, "--drain", "--name", "w7")
	j := c.state(1, daybook.Succeeded)
	want := `["` + id(1) + `","1","1","mail","welcome","` + daybook.EffectKey(j.ID, "main", 0) + `"]`
	if string(j.Result) != want {
		t.Errorf("got %s, want %s", j.Result, want)
	}
	if !strings.Contains(s.err, `"worker":"w7"`) {
		t.Errorf("got %q, want the job as daybook shows it inside the command", s.err)
	}
	c.enqueue(2)
	c.ok("work", "--queue", "mail", "--drain", "--exec", `daybook complete --result '"by itself"' >&2`)
	if j := c.state(2, daybook.Succeeded); string(j.Result) != `"by itself"` {
		t.Errorf("got result %s, want what the command reported itself", j.Result)
	}
}

func TestWorkKindsWeightsAndConfig(t *testing.T) { everywhere(t, testWorkKindsWeightsAndConfig) }

func testWorkKindsWeightsAndConfig(t *testing.T, c *cli) {
	c.enqueue(1)
	c.ok("enqueue", "--queue", "mail", "--kind", "report", "--id", id(2))
	conf := writeFile(t, "daybook.toml", `
[work]
queue = ["mail=5", "other"]
kind = "report"
exec = "echo from the file"
drain = true
concurrency = 2
[kind.slow]
timeout = "100ms"
`)
	c.ok("work", "--config", conf)
	if j := c.state(2, daybook.Succeeded); string(j.Result) != `"from the file"` {
		t.Errorf("got result %s, want the file's command to have run", j.Result)
	}
	c.state(1, daybook.Waiting)
	c.ok("enqueue", "--queue", "lane", "--kind", "slow", "--id", id(3))
	c.ok("enqueue", "--queue", "lane", "--kind", "quick", "--id", id(4))
	c.ok("work", "--config", writeFile(t, "kinds.toml", "[kind.slow]\ntimeout = '100ms'\n"), "--queue", "lane",
		"--drain",
		"--exec", `[ $DAYBOOK_KIND = quick ] || sleep 1000`)
	c.state(4, daybook.Succeeded)
	if j := c.state(3, daybook.Waiting); j.Failures != 1 || j.LastError.Kind != "timeout" {
		t.Errorf("got %+v, want the kind's run limit to have passed", j.LastError)
	}
	for _, args := range [][]string{{"--http", "x"}, {}, {"--exec", ""},
		{"--exec", "true", "--concurrency", "0"},
		{"--exec", "true", "--lease", "1ms"}, {"--exec", "true", "--poll", "1ms"},
		{"--exec", "true", "--grace", "-1s"},
		{"--exec", "true", "--queue", "b=x"}, {"--exec", "true", "--queue", "b=0"},
		{"--exec", "true", "--queue", "a"},
		{"--exec", "true", "--queue", "no good"}, {"--exec", "true", "--kind", "no good"}} {
		c.want(statusUsage, append([]string{"work", "--drain", "--queue", "a"}, args...)...)
	}
	c.want(statusUsage, "work", "--drain", "--exec", "true")
}

// L7 and L58: a cancel that a person asks for reaches the command, and so does
// a revoked claim.
func TestL7L56L58CancelReachesTheCommand(t *testing.T) {
	everywhere(t, testL7L56L58CancelReachesTheCommand)
}

func testL7L56L58CancelReachesTheCommand(t *testing.T, each *cli) {
	for name, force := range map[string][]string{"asked": nil, "forced": {"--force"}} {
		t.Run(name, func(t *testing.T) {
			c := each.another(t)
			c.enqueue(1)
			p := c.start("work", "--queue", "mail", "--lease", "1s", "--exec",
				`trap 'echo told >&2; exit 1' TERM; echo up >&2; while :; do sleep 0.02; done`)
			p.says("up", 1)
			c.ok(append([]string{"job", "cancel", id(1)}, force...)...)
			p.says("told", 1)
			p.signal(syscall.SIGTERM)
			p.ends(statusDone)
			j := c.state(1, daybook.Cancelled)
			if j.Failures != 0 || j.Crashes != 0 {
				t.Errorf("got %+v, want nobody blamed", j)
			}
		})
	}
}

func TestWorkListen(t *testing.T) { onEach(t, testWorkListen) }

func testWorkListen(t *testing.T, c *cli) {
	c.enqueue(1)
	c.enqueue(2, "--in", "1h")
	gate := filepath.Join(c.dir, "gate")
	if err := syscall.Mkfifo(gate, 0o600); err != nil {
		t.Fatal(err)
	}
	p := c.start("work", "--queue", "mail", "--listen", "127.0.0.1:0", "--exec", "echo up >&2; cat "+gate)
	p.says("up", 1)
	line := p.says("listening", 1)[0]
	address := regexp.MustCompile(`address=(\S+)`).FindStringSubmatch(line)
	if address == nil {
		t.Fatalf("got %q, want the address", line)
	}
	get := func(path string) (int, string) {
		response, err := http.Get("http://" + address[1] + path)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		if got := response.Header.Get("Content-Security-Policy"); got != "default-src 'none'" {
			t.Errorf("%s: got Content-Security-Policy %q, want one that allows nothing", path, got)
		}
		body, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return response.StatusCode, string(body)
	}
	saysPolicy(t, "http://"+address[1])
	if status, body := get("/healthz"); status != http.StatusOK || !strings.Contains(body, "ok") {
		t.Errorf("/healthz: got %d %s", status, body)
	}
	var said struct {
		Status string
		Worker worker.Stats
	}
	status, body := get("/readyz")
	if err := json.Unmarshal([]byte(body), &said); err != nil || status != http.StatusOK ||
		said.Worker.Running != 1 {
		t.Errorf("/readyz: got %d %s, %v, want ready with one running", status, body, err)
	}
	_, body = get("/metrics")
	for _, want := range []string{`daybook_jobs{queue="mail",state="later"} 1`,
		`daybook_jobs{queue="mail",state="running"} 1`,
		`daybook_requests_total{queue="mail",what="accepted"} 2`, `daybook_attempts_total{queue="mail"} 1`,
		`daybook_worker_claims{state="running"} 1`, "daybook_book_up 1", "go_goroutines"} {
		if !strings.Contains(body, want+"\n") && !strings.Contains(body, want+" ") {
			t.Errorf("/metrics doesn't have %s", want)
		}
	}
	if status, _ := get("/nothing"); status != http.StatusNotFound {
		t.Errorf("/nothing: got %d, want 404", status)
	}
	writeGate(t, gate, "1")
	p.signal(syscall.SIGTERM)
	p.ends(statusDone)
	c.ok("work", "--queue", "mail", "--exec", "true", "--drain", "--listen", "127.0.0.1:0")
	for _, address := range []string{"nonsense", "127.0.0.1:x", "127.0.0.1:70000", "127.0.0.1"} {
		c.want(statusUsage, "work", "--queue", "mail", "--exec", "true", "--drain", "--listen", address)
	}
}
