package daybook

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
)

// TestTraceCases holds CheckTrace to the lines that the SQL functions are held to
// as well.
func TestTraceCases(t *testing.T) {
	text, err := os.ReadFile("testdata/traces.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if line = strings.ReplaceAll(line, "·", "\t"); strings.HasPrefix(line, "#") {
			continue
		}
		parts := strings.Split(strings.TrimSuffix(line, "\n"), " | ")
		if len(parts) == 2 { // no state
			parts = []string{parts[0], "", strings.TrimPrefix(parts[1], "| ")}
		}
		given := Trace{strings.TrimSpace(parts[0]), parts[1]}
		kept, err := CheckTrace(given)
		if field, ok := errors.AsType[*Error](err); ok {
			if field.Field != parts[2] || field.Code != CodeInvalid {
				t.Errorf("%v: refused %s (%s), want %s", given, field.Field, field.Code, parts[2])
			}
			continue
		}
		if got := kept.Column(); got != parts[2] {
			t.Errorf("%v: kept %q, want %q", given, got, parts[2])
		}
		if TraceOfColumn(kept.Column()) != kept {
			t.Errorf("%v: a column gives back %v", kept, TraceOfColumn(kept.Column()))
		}
	}
}

// Whoever stands between made a header; a bad one is no reason to refuse a call.
func TestReadTrace(t *testing.T) {
	const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	long := "a=" + strings.Repeat("x", 250)
	for _, c := range []struct {
		parent, state string
		want          Trace
	}{
		{"", "a=1", Trace{}}, {"00-junk", "a=1", Trace{}},
		{parent, "", Trace{Parent: parent}}, {parent, "a=1", Trace{parent, "a=1"}},
		{parent, "a=1,a=2", Trace{Parent: parent}},
		{parent, long + ",b" + long[1:] + ",c" + long[1:], Trace{parent, long + ",b" + long[1:]}},
		{parent, strings.Repeat("x", 600), Trace{Parent: parent}},
	} {
		if got := ReadTrace(c.parent, c.state); got != c.want {
			t.Errorf("%q, %q: got %v, want %v", c.parent, c.state, got, c.want)
		}
	}
	tr := Trace{Parent: parent}
	if tr.TraceID() != parent[3:35] || tr.SpanID() != parent[36:52] ||
		(Trace{}).TraceID() != "" || (Trace{}).SpanID() != "" {
		t.Errorf("ids: %s, %s", tr.TraceID(), tr.SpanID())
	}
}

func TestFillTrace(t *testing.T) {
	const parent, own = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
		"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b8-01"
	jobs, err := PrepareMany([]Request{{Queue: "q", Kind: "k"}, {Queue: "q", Kind: "k", Traceparent: own}})
	if err != nil {
		t.Fatal(err)
	}
	FillTrace(context.Background(), jobs)
	if !jobs[0].Job.Trace().IsZero() {
		t.Errorf("a context without a trace gave %v", jobs[0].Job.Trace())
	}
	FillTrace(WithTrace(context.Background(), Trace{Parent: "junk"}), jobs)
	if !jobs[0].Job.Trace().IsZero() {
		t.Errorf("junk gave %v", jobs[0].Job.Trace())
	}
	FillTrace(WithTrace(context.Background(), Trace{parent, "a=1"}), jobs)
	if got := jobs[0].Job.Trace(); got != (Trace{parent, "a=1"}) {
		t.Errorf("got %v", got)
	}
	if got := jobs[1].Job.Trace(); got != (Trace{Parent: own}) {
		t.Errorf("a job with a trace of its own got %v", got)
	}
}
