package clients

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// Fifty workers, each with a session of its own: five processes of each language
// with five workers.
const (
	processes = 5
	workers   = 5
	jobs      = 2000
	batch     = 25
	kills     = 4
)

// server is a `daybook serve` that is killed and started again at its address.
type server struct {
	t       *testing.T
	db      string
	address string
	cmd     *exec.Cmd
}

var servedURL = regexp.MustCompile(`url=http://(\S+)`)

func (s *server) start() {
	s.t.Helper()
	s.cmd = exec.Command(daybook(s.t), "--db", s.db, "serve", "--listen", s.address)
	pipe, err := s.cmd.StderrPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	read := bufio.NewScanner(pipe)
	for said := ""; ; said += read.Text() + "\n" {
		if !read.Scan() {
			s.t.Fatalf("the server ended: %v\n%s", s.cmd.Wait(), said)
		}
		if m := servedURL.FindStringSubmatch(read.Text()); m != nil {
			s.address = m[1]
			break
		}
	}
	go func() { _, _ = io.Copy(io.Discard, pipe) }()
}

func (s *server) kill() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
}

// post repeats a call until it is answered well.
func (s *server) post(ctx context.Context, path, body string) error {
	for {
		r, err := http.NewRequestWithContext(ctx, "POST", "http://"+s.address+path, strings.NewReader(body))
		if err != nil {
			return err
		}
		r.Header.Set("Content-Type", "application/json")
		answer, err := http.DefaultClient.Do(r)
		if err == nil {
			text, _ := io.ReadAll(answer.Body)
			answer.Body.Close()
			if answer.StatusCode/100 == 2 {
				return nil
			}
			if answer.StatusCode/100 == 4 {
				return fmt.Errorf("%s: %d %s", path, answer.StatusCode, text)
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// witness counts what handlers ran, as the processes say it.
type witness struct {
	mu   sync.Mutex
	ran  map[string]int
	jobs atomic.Int64
}

func (w *witness) hear(pipe io.Reader) {
	for read := bufio.NewScanner(pipe); read.Scan(); {
		if id, ok := strings.CutPrefix(read.Text(), "ran "); ok {
			w.mu.Lock()
			if w.ran[id]++; w.ran[id] == 1 {
				w.jobs.Add(1)
			}
			w.mu.Unlock()
		}
	}
}

// crew starts the processes with workers. They say nothing on standard error but
// that calls failed.
func crew(t *testing.T, url, queue string, w *witness) (all []*exec.Cmd, complaints *lockedBuffer) {
	t.Helper()
	dir, complaints := typescript(t), &lockedBuffer{}
	text, err := os.ReadFile("testdata/crew.mjs")
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "crew.mjs"), text, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	packages, err := filepath.Abs("python")
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2 * processes {
		program, script := python(t), "testdata/crew.py"
		if i%2 == 1 {
			program, script = "node", filepath.Join(dir, "crew.mjs")
		}
		cmd := exec.Command(program, script, queue, strconv.Itoa(workers))
		cmd.Env = append(os.Environ(), "DAYBOOK_SERVER="+url, "DAYBOOK_TOKEN=", "PYTHONPATH="+packages,
			"PYTHONDONTWRITEBYTECODE=1")
		cmd.Stderr = complaints
		pipe, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill() })
		go w.hear(pipe)
		all = append(all, cmd)
	}
	return all, complaints
}

// lockedBuffer is written by many processes.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// A server that is killed again and again while fifty workers work and jobs come in
// costs time and nothing else: none is lost, run twice or blamed, also where the
// answer to a claim never came.
func TestServerKilled(t *testing.T) { onEach(t, testServerKilled) }

func testServerKilled(t *testing.T, db string) {
	if db == "" {
		db = "sqlite:" + filepath.Join(t.TempDir(), "kill.db")
	}
	typescript(t) // which takes a while
	s := &server{t: t, db: db, address: "127.0.0.1:0"}
	s.start()
	t.Cleanup(func() { s.kill() })
	ctx, stop := context.WithTimeout(t.Context(), 4*time.Minute)
	defer stop()
	w := &witness{ran: map[string]int{}}
	all, complaints := crew(t, "http://"+s.address, "load", w)
	live := func() bool { return s.count(ctx, "/v1/sessions?limit=1000", "sessions") == 2*processes*workers }
	await(ctx, t, "all workers have a session", live)
	// The address stays, so that the goroutine may read it.
	enqueued := make(chan error, 1)
	go func() { enqueued <- s.load(ctx) }()
	for k := range int64(kills) {
		await(ctx, t, "some are done", func() bool { return w.jobs.Load() > (k+1)*jobs/(kills+2) })
		s.kill()
		s.start()
	}
	if err := <-enqueued; err != nil {
		t.Fatal(err)
	}
	await(ctx, t, "all have run", func() bool { return w.jobs.Load() == jobs })
	for _, cmd := range all {
		_ = cmd.Process.Signal(syscall.SIGTERM)
	}
	for _, cmd := range all {
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s: %v\n%s", cmd.Args[1], err, complaints)
		}
	}
	if !strings.Contains(complaints.String(), "again") {
		t.Error("no worker noticed that the server was away; the test proves nothing")
	}
	s.verify(ctx, w)
}

