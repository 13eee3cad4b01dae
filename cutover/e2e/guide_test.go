package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/cutover"
	"github.com/daybookdev/daybook/cutover/rq"
	"github.com/daybookdev/daybook/cutover/sidekiq"
	"github.com/daybookdev/daybook/internal/pgtest"
	"github.com/daybookdev/daybook/internal/testserver"
	"github.com/daybookdev/daybook/worker"
)

// A guide is a page of docs/cutover with its programs: produce puts one job in, as
// the word after it says (old, deploy or double), and worker asks the book before it
// does anything. Both write what the page has, word for word, which internal/tidy
// looks after.

// guides lists them; dir is this package's.
func guides(dir string) []system {
	programs := filepath.Join(dir, "..", "..", "internal", "oldworkers")
	asynq, bullmq := asynqSystem(dir, programs), bullmqSystem("bullmq", programs)
	program := filepath.Join(dir, "testdata", "asynqguide.built")
	asynq.module = filepath.Join(programs, "asynqguide")
	asynq.produce, asynq.worker = []string{program}, []string{program, "serve"}
	node := filepath.Join(filepath.Dir(bullmq.worker[1]), "guide.mjs")
	bullmq.produce, bullmq.worker = []string{"node", node}, []string{"node", node, "serve"}
	rb := filepath.Join(dir, "testdata", "guide", "sidekiq.rb")
	ruby := system{name: "sidekiq", install: "apt-get install -y ruby-sidekiq ruby-pg",
		open: func(url string) (cutover.Old, error) {
			return sidekiq.Open(sidekiq.Options{URL: url, Queue: "mail", WorkersUser: "sidekiq"})
		},
		produce: []string{"ruby", "-W0", rb}, worker: []string{"sidekiq", "-r", rb, "-q", "mail", "-c", "1"}}
	python := system{name: "rq", install: "apt-get install -y python3-rq python3-psycopg2",
		open: func(url string) (cutover.Old, error) {
			return rq.Open(rq.Options{URL: url, Queue: "mail"})
		},
		env:     []string{"PYTHONPATH=" + filepath.Join(dir, "testdata", "guide"), "PYTHONDONTWRITEBYTECODE=1"},
		produce: []string{"/usr/bin/python3", filepath.Join(dir, "testdata", "guide", "mail.py")},
		worker: []string{"sh", "-c", "exec /usr/bin/rq worker mail --url $OLD_URL --worker-ttl 16 --serializer " +
			"rq.serializers.JSONSerializer"}}
	return []system{asynq, bullmq, ruby, python}
}

// TestGuide follows each page from its first line to its last, with its own
// programs as producers and as workers.
func TestGuide(t *testing.T) {
	if !pgtest.Wanted() {
		t.Log("DAYBOOK_TEST_POSTGRES=1 runs this")
		return
	}
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for _, sys := range guides(dir) {
		for _, intake := range []cutover.Intake{cutover.IntakeDeploy, cutover.IntakeDouble} {
			t.Run(sys.name+"/"+string(intake), func(t *testing.T) {
				t.Parallel()
				newGuide(t, sys, dir).follow(intake)
			})
		}
	}
}

// guide is one that is being followed.
type guide struct {
	*world
	lines []string // of its step by step
	ran   map[string]int
}

func newGuide(t *testing.T, sys system, dir string) *guide {
	page, err := os.ReadFile(filepath.Join(dir, "..", "..", "docs", "cutover", sys.name+".md"))
	if err != nil {
		t.Fatal(err)
	}
	sys.env = slices.Clone(sys.env)
	g := &guide{world: newWorld(t, sys, true), ran: map[string]int{}}
	blocks := regexp.MustCompile("(?ms)^```(sh|toml)\n(.*?)^```$").FindAllStringSubmatch(string(page), 2)
	if len(blocks) != 2 || blocks[1][1] != "toml" {
		t.Fatalf("the page of %s doesn't begin with commands and a mapping", sys.name)
	}
	for line := range strings.Lines(strings.ReplaceAll(blocks[0][2], "\\\n", "")) {
		if !strings.HasPrefix(line, "export ") {
			g.lines = append(g.lines, line)
		}
	}
	g.ok(os.WriteFile(filepath.Join(g.dir, "classes.toml"), []byte(blocks[1][2]), 0o600))
	g.ok(g.redis.Do(t.Context(), "ACL", "SETUSER", "sidekiq", "on", ">secret", "~*", "&*", "+@all").Err())
	g.sys.env = append(g.sys.env, "DATABASE_URL="+g.db, "DAYBOOK_DB="+g.db, "DAYBOOK_CUTOVER_FROM="+g.url,
		"WORKER_URL="+strings.Replace(g.url, "redis://", "redis://sidekiq:secret@", 1),
		"PATH="+filepath.Dir(daybookBuilt(t, dir))+":"+os.Getenv("PATH"))
	g.serve()
	return g
}

// built is where the command is built, once.
var built struct {
	sync.Once
	err error
}

func daybookBuilt(t *testing.T, dir string) string {
	t.Helper()
	path := filepath.Join(dir, "testdata", "bin.built", "daybook")
	built.Do(func() {
		out, err := exec.Command("go", "build", "-o", path, filepath.Join(dir, "..", "..", "cmd", "daybook")).CombinedOutput()
		if err != nil {
			built.err = fmt.Errorf("%w\n%s", err, out)
		}
	})
	if built.err != nil {
		t.Fatal(built.err)
	}
	return path
}

