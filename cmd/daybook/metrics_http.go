package main

import (
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// callMetrics counts HTTP calls, by the pattern of their path and never by the
// path, and without tokens' names: what strangers send makes no series.
type callMetrics struct {
	calls    *prometheus.CounterVec
	times    *prometheus.HistogramVec
	refused  *prometheus.CounterVec
	inFlight atomic.Int64
}

var descInFlight = describe("http_in_flight", "Calls that are being answered, those that wait for work too.")

func newCallMetrics() *callMetrics {
	return &callMetrics{
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "daybook_http_requests_total",
			Help: "Calls by the pattern of their path, method, and class of the status."},
			[]string{"route", "method", "status"}),
		times: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "daybook_http_request_duration_seconds",
			Help:    "How long calls took; claims that wait for work wait up to a minute.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}},
			[]string{"route", "method"}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "daybook_http_refused_total",
			Help: "Calls that were answered with a problem, by its code."}, []string{"code"}),
	}
}

// Begin counts a call; it is an httpapi.Observer.
func (c *callMetrics) Begin(r *http.Request, route string) (*http.Request, func(status int, code string)) {
	c.inFlight.Add(1)
	began := time.Now()
	if route == "" {
		route = "none"
	}
	method := r.Method
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost:
	default:
		method = "other"
	}
	return r, func(status int, code string) {
		c.inFlight.Add(-1)
		c.calls.WithLabelValues(route, method, statusClass(status)).Inc()
		c.times.WithLabelValues(route, method).Observe(time.Since(began).Seconds())
		if code != "" {
			c.refused.WithLabelValues(code).Inc()
		}
	}
}

// statusClass is a status without its last two digits.
func statusClass(status int) string {
	if status == 0 {
		return "client_gone"
	}
	return strconv.Itoa(status/100) + "xx"
}

// Describe lists what Collect sends.
func (c *callMetrics) Describe(to chan<- *prometheus.Desc) {
	to <- descInFlight
	c.calls.Describe(to)
	c.times.Describe(to)
	c.refused.Describe(to)
}

// Collect sends the numbers of now.
func (c *callMetrics) Collect(to chan<- prometheus.Metric) {
	gauge(to, descInFlight, float64(c.inFlight.Load()))
	c.calls.Collect(to)
	c.times.Collect(to)
	c.refused.Collect(to)
}
