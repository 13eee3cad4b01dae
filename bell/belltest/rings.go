package belltest

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/daybookdev/daybook"
)

func ringReaches(t *testing.T, p *place) {
	e, ringer := p.listen(t, "mail", "video"), p.bell(t)
	for _, q := range []string{"mail", "video", "mail"} {
		e.forget()
		ringer.Ring(t.Context(), q)
		e.hears(t, q)
	}
	// What an enqueuer rings reaches a listener of its own process as well.
	calm(e)
	e.forget()
	e.bell.Ring(t.Context(), "video")
	e.hears(t, "video")
}

// oneOfMany: competing listeners don't all wake, and each ring wakes somebody.
func oneOfMany(t *testing.T, p *place) {
	ears := make([]*ear, 5)
	for i := range ears {
		ears[i] = p.listen(t, "mail")
	}
	ready(t, ears...) // what the others' beginning rang is behind them too
	ringer := p.bell(t)
	const rounds = 8
	for n := range rounds {
		before := heardBy(ears, "mail")
		ringer.Ring(t.Context(), "mail")
		soon(t, fmt.Sprintf("ring %d of %d", n+1, rounds), func() bool { return heardBy(ears, "mail") > before })
		calm(ears...) // so that the next ring doesn't become one with this
	}
	if got := heardBy(ears, "mail"); got > rounds*p.most() {
		t.Errorf("%d rings woke %d listeners of %d, want %d a ring at most", rounds, got, len(ears), p.most())
	}
}

func heardBy(ears []*ear, queue string) (n int) {
	for _, e := range ears {
		n += len(e.heard(queue))
	}
	return n
}

// busySwallowsNothing: a worker without free slots doesn't receive, and its
// rings must come to one that does.
func busySwallowsNothing(t *testing.T, p *place) {
	for range 2 {
		busy := p.bell(t)
		deaf(t, busy, "mail")
		connected(t, busy)
	}
	free, ringer := p.listen(t, "mail"), p.bell(t)
	const rounds = 8
	for range rounds {
		free.forget()
		ringer.Ring(t.Context(), "mail")
		free.hears(t, "mail")
	}
}

// busyHearsLater: when nobody else is there, the ring waits until it is free.
func busyHearsLater(t *testing.T, p *place) {
	busy := p.bell(t)
	rings, _ := deaf(t, busy, "mail")
	connected(t, busy)
	drain(rings)
	p.bell(t).Ring(t.Context(), "mail")
	time.Sleep(settle) // busy meanwhile
	r := receive(t, rings)
	r.Finish(true)
	if r.Queue != "mail" {
		t.Errorf("got a ring of %q, want mail", r.Queue)
	}
}

// drain takes what the beginning of listening rang.
func drain(rings <-chan daybook.Heard) {
	quiet := time.NewTimer(settle)
	defer quiet.Stop()
	for {
		select {
		case r, open := <-rings:
			if !open {
				return
			}
			r.Finish(true)
			quiet.Reset(settle)
		case <-quiet.C:
			return
		}
	}
}

func hearsAll(t *testing.T, p *place) {
	e, ringer := p.listen(t), p.bell(t)
	for i := range 5 {
		q := fmt.Sprintf("new-%d", i)
		ringer.Ring(t.Context(), q)
		e.hears(t, q)
	}
}

func hearsOwnOnly(t *testing.T, p *place) {
	mail, video := p.listen(t, "mail"), p.listen(t, "video")
	ringer := p.bell(t)
	for range 5 {
		ringer.Ring(t.Context(), "mail")
		ringer.Ring(t.Context(), "audio") // nobody's
		video.forget()
		ringer.Ring(t.Context(), "video")
		video.hears(t, "video")
	}
	mail.hears(t, "mail")
	calm(video)
	for e, own := range map[*ear]string{mail: "mail", video: "video"} {
		for q := range e.all() {
			if q != own && q != "" {
				t.Errorf("the listener of %s heard %s", own, q)
			}
		}
	}
}

// ringsCoalesce: a flood of rings for a listener that is busy costs neither
// memory nor goroutines, and ends in few rings.
func ringsCoalesce(t *testing.T, p *place) {
	busy := p.bell(t)
	rings, _ := deaf(t, busy, "mail")
	connected(t, busy)
	ringer := p.bell(t)
	ringer.Ring(t.Context(), "mail") // its connections are made
	settled := receive(t, rings)
	settled.Finish(true)
	before := runtime.NumGoroutine()
	for range floodRings {
		ringer.Ring(t.Context(), "mail")
	}
	if grown := runtime.NumGoroutine() - before; grown > goroutinesMost {
		t.Errorf("%d rings of one queue began %d goroutines, want %d at most", floodRings, grown, goroutinesMost)
	}
	n := 0
	receive(t, rings).Finish(true)
	for quiet := time.NewTimer(settle); ; quiet.Reset(settle) {
		select {
		case r := <-rings:
			r.Finish(true)
			n++
			continue
		case <-quiet.C:
		}
		break
	}
	if n > floodRings/2 {
		t.Errorf("%d rings of one queue became %d, want far fewer", floodRings, n)
	}
}

const (
	floodRings     = 10_000
	goroutinesMost = 64
)
