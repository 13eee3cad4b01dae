package main

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/spf13/pflag"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/reconcile"
	"github.com/daybookdev/daybook/worker"
)

// metrics shows the book, and this process's part in it, to Prometheus. Counting
// walks every live job, so one count serves scrapes for a while.
type metrics struct {
	book    *daybook.Book
	w       *worker.Worker // nil in a server
	queues  int            // how many are shown by name
	waiting func() int     // calls that wait for work; nil in a worker
	calls   *callMetrics   // nil in a worker
	passes  passes

	mu      sync.Mutex
	counted time.Time
	named   map[string]bool // queues that are shown by name
	backlog []queueNumbers
	outbox  time.Duration // age of its oldest row; less than 0 is unknown
	state   bookState
	up      bool
}

const (
	countEvery = 5 * time.Second
	countMax   = 8 * time.Second
)

// metricsQueuesDefault and Max bound how many queues are shown by name: each is
// about twenty series.
const (
	metricsQueuesDefault = 500
	metricsQueuesMax     = 10_000
)

func metricsFlag(fs *pflag.FlagSet, most *int) {
	fs.IntVar(most, "metrics-queues", metricsQueuesDefault,
		"how many queues /metrics shows by name; the rest is summed as "+otherQueues+" (0…10000)")
}

func checkMetrics(most int) error {
	if most < 0 || most > metricsQueuesMax {
		return daybook.Invalid("metrics-queues", "wants 0…%d, got %d", metricsQueuesMax, most)
	}
	return nil
}

func newMetrics(book *daybook.Book, w *worker.Worker, queues int) *metrics {
	return &metrics{book: book, w: w, queues: queues, named: map[string]bool{}}
}

// handler answers /metrics.
func (m *metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry(), promhttp.HandlerOpts{Timeout: 10 * time.Second})
}

func (m *metrics) registry() *prometheus.Registry {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), m)
	if m.calls != nil {
		registry.MustRegister(m.calls)
	}
	return registry
}

// What this process's worker shows, by name.
var (
	descHealthy = describe("worker_healthy", "1 while this worker's lease holds by its own clock.")
	descClaims  = describe("worker_claims", "Claims that this worker holds, by where they stand.", "state")
	descLeaked  = describe("worker_leaked", "Handlers that go on though they were told to stop.")
	descEnds    = describe("worker_attempts_total", "Attempts of this worker that ended, by outcome.",
		"outcome")
	descSessions = describe("worker_sessions_total", "Sessions that this worker started.")
	descGranted  = describe("worker_claims_total", "Claims that this worker was given.")
	descWaiting  = describe("http_waiting", "Claim calls that wait for work just now.")
)

var workerDescs = []*prometheus.Desc{descHealthy, descClaims, descLeaked, descEnds, descSessions, descGranted,
	descWaiting}

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("daybook_"+name, help, labels, nil)
}

// Describe lists what Collect sends.
func (m *metrics) Describe(to chan<- *prometheus.Desc) {
	for _, list := range [][]*prometheus.Desc{queueDescs, bookDescs, passDescs, workerDescs, bellDescs} {
		for _, d := range list {
			to <- d
		}
	}
}

// Collect sends the numbers of now.
func (m *metrics) Collect(to chan<- prometheus.Metric) {
	backlog, state, up := m.count()
	gauge(to, descUp, truth(up))
	for i := range backlog {
		backlog[i].collect(to)
	}
	if up {
		state.collect(to)
	}
	m.passes.collect(to)
	if m.waiting != nil {
		gauge(to, descWaiting, float64(m.waiting()))
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

// count reads the book, or remembers it when it was read just now.
func (m *metrics) count() ([]queueNumbers, bookState, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.counted.IsZero() && time.Since(m.counted) < countEvery {
		return m.backlog, m.state, m.up
	}
	ctx, cancel := context.WithTimeout(context.Background(), countMax)
	defer cancel()
	m.outbox, m.up = -1, false
	backlog, total, err := m.countQueues(ctx)
	if err == nil {
		m.state, err = readState(ctx, m.book)
		m.state.queues = total
	}
	if m.counted = time.Now(); err != nil {
		m.backlog = nil
		return nil, bookState{}, false
	}
	m.backlog, m.up = backlog, true
	if m.book.Outside() != nil {
		if age, err := m.book.OutboxAge(ctx); err == nil {
			m.outbox = age
		}
	}
	return m.backlog, m.state, m.up
}

// passes counts what the reconciler of this process did. Each pass over the book is
// made by one process, so the sum over all processes is what was done to the book.
type passes struct {
	mu    sync.Mutex
	made  int64
	total reconcile.Report
}

// What the reconciler shows, by name.
var (
	descPasses  = describe("reconcile_passes_total", "Passes of the reconciler that this process made.")
	descRepairs = describe("reconcile_repairs_total", "What the passes of this process did, by sort.", "what")
)

var passDescs = []*prometheus.Desc{descPasses, descRepairs}

// passed is told of each pass.
func (p *passes) passed(r reconcile.Report) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.made++
	t := &p.total
	t.Ended += r.Ended
	t.Lost += r.Lost
	t.Overdue += r.Overdue
	t.Expired += r.Expired
	t.Pruned += r.Pruned
	t.Rung += r.Rung
}

func (p *passes) collect(to chan<- prometheus.Metric) {
	p.mu.Lock()
	defer p.mu.Unlock()
	counter(to, descPasses, p.made)
	for what, n := range map[string]int{"sessions_ended": p.total.Ended, "claims_lost": p.total.Lost,
		"claims_overdue": p.total.Overdue, "jobs_expired": p.total.Expired, "jobs_pruned": p.total.Pruned,
		"queues_rung": p.total.Rung} {
		counter(to, descRepairs, int64(n), what)
	}
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
