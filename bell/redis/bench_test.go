package redis

import (
	"fmt"
	"testing"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/bell/belltest"
	"github.com/daybookdev/daybook/internal/brokertest"
)

// With few listeners and many, with few queues, many, and all.
func BenchmarkRing(b *testing.B) {
	for _, c := range []struct{ listeners, queues int }{{1, 1}, {30, 1}, {2, 1000}, {2, daybook.QueuesMax}, {2, 0}} {
		b.Run(fmt.Sprintf("listeners=%d,queues=%d", c.listeners, c.queues), func(b *testing.B) {
			var queues []string
			for len(queues) < c.queues {
				queues = append(queues, fmt.Sprintf("tenant-%d.mail", len(queues)))
			}
			url := brokertest.StartRedis(b).URL()
			belltest.Bench(b, c.listeners, queues, func() (daybook.Outside, error) { return Open(url, Options{}) })
		})
	}
}
