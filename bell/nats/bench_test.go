package nats

import (
	"fmt"
	"testing"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/bell/belltest"
	"github.com/daybookdev/daybook/internal/brokertest"
)

func BenchmarkRing(b *testing.B) {
	url := brokertest.StartNATS(b).URL()
	for _, o := range []Options{{Name: "core"}, {Name: "kept", JetStream: true}} {
		for _, listeners := range []int{1, 30} {
			b.Run(fmt.Sprintf("%s/listeners=%d", o.Name, listeners), func(b *testing.B) {
				belltest.Bench(b, listeners, []string{"mail"}, func() (daybook.Outside, error) { return Open(url, o) })
			})
		}
	}
}
