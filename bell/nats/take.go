package nats

import (
	"sync"

	"github.com/daybookdev/daybook"
	"github.com/nats-io/nats.go/jetstream"
)

// taking is a ring on its way through a listener's hands, with what JetStream
// keeps of it.
type taking struct {
	b     *Bell
	ring  daybook.Heard // as it came
	heard daybook.Heard // as it is handed on

	mu    sync.Mutex
	kept  jetstream.Msg // nil when the stream has nothing of it, or nothing yet
	ready bool          // kept is known
	over  bool          // the listener said how it went
	acted bool
}

// take makes a ring ready to be handed on.
func (b *Bell) take(h daybook.Heard) *taking {
	t := &taking{b: b, ring: h, heard: h, ready: b.kept == nil}
	t.heard.Done = t.done
	return t
}

// taken is called when a listener has the ring: what is kept of it is fetched,
// so that nobody else is given it unless the listener fails.
func (t *taking) taken() {
	t.mu.Lock()
	ready := t.ready
	t.mu.Unlock()
	if !ready && t.b.life.Err() == nil {
		t.b.work.Go(func() { t.fetched(t.b.kept.fetch(t.ring.Queue, fetchMost)) })
	}
}

// fetched notes what the stream keeps of the ring; nil is nothing.
func (t *taking) fetched(m jetstream.Msg) {
	t.mu.Lock()
	t.kept, t.ready = m, true
	over := t.over
	t.mu.Unlock()
	switch {
	case over:
		t.settle()
	case m != nil:
		t.b.kept.hold(t)
	}
}

// done is the listener's word. Only the first counts.
func (t *taking) done(acted bool) {
	t.mu.Lock()
	first := !t.over
	if first {
		t.over, t.acted = true, acted
	}
	ready := t.ready
	t.mu.Unlock()
	if first && ready {
		t.settle()
	}
}

// settle tells the server, and others when the listener couldn't act.
func (t *taking) settle() {
	if t.kept != nil {
		t.b.kept.release(t)
		if t.acted {
			t.kept.Ack() // one that is lost rings again
			return
		}
		t.kept.Nak()
	}
	if !t.acted {
		t.b.giveBack(t.ring)
	}
}
