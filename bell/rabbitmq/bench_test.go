package rabbitmq

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/internal/brokertest"
)

// BenchmarkRing is the time from Ring in one process to the ring in another's
// hand.
func BenchmarkRing(b *testing.B) {
	url := brokertest.StartRabbitMQ(b).URL()
	for _, o := range []Options{{Name: "bench"}} {
		for _, listeners := range []int{1, 30} {
			b.Run(fmt.Sprintf("%s/listeners=%d", o.Name, listeners), func(b *testing.B) {
				heard := make(chan struct{}, 1000)
				for range listeners {
					bell, err := Open(url, o)
					must(b, err)
					defer bell.Close()
					hear(b, bell, heard)
				}
				ringer, err := Open(url, o)
				must(b, err)
				defer ringer.Close()
				measure(b, ringer, heard)
			})
		}
	}
}

func hear(b *testing.B, bell *Bell, heard chan<- struct{}) {
	rings, err := bell.Listen(b.Context(), []string{"mail"})
	must(b, err)
	go func() {
		for r := range rings {
			if r.Queue != "" {
				heard <- struct{}{}
			}
			r.Finish(true)
		}
	}()
	for look := time.NewTicker(time.Millisecond); !bell.Stats().Listening; <-look.C {
	}
}

func measure(b *testing.B, ringer daybook.Bell, heard <-chan struct{}) {
	ringer.Ring(b.Context(), "mail")
	<-heard
	took := []time.Duration{}
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
}
