package telemetry

import (
	"context"
	"encoding/hex"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/daybookdev/daybook"
)

// scope names who makes the spans.
const scope = "github.com/daybookdev/daybook"

// Tracer makes the spans. It is a daybook.Tracer, a worker.Tracer and an
// httpapi.Observer, and may be used from many goroutines.
type Tracer struct {
	tracer trace.Tracer
	close  func(context.Context) error
}

// New makes spans with a provider of yours, which you close.
func New(provider trace.TracerProvider) *Tracer { return &Tracer{tracer: provider.Tracer(scope)} }

// Names of attributes. The first are OpenTelemetry's own.
const (
	attrSystem      = attribute.Key("messaging.system")
	attrOperation   = attribute.Key("messaging.operation.name")
	attrType        = attribute.Key("messaging.operation.type")
	attrDestination = attribute.Key("messaging.destination.name")
	attrCount       = attribute.Key("messaging.batch.message_count")
	attrMessage     = attribute.Key("messaging.message.id")
	attrClient      = attribute.Key("messaging.client.id")
	attrError       = attribute.Key("error.type")

	attrKind       = attribute.Key("daybook.kind")
	attrAttempt    = attribute.Key("daybook.attempt")
	attrGeneration = attribute.Key("daybook.generation")
	attrSession    = attribute.Key("daybook.session")
	attrOutcome    = attribute.Key("daybook.outcome")
	attrEffect     = attribute.Key("daybook.effect.name")
	attrPolicy     = attribute.Key("daybook.effect.policy")
	attrDecision   = attribute.Key("daybook.effect.decision")
)

// system is what messaging.system says of Daybook.
var system = attrSystem.String("daybook")

// linksMost bounds the links of a span: OpenTelemetry keeps no more by default.
const linksMost = 128

// Enqueue begins the span of an enqueue. Its trace is that of the jobs that have
// none of their own; those that have one are linked.
func (t *Tracer) Enqueue(ctx context.Context, jobs []daybook.NewJob) (context.Context, func(error)) {
	attrs := []attribute.KeyValue{system, attrOperation.String("enqueue"), attrType.String("send")}
	name := "enqueue"
	first := &jobs[0].Job
	oneQueue, oneKind := true, true
	var links []trace.Link
	for i := range jobs {
		j := &jobs[i].Job
		oneQueue, oneKind = oneQueue && j.Queue == first.Queue, oneKind && j.Kind == first.Kind
		if !j.Trace().IsZero() && len(links) < linksMost {
			links = append(links, trace.Link{SpanContext: contextOf(j.Trace())})
		}
	}
	if oneQueue {
		name += " " + first.Queue
		attrs = append(attrs, attrDestination.String(first.Queue))
	}
	if oneKind {
		attrs = append(attrs, attrKind.String(first.Kind))
	}
	if len(jobs) > 1 {
		attrs = append(attrs, attrCount.Int(len(jobs)))
	} else {
		attrs = append(attrs, attrMessage.String(first.ID.String()))
	}
	ctx, span := t.tracer.Start(within(ctx), name, trace.WithSpanKind(trace.SpanKindProducer),
		trace.WithAttributes(attrs...), trace.WithLinks(links...))
	return daybook.WithTrace(ctx, traceOf(span.SpanContext())), func(err error) { end(span, err) }
}

// Claimed makes the span of a claim call that got jobs, with links to where they
// were enqueued.
func (t *Tracer) Claimed(asked time.Time, jobs []daybook.Job) {
	attrs := []attribute.KeyValue{system, attrOperation.String("claim"), attrType.String("receive"),
		attrCount.Int(len(jobs)), attrClient.String(jobs[0].Worker), attrSession.String(jobs[0].Session.String())}
	name, one := "claim", true
	var links []trace.Link
	for i := range jobs {
		one = one && jobs[i].Queue == jobs[0].Queue
		if tr := jobs[i].Trace(); !tr.IsZero() && len(links) < linksMost {
			links = append(links, trace.Link{SpanContext: contextOf(tr)})
		}
	}
	if one {
		name += " " + jobs[0].Queue
		attrs = append(attrs, attrDestination.String(jobs[0].Queue))
	}
	_, span := t.tracer.Start(context.Background(), name, trace.WithNewRoot(), trace.WithTimestamp(asked),
		trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(attrs...), trace.WithLinks(links...))
	span.End()
}

