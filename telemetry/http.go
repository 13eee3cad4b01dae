package telemetry

import (
	"net/http"
	"slices"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/daybookdev/daybook"
)

const (
	attrMethod = attribute.Key("http.request.method")
	attrRoute  = attribute.Key("http.route")
	attrStatus = attribute.Key("http.response.status_code")
	attrCode   = attribute.Key("daybook.code")
)

// quiet are paths that machines ask for all day long.
var quiet = []string{"/healthz", "/readyz", "/metrics"}

// methods are those that a span's name may have.
var methods = []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch,
	http.MethodDelete, http.MethodOptions}

// Begin begins the span of an HTTP call, below the caller's if its headers name
// one. A path is in it as its route's pattern, never as it was sent.
func (t *Tracer) Begin(r *http.Request, route string) (*http.Request, func(status int, code string)) {
	ctx := r.Context()
	if slices.Contains(quiet, route) && daybook.TraceOf(ctx).IsZero() {
		return r, func(int, string) {}
	}
	method, name := r.Method, r.Method
	if !slices.Contains(methods, method) {
		method, name = "_OTHER", "HTTP"
	}
	attrs := []attribute.KeyValue{attrMethod.String(method)}
	if route != "" {
		name += " " + route
		attrs = append(attrs, attrRoute.String(route))
	}
	ctx, span := t.tracer.Start(within(ctx), name, trace.WithSpanKind(trace.SpanKindServer),
		trace.WithAttributes(attrs...))
	ctx = daybook.WithTrace(ctx, traceOf(span.SpanContext()))
	return r.WithContext(ctx), func(status int, code string) { endCall(span, status, code) }
}

func endCall(span trace.Span, status int, code string) {
	if code != "" {
		span.SetAttributes(attrCode.String(code))
	}
	switch {
	case status == 0:
		span.SetAttributes(attrError.String("client_gone"))
		span.SetStatus(codes.Error, "")
	case status >= http.StatusInternalServerError:
		span.SetAttributes(attrStatus.Int(status), attrError.String(code))
		span.SetStatus(codes.Error, "")
	default:
		span.SetAttributes(attrStatus.Int(status))
	}
	span.End()
}
