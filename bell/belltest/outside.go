package belltest

import (
	"maps"
	"slices"
	"testing"

	"github.com/daybookdev/daybook"
)

// publish hands rings over and wants that to succeed. A bell that was opened
// just now may not be connected yet: it is asked again.
func publish(t *testing.T, b daybook.Outside, rings ...daybook.Ring) {
	t.Helper()
	var err error
	soon(t, "Publish", func() bool {
		err = b.Publish(within(t, Patience), rings)
		return err == nil
	})
}

func publishTaken(t *testing.T, p *place) {
	e, b := p.listen(t, "mail", "video"), p.outside(t)
	publish(t, b, daybook.Ring{Queue: "mail"}, daybook.Ring{Queue: "video"})
	e.hears(t, "mail")
	e.hears(t, "video")
	if err := b.Publish(within(t, Patience), nil); err != nil {
		t.Errorf("Publish of nothing: %v", err)
	}
}

func jobArrives(t *testing.T, p *place) {
	e, b := p.listen(t, "mail"), p.outside(t)
	id := daybook.NewID()
	publish(t, b, daybook.Ring{Queue: "mail", Job: id})
	if got := e.hears(t, "mail"); got.Job != id {
		t.Errorf("the ring of job %s arrived with job %s", id, got.Job)
	}
}

// depthAndPeek: looking at what lies in the bell takes nothing out of it.
func depthAndPeek(t *testing.T, p *place) {
	b := p.outside(t)
	want := map[string]int64{"a.b": 1, "mail": 1, "video": 1}
	for q := range want {
		publish(t, b, daybook.Ring{Queue: q})
	}
	for range 2 {
		depth, err := b.Depth(within(t, Patience))
		if err != nil {
			t.Fatalf("Depth: %v", err)
		}
		rings, err := b.Peek(within(t, Patience), 100)
		if err != nil {
			t.Fatalf("Peek: %v", err)
		}
		if !p.Keeps {
			if len(depth) != 0 || len(rings) != 0 {
				t.Errorf("a bell that keeps nothing shows %v and %v", depth, rings)
			}
			continue
		}
		if !maps.Equal(depth, want) {
			t.Errorf("Depth is %v, want %v", depth, want)
		}
		seen := map[string]int64{}
		for _, r := range rings {
			seen[r.Queue]++
		}
		if !maps.Equal(seen, want) {
			t.Errorf("Peek shows %v, want %v", seen, want)
		}
	}
	if some, err := b.Peek(within(t, Patience), 2); err != nil || len(some) > 2 || p.Keeps && len(some) != 2 {
		t.Errorf("Peek of 2: %v, %v", some, err)
	}
	if p.Keeps {
		e := p.listenOn(t, p.bell(t), slices.Collect(maps.Keys(want))...)
		for q := range want {
			e.hears(t, q)
		}
	}
}

// depthBounded: nobody listens for a long time, and the bell doesn't fill.
func depthBounded(t *testing.T, p *place) {
	b := p.outside(t)
	rings := make([]daybook.Ring, 100)
	for i := range rings {
		rings[i] = daybook.Ring{Queue: "mail"}
	}
	publish(t, b, rings...)
	for range floodRings / len(rings) {
		if err := b.Publish(within(t, Patience), rings); err != nil {
			t.Fatalf("Publish: %v", err)
		}
		for range len(rings) {
			b.Ring(t.Context(), "mail")
		}
	}
	most := p.DepthMost
	if most == 0 {
		most = 1000
	}
	depth, err := b.Depth(within(t, Patience))
	if err != nil {
		t.Fatalf("Depth: %v", err)
	}
	if depth["mail"] > most || p.Keeps && depth["mail"] < 1 {
		t.Errorf("%d rings of one queue lie %d deep, want 1…%d", 2*floodRings, depth["mail"], most)
	}
}

// ringsWait: a listener that comes later hears what was rung before.
func ringsWait(t *testing.T, p *place) {
	publish(t, p.outside(t), daybook.Ring{Queue: "mail"})
	e := p.listenOn(t, p.bell(t), "mail")
	e.hears(t, "mail")
	out := e.bell.(daybook.Outside)
	soon(t, "Depth without what was heard", func() bool {
		depth, err := out.Depth(within(t, Patience))
		return err == nil && depth["mail"] == 0
	})
}

func statsCount(t *testing.T, p *place) {
	e, b := p.listen(t, "mail"), p.outside(t)
	publish(t, b, daybook.Ring{Queue: "mail"})
	e.hears(t, "mail")
	if s := b.Stats(); s.Published < 1 || s.Heard != 0 {
		t.Errorf("the ringer's end says %+v, want at least one published and none heard", s)
	}
	ear := e.bell.(daybook.Outside)
	if s := ear.Stats(); s.Heard < 1 || !s.Listening {
		t.Errorf("the listener's end says %+v, want at least one heard", s)
	}
	soon(t, "an echo", func() bool { s := ear.Stats(); return s.Echo > 0 && !s.EchoAt.IsZero() })
	if s := b.Stats(); !s.Listening {
		t.Errorf("nobody listens on the ringer's end, and it says %+v", s)
	}
}

// ringsNear: a ring goes straight to a listener of the same end that waits for one
// just then. The marker is taken over after what was rung before it.
func ringsNear(t *testing.T, p *place) {
	e := p.listen(t, "mail")
	b := e.bell.(daybook.Outside)
	soon(t, "a ring that needs no server", func() bool {
		e.forget()
		from := b.Stats()
		b.Ring(t.Context(), "mail")
		e.hears(t, "mail")
		publish(t, b, daybook.Ring{Queue: "marker"})
		s := b.Stats()
		return s.Published == from.Published+1 && s.Heard == from.Heard+1
	})
}
