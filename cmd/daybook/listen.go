package main

import (
	"context"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/store/sqlite"
	"github.com/daybookdev/daybook/worker"
)

// readyMax is how long the database may take to show that it is there.
const readyMax = 2 * time.Second

// healthServer tells machines how the worker is.
type healthServer struct{ server *http.Server }

// listen serves health and metrics on the address, and logs where.
func listen(ctx context.Context, address string, book *daybook.Book, w *worker.Worker) (
	*healthServer, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, exitError{statusFailed, "can't listen on " + address + ": " + err.Error()}
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		newMetrics(book, w))
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(rw http.ResponseWriter, _ *http.Request) {
		answer(rw, http.StatusOK, map[string]any{"status": "ok"})
	})
	mux.HandleFunc("GET /readyz", func(rw http.ResponseWriter, r *http.Request) { ready(rw, r, book, w) })
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{Timeout: 10 * time.Second}))
	s := &healthServer{&http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second,
		WriteTimeout: 30 * time.Second,
		BaseContext:  func(net.Listener) context.Context { return ctx }}}
	go func() { _ = s.server.Serve(listener) }() // ends by close
	book.Log().Info("listening", "address", listener.Addr().String())
	return s, nil
}

func (s *healthServer) close() { _ = s.server.Close() }

// ready answers whether this worker can do its work: the database answers, and
// its tables are the ones that this program knows.
func ready(rw http.ResponseWriter, r *http.Request, book *daybook.Book, w *worker.Worker) {
	ctx, cancel := context.WithTimeout(r.Context(), readyMax)
	defer cancel()
	status, said := http.StatusOK, map[string]any{"status": "ready", "worker": w.Stats()}
	have, want, err := sqlite.SchemaVersion(ctx, book)
	switch {
	case err != nil:
		status, said["status"] = http.StatusServiceUnavailable, "the database doesn't answer"
	case have != want:
		status, said["status"] = http.StatusServiceUnavailable,
			"the schema has another version than this program wants"
	}
	answer(rw, status, said)
}

func answer(rw http.ResponseWriter, status int, body any) {
	rw.Header().Set("Content-Type", "application/json")
	rw.Header().Set("Content-Security-Policy", "default-src 'none'")
	rw.WriteHeader(status)
	_ = daybook.EncodeJSON(rw, body)
}
