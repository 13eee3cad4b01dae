package telemetry

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/daybookdev/daybook"
)

// Options of Open.
type Options struct {
	// URL is where to send spans, by OTLP over HTTP; /v1/traces is added unless its
	// path ends so. "" takes what the standard variables of OpenTelemetry say
	// (OTEL_EXPORTER_OTLP_ENDPOINT and those beside it), and without them no spans
	// are made. Credentials belong into OTEL_EXPORTER_OTLP_HEADERS.
	URL string
	// Version is this program's.
	Version string
	// Log hears, once a minute at most, that spans can't be sent. nil is
	// slog.Default.
	Log *slog.Logger
}

// FlushMax is how long Close may take.
const FlushMax = 3 * time.Second

// Open makes a tracer that sends its spans to a collector, in the background:
// one that is away or slow costs spans and nothing else. nil is that no spans are
// wanted; that is the default. What the environment wants and this program can't do
// (another protocol, a broken URL) is logged, and no spans are made; a wrong URL in
// the options is an error.
//
// The other standard variables hold as well: OTEL_SERVICE_NAME (daybook without),
// OTEL_RESOURCE_ATTRIBUTES, OTEL_TRACES_SAMPLER, OTEL_BSP_*, OTEL_SDK_DISABLED.
func Open(ctx context.Context, o Options) (*Tracer, error) {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	target, err := o.target()
	if err != nil && o.URL == "" {
		o.Log.Warn("no spans are sent", "because", err)
		return nil, nil
	}
	if target == nil || err != nil {
		return nil, err
	}
	to, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(target.String()))
	if err != nil {
		return nil, daybook.Fail(daybook.CodeInternal, "spans can't be sent to %s; see the variables OTEL_EXPORTER_OTLP_*",
			target.Host)
	}
	about := resource.NewSchemaless(attribute.String("service.name", cmp.Or(os.Getenv("OTEL_SERVICE_NAME"), "daybook")),
		attribute.String("service.version", o.Version), attribute.String("service.instance.id", daybook.NewID().String()))
	if given, err := resource.New(ctx, resource.WithFromEnv(), resource.WithTelemetrySDK()); err == nil {
		// The environment wins.
		if both, err := resource.Merge(about, given); err == nil {
			about = both
		}
	}
	provider := sdk.NewTracerProvider(sdk.WithBatcher(&patient{SpanExporter: to, log: o.Log, where: target.Host}),
		sdk.WithResource(about))
	return &Tracer{tracer: provider.Tracer(scope, trace.WithInstrumentationVersion(o.Version)),
		close: provider.Shutdown}, nil
}

// Close sends the spans that wait, for FlushMax at most. Twice is harmless, and so
// is a nil Tracer.
func (t *Tracer) Close() {
	if t == nil || t.close == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), FlushMax)
	defer cancel()
	_ = t.close(ctx) // what isn't sent by then is lost, as the log has said
}

// target is where to send spans; nil is nowhere.
func (o Options) target() (*url.URL, error) {
	if o.URL != "" {
		return endpoint("otlp", o.URL, true)
	}
	env := os.Getenv
	if strings.EqualFold(env("OTEL_SDK_DISABLED"), "true") || env("OTEL_TRACES_EXPORTER") == "none" {
		return nil, nil
	}
	one, all := env("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"), env("OTEL_EXPORTER_OTLP_ENDPOINT")
	if one == "" && all == "" {
		return nil, nil
	}
	if p := cmp.Or(env("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"), env("OTEL_EXPORTER_OTLP_PROTOCOL"),
		"http/protobuf"); p != "http/protobuf" {
		return nil, daybook.Invalid("OTEL_EXPORTER_OTLP_PROTOCOL", "wants http/protobuf; nothing else is spoken here")
	}
	if one != "" {
		return endpoint("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", one, false)
	}
	return endpoint("OTEL_EXPORTER_OTLP_ENDPOINT", all, true)
}

// endpoint reads a collector's URL. base is that the path for traces is to be
// added.
func endpoint(field, text string, base bool) (*url.URL, error) {
	const path = "/v1/traces"
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return nil, daybook.Invalid(field, "wants a URL like http://localhost:4318")
	case u.User != nil:
		return nil, daybook.Invalid(field, "has credentials; give them in OTEL_EXPORTER_OTLP_HEADERS")
	case base && !strings.HasSuffix(u.Path, path):
		u = u.JoinPath(path)
	case u.Path == "":
		u.Path = "/"
	}
	return u, nil
}

// patient is an exporter that never complains to anybody but the log.
type patient struct {
	sdk.SpanExporter
	log   *slog.Logger
	where string

	mu   sync.Mutex
	next time.Time // when to complain again
	lost int       // spans, since the last complaint
}

// complainEvery is the pause between two complaints.
const complainEvery = time.Minute

// ExportSpans sends spans, or drops them.
func (p *patient) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	err := p.SpanExporter.ExportSpans(ctx, spans)
	if err == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lost += len(spans)
	if now := time.Now(); now.After(p.next) {
		p.log.Warn("spans are dropped", "collector", p.where, "because", reason(err), "spans", p.lost)
		p.next, p.lost = now.Add(complainEvery), 0
	}
	return nil
}

// reason says why a collector didn't take spans, without what it answered.
func reason(err error) string {
	var op *net.OpError
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return "it doesn't answer in time"
	case errors.As(err, &op):
		return "it can't be reached"
	}
	return "it refused them"
}
