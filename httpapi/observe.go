package httpapi

import (
	"net/http"
	"strings"

	"github.com/daybookdev/daybook"
)

// Observer sees calls begin and end, for metrics and traces.
type Observer interface {
	// Begin is told of a call before it is looked at, with the pattern of its path
	// like /v1/jobs/{id}, "" where there is nothing. The request that it returns,
	// made of r, is carried out. end is called once, with the answer's status, 0
	// when the client had gone, and the code of a problem, "" without one.
	Begin(r *http.Request, route string) (in *http.Request, end func(status int, code string))
}

// watched is an answer that remembers what it was.
type watched struct {
	http.ResponseWriter
	status int
	code   string
}

func (w *watched) WriteHeader(status int) {
	if w.status == 0 && status >= http.StatusOK {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *watched) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	return w.ResponseWriter.Write(b)
}

// Flush sends what was written so far, where the connection can.
func (w *watched) Flush() { _ = http.NewResponseController(w.ResponseWriter).Flush() }

// Unwrap is for http.ResponseController.
func (w *watched) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// observed carries a call out under the eyes of the observers. It belongs to the
// trace that its headers name.
func (s *Server) observed(w http.ResponseWriter, r *http.Request) {
	route := s.routeOf(r)
	if t := traceOf(r); !t.IsZero() {
		r = r.WithContext(daybook.WithTrace(r.Context(), t))
	}
	if len(s.opts.Observers) == 0 {
		s.carryOut(w, r, route)
		return
	}
	answer := &watched{ResponseWriter: w}
	for _, o := range s.opts.Observers {
		in, end := o.Begin(r, route)
		r = in
		defer func() { end(answer.status, answer.code) }()
	}
	s.carryOut(answer, r, route)
}

// routeOf is the pattern of a call's path, "" where there is nothing: the mux
// would answer an unclean path with a redirect, and an unknown one in text.
func (s *Server) routeOf(r *http.Request) string {
	_, pattern := s.mux.Handler(r)
	if path := r.URL.Path; strings.Contains(path, "//") || strings.Contains(path+"/", "/./") ||
		strings.Contains(path+"/", "/../") {
		return ""
	}
	return pattern
}

// traceOf reads the trace context of a call. Two of them are none.
func traceOf(r *http.Request) daybook.Trace {
	parents := r.Header.Values("Traceparent")
	if len(parents) != 1 {
		return daybook.Trace{}
	}
	return daybook.ReadTrace(parents[0], strings.Join(r.Header.Values("Tracestate"), ","))
}

// noted keeps a problem's code for the observers.
func noted(w http.ResponseWriter, p *Problem) {
	if answer, ok := w.(*watched); ok {
		answer.code = string(p.Code)
	}
}

// Waiting is how many calls wait for work just now.
func (s *Server) Waiting() int {
	s.waiting.mu.Lock()
	defer s.waiting.mu.Unlock()
	return len(s.waiting.waiters)
}
