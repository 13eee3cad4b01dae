package belltest

import (
	"slices"
	"testing"
	"time"

	"github.com/daybookdev/daybook"
)

// Bench is the time from Ring in one process to the ring in another's hand.
// open opens one more end of the bell on one place; so many listen to the
// queues, and the last of these is rung, or mail when there are none.
func Bench(b *testing.B, listeners int, queues []string, open func() (daybook.Outside, error)) {
	heard := make(chan struct{}, 1000)
	for range listeners {
		end := openEnd(b, open)
		rings, err := end.Listen(b.Context(), queues)
		if err != nil {
			b.Fatal(err)
		}
		go func() {
			for r := range rings {
				if r.Queue != "" {
					heard <- struct{}{}
				}
				r.Finish(true)
			}
		}()
		await(b, func() bool { return end.Stats().Listening })
	}
	<-time.After(time.Second) // they know each other
	queue := "mail"
	if len(queues) > 0 {
		queue = queues[len(queues)-1]
	}
	ringer := openEnd(b, open)
	ringer.Ring(b.Context(), queue)
	<-heard
	var took []time.Duration
	for b.Loop() {
		begun := time.Now()
		ringer.Ring(b.Context(), queue)
		<-heard
		took = append(took, time.Since(begun))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
	b.ReportMetric(float64(len(heard)), "doubled")
}

func openEnd(b *testing.B, open func() (daybook.Outside, error)) daybook.Outside {
	b.Helper()
	end, err := open()
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { end.Close() })
	return end
}

// await waits until done, for as long as no bell needs.
func await(t testing.TB, done func() bool) {
	t.Helper()
	look, late := time.NewTicker(2*time.Millisecond), time.After(Patience)
	defer look.Stop()
	for !done() {
		select {
		case <-look.C:
		case <-late:
			t.Fatal("the bell isn't listening")
		}
	}
}
