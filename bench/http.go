package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync"
	"time"

	"github.com/daybookdev/daybook"
)

// serverProgram names the program of `daybook serve`, for peers that speak to one.
const serverProgram = "DAYBOOK_BENCH_SERVER"

// What HTTP clients do: so many at once, each so many jobs a call.
const (
	httpClients = 4
	httpBatch   = 100
)

// measureHTTP measures a worker that speaks HTTP to `daybook serve` beside one
// that speaks to the database, on PostgreSQL.
func measureHTTP(ctx context.Context, c config, dir string, out io.Writer) error {
	t := newTable(c, dir)
	server, err := startPostgres(ctx, c, dir)
	if err != nil {
		return err
	}
	defer server.Stop()
	t.Notes = append(t.Notes, server.about())
	if err := buildDaybook(ctx, c, dir); err != nil {
		return err
	}
	l := &lab{config: c, server: server, dir: dir}
	programs := []program{{system: "daybook", share: 1, workOnly: true, noHear: true},
		{system: "daybook 100", share: 1, workOnly: true, noHear: true},
		{system: "daybook 100 16", share: 1, workOnly: true, noHear: true},
		{system: "daybook http 16", share: 1, workOnly: true, noHear: true},
		{system: "daybook http", share: 1, workOnly: true, noHear: true}}
	for i := range programs {
		if err := programs[i].find("", dir); err != nil {
			return err
		}
	}
	if err := t.measure(ctx, c, l.room(programs), l.trials(programs)); err != nil {
		return err
	}
	t.compare("daybook http", "daybook")
	t.compare("daybook http", "daybook 100")
	t.compare("daybook http 16", "daybook 100 16")
	t.Notes = append(t.Notes, fmt.Sprintf("daybook http: %d clients on one daybook serve, claims and outcomes of %d; "+
		"daybook http 16: 16 clients; daybook 100, daybook 100 16: as many sessions on the database, with claims and "+
		"outcomes of %[2]d too; "+
		"daybook: a worker with %[3]d handlers, which claims more at once; µs/job and MB are of the clients alone",
		httpClients, httpBatch, bookHandlers))
	return t.finish(c, out)
}

// buildDaybook makes the program, and tells peers where it is.
func buildDaybook(ctx context.Context, c config, dir string) error {
	fmt.Fprintln(c.log, "building Daybook")
	_, err := command(ctx, nil, "go", "build", "-C", "..", "-o", dir+string(filepath.Separator), "./cmd/daybook")
	if err != nil {
		return err
	}
	return os.Setenv(serverProgram, filepath.Join(dir, "daybook"))
}

// served is a `daybook serve` in a process of its own.
type served struct {
	cmd *exec.Cmd
	url string
}

var servedAt = regexp.MustCompile(`url=(\S+)`)

// serve starts a server on a book and waits until it serves.
func serve(ctx context.Context, db string) (*served, error) {
	s := &served{cmd: exec.CommandContext(ctx, os.Getenv(serverProgram), "serve", "--db", db, "--listen", "127.0.0.1:0")}
	log, err := s.cmd.StderrPipe()
	if err == nil {
		err = s.cmd.Start()
	}
	if err != nil {
		return nil, err
	}
	lines, last := bufio.NewScanner(log), ""
	for lines.Scan() {
		last = lines.Text()
		if m := servedAt.FindStringSubmatch(last); m != nil {
			s.url = m[1]
			go io.Copy(io.Discard, log)
			return s, nil
		}
	}
	return nil, errors.Join(fmt.Errorf("daybook serve: %s", last), s.cmd.Wait())
}

// stop ends the server.
func (s *served) stop() {
	s.cmd.Process.Kill()
	s.cmd.Wait()
}

// bookHTTP is Daybook on PostgreSQL whose worker speaks HTTP.
type bookHTTP struct {
	*bookPG
	url     string
	clients int

	mu     sync.Mutex
	server *served
}

// close ends the server, whose worker may still run: a peer ends when its step is
// done.
func (b *bookHTTP) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.server != nil {
		b.server.stop()
		b.server = nil
	}
}

// openBookHTTP makes a worker of so many clients.
func openBookHTTP(clients int) func(ctx context.Context, url string) (peer, error) {
	return func(ctx context.Context, url string) (peer, error) {
		p, err := openBookPG(ctx, url)
		if err != nil {
			return nil, err
		}
		return &bookHTTP{bookPG: p.(*bookPG), url: url, clients: clients}, nil
	}
}

func (b *bookHTTP) run(ctx context.Context, handle func(args []byte)) error {
	s, err := serve(ctx, b.url)
	if err != nil {
		return err
	}
	b.mu.Lock()
	b.server = s
	b.mu.Unlock()
	defer b.close()
	client := newHTTPClient(b.clients)
	errs := make([]error, b.clients)
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() {
			c := httpWorker{client: client, url: s.url}
			for errs[i] == nil {
				errs[i] = c.round(ctx, handle)
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// newHTTPClient keeps a connection for each of those who call at once.
func newHTTPClient(connections int) *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.Proxy, transport.MaxIdleConnsPerHost = nil, connections
	return &http.Client{Transport: transport}
}

// httpWorker is one client.
type httpWorker struct {
	client  *http.Client
	url     string
	session daybook.ID
}

// httpClaims is as much of an answer as a worker needs.
type httpClaims struct {
	Session daybook.ID
	Claims  []struct {
		Job struct {
			ID   daybook.ID
			Args json.RawMessage
		}
		Generation int64
	}
}

// httpOutcome is how one attempt ended.
type httpOutcome struct {
	ID         daybook.ID `json:"id"`
	Session    daybook.ID `json:"session"`
	Generation int64      `json:"generation"`
	Outcome    string     `json:"outcome"`
}

// claimBody asks for jobs; session is the zero id for a new one.
func claimBody(session daybook.ID, limit int, wait time.Duration) map[string]any {
	body := map[string]any{"queues": []string{queue}, "worker": "bench", "limit": limit, "wait_seconds": wait.Seconds()}
	if !session.IsZero() {
		body["session"] = session
	}
	return body
}

// round claims a batch, runs it, and says that it succeeded.
func (w *httpWorker) round(ctx context.Context, handle func(args []byte)) error {
	var given httpClaims
	if err := w.post(ctx, "/v1/claims", claimBody(w.session, httpBatch, time.Second), &given); err != nil {
		return err
	}
	w.session = given.Session
	if len(given.Claims) == 0 {
		return nil
	}
	ended := make([]httpOutcome, len(given.Claims))
	for i, c := range given.Claims {
		handle(c.Job.Args)
		ended[i] = httpOutcome{c.Job.ID, w.session, c.Generation, "succeeded"}
	}
	return w.post(ctx, "/v1/outcomes", ended, nil)
}

// post makes one call, and reads its answer into a value, unless that is nil.
func (w *httpWorker) post(ctx context.Context, path string, body, into any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url+path, bytes.NewReader(text))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	answer, err := w.client.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if text, err = io.ReadAll(answer.Body); err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %d %.300s", path, answer.StatusCode, text)
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(text, into)
}
