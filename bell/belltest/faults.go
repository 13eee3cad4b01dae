package belltest

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/daybookdev/daybook"
)

// ringNeverBlocks: the server answers nothing, and an enqueuer doesn't notice.
// Were one ring in a hundred to wait for the server, this test would not end.
func ringNeverBlocks(t *testing.T, p *place) {
	e, ringer := p.listen(t, "q-0"), p.bell(t)
	ringer.Ring(t.Context(), "q-0")
	e.hears(t, "q-0")
	for _, fault := range []func(bool){p.Line.Stall, p.Line.Down} {
		fault(true)
		before := runtime.NumGoroutine()
		done := make(chan struct{})
		go func() {
			defer close(done)
			for i := range floodRings {
				ringer.Ring(context.Background(), fmt.Sprintf("q-%d", i%100))
			}
		}()
		over := time.NewTimer(Patience)
		select {
		case <-done:
		case <-over.C:
			t.Errorf("%d rings take longer than %s without a server", floodRings, Patience)
		}
		over.Stop()
		if grown := runtime.NumGoroutine() - before; grown > goroutinesMost {
			t.Errorf("%d rings without a server began %d goroutines, want %d at most",
				floodRings, grown, goroutinesMost)
		}
		fault(false)
		<-done
		heals(t, e, ringer, "q-0")
	}
}

// heals waits until rings flow again.
func heals(t *testing.T, e *ear, ringer daybook.Bell, queue string) {
	t.Helper()
	connected(t, e.bell)
	e.forget()
	next := time.Now()
	soon(t, "a ring after the fault", func() bool {
		// Rings may be lost while the ringer's own end heals.
		if time.Now().After(next) {
			ringer.Ring(t.Context(), queue)
			next = time.Now().Add(Echo)
		}
		return len(e.heard(queue)) > 0
	})
}

// publishInTime: an error comes when ctx ends, or before, and nobody says that
// nothing lies in a bell that can't be asked.
func publishInTime(t *testing.T, p *place) {
	b := p.outside(t)
	publish(t, b, daybook.Ring{Queue: "mail"})
	for name, fault := range map[string]func(bool){"stalled": p.Line.Stall, "down": p.Line.Down} {
		fault(true)
		answer := make(chan error, 1)
		ctx, cancel := context.WithTimeout(t.Context(), 2*Echo)
		go func() { answer <- b.Publish(ctx, []daybook.Ring{{Queue: "mail"}}) }()
		over := time.NewTimer(Patience)
		select {
		case err := <-answer:
			if err == nil {
				t.Errorf("%s: Publish says that a server took over rings that it never saw", name)
			}
		case <-over.C:
			t.Errorf("%s: Publish with %s to answer didn't within %s", name, 2*Echo, Patience)
		}
		over.Stop()
		cancel()
		asking, enough := context.WithTimeout(t.Context(), 2*Echo)
		if rings, err := b.Peek(asking, 10); err == nil {
			t.Errorf("%s: Peek answers %d rings of a server that doesn't", name, len(rings))
		}
		enough()
		if s := b.Stats(); s.Failed < 1 {
			t.Errorf("%s: a ring that failed isn't counted: %+v", name, s)
		}
		fault(false)
		publish(t, b, daybook.Ring{Queue: "mail"})
	}
}

// withFault spoils the line under a listener, waits until seen, mends the line
// and wants that the listener catches up and hears again.
func withFault(t *testing.T, p *place, fault func(e *ear), mend func()) {
	t.Helper()
	e, ringer := p.listen(t, "mail", "video"), p.bell(t)
	before := statsOf(t, e.bell).Reconnects
	fault(e)
	mend()
	e.caughtUp(t)
	heals(t, e, ringer, "mail")
	heals(t, e, ringer, "video")
	if got := statsOf(t, e.bell).Reconnects; got <= before {
		t.Errorf("%d reconnects before and %d after the fault, want more", before, got)
	}
}

func statsOf(t *testing.T, b daybook.Bell) daybook.BellStats {
	t.Helper()
	out, ok := b.(daybook.Outside)
	if !ok {
		t.Fatal("the bell isn't a daybook.Outside, but its harness has a line")
	}
	return out.Stats()
}

// deafened waits until the bell itself says that it hears nothing.
func deafened(t *testing.T, e *ear) {
	t.Helper()
	soon(t, "Stats().Listening to be false", func() bool { return !statsOf(t, e.bell).Listening })
}

func cutHeals(t *testing.T, p *place) {
	withFault(t, p, func(*ear) { p.Line.Cut() }, func() {})
}

func downHeals(t *testing.T, p *place) {
	withFault(t, p, func(e *ear) { p.Line.Down(true); deafened(t, e) }, func() { p.Line.Down(false) })
}

// stallHeals: nothing fails, nothing comes. Only an echo that stays out tells.
func stallHeals(t *testing.T, p *place) {
	withFault(t, p, func(e *ear) { p.Line.Stall(true); deafened(t, e) }, func() { p.Line.Stall(false) })
}

func freezeHeals(t *testing.T, p *place) {
	withFault(t, p, func(*ear) { p.Line.Freeze() }, func() {})
}

// openedAway: a process that starts while the server is away works like any
// other once it is there.
func openedAway(t *testing.T, p *place) {
	p.Line.Down(true)
	ringer := p.bell(t)
	e := p.listenOn(t, p.bell(t), "mail")
	if statsOf(t, e.bell).Listening {
		t.Error("the bell says that it listens to a server that is away")
	}
	ringer.Ring(t.Context(), "mail")
	p.Line.Down(false)
	e.caughtUp(t)
	heals(t, e, ringer, "mail")
}

func restarted(t *testing.T, p *place) {
	if p.KeepsOver {
		publish(t, p.outside(t), daybook.Ring{Queue: "kept"})
	}
	withFault(t, p, func(*ear) { p.Restart(t) }, func() {})
	if p.KeepsOver {
		p.listenOn(t, p.bell(t), "kept").hears(t, "kept")
	}
}

// wiped: what the bell made for itself at the server is gone too, and it makes
// it again. Whoever is connected all the time notices nothing else.
func wiped(t *testing.T, p *place) {
	e, ringer := p.listen(t, "mail"), p.bell(t)
	ringer.Ring(t.Context(), "mail")
	e.hears(t, "mail")
	p.Wipe(t)
	heals(t, e, ringer, "mail")
	calm(e)
	e.forget()
	ringer.Ring(t.Context(), "mail")
	e.hears(t, "mail")
}
