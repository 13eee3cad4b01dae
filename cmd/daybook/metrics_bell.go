package main

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/worker"
)

// What is shown of the bell, by name. All of it may be zero with every job done:
// a bell costs latency and never work.
var (
	descRings = describe("worker_rings_total", "Rings that reached this worker: all, those that came before, and "+
		"those for a job that can't be had or for another's queue.", "what")
	descPolled = describe("worker_found_by_poll_total",
		"Claims that no ring had announced when the poll looked.")
	descListening = describe("bell_listening", "1 while this process hears the bell, or needs to hear nothing.")
	descBell      = describe("bell_rings_total", "Rings at this process's end of the bell, by what became of them.",
		"what")
	descReconnects = describe("bell_reconnects_total", "Times that this process began to listen anew.")
	descEcho       = describe("bell_echo_seconds", "Round trip of the last echo of the bell.")
	descEchoAge    = describe("bell_echo_age_seconds", "How long ago the last echo came back.")
	descOutbox     = describe("outbox_age_seconds", "Age of the oldest row that asks for a ring.")
)

var bellDescs = []*prometheus.Desc{descRings, descPolled, descListening, descBell, descReconnects, descEcho,
	descEchoAge, descOutbox}

// collectBell sends what the worker knows of rings, and the bell.
func (m *metrics) collectBell(to chan<- prometheus.Metric, s worker.Stats) {
	for what, n := range map[string]int64{"heard": s.Rings, "again": s.Again, "stale": s.Stale} {
		counter(to, descRings, n, what)
	}
	counter(to, descPolled, s.Polled)
	m.collectEnd(to)
}

// collectEnd sends what this process's end of the bell knows.
func (m *metrics) collectEnd(to chan<- prometheus.Metric) {
	outside := m.book.Outside()
	if outside == nil {
		return
	}
	b := outside.Stats()
	gauge(to, descListening, truth(b.Listening))
	for what, n := range map[string]int64{"published": b.Published, "failed": b.Failed, "heard": b.Heard,
		"doubled": b.Doubled, "passed": b.Passed} {
		counter(to, descBell, n, what)
	}
	counter(to, descReconnects, b.Reconnects)
	if b.Echo > 0 {
		gauge(to, descEcho, b.Echo.Seconds())
		gauge(to, descEchoAge, time.Since(b.EchoAt).Seconds())
	}
	m.mu.Lock()
	age := m.outbox
	m.mu.Unlock()
	if age >= 0 {
		gauge(to, descOutbox, age.Seconds())
	}
}

// healthz answers that the process lives, and whether it hears its bell. A deaf
// one is healthy: it polls, and the bell heals by itself.
func healthz(rw http.ResponseWriter, book *daybook.Book) {
	answer(rw, http.StatusOK, map[string]any{"status": "ok", "bell": hearing(book)})
}

func hearing(book *daybook.Book) string {
	outside := book.Outside()
	switch {
	case book.Bell() == nil:
		return "none"
	case outside == nil:
		return "inside this process"
	case outside.Stats().Listening:
		return "listening"
	}
	return "not heard; work is found by polling"
}
