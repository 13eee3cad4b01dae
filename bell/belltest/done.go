package belltest

import (
	"testing"

	"github.com/daybookdev/daybook"
)

// doneOnce: what was acted on is over.
func doneOnce(t *testing.T, p *place) {
	b := p.outside(t)
	rings, _ := deaf(t, b, "mail")
	connected(t, b)
	drain(rings)
	publish(t, p.outside(t), daybook.Ring{Queue: "mail"})
	r := receive(t, rings)
	r.Finish(true)
	r.Finish(true) // harmless
	nothing(t, rings)
	other := p.listenOn(t, p.bell(t), "mail")
	calm(other)
	if n := len(other.heard("mail")); n > 0 {
		t.Errorf("a ring that was done came again %d times to another", n)
	}
}

// notDone: who couldn't ask the book gives the ring back, and it comes again.
func notDone(t *testing.T, p *place) {
	b := p.outside(t)
	rings, first := deaf(t, b, "mail")
	connected(t, b)
	drain(rings)
	id := daybook.NewID()
	publish(t, p.outside(t), daybook.Ring{Queue: "mail", Job: id})
	r := receive(t, rings)
	if r.Again {
		t.Error("a ring that comes for the first time says that it came before")
	}
	other := p.listen(t, "mail")
	r.Finish(false)
	// The first stands aside: it is busy with finding its database.
	again := other.hears(t, "mail")
	if !again.Again || again.Job != id {
		t.Errorf("a ring given back came as %+v, want Again and its job %s", again.Ring, id)
	}
	first.stop()
}

// neverDone: the listener died with the ring in its hand.
func neverDone(t *testing.T, p *place) {
	b := p.outside(t)
	rings, _ := deaf(t, b, "mail")
	connected(t, b)
	drain(rings)
	publish(t, p.outside(t), daybook.Ring{Queue: "mail"})
	receive(t, rings)
	other := p.listen(t, "mail")
	if err := b.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	if again := other.hears(t, "mail"); !again.Again {
		t.Error("a ring that was never done came again without saying so")
	}
}
