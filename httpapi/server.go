package httpapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/daybookdev/daybook"
)

// Options of a server. The zero value asks everybody for a token.
type Options struct {
	// Loopback says that only this machine can reach the server: then callers
	// need no token while the book never had one, and Host is checked instead.
	Loopback bool
	// Rate is how many calls a second a token may make, with bursts of twice as
	// many; 0 is no limit.
	Rate float64
	// Check holds the book to its invariants, for GET /v1/check. Its answer is
	// what the checker of this module reports. nil has no such call.
	Check func(ctx context.Context, full bool) (any, error)
	// Ready says why the server can't do its work, for /readyz; nil asks the book
	// whether it answers.
	Ready func(ctx context.Context) error
	// Bell says how the bell is heard, for /healthz; it may be nil.
	Bell func() string
	// Sensitive are the kinds of jobs whose documents only tokens with
	// daybook.ScopeSensitive see. See [daybook.Sight].
	Sensitive []string
	// Metrics answers /metrics; nil has none.
	Metrics http.Handler
	// Observers see every call, in this order.
	Observers []Observer
	// Version is this program's, for the description.
	Version string
	Log     *slog.Logger // nil is the book's
}

// Server answers HTTP calls on one book. It is a handler; the caller listens
// (see [Serve] for the limits in time that belong around it).
type Server struct {
	book     *daybook.Book
	opts     Options
	log      *slog.Logger
	mux      *http.ServeMux
	routes   []route
	doors    doors
	rates    rates
	keys     callKeys
	waiting  *hub
	large    chan struct{} // room for large bodies: see takeBody
	checking chan struct{} // holds one
	describe
	verbatim
	closing chan struct{} // closed by Close
	once    sync.Once
}

// largeMost is how many large bodies are held at once, whoever sends them.
const largeMost = 4

// New makes a server. Close ends what waits in it.
func New(book *daybook.Book, o Options) (*Server, error) {
	if o.Log == nil {
		o.Log = book.Log()
	}
	if o.Ready == nil {
		o.Ready = func(ctx context.Context) error {
			_, err := book.Setting(ctx, daybook.SettingSchema)
			return err
		}
	}
	s := &Server{book: book, opts: o, log: o.Log, mux: http.NewServeMux(), waiting: newHub(book),
		large: make(chan struct{}, largeMost), checking: make(chan struct{}, 1), verbatim: newVerbatim(),
		closing: make(chan struct{})}
	s.doors = doors{look: book.Tokens, loopback: o.Loopback, sensitive: o.Sensitive}
	s.rates = rates{each: o.Rate}
	s.routes = s.table()
	if err := s.describeItself(); err != nil {
		return nil, err
	}
	byPath := map[string][]route{}
	for _, r := range s.routes {
		byPath[r.path] = append(byPath[r.path], r)
	}
	for path, routes := range byPath {
		s.mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) { s.dispatch(w, r, routes) })
	}
	return s, nil
}

// Close answers all calls that wait for work, with none, and lets go of the
// bell. Calls after it don't wait. Twice is harmless.
func (s *Server) Close() {
	s.once.Do(func() { close(s.closing) })
	s.waiting.close()
}

// ServeHTTP answers one call.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
	s.observed(w, r)
}

// carryOut answers a call whose path has this pattern.
func (s *Server) carryOut(w http.ResponseWriter, r *http.Request, route string) {
	defer s.caught(w, r)
	if p := s.doors.from(r); p != nil {
		s.refuse(w, r, p)
		return
	}
	if route == "" {
		s.refuse(w, r, problem(daybook.CodeNotFound, "there is nothing at this path; /docs lists what there is"))
		return
	}
	s.mux.ServeHTTP(w, r)
}

// caught keeps a fault of this program from ending the connection without an
// answer. What it was made of may be a request's, so only its place is logged.
func (s *Server) caught(w http.ResponseWriter, r *http.Request) {
	fault := recover()
	if fault == nil {
		return
	}
	if fault == http.ErrAbortHandler {
		panic(fault)
	}
	s.log.ErrorContext(r.Context(), "a call failed by a fault of the server", "method", r.Method,
		"fault", fmt.Sprintf("%T", fault),
		"at", faultPlace())
	s.refuse(w, r, problemOf(fmt.Errorf("fault"), ""))
}

// dispatch finds the route of a path by the call's method.
func (s *Server) dispatch(w http.ResponseWriter, r *http.Request, routes []route) {
	var allowed []string
	for _, route := range routes {
		if r.Method == route.method || r.Method == http.MethodHead && route.method == http.MethodGet {
			s.answer(w, r, route)
			return
		}
		allowed = append(allowed, route.method)
		if route.method == http.MethodGet {
			allowed = append(allowed, http.MethodHead)
		}
	}
	list := strings.Join(allowed, ", ")
	s.refuse(w, r, problem(codeMethodNotAllowed, "this path takes "+list).with("Allow", list))
}

// answer carries one call out.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, route route) {
	c := &call{s: s, w: w, r: r, route: route, status: http.StatusOK}
	out, err := s.carry(c)
	if err != nil {
		if r.Context().Err() != nil {
			panic(http.ErrAbortHandler) // nobody is there; an empty answer would be a good one
		}
		p := problemOf(err, "")
		if p.Status == http.StatusInternalServerError {
			s.log.ErrorContext(r.Context(), "a call failed", "call", route.id, "error", sayable(err))
		}
		s.refuse(w, r, p)
		return
	}
	switch {
	case c.done:
	case out == nil:
		w.WriteHeader(http.StatusNoContent)
	default:
		s.send(w, r, c.status, "application/json", out)
	}
}

// sayable is as much of an error as a log may hold: a driver's text can have the
// statement in it, and that a job's args.
func sayable(err error) string {
	if e, ok := errors.AsType[*daybook.Error](err); ok {
		return e.Error()
	}
	return fmt.Sprintf("%T", err)
}

func (s *Server) carry(c *call) (any, error) {
	if p := s.doors.open(c); p != nil {
		return nil, p
	}
	if p := s.rates.take(c); p != nil {
		return nil, p
	}
	if p := c.checkQuery(); p != nil {
		return nil, p
	}
	if c.route.method == http.MethodPost {
		release, p := s.takeBody(c)
		defer release()
		if p != nil {
			return nil, p
		}
	}
	if c.route.slow {
		_ = http.NewResponseController(c.w).SetWriteDeadline(time.Now().Add(slowMax))
	}
	out, err := c.route.do(c)
	if err != nil || c.sight.All() {
		return out, err
	}
	return c.seen(out)
}

// send writes an answer. It is made whole first, so that it can't end in the
// middle.
func (s *Server) send(w http.ResponseWriter, r *http.Request, status int, media string, body any) {
	text, err := s.encode(body)
	if err != nil {
		s.log.Error("an answer can't be written as JSON", "type", fmt.Sprintf("%T", body))
		status, media = http.StatusInternalServerError, "application/problem+json"
		text, _ = s.encode(problem(daybook.CodeInternal, "the answer can't be written"))
	}
	w.Header().Set("Content-Type", media)
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(text)
	}
}
