package redis

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/internal/brokertest"
)

// BenchmarkRing is the time from Ring in one process to the ring in another's
// hand: with few listeners and many, with few queues, many, and all.
func BenchmarkRing(b *testing.B) {
	for _, c := range []struct{ listeners, queues int }{{1, 1}, {30, 1}, {2, daybook.QueuesMax}, {2, 0}} {
		b.Run(fmt.Sprintf("listeners=%d,queues=%d", c.listeners, c.queues), func(b *testing.B) {
			queues := []string{"mail"}[:min(c.queues, 1)]
			for len(queues) < c.queues {
				queues = append(queues, fmt.Sprintf("tenant-%d.mail", len(queues)))
			}
			url, heard := brokertest.StartRedis(b).URL(), make(chan struct{}, 1000)
			for range c.listeners {
				bell, err := Open(url, Options{})
				if err != nil {
					b.Fatal(err)
				}
				defer bell.Close()
				rings, err := bell.Listen(b.Context(), queues)
				if err != nil {
					b.Fatal(err)
				}
				go func() {
					for r := range rings {
						if r.Queue != "" {
							heard <- struct{}{}
						}
					}
				}()
				soon(b, "listening", func() bool { return bell.Stats().Listening })
			}
			<-time.After(time.Second)
			ringer, err := Open(url, Options{})
			if err != nil {
				b.Fatal(err)
			}
			defer ringer.Close()
			var took []time.Duration
			for b.Loop() {
				begun := time.Now()
				ringer.Ring(b.Context(), "mail")
				<-heard
				took = append(took, time.Since(begun))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
			b.ReportMetric(float64(len(heard)), "doubled")
		})
	}
}
