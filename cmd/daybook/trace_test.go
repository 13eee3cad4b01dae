//go:build unix

package main

import (
	"bytes"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// spans is a collector of OpenTelemetry, as its protocol wants one.
type spans struct {
	t   *testing.T
	url string

	mu   sync.Mutex
	all  []*otlp.Span
	raw  bytes.Buffer
	from []string // service.name of each call
}

func newSpans(t *testing.T) *spans {
	s := &spans{t: t}
	server := httptest.NewServer(http.HandlerFunc(s.take))
	t.Cleanup(server.Close)
	s.url = server.URL
	return s
}

func (s *spans) take(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var call collector.ExportTraceServiceRequest
	if err == nil {
		err = proto.Unmarshal(body, &call)
	}
	if err != nil || r.URL.Path != "/v1/traces" || r.Header.Get("Content-Type") != "application/x-protobuf" {
		s.t.Errorf("a call that is none: %s %v: %v", r.URL.Path, r.Header, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.raw.Write(body)
	for _, resource := range call.ResourceSpans {
		for _, a := range resource.Resource.Attributes {
			if a.Key == "service.name" {
				s.from = append(s.from, a.Value.GetStringValue())
			}
		}
		for _, scope := range resource.ScopeSpans {
			s.all = append(s.all, scope.Spans...)
		}
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
}

// named finds the one span of a name in a trace.
func (s *spans) named(trace, name string) *otlp.Span {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []*otlp.Span
	var names []string
	for _, span := range s.all {
		if hex.EncodeToString(span.TraceId) != trace {
			continue
		}
		if names = append(names, span.Name); span.Name == name {
			found = append(found, span)
		}
	}
	if len(found) != 1 {
		s.t.Fatalf("trace %s has %d spans %q, want one; it has %q", trace, len(found), name, names)
	}
	return found[0]
}

// says are a span's attributes.
func says(span *otlp.Span) map[string]string {
	m := map[string]string{}
	for _, a := range span.Attributes {
		m[a.Key] = a.Value.GetStringValue()
	}
	return m
}

// One trace from the caller of the server to the command of a worker, and on to the
// job which that enqueues, over four processes. Nothing of the input is in it.
func TestTraceThroughProcesses(t *testing.T) { onEach(t, testTraceThroughProcesses) }

func testTraceThroughProcesses(t *testing.T, c *cli) {
	c.onPath()
	s := newSpans(t)
	const trace, caller = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
	server := c.start("serve", "--listen", "127.0.0.1:0", "--otlp", s.url)
	url := servedURL.FindStringSubmatch(server.says("url=", 1)[0])[1]
	r, err := http.NewRequestWithContext(t.Context(), "POST", url+"/v1/jobs",
		strings.NewReader(`{"queue":"mail","kind":"welcome","args":{"to":"hunter2"},"id":"`+id(1)+`","key":"hunter3"}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Traceparent", "00-"+trace+"-"+caller+"-01")
	r.Header.Set("Tracestate", "vendor=1")
	answer, err := http.DefaultClient.Do(r)
	if err != nil || answer.StatusCode != http.StatusCreated {
		t.Fatalf("enqueue: %v, %v", answer, err)
	}
	answer.Body.Close()
	job := c.job(1)
	if job.Trace().TraceID() != trace || job.Trace().SpanID() == caller || job.Tracestate != "vendor=1" {
		t.Errorf("the job has trace %v", job.Trace())
	}
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", s.url+"/")
	t.Setenv("OTEL_SERVICE_NAME", "mailer")
	t.Setenv("TRACEPARENT", "00-11111111111111111111111111111111-1111111111111111-01") // the worker's own start
	c.start("work", "--queue", "mail", "--drain", "--exec", `test -n "$TRACEPARENT" && test "$TRACESTATE" = vendor=1 && `+
		`daybook enqueue --queue next --kind k --id `+id(2)+` && echo hunter4 >&2 && exit 1`).ends(statusDone)
	server.signal(syscall.SIGTERM)
	server.ends(statusDone)
	called, put, ran := s.named(trace, "POST /v1/jobs"), s.named(trace, "enqueue mail"), s.named(trace, "process mail")
	for _, step := range []struct {
		what   string
		parent string
		span   *otlp.Span
		kind   otlp.Span_SpanKind
	}{{"the call", caller, called, otlp.Span_SPAN_KIND_SERVER},
		{"the enqueue", hex.EncodeToString(called.SpanId), put, otlp.Span_SPAN_KIND_PRODUCER},
		{"the attempt", hex.EncodeToString(put.SpanId), ran, otlp.Span_SPAN_KIND_CONSUMER}} {
		if hex.EncodeToString(step.span.ParentSpanId) != step.parent || step.span.Kind != step.kind {
			t.Errorf("%s has parent %x and kind %s, want %s and %s", step.what, step.span.ParentSpanId, step.span.Kind,
				step.parent, step.kind)
		}
	}
	if got := job.Trace().SpanID(); got != hex.EncodeToString(put.SpanId) {
		t.Errorf("the job's parent is %s, want the enqueue's %x", got, put.SpanId)
	}
	if next := c.job(2).Trace(); next.TraceID() != trace || next.SpanID() != hex.EncodeToString(ran.SpanId) {
		t.Errorf("the job that the command enqueued has trace %v, want the attempt's", next)
	}
	said := says(ran)
	for key, want := range map[string]string{"messaging.system": "daybook", "messaging.destination.name": "mail",
		"messaging.operation.name": "process", "messaging.message.id": id(1), "daybook.kind": "welcome",
		"daybook.outcome": "failed", "error.type": "exit status 1"} {
		if said[key] != want {
			t.Errorf("the attempt's %s is %q, want %q", key, said[key], want)
		}
	}
	if !slices.Contains(s.from, "daybook") || !slices.Contains(s.from, "mailer") {
		t.Errorf("spans came from %q", s.from)
	}
	for _, secret := range []string{"hunter2", "hunter3", "hunter4"} {
		if bytes.Contains(s.raw.Bytes(), []byte(secret)) {
			t.Errorf("spans hold %s, of args, a key or an error", secret)
		}
	}
}

// A collector that is away, or that never answers, costs spans and nothing else.
func TestTraceWithoutCollector(t *testing.T) {
	over := make(chan struct{})
	hangs := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-over }))
	defer hangs.Close()
	defer close(over)
	gone := httptest.NewServer(nil)
	gone.Close()
	for _, url := range []string{hangs.URL, gone.URL} {
		c := newCLI(t)
		c.enqueue(1)
		p := c.start("work", "--queue", "mail", "--drain", "--exec", "exit 0", "--otlp", url)
		p.ends(statusDone)
		c.state(1, "succeeded")
	}
}

func TestTraceFlags(t *testing.T) {
	c := newCLI(t)
	const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	c.want(statusUsage, "work", "--queue", "q", "--exec", "true", "--otlp", "localhost:4318")
	c.want(statusUsage, "work", "--queue", "q", "--exec", "true", "--otlp", "http://me:secret@localhost:4318")
	c.want(statusUsage, "serve", "--metrics-queues", "-1")
	c.want(statusUsage, "enqueue", "--queue", "q", "--kind", "k", "--traceparent", "junk")
	c.want(statusUsage, "enqueue", "--queue", "q", "--kind", "k", "--traceparent", "")
	c.enqueue(1, "--traceparent", parent)
	t.Setenv("TRACEPARENT", "junk")
	c.enqueue(2)
	t.Setenv("TRACEPARENT", parent)
	t.Setenv("TRACESTATE", "a=1")
	c.enqueue(3)
	for n, want := range map[int]string{1: parent, 2: "", 3: parent + " a=1"} {
		if got := c.job(n).Trace().Column(); got != want {
			t.Errorf("job %d has trace %q, want %q", n, got, want)
		}
	}
	c.db = "sqlite:" + t.TempDir() + "/from.db"
	other := strings.ReplaceAll(parent, "b7", "b8")
	lines := `{"queue":"q","kind":"k","id":"` + id(4) + `"}` + "\n" +
		`{"queue":"q","kind":"k","id":"` + id(5) + `","traceparent":"` + other + `"}` + "\n" +
		`{"queue":"q","kind":"k","id":"` + id(6) + `","traceparent":"junk"}` + "\n"
	c.stdin = lines
	c.want(statusFailed, "enqueue", "--from", "-")
	for n, want := range map[int]string{4: parent + " a=1", 5: other} {
		if got := c.job(n).Trace().Column(); got != want {
			t.Errorf("line %d has trace %q, want %q", n-3, got, want)
		}
	}
}
