package e2e

import (
	"testing"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/cutover"
)

// TestGateOpenedByHand: nothing moves while the old gate is open, and gate closes
// and proves it anew, also when the move has begun.
func TestGateOpenedByHand(t *testing.T) {
	eachSystem(t, func(w *world) {
		w.produce(order{1, "ok", 0})
		e := w.engine(cutover.Options{})
		w.plan(e, 0)
		first, err := e.Gate(w.Context(), patience)
		w.ok(err)
		_, err = e.Move(w.Context())
		w.ok(err)
		w.ok(w.old.OpenGate(w.Context()))
		for name, step := range map[string]func() error{
			"move":   func() error { _, err := e.Move(w.Context()); return err },
			"settle": func() error { _, err := e.Settle(w.Context()); return err },
		} {
			if err := step(); daybook.CodeOf(err) != daybook.CodeRefused {
				w.Errorf("with an open gate %s says %v", name, err)
			}
		}
		again, err := e.Gate(w.Context(), patience)
		w.ok(err)
		if again.Proved <= first.Proved {
			w.Errorf("proved at %s, and before at %s", again.Proved, first.Proved)
		}
		_, err = e.Settle(w.Context())
		w.ok(err)
	})
}
