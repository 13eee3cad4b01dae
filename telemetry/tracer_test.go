package telemetry_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/store/sqlite"
	"github.com/daybookdev/daybook/telemetry"
	"github.com/daybookdev/daybook/worker"
)

// lab is a book with a tracer, and the spans that it made.
type lab struct {
	*testing.T
	book     *daybook.Book
	tracer   *telemetry.Tracer
	provider *sdk.TracerProvider
	spans    *tracetest.SpanRecorder
	log      bytes.Buffer
}

func newLab(t *testing.T) *lab {
	t.Helper()
	l := &lab{T: t, spans: tracetest.NewSpanRecorder()}
	l.provider = sdk.NewTracerProvider(sdk.WithSpanProcessor(l.spans))
	l.tracer = telemetry.New(l.provider)
	book, err := sqlite.Open(t.Context(), sqlite.Memory, sqlite.Options{Book: daybook.Options{Tracer: l.tracer,
		Log: slog.New(slog.DiscardHandler)}})
	if err != nil {
		t.Fatal(err)
	}
	l.book = book
	t.Cleanup(func() { book.Close() })
	return l
}

func (l *lab) put(ctx context.Context, requests ...daybook.Request) []daybook.Receipt {
	l.Helper()
	receipts, err := l.book.EnqueueMany(ctx, requests)
	if err != nil {
		l.Fatal(err)
	}
	return receipts
}

// work runs a worker until nothing is left.
func (l *lab) work(handle func(ctx context.Context, c *worker.Claim[json.RawMessage]) error) {
	l.Helper()
	w := worker.New(l.book, worker.Config{Queues: []string{"q"}, Tracer: l.tracer, Concurrency: 1, NoLoops: true,
		Name: "w1"})
	worker.Handle(w, "k", handle)
	if err := w.Drain(l.Context()); err != nil {
		l.Fatal(err)
	}
}

// only finds the one span of a name.
func (l *lab) only(name string) sdk.ReadOnlySpan {
	l.Helper()
	var found []sdk.ReadOnlySpan
	var names []string
	for _, s := range l.spans.Ended() {
		if names = append(names, s.Name()); s.Name() == name {
			found = append(found, s)
		}
	}
	if len(found) != 1 {
		l.Fatalf("there are %d spans %q, want one; there are %q", len(found), name, names)
	}
	return found[0]
}

// says is an attribute of a span as text, "" without it.
func says(s sdk.ReadOnlySpan, key string) string {
	for _, a := range s.Attributes() {
		if string(a.Key) == key {
			return a.Value.Emit()
		}
	}
	return ""
}

func (l *lab) child(parent, child sdk.ReadOnlySpan) {
	l.Helper()
	want, got := parent.SpanContext(), child.Parent()
	if got.SpanID() != want.SpanID() || got.TraceID() != want.TraceID() {
		l.Errorf("%s is no child of %s", child.Name(), parent.Name())
	}
}

// The handler's own spans stand in the attempt's, which stands in the enqueue's;
// what it logs and enqueues belongs to them.
func TestAttempt(t *testing.T) {
	l := newLab(t)
	ctx, mine := l.provider.Tracer("mine").Start(t.Context(), "mine")
	id := l.put(ctx, daybook.Request{Queue: "q", Kind: "k"})[0].ID
	mine.End()
	log := slog.New(worker.NewLogHandler(slog.NewJSONHandler(&l.log, nil), l.tracer))
	l.work(func(ctx context.Context, c *worker.Claim[json.RawMessage]) error {
		log.InfoContext(ctx, "in the attempt")
		ctx, own := l.provider.Tracer("mine").Start(ctx, "own")
		defer own.End()
		log.InfoContext(ctx, "in its own")
		if _, err := l.book.Enqueue(ctx, daybook.Request{Queue: "later", Kind: "k"}); err != nil {
			return err
		}
		_, err := worker.Effect(ctx, "mail", worker.Repeatable, func(ctx context.Context, _ string) (string, error) {
			_, call := l.provider.Tracer("mine").Start(ctx, "call")
			call.End()
			return "sent", nil
		})
		return err
	})
	mineSpan, put, ran := l.only("mine"), l.only("enqueue q"), l.only("process q")
	l.child(mineSpan, put)
	l.child(put, ran)
	l.child(ran, l.only("own"))
	l.child(l.only("own"), l.only("enqueue later"))
	l.child(l.only("own"), l.only("effect"))
	l.child(l.only("effect"), l.only("call"))
	for key, want := range map[string]string{"messaging.system": "daybook", "messaging.operation.type": "process",
		"messaging.message.id": id.String(), "daybook.kind": "k", "daybook.attempt": "1", "daybook.generation": "1",
		"messaging.client.id": "w1", "daybook.outcome": "succeeded", "error.type": ""} {
		if got := says(ran, key); got != want {
			t.Errorf("the attempt's %s is %q, want %q", key, got, want)
		}
	}
	if got := says(l.only("effect"), "daybook.effect.decision"); got != "call" {
		t.Errorf("the effect's decision is %q, want call", got)
	}
	claim := l.only("claim q")
	if len(claim.Links()) != 1 || claim.Links()[0].SpanContext.SpanID() != put.SpanContext().SpanID() ||
		claim.SpanKind() != trace.SpanKindClient || says(claim, "messaging.operation.type") != "receive" {
		t.Errorf("the claim is %v with links %v", claim.Attributes(), claim.Links())
	}
	l.logged(id, ran, l.only("own"))
}