// serve starts the API, with a token for the guide's programs.
func (g *guide) serve() {
	g.Helper()
	token := g.sh("daybook token create guide --scope enqueue --scope read -o json")
	secret := regexp.MustCompile(`"token":"([^"]+)"`).FindStringSubmatch(token)
	if secret == nil {
		g.Fatalf("no token in %s", token)
	}
	port, err := testserver.FreePort()
	g.ok(err)
	at := fmt.Sprint("127.0.0.1:", port)
	g.start(g.command([]string{"sh", "-c", "exec daybook serve --listen " + at}))
	g.sys.env = append(g.sys.env, "DAYBOOK=http://"+at, "DAYBOOK_TOKEN="+secret[1])
	g.soon("the server answers", func() bool {
		return exec.CommandContext(g.Context(), "curl", "-fs", "http://"+at+"/readyz").Run() == nil
	})
}

// sh runs a line as somebody at a shell would, and answers what it says.
func (g *guide) sh(line string) string {
	g.Helper()
	out, err := g.trySh(line)
	if err != nil {
		g.Fatalf("%s: %v\n%s", line, err, tail([]byte(out)))
	}
	return out
}

func (g *guide) trySh(line string) (string, error) {
	out, err := g.command([]string{"sh", "-c", line}).CombinedOutput()
	return string(out), err
}

// step runs the page's line of a verb, in seconds instead of hours.
func (g *guide) step(verb string, intake cutover.Intake) {
	g.Helper()
	at := slices.IndexFunc(g.lines, func(l string) bool { return strings.HasPrefix(l, "daybook cutover "+verb+" ") })
	if at < 0 {
		g.Fatalf("the page has no line for %s", verb)
	}
	line := regexp.MustCompile(`(--for|--quiet) \d+h`).ReplaceAllString(g.lines[at], "$1 1s")
	line = strings.ReplaceAll(line, "--worker-ttl 420s", "--worker-ttl 16s")
	line = strings.ReplaceAll(line, "--intake deploy", "--intake "+string(intake))
	if verb != "retire" {
		g.Logf("%s: %s", verb, g.sh(line))
		return
	}
	g.soon("the old queue was quiet for long enough", func() bool {
		out, err := g.trySh(line)
		if err != nil && !strings.Contains(out, "must stay empty for") {
			g.Fatalf("%s: %v\n%s", line, err, out)
		}
		return err == nil
	})
}

func (g *guide) put(how string, times int) {
	g.Helper()
	for range times {
		if out, err := g.command(append(slices.Clone(g.sys.produce), how)).CombinedOutput(); err != nil {
			g.Fatalf("putting a job in, %s: %v\n%s", how, err, tail(out))
		}
	}
}

// inOldRuns are the ids of the jobs that old workers did.
func (g *guide) inOldRuns() []string {
	g.Helper()
	text, err := os.ReadFile(g.runs())
	if err != nil && !os.IsNotExist(err) {
		g.Fatal(err)
	}
	return strings.Fields(string(text))
}

func (g *guide) follow(intake cutover.Intake) {
	g.put("old", 3)
	for _, verb := range []string{"inventory", "plan", "shadow"} {
		g.step(verb, intake)
	}
	old := g.startWorker()
	g.soon("the old worker did its three", func() bool { return len(g.inOldRuns()) == 3 })
	g.step("gate", intake)
	g.put("old", 2)
	twice := 0
	if intake == cutover.IntakeDouble {
		twice = 2
	}
	g.put("double", twice)
	for _, verb := range []string{"move", "settle", "run"} {
		g.step(verb, intake)
	}
	g.put("deploy", 1)
	g.asksTheBook()
	old.stop() // else it may have what comes before it sees the gate that was open
	g.put("old", 1)
	g.step("watch", intake)
	g.work()
	g.step("reconcile", intake)
	g.step("retire", intake)
	if len(g.ran) != 4+twice {
		g.Errorf("%d jobs ran here, want %d: %v", len(g.ran), 4+twice, g.ran)
	}
	for id, times := range g.ran {
		if times != 1 {
			g.Errorf("job %s ran %d times here", id, times)
		}
	}
	g.healthy()
}

// asksTheBook opens the old gate by hand and lays a job there that was moved: the
// old worker passes by it. One that nobody knows is still its own work.
func (g *guide) asksTheBook() {
	g.Helper()
	ctx := g.Context()
	page, err := g.book.Items(ctx, daybook.ItemFilter{Cutover: "mail", Term: daybook.TermMoved, Whole: true, Limit: 1})
	g.ok(err)
	if len(page.Items) != 1 {
		g.Fatal("no job was moved")
	}
	g.ok(g.old.OpenGate(ctx))
	known := *page.Items[0].Old
	back, err := g.old.Return(ctx, known)
	g.ok(err)
	if !back {
		g.Fatalf("%s can't be put there again", known.ID)
	}
	before := g.inOldRuns()
	g.put("old", 1)
	g.soon("the old worker did the one that nobody knows", func() bool { return len(g.inOldRuns()) > len(before) })
	if after := g.inOldRuns(); len(after) != len(before)+1 || slices.Contains(after, known.ID) {
		g.Errorf("the old worker did %v, and %s is the book's", after, known.ID)
	}
	g.ok(g.old.CloseGate(ctx))
}

// work runs the book's own worker until nothing is due.
func (g *guide) work() {
	g.Helper()
	w := worker.New(g.book, worker.Config{Queues: []string{"mail"}, Drain: true})
	worker.Handle(w, "welcome", func(_ context.Context, c *worker.Claim[any]) error {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.ran[c.Job().ID.String()]++
		return nil
	})
	g.ok(w.Run(g.Context()))
}
