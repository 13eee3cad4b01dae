package worker

import (
	"context"
	"log/slog"

	"github.com/daybookdev/daybook"
)

// NewLogHandler makes a slog handler that adds to records from inside a handler of
// a worker (those logged with its context, like slog.InfoContext) whose they are:
// job, queue, kind, attempt, generation and session, and trace_id and span_id of
// the span in the context. They stand beside the record's own attributes, outside
// of any group.
//
// The tracer is the one of Config, so that spans of the handler's own count too; it
// may be nil: then trace_id alone is added, of the context's trace.
func NewLogHandler(next slog.Handler, tracer Tracer) slog.Handler {
	return &logHandler{bare: next, next: next, tracer: tracer}
}

type logHandler struct {
	bare   slog.Handler // without what groups began and the attributes in them
	next   slog.Handler
	tracer Tracer
	inside []func(slog.Handler) slog.Handler // what makes next of bare, from the first group on
}

func (h *logHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.next.Enabled(ctx, level)
}

func (h *logHandler) Handle(ctx context.Context, record slog.Record) error {
	attrs := h.attrs(ctx)
	switch {
	case len(attrs) == 0:
		return h.next.Handle(ctx, record)
	case len(h.inside) == 0:
		record = record.Clone()
		record.AddAttrs(attrs...)
		return h.next.Handle(ctx, record)
	}
	full := h.bare.WithAttrs(attrs)
	for _, add := range h.inside {
		full = add(full)
	}
	return full.Handle(ctx, record)
}

// attrs is whose a record is.
func (h *logHandler) attrs(ctx context.Context) (attrs []slog.Attr) {
	if ctx == nil {
		return nil
	}
	if r, ok := ctx.Value(runKey{}).(*run); ok {
		attrs = append(attrs, slog.Any("job", r.job.ID), slog.String("queue", r.job.Queue),
			slog.String("kind", r.job.Kind), slog.Int("attempt", r.job.Failures+r.job.Crashes+1),
			slog.Int64("generation", r.owner.Generation), slog.Any("session", r.owner.Session))
	}
	if h.tracer != nil {
		if t := h.tracer.Current(ctx); !t.IsZero() {
			return append(attrs, slog.String("trace_id", t.TraceID()), slog.String("span_id", t.SpanID()))
		}
	}
	if t := daybook.TraceOf(ctx); !t.IsZero() {
		attrs = append(attrs, slog.String("trace_id", t.TraceID()))
	}
	return attrs
}

func (h *logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return h.with(func(next slog.Handler) slog.Handler { return next.WithAttrs(attrs) }, len(h.inside) > 0)
}

func (h *logHandler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	return h.with(func(next slog.Handler) slog.Handler { return next.WithGroup(name) }, true)
}

func (h *logHandler) with(add func(slog.Handler) slog.Handler, inside bool) slog.Handler {
	made := &logHandler{bare: h.bare, next: add(h.next), tracer: h.tracer}
	if !inside {
		made.bare = made.next
		return made
	}
	made.inside = append(h.inside[:len(h.inside):len(h.inside)], add)
	return made
}