// logged holds two lines of the log to the spans that they were said in.
func (l *lab) logged(id daybook.ID, in ...sdk.ReadOnlySpan) {
	l.Helper()
	lines := strings.Split(strings.TrimSpace(l.log.String()), "\n")
	if len(lines) != len(in) {
		l.Fatalf("the log has %d lines, want %d: %s", len(lines), len(in), l.log.String())
	}
	for i, line := range lines {
		var said map[string]any
		if err := json.Unmarshal([]byte(line), &said); err != nil {
			l.Fatal(err)
		}
		for key, want := range map[string]any{"job": id.String(), "queue": "q", "kind": "k", "attempt": 1.0,
			"generation": 1.0, "trace_id": in[i].SpanContext().TraceID().String(),
			"span_id": in[i].SpanContext().SpanID().String()} {
			if said[key] != want {
				l.Errorf("line %d: %s is %v, want %v", i, key, said[key], want)
			}
		}
		if said["session"] == nil {
			l.Errorf("line %d has no session", i)
		}
	}
}

// What a handler fails with is told by its sort, never by its text.
func TestFailures(t *testing.T) {
	for name, handle := range map[string]func() error{
		"an error":  func() error { return worker.Permanent(errors.New("hunter2")) },
		"a panic":   func() error { panic("hunter2") },
		"an effect": nil,
	} {
		l := newLab(t)
		l.put(t.Context(), daybook.Request{Queue: "q", Kind: "k", MaxFailures: 1, Args: json.RawMessage(`"hunter2"`)})
		l.work(func(ctx context.Context, c *worker.Claim[json.RawMessage]) error {
			if handle != nil {
				return handle()
			}
			_, err := worker.Effect(ctx, "mail", worker.Ask, func(context.Context, string) (string, error) {
				panic("hunter2")
			})
			return err
		})
		ran := l.only("process q")
		if ran.Status() != (sdk.Status{Code: codes.Error}) || says(ran, "error.type") == "" ||
			says(ran, "daybook.outcome") != "failed" {
			t.Errorf("%s: the attempt has status %v and says %v", name, ran.Status(), ran.Attributes())
		}
		if handle == nil {
			if e := l.only("effect"); e.Status().Code != codes.Error || says(e, "error.type") != "internal" {
				t.Errorf("%s: the effect has status %v and says %v", name, e.Status(), e.Attributes())
			}
		}
		l.holdsNo("hunter2")
	}
}

func (l *lab) holdsNo(secret string) {
	l.Helper()
	for _, s := range tracetest.SpanStubsFromReadOnlySpans(l.spans.Ended()) {
		text, err := json.Marshal(s.Attributes)
		if err != nil {
			l.Fatal(err)
		}
		for _, e := range s.Events {
			text = append(text, e.Name...)
		}
		if bytes.Contains(text, []byte(secret)) || strings.Contains(s.Status.Description+s.Name, secret) {
			l.Errorf("span %s holds %s: %s", s.Name, secret, text)
		}
	}
}

