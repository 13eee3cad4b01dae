package console

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/daybookdev/daybook"
)

// Options of a console. The zero value serves at / and asks everybody for a token
// of the book.
type Options struct {
	// Base is the path under which the console is mounted, like /admin/jobs; ""
	// is /. Requests come with it: don't strip it.
	Base string
	// Loopback says that only this machine can reach the console: then nobody has to
	// log in while the book never had a token, and Host is checked instead.
	Loopback bool
	// Who says who asks, for programs that sign people in themselves; false is
	// nobody, who gets 401. nil asks for a token of the book, with scope read to see
	// and operate to decide.
	Who func(*http.Request) (Viewer, bool)
	// Sensitive are the kinds of jobs of which only those see what users and
	// handlers said who have leave to. See [daybook.Sight].
	Sensitive []string
	// Check holds the book to its invariants; seen is to be called with the rows
	// walked since its last call. nil leaves the check to the command line.
	Check func(ctx context.Context, full bool, seen func(walked int64)) (CheckReport, error)
	// Repairs tells what the loops of this process repaired, for the page of gaps; it
	// may be nil.
	Repairs func() Repairs
	// Watchers is how many live pages are followed at once; 0 is 100. One more is
	// told to come back.
	Watchers int
	Version  string       // of the program, for people
	Book     string       // which book this is, for people who have more than one: where it is, without secrets
	Log      *slog.Logger // nil is the book's
}

// CheckReport is what a check found.
type CheckReport struct {
	Violations int
	Full       bool // all rows were walked
	Invariants []CheckResult
}

// CheckResult is what became of one invariant.
type CheckResult struct {
	Name     string
	Sentence string
	Rows     int // that break it
	Walked   int64
	Found    []daybook.Violation
}

// Repairs count what the loops of one process did since it started.
type Repairs struct {
	Since  time.Time
	Passes int64 // of its reconciler
	Ended  int64 // sessions past their lease
	Lost   int64 // claims of such sessions taken back, or never received
	Overdue,
	Expired int64
	Rung int64 // queues rung again
}

// Viewer is who looks at the console.
type Viewer struct {
	Name      string // the actor of what they decide
	Operate   bool   // may decide
	Sensitive bool   // may see what jobs of sensitive kinds hold
}

// watchersDefault is how many live pages are followed at once.
const watchersDefault = 100

// Console is a handler. The caller listens; see [Console.Run] for its charts and
// [Console.Close] for its end.
type Console struct {
	book    *daybook.Book
	opts    Options
	log     *slog.Logger
	base    string // "" or /like/this
	mux     *http.ServeMux
	pages   []*page
	made    templates
	door    door
	looks   looks
	flows   flows
	hub     hub
	check   checks
	batches batches

	closing context.Context
	close   context.CancelFunc
	mu      sync.Mutex // of closed, before running
	closed  bool
	running sync.WaitGroup
}

// New makes a console of a book.
func New(book *daybook.Book, o Options) *Console {
	if o.Log == nil {
		o.Log = book.Log()
	}
	if o.Watchers <= 0 {
		o.Watchers = watchersDefault
	}
	c := &Console{book: book, opts: o, log: o.Log, mux: http.NewServeMux()}
	if c.base = strings.Trim(o.Base, "/"); c.base != "" {
		c.base = "/" + c.base
	}
	c.closing, c.close = context.WithCancel(context.Background())
	c.looks.all, c.looks.least = map[string]*look{}, freshLeast
	c.hub.rooms = map[string]*room{}
	c.door.console = c
	rand.Read(c.door.key[:])
	c.pages = pageTable()
	c.made = c.parse()
	c.routes()
	return c
}

// Run takes samples for the charts until ctx ends. Without it, charts know only
// of the time in which somebody looked.
func (c *Console) Run(ctx context.Context) error {
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-c.closing.Done():
			return nil
		case <-pause.C:
		}
		begun := time.Now()
		_, err := c.backlog(ctx)
		if err != nil && ctx.Err() == nil {
			c.log.Debug("no sample for the charts", "error", err)
		}
		pause.Reset(max(sampleEvery, 50*time.Since(begun)))
	}
}

// Close ends all streams and what runs in the background, and waits for it. Pages
// are answered after it too, but none is live. Twice is harmless.
func (c *Console) Close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.close()
	c.running.Wait()
}

// background does something that no request waits for, or at once when the
// console is closed.
func (c *Console) background(do func()) {
	c.mu.Lock()
	closed := c.closed
	if !closed {
		c.running.Go(do)
	}
	c.mu.Unlock()
	if closed {
		do()
	}
}

// policy is the Content-Security-Policy of every answer: nothing runs and nothing
// is loaded but what comes from here as a file.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// ServeHTTP answers one request.
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	defer c.caught(w, r)
	path, under := strings.CutPrefix(r.URL.Path, c.base)
	if under && path == "" && c.base != "" {
		http.Redirect(w, r, c.base+"/", http.StatusMovedPermanently)
		return
	}
	clean := !strings.Contains(path, "//") && !strings.Contains(path+"/", "/./") && !strings.Contains(path+"/", "/../")
	inner := r.Clone(r.Context())
	inner.URL.Path, inner.URL.RawPath = path, strings.TrimPrefix(r.URL.RawPath, c.base)
	if _, pattern := c.mux.Handler(inner); !under || !clean || pattern == "" {
		c.fail(w, inner, daybook.Fail(daybook.CodeNotFound, "there is no such page"))
		return
	}
	c.mux.ServeHTTP(w, inner)
}

// caught keeps a fault of this package from ending the connection without a page.
// What it was made of may be a job's, so only its place is logged.
func (c *Console) caught(w http.ResponseWriter, r *http.Request) {
	fault := recover()
	if fault == nil {
		return
	}
	if fault == http.ErrAbortHandler {
		panic(fault)
	}
	c.log.Error("a page failed by a fault of the console", "path", r.URL.Path, "fault", fmt.Sprintf("%T", fault),
		"stack", string(debug.Stack()))
	c.fail(w, r, errors.New("fault"))
}

// statusOf is the HTTP status of an error.
func statusOf(err error) int {
	if errors.Is(err, context.DeadlineExceeded) {
		return http.StatusServiceUnavailable
	}
	switch daybook.CodeOf(err) {
	case daybook.CodeNotFound:
		return http.StatusNotFound
	case daybook.CodeFenced, daybook.CodeRefused, daybook.CodeEffectOpen, daybook.CodeBusy, daybook.CodeKeyConflict:
		return http.StatusConflict
	case daybook.CodeInvalid, daybook.CodeMalformed:
		return http.StatusUnprocessableEntity
	case daybook.CodeTooLarge:
		return http.StatusRequestEntityTooLarge
	case daybook.CodeUnavailable:
		return http.StatusServiceUnavailable
	case codeForbidden:
		return http.StatusForbidden
	case codeUnauthorized:
		return http.StatusUnauthorized
	case codeMethod:
		return http.StatusMethodNotAllowed
	}
	return http.StatusInternalServerError
}

// Codes of the console alone.
const (
	codeForbidden    daybook.Code = "forbidden"
	codeUnauthorized daybook.Code = "unauthorized"
	codeMethod       daybook.Code = "method_not_allowed"
)

// sayable is what of an error people may read: a driver's text can hold args.
func sayable(err error) string {
	if e, ok := errors.AsType[*daybook.Error](err); ok {
		return e.Error()
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return "looking took longer than a page may; narrow the filter, at least by a state"
	}
	return "the console failed; its log says where"
}
