package webhooks

import (
	"bytes"
	"testing"

	"github.com/daybookdev/daybook"
)

// Every delivery is an acceptable request: that is what the demo relies on.
func TestDeliveriesAreAcceptable(t *testing.T) {
	deliveries := Deliveries()
	if got, want := len(deliveries), 329; got != want {
		t.Fatalf("got %d deliveries, want %d", got, want)
	}
	seen := map[string]bool{}
	for i, d := range deliveries {
		if seen[d.ID] {
			t.Errorf("line %d repeats delivery id %s", i+1, d.ID)
		}
		seen[d.ID] = true
		r := daybook.Request{Queue: "github", Kind: d.Kind(), Args: d.Body, Key: d.ID}
		n, err := r.Prepare()
		if err != nil {
			t.Errorf("line %d (%s): %v", i+1, d.Kind(), err)
			continue
		}
		if !bytes.Equal(n.Job.Args, d.Body) || len(d.Body) < 100 {
			t.Errorf("line %d: args of %d bytes are not the body of %d bytes", i+1, len(n.Job.Args), len(d.Body))
		}
	}
}

// A caller may change what it was given: the next call is not affected.
func TestDeliveriesAreFresh(t *testing.T) {
	first := Deliveries()
	want := string(first[0].Body)
	clear(first[0].Body)
	if got := string(Deliveries()[0].Body); got != want {
		t.Errorf("the second call sees the first caller's change: %.40q", got)
	}
}
