package local

import (
	"testing"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/bell/belltest"
)

// end is one end of a bell inside the process: closing it ends what it listens
// to and not the bell.
func TestContract(t *testing.T) {
	belltest.Run(t, func(t *testing.T) belltest.Harness {
		shared := New()
		t.Cleanup(func() { shared.Close() })
		return belltest.Harness{Open: func(*testing.T) daybook.Bell { return shared }}
	})
}
