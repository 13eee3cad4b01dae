package rabbitmq

import (
	"fmt"
	"testing"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/bell/belltest"
	"github.com/daybookdev/daybook/internal/brokertest"
)

func BenchmarkRing(b *testing.B) {
	url := brokertest.StartRabbitMQ(b).URL()
	for _, listeners := range []int{1, 30} {
		b.Run(fmt.Sprintf("listeners=%d", listeners), func(b *testing.B) {
			belltest.Bench(b, listeners, []string{"mail"}, func() (daybook.Outside, error) {
				return Open(url, Options{Name: "bench"})
			})
		})
	}
}
