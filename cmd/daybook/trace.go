package main

import (
	"context"

	"github.com/spf13/pflag"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/telemetry"
	"github.com/daybookdev/daybook/worker"
)

func otlpFlag(fs *pflag.FlagSet, url *string) {
	fs.StringVar(url, "otlp", "", "URL of an OpenTelemetry collector to send spans to, by OTLP over HTTP, like "+
		"http://localhost:4318 (or OTEL_EXPORTER_OTLP_ENDPOINT; default none)")
}

// traced runs work with a tracer, if one is wanted, and sends its last spans when
// the work is done.
func (a *app) traced(ctx context.Context, url string, work func() error) error {
	tracer, err := telemetry.Open(ctx, telemetry.Options{URL: url, Version: versionOf().Version, Log: a.log()})
	if err != nil {
		return err
	}
	a.tracer = tracer
	defer tracer.Close()
	return work()
}

// bookTracer is the tracer for a book, or nil.
func (a *app) bookTracer() daybook.Tracer {
	if a.tracer == nil {
		return nil
	}
	return a.tracer
}

// workTracer is the tracer for a worker, or nil.
func (a *app) workTracer() worker.Tracer {
	if a.tracer == nil {
		return nil
	}
	return a.tracer
}