// Attempt begins the span of an attempt, as a child of the job's trace, or of a
// trace of its own.
func (t *Tracer) Attempt(ctx context.Context, job daybook.Job) (context.Context, func(daybook.Outcome)) {
	options := []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindConsumer), trace.WithAttributes(
		system, attrOperation.String("process"), attrType.String("process"), attrDestination.String(job.Queue),
		attrMessage.String(job.ID.String()), attrClient.String(job.Worker), attrKind.String(job.Kind),
		attrAttempt.Int(job.Failures+job.Crashes+1), attrGeneration.Int64(job.Generation),
		attrSession.String(job.Session.String()))}
	if tr := job.Trace(); tr.IsZero() {
		options = append(options, trace.WithNewRoot())
	} else {
		ctx = trace.ContextWithRemoteSpanContext(ctx, contextOf(tr))
	}
	ctx, span := t.tracer.Start(ctx, "process "+job.Queue, options...)
	return daybook.WithTrace(ctx, traceOf(span.SpanContext())), func(out daybook.Outcome) {
		span.SetAttributes(attrOutcome.String(string(out.Kind)))
		if out.Kind == daybook.OutcomeFailed {
			span.SetAttributes(attrError.String(kindOf(out.Problem)))
			span.SetStatus(codes.Error, "")
		}
		span.End()
	}
}

// kindOf is an error's sort as the worker knows it, which may be the name of a type.
// Its text stays where it is.
func kindOf(p *daybook.Problem) string {
	if p == nil || p.Kind == "" || daybook.CheckKey(p.Kind) != nil {
		return "_OTHER"
	}
	return p.Kind
}

// Effect begins the span of an effect, in the attempt's. What the handler's own
// clients make of the call stands below it.
func (t *Tracer) Effect(ctx context.Context, name string, policy daybook.Policy) (
	context.Context, func(daybook.Decision, error)) {
	ctx, span := t.tracer.Start(ctx, "effect", trace.WithSpanKind(trace.SpanKindInternal), trace.WithAttributes(
		attrEffect.String(name), attrPolicy.String(string(policy))))
	return daybook.WithTrace(ctx, traceOf(span.SpanContext())), func(said daybook.Decision, err error) {
		if said != "" {
			span.SetAttributes(attrDecision.String(string(said)))
		}
		end(span, err)
	}
}

// Current is the trace of the innermost span in a context.
func (t *Tracer) Current(ctx context.Context) daybook.Trace {
	return traceOf(trace.SpanContextFromContext(ctx))
}

// WithSpan makes a context whose span is the trace of jobs that are enqueued with
// it in a transaction of yours (EnqueueTx, EnqueueSQL), which know no book and so
// no tracer.
func WithSpan(ctx context.Context) context.Context {
	if sc := trace.SpanContextFromContext(ctx); sc.IsValid() {
		return daybook.WithTrace(ctx, traceOf(sc))
	}
	return ctx
}

// end ends a span by how its work did.
func end(span trace.Span, err error) {
	if err != nil {
		span.SetAttributes(attrError.String(string(daybook.CodeOf(err))))
		span.SetStatus(codes.Error, "")
	}
	span.End()
}

// within is a context whose parent of spans is its own span, or else the trace
// that it carries from elsewhere.
func within(ctx context.Context) context.Context {
	if trace.SpanContextFromContext(ctx).IsValid() {
		return ctx
	}
	if tr := daybook.TraceOf(ctx); !tr.IsZero() {
		return trace.ContextWithRemoteSpanContext(ctx, contextOf(tr))
	}
	return ctx
}

// contextOf reads a trace as OpenTelemetry does.
func contextOf(tr daybook.Trace) trace.SpanContext {
	c := trace.SpanContextConfig{Remote: true}
	c.TraceID, _ = trace.TraceIDFromHex(tr.TraceID())
	c.SpanID, _ = trace.SpanIDFromHex(tr.SpanID())
	if len(tr.Parent) > 2 {
		if flags, err := hex.DecodeString(tr.Parent[len(tr.Parent)-2:]); err == nil {
			c.TraceFlags = trace.TraceFlags(flags[0])
		}
	}
	c.TraceState, _ = trace.ParseTraceState(tr.State)
	return trace.NewSpanContext(c)
}

// traceOf writes a span's context as a job keeps it.
func traceOf(sc trace.SpanContext) daybook.Trace {
	if !sc.IsValid() {
		return daybook.Trace{}
	}
	parent := "00-" + sc.TraceID().String() + "-" + sc.SpanID().String() + "-" + sc.TraceFlags().String()
	return daybook.ReadTrace(parent, sc.TraceState().String())
}
