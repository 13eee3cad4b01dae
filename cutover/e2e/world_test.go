package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/check"
	"github.com/daybookdev/daybook/cutover"
	"github.com/daybookdev/daybook/internal/brokertest"
	"github.com/daybookdev/daybook/internal/pgtest"
	"github.com/daybookdev/daybook/internal/procs"
	"github.com/daybookdev/daybook/store/postgres"
	"github.com/daybookdev/daybook/store/sqlite"
	"github.com/daybookdev/daybook/worker"
)

// patience bounds every wait, for machines that are far too busy.
const patience = 3 * time.Minute

// world is one queue of an old system with its programs, and a book.
type world struct {
	*testing.T
	sys  system
	url  string
	dir  string
	db   string
	book *daybook.Book
	old  cutover.Old

	redis *redis.Client
	mu    sync.Mutex
	here  map[string]int // how often each number was done by the book's worker
}

// newWorld has its book in a file, or on PostgreSQL.
func newWorld(t *testing.T, sys system, onPostgres bool) *world {
	t.Helper()
	sys.need(t)
	server := brokertest.StartRedis(t)
	w := &world{T: t, sys: sys, url: server.URL() + "/0", dir: t.TempDir(), here: map[string]int{}}
	w.redis = redis.NewClient(&redis.Options{Addr: strings.TrimPrefix(server.URL(), "redis://")})
	t.Cleanup(func() { w.redis.Close() })
	if w.db = filepath.Join(w.dir, "book.db"); onPostgres {
		w.db = pgtest.Database(t)
		_, err := postgres.Up(t.Context(), w.db, postgres.Options{}, nil)
		w.ok(err)
	}
	var err error
	if w.book, err = openBook(t.Context(), w.db); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.book.Close() })
	if w.old, err = sys.open(w.url); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.old.Close() })
	return w
}

func openBook(ctx context.Context, db string) (*daybook.Book, error) {
	if strings.HasPrefix(db, "postgres") {
		return postgres.Open(ctx, db, postgres.Options{})
	}
	return sqlite.Open(ctx, db, sqlite.Options{})
}

func (w *world) ok(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// work is how many seconds an old worker needs for a job: so many that those of a
// short form aren't done before the gate closes.
func work() string {
	if whole() {
		return "0.04"
	}
	return "0.25"
}

func (w *world) runs() string { return filepath.Join(w.dir, "runs") }

func (w *world) command(words []string) *exec.Cmd {
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Env = append(append(os.Environ(), "OLD_URL="+w.url, "RUNS="+w.runs(), "WORK="+work()), w.sys.env...)
	cmd.Dir = w.dir
	cmd.SysProcAttr = procs.Attributes()
	return cmd
}

// order is one job that is produced: its number, how it goes (ok, fail, slow; late
// waits until it is let go; id=X is ok and has that id), and in how many seconds.
type order struct {
	number  int
	how     string
	seconds int
}

func (w *world) produce(orders ...order) {
	w.Helper()
	w.ok(w.tryProduce(orders...))
}

// tryProduce answers what the producer says when it fails.
func (w *world) tryProduce(orders ...order) error {
	w.Helper()
	var in bytes.Buffer
	for _, o := range orders {
		fmt.Fprintf(&in, "[%d,%q,%d]\n", o.number, o.how, o.seconds)
	}
	cmd := w.command(w.sys.produce)
	cmd.Stdin = &in
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("producing: %w\n%s", err, tail(out))
	}
	return nil
}

func tail(out []byte) []byte { return out[max(0, len(out)-2000):] }

// oldWorker is one process of the old system.
type oldWorker struct {
	w    *world
	cmd  *exec.Cmd
	done chan struct{}
}

func (w *world) startWorker(more ...string) *oldWorker {
	w.Helper()
	cmd := w.command(append(slices.Clone(w.sys.worker), more...))
	return w.start(cmd)
}

// start has a process run until the test ends.
func (w *world) start(cmd *exec.Cmd) *oldWorker {
	w.Helper()
	log, err := os.OpenFile(filepath.Join(w.dir, "worker.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	w.ok(err)
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	w.ok(cmd.Start())
	o := &oldWorker{w: w, cmd: cmd, done: make(chan struct{})}
	go func() {
		cmd.Wait()
		close(o.done)
	}()
	w.Cleanup(o.kill)
	return o
}

// kill ends the process and what it started, with -9.
func (o *oldWorker) kill() {
	syscall.Kill(-o.cmd.Process.Pid, syscall.SIGKILL)
	<-o.done
}

// stop asks it to end, as a supervisor does.
func (o *oldWorker) stop() {
	o.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-o.done:
	case <-time.After(patience):
		o.w.Error("an old worker doesn't stop")
		o.kill()
	}
}

// inOld counts what the run log says, by number.
func (w *world) inOld(what string) map[string]int {
	w.Helper()
	text, err := os.ReadFile(w.runs())
	if err != nil && !os.IsNotExist(err) {
		w.Fatal(err)
	}
	counts := map[string]int{}
	for line := range strings.Lines(string(text)) {
		if number, ok := strings.CutPrefix(strings.TrimSpace(line), what+" "); ok {
			counts[number]++
		}
	}
	return counts
}

// soon waits for a condition.
func (w *world) soon(what string, is func() bool) {
	w.Helper()
	for until := time.Now().Add(patience); !is(); {
		if time.Now().After(until) {
			log, _ := os.ReadFile(filepath.Join(w.dir, "worker.log"))
			w.Fatalf("never: %s\n%s", what, tail(log))
		}
		select {
		case <-w.Context().Done():
			w.Fatal(w.Context().Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// work runs the book's own worker until the queue has nothing that is due.
func (w *world) work() {
	w.Helper()
	wk := worker.New(w.book, worker.Config{Queues: []string{"mail"}, Concurrency: 10, Drain: true})
	worker.Handle(wk, "MailJob", func(_ context.Context, c *worker.Claim[[]any]) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.here[fmt.Sprint(c.Args[0])]++
		return nil
	})
	w.ok(wk.Run(w.Context()))
}

func (w *world) engine(o cutover.Options) *cutover.Engine {
	if o.Sample == 0 {
		o.Sample = time.Second
	}
	o.Mapping = w.sys.mapping
	o.By = daybook.By{Actor: "test", Reason: "a test"}
	return cutover.New(w.book, w.old, "mail", o)
}

// healthy holds the book to its invariants.
func (w *world) healthy() {
	w.Helper()
	report, err := check.Run(w.Context(), w.book, check.Options{Full: true})
	w.ok(err)
	if report.Violations > 0 {
		w.Errorf("the check found %d violations: %+v", report.Violations, report.Invariants)
	}
}
