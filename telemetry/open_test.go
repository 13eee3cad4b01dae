package telemetry_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/telemetry"
)

// TestOpen: off by default; what the environment wants and can't be done is told
// and costs nothing, what the caller wants is refused.
func TestOpen(t *testing.T) {
	const all, one = "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
	for _, c := range []struct {
		name    string
		env     []string
		url     string
		on      bool
		refused bool
		said    string
	}{
		{name: "nothing"},
		{name: "a URL", url: "http://localhost:4318", on: true},
		{name: "the environment", env: []string{all, "http://localhost:4318"}, on: true},
		{name: "the environment for traces", env: []string{one, "https://localhost/otlp"}, on: true},
		{name: "switched off", env: []string{all, "http://localhost:4318", "OTEL_SDK_DISABLED", "TRUE"}},
		{name: "no traces", env: []string{all, "http://localhost:4318", "OTEL_TRACES_EXPORTER", "none"}},
		{name: "a URL wins", env: []string{"OTEL_SDK_DISABLED", "true"}, url: "http://localhost:4318", on: true},
		{name: "another protocol", env: []string{all, "http://localhost:4317", "OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"},
			said: "http/protobuf"},
		{name: "a broken environment", env: []string{all, "localhost:4318"}, said: "http://localhost:4318"},
		{name: "a broken URL", url: "localhost:4318", refused: true},
		{name: "credentials", url: "http://me:hunter2@localhost:4318", refused: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			for i := 0; i < len(c.env); i += 2 {
				t.Setenv(c.env[i], c.env[i+1])
			}
			var log bytes.Buffer
			tracer, err := telemetry.Open(t.Context(), telemetry.Options{URL: c.url,
				Log: slog.New(slog.NewTextHandler(&log, nil))})
			if (err != nil) != c.refused || c.refused && daybook.CodeOf(err) != daybook.CodeInvalid {
				t.Fatalf("got %v", err)
			}
			if err != nil && strings.Contains(err.Error(), "hunter2") {
				t.Errorf("the error holds a secret: %v", err)
			}
			if (tracer != nil) != c.on {
				t.Errorf("tracing is on: %t, want %t", tracer != nil, c.on)
			}
			if c.said == "" && log.Len() > 0 || !strings.Contains(log.String(), c.said) {
				t.Errorf("the log says %q, want %q", log.String(), c.said)
			}
			tracer.Close()
			tracer.Close()
		})
	}
}
