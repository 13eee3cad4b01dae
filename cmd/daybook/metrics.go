package main

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/worker"
)

// metrics shows the book's backlog and the worker's own numbers to Prometheus.
// Counting walks every live job, so one count serves scrapes for a while.
type metrics struct {
	book *daybook.Book
	w    *worker.Worker

	mu      sync.Mutex
	counted time.Time
	backlog []daybook.Backlog
	outbox  time.Duration // age of its oldest row; less than 0 is unknown
	up      bool
}

const (
	countEvery = 5 * time.Second
	countMax   = 8 * time.Second
)

func newMetrics(book *daybook.Book, w *worker.Worker) *metrics { return &metrics{book: book, w: w} }

// What is shown, by name.
var (
	descUp       = describe("book_up", "1 while the database answers.")
	descJobs     = describe("jobs", "Jobs that stand in a queue, by where they stand.", "queue", "state")
	descOldest   = describe("oldest_eligible_seconds", "Age of the oldest eligible job.", "queue")
	descPaused   = describe("queue_paused", "1 while the queue takes no claims.", "queue")
	descRequests = describe("requests_total",
		"Jobs that came into a queue or left its way, pruned ones included.", "queue", "what")
	descAttempts = describe("attempts_total", "Claims from a queue.", "queue")
	descHealthy  = describe("worker_healthy", "1 while this worker's lease holds by its own clock.")
	descClaims   = describe("worker_claims", "Claims that this worker holds, by where they stand.", "state")
	descLeaked   = describe("worker_leaked", "Commands that go on though they were told to stop.")
	descEnds     = describe("worker_attempts_total", "Attempts of this worker that ended, by outcome.",
		"outcome")
	descSessions = describe("worker_sessions_total", "Sessions that this worker started.")
	descGranted  = describe("worker_claims_total", "Claims that this worker was given.")
)

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("daybook_"+name, help, labels, nil)
}

// Describe lists what Collect sends.
func (m *metrics) Describe(to chan<- *prometheus.Desc) {
	for _, d := range slices.Concat([]*prometheus.Desc{descUp, descJobs, descOldest, descPaused, descRequests,
		descAttempts, descHealthy, descClaims, descLeaked, descEnds, descSessions, descGranted}, bellDescs) {
		to <- d
	}
}

// Collect sends the numbers of now.
func (m *metrics) Collect(to chan<- prometheus.Metric) {
	backlog, up := m.count()
	gauge(to, descUp, truth(up))
	for _, b := range backlog {
		q := b.Queue
		for state, n := range map[string]int64{"eligible": b.Eligible, "later": b.Later, "held": b.Held,
			"running": b.Running, "set_aside": b.SetAside} {
			gauge(to, descJobs, float64(n), q, state)
		}
		for what, n := range map[string]int64{"accepted": b.Accepted, "moved_in": b.MovedIn, "revived": b.Revived,
			"succeeded": b.Succeeded, "set_aside": b.EverSetAside, "cancelled": b.EverCancelled,
			"expired": b.EverExpired, "moved_out": b.MovedOut} {
			counter(to, descRequests, n, q, what)
		}
		gauge(to, descOldest, b.Oldest, q)
		gauge(to, descPaused, truth(b.Paused), q)
		counter(to, descAttempts, b.Attempts, q)
	}
	m.collectWorker(to)
}

// collectWorker sends the worker's own numbers; a server has no worker.
func (m *metrics) collectWorker(to chan<- prometheus.Metric) {
	if m.w == nil {
		m.collectEnd(to)
		return
	}
	s := m.w.Stats()
	gauge(to, descHealthy, truth(s.Healthy))
	for state, n := range map[string]int{"running": s.Running, "waiting": s.Waiting,
		"unrecorded": s.Unrecorded} {
		gauge(to, descClaims, float64(n), state)
	}
	gauge(to, descLeaked, float64(s.Leaked))
	for outcome, n := range map[string]int64{"succeeded": s.Succeeded, "failed": s.Failed,
		"released":  s.Released,
		"cancelled": s.Cancelled, "lost": s.Lost, "fenced": s.Fenced} {
		counter(to, descEnds, n, outcome)
	}
	counter(to, descSessions, s.Sessions)
	counter(to, descGranted, s.Claimed)
	m.collectBell(to, s)
}

// count reads the backlog, or remembers it when it was read just now.
func (m *metrics) count() ([]daybook.Backlog, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.counted.IsZero() && time.Since(m.counted) < countEvery {
		return m.backlog, m.up
	}
	ctx, cancel := context.WithTimeout(context.Background(), countMax)
	defer cancel()
	_, backlog, err := m.book.Backlog(ctx)
	m.counted, m.backlog, m.up, m.outbox = time.Now(), backlog, err == nil, -1
	if err == nil && m.book.Outside() != nil {
		if age, err := m.book.OutboxAge(ctx); err == nil {
			m.outbox = age
		}
	}
	return m.backlog, m.up
}

func gauge(to chan<- prometheus.Metric, d *prometheus.Desc, value float64, labels ...string) {
	to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
}

func counter(to chan<- prometheus.Metric, d *prometheus.Desc, value int64, labels ...string) {
	to <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(value), labels...)
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
