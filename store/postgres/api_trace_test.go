package postgres

import (
	"os"
	"strings"
	"testing"

	"github.com/daybookdev/daybook"
)

// TestSQLTraces holds the functions to what the domain makes of a trace context,
// line by line, and to giving it back.
func TestSQLTraces(t *testing.T) {
	b := newSQLBook(t)
	text, err := os.ReadFile("../../testdata/traces.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if line = strings.ReplaceAll(line, "·", "\t"); strings.HasPrefix(line, "#") {
			continue
		}
		parent, rest, _ := strings.Cut(line, "|")
		state, _, _ := strings.Cut(rest, " | ")
		given := daybook.Trace{Parent: strings.TrimSpace(parent), State: strings.TrimPrefix(state, " ")}
		if strings.HasPrefix(rest, " | ") {
			given.State = ""
		}
		want, refused := daybook.CheckTrace(given)
		got, err := b.try(b.conn, "SELECT daybook.check_trace($1, $2)", given.Parent, given.State)
		switch {
		case refused != nil && err == nil:
			t.Errorf("%v: kept %q, want a refusal", given, got)
		case refused != nil:
			if e := b.refusal(err); e.Code != stateInvalid || !strings.HasPrefix(refused.Error(), e.Message) {
				t.Errorf("%v: refused with %s %q, want %q", given, e.Code, e.Message, refused)
			}
		case err != nil || got != want.Column():
			t.Errorf("%v: got %q, %v, want %q", given, got, err, want.Column())
		}
	}
	const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	for _, more := range []string{"", ", key => 'a'", ", id => '" + daybook.NewID().String() + "'"} {
		id := b.enqueue(b.conn, "'q', 'k', '{}', traceparent => '"+parent+"', tracestate => 'a=1, b=2'"+more)
		want := daybook.Trace{Parent: parent, State: "a=1,b=2"}
		if got := b.job(id).Trace(); got != want {
			t.Errorf("%s: Go sees %v, want %v", more, got, want)
		}
		if got := b.value(b.conn, "SELECT traceparent || ' ' || tracestate FROM daybook.jobs WHERE id = $1::text::uuid",
			id); got != want.Column() {
			t.Errorf("%s: the view shows %q", more, got)
		}
	}
	id := b.enqueue(b.conn, "'q', 'k', '{}'")
	if got := b.value(b.conn, `SELECT coalesce(traceparent, tracestate, 'none') FROM daybook.jobs
		WHERE id = $1::text::uuid`, id); got != "none" {
		t.Errorf("without a trace the view shows %q", got)
	}
}