// load enqueues the jobs, each batch until it is accepted.
func (s *server) load(ctx context.Context) error {
	for n := 0; n < jobs; n += batch {
		rows := make([]string, batch)
		for i := range rows {
			rows[i] = fmt.Sprintf(`{"queue":"load","kind":"k","key":"load-%d","args":%d}`, n+i, n+i)
		}
		if err := s.post(ctx, "/v1/jobs/batch", "["+strings.Join(rows, ",")+"]"); err != nil {
			return err
		}
	}
	return nil
}

// verify holds the book to what happened: each job succeeded in its first attempt,
// and a handler ran for it once.
func (s *server) verify(ctx context.Context, w *witness) {
	s.t.Helper()
	seen := 0
	for cursor := ""; ; {
		var page struct {
			Jobs []struct {
				ID, State                     string
				Failures, Crashes, Generation int
			}
			Cursor string
		}
		if err := s.get(ctx, "/v1/jobs?queue=load&limit=1000&cursor="+cursor, &page); err != nil {
			s.t.Fatal(err)
		}
		for _, j := range page.Jobs {
			seen++
			if j.State != "succeeded" || j.Crashes != 0 || j.Failures != 0 || j.Generation != 1 || w.ran[j.ID] != 1 {
				s.t.Errorf("job %+v was run %d times", j, w.ran[j.ID])
			}
		}
		if cursor = page.Cursor; cursor == "" {
			break
		}
	}
	if seen != jobs {
		s.t.Errorf("the book has %d jobs of %d", seen, jobs)
	}
	if out, err := exec.Command(daybook(s.t), "--db", s.db, "check", "--full").CombinedOutput(); err != nil {
		s.t.Errorf("check: %v\n%s", err, out)
	}
}

func (s *server) get(ctx context.Context, path string, into any) error {
	r, err := http.NewRequestWithContext(ctx, "GET", "http://"+s.address+path, nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	return json.NewDecoder(answer.Body).Decode(into)
}

// count is how many items a list has.
func (s *server) count(ctx context.Context, path, list string) int {
	var page map[string]json.RawMessage
	var items []json.RawMessage
	if s.get(ctx, path, &page) != nil || json.Unmarshal(page[list], &items) != nil {
		return -1
	}
	return len(items)
}

// await polls a condition until it holds.
func await(ctx context.Context, t *testing.T, what string, ready func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !ready() {
		select {
		case <-ctx.Done():
			t.Fatalf("never: %s", what)
		case <-tick.C:
		}
	}
}
