package redis

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/daybookdev/daybook/internal/brokertest"
)

// BenchmarkRing is the time from Ring in one process to the ring in another's
// hand, with one listener and with thirty.
func BenchmarkRing(b *testing.B) {
	for _, listeners := range []int{1, 30} {
		b.Run(fmt.Sprintf("listeners=%d", listeners), func(b *testing.B) {
			url, heard := brokertest.StartRedis(b).URL(), make(chan struct{}, 1000)
			for range listeners {
				bell, err := Open(url, Options{})
				if err != nil {
					b.Fatal(err)
				}
				defer bell.Close()
				rings, err := bell.Listen(b.Context(), []string{"mail"})
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
