package ring

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// Echo asks the server again and again for something of the bell's own, since a
// connection that was forgotten on the way gives no error: its silence is all
// there is to notice.
type Echo struct {
	// Every is how often, ±25 %.
	Every time.Duration
	// Send sends an echo with a token. It may be stuck for a while.
	Send func(token int) error
	// Due reports whether there is a connection to try, and which.
	Due func() (epoch int, due bool)
	// Silent is told when an echo stayed out.
	Silent func(epoch int)

	back chan int // holds one
	last atomic.Pointer[came]
}

type came struct {
	took time.Duration
	at   time.Time
}

// Patience is how long an echo may take: a bell isn't torn down for a hiccup.
func (e *Echo) Patience() time.Duration { return min(max(e.Every, time.Second), 5*time.Second) }

// Last is how long the last echo took, and when it came back.
func (e *Echo) Last() (took time.Duration, at time.Time) {
	if c := e.last.Load(); c != nil {
		return c.took, c.at
	}
	return 0, time.Time{}
}

// Came says that an echo came back. It never blocks.
func (e *Echo) Came(token int) {
	select {
	case e.back <- token:
	default:
	}
}

// NewEcho makes e ready for Run.
func NewEcho(e *Echo) *Echo {
	e.back = make(chan int, 1)
	return e
}

// Run asks for echoes until ctx ends.
func (e *Echo) Run(ctx context.Context) {
	for token := 1; ; token++ {
		select {
		case <-ctx.Done():
			return
		case <-time.After(e.Every*3/4 + rand.N(e.Every/2+1)):
		}
		epoch, due := e.Due()
		if due && !e.ask(ctx, token) && ctx.Err() == nil {
			e.Silent(epoch)
		}
	}
}

// ask sends one echo, and reports whether it came back in time.
func (e *Echo) ask(ctx context.Context, token int) bool {
	begun := time.Now()
	late := time.NewTimer(e.Patience())
	defer late.Stop()
	sent := make(chan error, 1)
	go func() { sent <- e.Send(token) }()
	for {
		select {
		case err := <-sent:
			if err != nil {
				return false
			}
			sent = nil
		case got := <-e.back:
			if got == token {
				e.last.Store(&came{took: time.Since(begun), at: time.Now()})
				return true
			}
		case <-late.C:
			return false
		case <-ctx.Done():
			return true
		}
	}
}
