package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/internal/everyanswer"
	"github.com/daybookdev/daybook/worker"
)

// readyMax is how long the database may take to show that it is there.
const readyMax = 2 * time.Second

// healthServer tells machines how the worker is.
type healthServer struct{ server *http.Server }

// listen serves health and metrics on the address, and logs where.
func listen(ctx context.Context, address string, db database, m *metrics) (*healthServer, error) {
	book, w := m.book, m.w
	listener, err := net.Listen("tcp", address)
	if e, ok := errors.AsType[*net.DNSError](err); ok {
		return nil, daybook.Invalid("listen", "there is no host %q; give one of this machine's addresses", e.Name)
	}
	if err != nil {
		return nil, exitError{statusFailed, "can't listen on " + address + ": " + err.Error()}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(rw http.ResponseWriter, _ *http.Request) { healthz(rw, book) })
	mux.HandleFunc("GET /readyz", func(rw http.ResponseWriter, r *http.Request) { ready(rw, r, db, book, w) })
	mux.Handle("GET /metrics", m.handler())
	s := &healthServer{&http.Server{Handler: guarded(mux), ReadHeaderTimeout: 5 * time.Second,
		WriteTimeout: 30 * time.Second,
		BaseContext:  func(net.Listener) context.Context { return ctx }}}
	go func() { _ = everyanswer.Serve(s.server, listener, nil) }() // ends by close
	book.Log().Info("listening", "address", listener.Addr().String())
	return s, nil
}

// guarded says on every answer, whatever makes it, that a browser may load
// nothing for it.
func guarded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Security-Policy", "default-src 'none'")
		next.ServeHTTP(rw, r)
	})
}

// checkAddress refuses what can't be listened on, before anything begins.
func checkAddress(address string) error {
	_, port, err := net.SplitHostPort(address)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return daybook.Invalid("listen", "wants HOST:PORT like 127.0.0.1:7374, got %q", cut(address, cellMax))
	}
	return nil
}

func (s *healthServer) close() { _ = s.server.Close() }

// ready answers whether this worker can do its work: the database answers, and
// its tables are the ones that this program knows.
func ready(rw http.ResponseWriter, r *http.Request, db database, book *daybook.Book, w *worker.Worker) {
	ctx, cancel := context.WithTimeout(r.Context(), readyMax)
	defer cancel()
	status, said := http.StatusOK, map[string]any{"status": "ready", "worker": w.Stats()}
	state, err := db.state(ctx, book)
	switch {
	case err != nil:
		status, said["status"] = http.StatusServiceUnavailable, "the database doesn't answer"
	case !state.serves:
		status, said["status"] = http.StatusServiceUnavailable,
			"the schema has another version than this program wants"
	}
	answer(rw, status, said)
}

func answer(rw http.ResponseWriter, status int, body any) {
	rw.Header().Set("Content-Type", "application/json")
	rw.WriteHeader(status)
	_ = daybook.EncodeJSON(rw, body)
}
