package belltest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/daybookdev/daybook"
)

// hostile are names of queues that mean something else somewhere: separators of
// subjects and routing keys, names that differ by case alone, a name that is the
// beginning of another, the longest one.
func hostile() []string {
	return []string{"a", "A", "a.b", "A.b", "a.B", "a.b.c", ".a", "a.", ".", "..", "a..b", "a-b", "a_b", "a:b",
		":", "-", "_", "0", "-1", "ab", "b", "b.a", "daybook", "daybook.ring", "amq.direct", "public", "select",
		strings.Repeat("x", daybook.NameMax), strings.Repeat("x", daybook.NameMax-1),
		strings.Repeat("x", daybook.NameMax-1) + "y", strings.Repeat(".", daybook.NameMax)}
}

// hostileNames: each name reaches its own listener and no other.
func hostileNames(t *testing.T, p *place) {
	shared := p.bell(t)
	ears := map[string]*ear{}
	for _, q := range hostile() {
		ears[q] = p.listenOn(t, shared, q)
	}
	ready(t, slices.Collect(maps.Values(ears))...)
	ringer := p.bell(t)
	for q := range ears {
		ringer.Ring(t.Context(), q)
	}
	for q, e := range ears {
		e.hears(t, q)
	}
	calm(slices.Collect(maps.Values(ears))...)
	for q, e := range ears {
		for got := range e.all() {
			if got != q && got != "" {
				t.Errorf("the listener of %q heard %q", q, got)
			}
		}
	}
}

// manyQueues: one listening over as many queues as a worker may have, and over
// few connections.
func manyQueues(t *testing.T, p *place) {
	queues := make([]string, daybook.QueuesMax)
	for i := range queues {
		queues[i] = fmt.Sprintf("tenant-%d.mail", i)
	}
	e, ringer := p.listen(t, queues...), p.bell(t)
	for i := 7; i < len(queues); i += len(queues) / 20 {
		ringer.Ring(t.Context(), queues[i])
		e.hears(t, queues[i])
	}
	if p.Connections == nil {
		return
	}
	most := 2 * p.ConnectionsMost // two ends
	if most == 0 {
		most = 16
	}
	if got := p.Connections(t); got > most || got < 1 {
		t.Errorf("two ends and %d queues take %d connections, want 1…%d", len(queues), got, most)
	}
}
