// Package telemetry makes OpenTelemetry spans of what Daybook does: enqueues, claims,
// attempts, effects and HTTP calls. They follow OpenTelemetry's conventions for
// messaging: the span of an attempt is a child of the one in which its job was
// enqueued, in whatever process that was, since the job carries its trace.
//
// It is the only package that knows OpenTelemetry. A program that wants spans makes
// a [Tracer] and gives it to the book, its workers and its HTTP server:
//
//	tracer := telemetry.New(otel.GetTracerProvider())
//	book, err := sqlite.Open(ctx, path, sqlite.Options{Book: daybook.Options{Tracer: tracer}})
//	w := worker.New(book, worker.Config{Queues: []string{"mail"}, Tracer: tracer})
//
// Without one nothing of this costs anything. No span holds args, results, keys,
// tokens or the texts of errors: of an error it has the code or the type.
package telemetry
