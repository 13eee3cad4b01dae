package sourcetest

import (
	"slices"
	"testing"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/cutover"
)

// closed waits until the gate is.
func (p *place) closed(t testing.TB, o cutover.Old) cutover.GateState {
	t.Helper()
	var g cutover.GateState
	until(t, "a closed gate", func() bool {
		var err error
		g, err = o.GateState(t.Context())
		must(t, err)
		return g.Closed
	})
	return g
}

func gateRound(t *testing.T, p *place) {
	p.fill(t, 5)
	before := Dump(t, p.Client)
	order := takenOrder(t, p)
	same(t, "before the gate", before, Dump(t, p.Client))
	if p.Process != nil {
		p.Process(t)
	}
	before = Dump(t, p.Client)
	o := p.old(t)
	if g, err := o.GateState(t.Context()); err != nil || g.Closed || g.How == "" {
		t.Errorf("before: %+v, %v", g, err)
	}
	must(t, o.OpenGate(t.Context())) // one that is open stays so
	for range 2 {
		must(t, o.CloseGate(t.Context()))
	}
	if p.Quiet != nil {
		if g, err := o.GateState(t.Context()); err != nil || g.Closed {
			t.Errorf("closed before the process is quiet: %+v, %v", g, err)
		}
		p.Quiet(t)
	}
	if g := p.closed(t, o); g.How == "" {
		t.Errorf("closed, and nobody knows how: %+v", g)
	}
	if n := len(scan(t, o)); n != 20 {
		t.Errorf("%d jobs are visited behind the gate, want 20", n)
	}
	p.Produce(t, "arrived", "[]") // producers aren't stopped
	must(t, o.CloseGate(t.Context()))
	if n := len(scan(t, o)); n != 21 {
		t.Errorf("%d jobs are visited behind the gate, want 21", n)
	}
	took, err := o.Take(t.Context(), 3)
	must(t, err)
	for _, job := range slices.Backward(took) { // a return behind the gate stays behind it
		if back, err := o.Return(t.Context(), job); err != nil || !back {
			t.Errorf("returning %s: %v, %v", job.Name(), back, err)
		}
	}
	for range 2 {
		must(t, o.OpenGate(t.Context()))
	}
	if g, err := o.GateState(t.Context()); err != nil || g.Closed {
		t.Errorf("opened: %+v, %v", g, err)
	}
	order = slices.Insert(order, 5, "arrived")
	if got := takenOrder(t, p); !slices.Equal(got, order) {
		t.Errorf("after the gate, jobs are taken as %v, want %v", got, order)
	}
}

// takenOrder is the order in which jobs would be taken; they are put back.
func takenOrder(t testing.TB, p *place) []string {
	t.Helper()
	o := p.old(t)
	took := take(t, o, 100)
	for _, job := range slices.Backward(took) {
		if back, err := o.Return(t.Context(), job); err != nil || !back {
			t.Fatalf("returning %s: %v, %v", job.Name(), back, err)
		}
	}
	must(t, o.Forget(t.Context()))
	return names(took)
}

func canary(t *testing.T, p *place) {
	p.Put(t, daybook.OldWaiting, "w-0", "[]", due(0))
	p.Put(t, daybook.OldWaiting, "w-1", "[]", due(0))
	before := Dump(t, p.Client)
	o := p.old(t)
	there := func(id string, want bool) {
		t.Helper()
		if is, err := o.CanaryThere(t.Context(), id); err != nil || is != want {
			t.Errorf("canary %q lies there: %v, %v; want %v", id, is, err, want)
		}
	}
	there("c-1", false)
	for range 2 {
		must(t, o.PutCanary(t.Context(), "c-1"))
	}
	must(t, o.PutCanary(t.Context(), "c-2"))
	there("c-1", true)
	there("c-2", true)
	if jobs := scan(t, o); len(jobs) != 2 {
		t.Errorf("a scan has %v", jobs)
	}
	left, err := o.Left(t.Context())
	must(t, err)
	for where, n := range left {
		if n != 2 {
			t.Errorf("left are %d %s", n, where)
		}
	}
	must(t, o.CloseGate(t.Context()))
	there("c-1", true)
	took := take(t, o, 10)
	if !slices.Equal(names(took), []string{"w-0", "w-1"}) {
		t.Errorf("taken are %v", names(took))
	}
	there("c-1", true)
	there("c-2", true)
	for _, job := range slices.Backward(took) {
		if back, err := o.Return(t.Context(), job); err != nil || !back {
			t.Errorf("returning %s: %v, %v", job.Name(), back, err)
		}
	}
	must(t, o.OpenGate(t.Context()))
	for range 2 {
		must(t, o.DropCanary(t.Context(), "c-1"))
	}
	there("c-1", false)
	there("c-2", true)
	must(t, o.DropCanary(t.Context(), "c-2"))
	must(t, o.Forget(t.Context()))
	same(t, "after two canaries", before, Dump(t, p.Client))
}
