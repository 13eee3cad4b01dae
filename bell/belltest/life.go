package belltest

import (
	"errors"
	"runtime"
	"testing"

	"github.com/daybookdev/daybook"
)

func endsWithContext(t *testing.T, p *place) {
	b := p.bell(t)
	stays, goes := p.listenOn(t, b, "mail"), p.listenOn(t, b, "mail")
	ready(t, stays, goes)
	goes.stop()
	soon(t, "the end of listening", goes.over)
	ringer := p.bell(t)
	for range 5 { // none goes to the one that left
		stays.forget()
		ringer.Ring(t.Context(), "mail")
		stays.hears(t, "mail")
	}
	if stays.over() {
		t.Error("the end of one listening ended another of the same bell")
	}
}

func closeTwice(t *testing.T, p *place) {
	b := p.bell(t)
	first, second := p.listenOn(t, b, "mail"), p.listenOn(t, b)
	ready(t, first, second)
	for range 2 {
		if err := b.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
	soon(t, "the end of both listenings", func() bool { return first.over() && second.over() })
	b.Ring(t.Context(), "mail") // harmless
	if _, err := b.Listen(t.Context(), []string{"mail"}); !errors.Is(err, daybook.ErrUnavailable) {
		t.Errorf("Listen after Close: %v, want unavailable", err)
	}
	out, ok := b.(daybook.Outside)
	if !ok {
		return
	}
	if err := out.Publish(within(t, Patience), []daybook.Ring{{Queue: "mail"}}); !errors.Is(err, daybook.ErrUnavailable) {
		t.Errorf("Publish after Close: %v, want unavailable", err)
	}
	out.Stats() // harmless
}

// closeLeavesNothing: with every end closed, the process is as it was.
func closeLeavesNothing(t *testing.T, p *place) {
	before := runtime.NumGoroutine()
	b := p.Open(t)
	ready(t, p.listenOn(t, b, "mail"), p.listenOn(t, b))
	for _, q := range []string{"mail", "video", "audio"} {
		b.Ring(t.Context(), q)
	}
	if err := b.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	soon(t, "the end of every goroutine", func() bool { return runtime.NumGoroutine() <= before })
}
