//go:build unix

package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/bell/local"
	"github.com/daybookdev/daybook/check"
	"github.com/daybookdev/daybook/httpapi"
	"github.com/daybookdev/daybook/reconcile"
	"github.com/daybookdev/daybook/store/sqlite"
	"github.com/daybookdev/daybook/worker"
)

var rewrite = flag.Bool("rewrite", false, "write the generated lists anew")

// farBell is a bell of this process that says it is one of many's.
type farBell struct{ *local.Bell }

func (farBell) Publish(context.Context, []daybook.Ring) error     { return nil }
func (farBell) Depth(context.Context) (map[string]int64, error)   { return nil, nil }
func (farBell) Peek(context.Context, int) ([]daybook.Ring, error) { return nil, nil }
func (farBell) Stats() daybook.BellStats {
	return daybook.BellStats{Listening: true, Echo: time.Millisecond, EchoAt: time.Now()}
}

// shown is a registry with everything that a server and a worker can show.
func shown(t *testing.T) *prometheus.Registry {
	t.Helper()
	book, err := sqlite.Open(t.Context(), sqlite.Memory, sqlite.Options{Book: daybook.Options{
		Bell: farBell{local.New()}, Log: slog.New(slog.DiscardHandler)}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { book.Close() })
	if _, err := book.Enqueue(t.Context(), daybook.Request{Queue: "q", Kind: "k"}); err != nil {
		t.Fatal(err)
	}
	m := newMetrics(book, nil, metricsQueuesDefault)
	m.w, m.calls = worker.New(book, worker.Config{Queues: []string{"q"}}), newCallMetrics()
	api, err := httpapi.New(book, httpapi.Options{Loopback: true, Observers: []httpapi.Observer{m.calls}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(api.Close)
	m.waiting = api.Waiting
	r := httptest.NewRequest(http.MethodGet, "/v1/jobs/nobody", nil)
	r.Host = "localhost"
	api.ServeHTTP(httptest.NewRecorder(), r)
	if _, err := check.Run(t.Context(), book, check.Options{}); err != nil {
		t.Fatal(err)
	}
	if _, err := book.TakePass(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	m.passes.passed(reconcile.Report{Lost: 1})
	return m.registry()
}

// TestMetricsList holds names, types, labels and help to the list that the
// dashboard, the alerts and the documentation are held to. -rewrite writes it.
func TestMetricsList(t *testing.T) {
	registry := shown(t)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var list strings.Builder
	list.WriteString("| name | type | labels | what |\n|---|---|---|---|\n")
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), "daybook_") {
			continue
		}
		fmt.Fprintf(&list, "| `%s` | %s | %s | %s |\n", f.GetName(), strings.ToLower(f.GetType().String()), labelsOf(f),
			f.GetHelp())
	}
	current(t, "testdata/metrics.txt", func(string) string { return list.String() })
	current(t, "../../docs/observability.md", func(page string) string {
		const begin, end = "<!-- metrics: written by go test ./cmd/daybook -rewrite -->\n", "<!-- end of metrics -->"
		before, rest, found := strings.Cut(page, begin)
		_, after, ended := strings.Cut(rest, end)
		if !found || !ended {
			t.Fatal("the page has no place for the metrics")
		}
		return before + begin + list.String() + end + after
	})
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		if strings.HasPrefix(p.Metric, "daybook_") {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
	described := make(chan *prometheus.Desc, 100)
	newMetrics(nil, nil, 0).Describe(described)
	newCallMetrics().Describe(described)
	if got := strings.Count(list.String(), "\n") - 2; got != len(described) {
		t.Errorf("%d metrics are shown and %d described", got, len(described))
	}
}

// labelsOf are the labels of a family, with their values where these are few and
// known.
func labelsOf(f *dto.MetricFamily) string {
	var names []string
	for _, l := range f.GetMetric()[0].GetLabel() {
		names = append(names, "`"+l.GetName()+"`")
	}
	return strings.Join(names, ", ")
}

// current holds a file to what it should be, or writes it.
func current(t *testing.T, path string, want func(had string) string) {
	t.Helper()
	had, err := os.ReadFile(path)
	if err != nil && !*rewrite {
		t.Fatal(err)
	}
	if text := want(string(had)); *rewrite {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if text != string(had) {
		t.Errorf("%s is not current: run go test ./cmd/daybook -run TestMetricsList -rewrite\nwant\n%s", path, text)
	}
}

// Past the limit queues are summed, whichever comes, and a name stays.
func TestMetricsQueues(t *testing.T) {
	book, err := sqlite.Open(t.Context(), sqlite.Memory, sqlite.Options{Book: daybook.Options{
		Log: slog.New(slog.DiscardHandler)}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { book.Close() })
	m := newMetrics(book, nil, 2)
	put := func(queue string, n int) {
		for range n {
			if _, err := book.Enqueue(t.Context(), daybook.Request{Queue: queue, Kind: "k"}); err != nil {
				t.Fatal(err)
			}
		}
	}
	shows := func(want map[string]float64) {
		t.Helper()
		m.counted = time.Time{}
		families, err := m.registry().Gather()
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]float64{}
		for _, f := range families {
			if f.GetName() != "daybook_jobs" && f.GetName() != "daybook_queues" {
				continue
			}
			for _, s := range f.GetMetric() {
				switch {
				case len(s.GetLabel()) == 0:
					got["queues"] = s.GetGauge().GetValue()
				case s.GetLabel()[1].GetValue() == "eligible":
					got[s.GetLabel()[0].GetValue()] = s.GetGauge().GetValue()
				}
			}
		}
		if !maps.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	}
	put("a", 1)
	shows(map[string]float64{"a": 1, "queues": 1})
	put("b", 1)
	put("c", 3)
	put("d", 2)
	shows(map[string]float64{"a": 1, "c": 3, otherQueues: 3, "queues": 4})
	put("d", 9)
	if err := book.Pause(t.Context(), "d", daybook.By{Actor: "ada", Reason: "r"}); err != nil {
		t.Fatal(err)
	}
	if _, err := book.Claim(t.Context(), daybook.ClaimRequest{Queues: []string{"b", "c", "d"}, Limit: 1}); err != nil {
		t.Fatal(err)
	}
	shows(map[string]float64{"a": 1, "c": 3, otherQueues: 11, "queues": 4})
	families, err := m.registry().Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`daybook_queue_paused (other) 1`, `daybook_queue_workers (other) 2`,
		`daybook_queue_workers c 1`, `daybook_queue_workers a 0`} {
		if !slices.Contains(linesOf(families), want) {
			t.Errorf("no line %s", want)
		}
	}
}

func linesOf(families []*dto.MetricFamily) (lines []string) {
	for _, f := range families {
		for _, s := range f.GetMetric() {
			line := f.GetName()
			for _, l := range s.GetLabel() {
				line += " " + l.GetValue()
			}
			lines = append(lines, fmt.Sprint(line, " ", s.GetGauge().GetValue()+s.GetCounter().GetValue()))
		}
	}
	return lines
}

// What a real server and a real worker show, taken together, is the list, apart
// from what needs a bell that other processes hear.
func TestMetricsOfProcesses(t *testing.T) { onEach(t, testMetricsOfProcesses) }

func testMetricsOfProcesses(t *testing.T, c *cli) {
	url := c.served()
	ask(t, "", "POST", url+"/v1/jobs", `{"queue":"mail","kind":"k"}`)
	ask(t, "", "POST", url+"/v1/jobs/secret-thing/cancel", `{}`)
	ask(t, "", "GET", url+"/v1/check", "")
	c.ok("reconcile", "--once")
	worker := listening(t, c)
	had := map[string]bool{}
	for _, page := range []string{url, worker} {
		status, text := ask(t, "", "GET", page+"/metrics", "")
		if status != http.StatusOK {
			t.Fatalf("%s: %d %s", page, status, text)
		}
		if strings.Contains(text, "secret-thing") {
			t.Errorf("a path is in the metrics: %s", text)
		}
		for line := range strings.Lines(text) {
			if rest, ok := strings.CutPrefix(line, "# TYPE "); ok {
				had[strings.Fields(rest)[0]] = true
			}
		}
	}
	list, err := os.ReadFile("testdata/metrics.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(list)) {
		_, rest, _ := strings.Cut(line, "| `")
		name, _, ok := strings.Cut(rest, "`")
		needsBell := strings.HasPrefix(name, "daybook_bell_") || name == "daybook_outbox_age_seconds"
		if ok && !had[name] && (!needsBell || c.postgres() && !strings.Contains(name, "echo")) {
			t.Errorf("nobody shows %s", name)
		}
	}
}

// listening runs a worker that listens, until the test ends.
func listening(t *testing.T, c *cli) (url string) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	log, say := io.Pipe()
	ended := make(chan int, 1)
	a := &app{base: ctx, stdin: strings.NewReader(""), stdout: io.Discard, stderr: say,
		terminal: func(any) bool { return false }}
	go func() {
		ended <- a.run([]string{"--db", c.db, "work", "--queue", "none", "--exec", "true", "--listen", "127.0.0.1:0"})
		say.Close()
	}()
	t.Cleanup(func() {
		stop()
		<-ended
	})
	lines := bufio.NewScanner(log)
	for lines.Scan() {
		if _, address, ok := strings.Cut(lines.Text(), "address="); ok {
			go func() { _, _ = io.Copy(io.Discard, log) }()
			return "http://" + strings.Fields(address)[0]
		}
	}
	t.Fatal("the worker ended without saying where it listens")
	return ""
}