// A batch is one span: jobs that have a trace of their own are linked, and the
// others belong to it.
func TestBatch(t *testing.T) {
	l := newLab(t)
	const own = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	requests := []daybook.Request{{Queue: "q", Kind: "k"}, {Queue: "q", Kind: "k", Traceparent: own},
		{Queue: "r", Kind: "k"}}
	ids := l.put(t.Context(), requests...)
	put := l.only("enqueue")
	if links := put.Links(); len(links) != 1 || links[0].SpanContext.SpanID().String() != own[36:52] {
		t.Errorf("links: %v, want one", put.Links())
	}
	if got := says(put, "messaging.batch.message_count"); got != "3" || says(put, "messaging.destination.name") != "" {
		t.Errorf("the batch says %v", put.Attributes())
	}
	for i, want := range []string{put.SpanContext().SpanID().String(), own[36:52], put.SpanContext().SpanID().String()} {
		j, err := l.book.Job(t.Context(), ids[i].ID)
		if err != nil || j.Trace().SpanID() != want {
			t.Errorf("job %d has trace %v, want span %s: %v", i, j.Trace(), want, err)
		}
	}
	_, err := l.book.Enqueue(t.Context(), daybook.Request{Queue: "q", Kind: "k", ID: ids[0].ID,
		Args: json.RawMessage("1")})
	if daybook.CodeOf(err) != daybook.CodeKeyConflict {
		t.Fatal(err)
	}
	if refused := l.only("enqueue q"); refused.Status().Code != codes.Error ||
		says(refused, "error.type") != "key_conflict" {
		t.Errorf("a refused one has status %v and says %v", refused.Status(), refused.Attributes())
	}
}

// Whoever wasn't sampled isn't sampled here either, and the job goes on saying so.
func TestUnsampled(t *testing.T) {
	l := newLab(t)
	const caller = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00"
	id := l.put(daybook.WithTrace(t.Context(), daybook.Trace{Parent: caller, State: "a=1"}),
		daybook.Request{Queue: "q", Kind: "k"})[0].ID
	j, err := l.book.Job(t.Context(), id)
	if err != nil || j.Traceparent[3:35] != caller[3:35] ||
		!strings.HasSuffix(j.Traceparent, "-00") || j.Tracestate != "a=1" {
		t.Errorf("the job has trace %v, %v", j.Trace(), err)
	}
	l.work(func(context.Context, *worker.Claim[json.RawMessage]) error { return nil })
	for _, s := range l.spans.Ended() {
		if s.Name() != "claim q" { // it has a trace of its own
			t.Errorf("there is a span %s", s.Name())
		}
	}
}

func TestCalls(t *testing.T) {
	l := newLab(t)
	for _, c := range []struct {
		method, route, name string
		status              int
		code                string
		failed              bool
	}{
		{"GET", "/v1/jobs/{id}", "GET /v1/jobs/{id}", 200, "", false}, {"GET", "/v1/jobs/{id}", "", 404, "not_found", false},
		{"POST", "/v1/jobs", "POST /v1/jobs", 503, "unavailable", true}, {"BREW", "", "HTTP", 404, "not_found", false},
		{"POST", "/v1/claims", "POST /v1/claims", 0, "", true},
	} {
		r := httptest.NewRequest(http.MethodGet, "/secret", nil)
		r.Method = c.method
		in, end := l.tracer.Begin(r, c.route)
		if daybook.TraceOf(in.Context()).IsZero() {
			t.Errorf("%s: the call's context has no trace", c.name)
		}
		end(c.status, c.code)
		ended := l.spans.Ended()
		span := ended[len(ended)-1]
		if c.name != "" && span.Name() != c.name || (span.Status().Code == codes.Error) != c.failed ||
			says(span, "daybook.code") != c.code || says(span, "http.route") != c.route {
			t.Errorf("%s: the span is %s %v %v", c.name, span.Name(), span.Status(), span.Attributes())
		}
	}
	l.holdsNo("secret")
	before := len(l.spans.Ended())
	_, end := l.tracer.Begin(httptest.NewRequest(http.MethodGet, "/metrics", nil), "/metrics")
	end(200, "")
	if len(l.spans.Ended()) != before {
		t.Error("a scrape has a span")
	}
	ctx, span := l.provider.Tracer("mine").Start(t.Context(), "mine")
	if got := daybook.TraceOf(telemetry.WithSpan(ctx)).SpanID(); got != span.SpanContext().SpanID().String() {
		t.Errorf("WithSpan gave %s", got)
	}
	if !daybook.TraceOf(telemetry.WithSpan(t.Context())).IsZero() {
		t.Error("WithSpan made a trace of nothing")
	}
}
