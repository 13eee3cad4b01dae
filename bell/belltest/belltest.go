// Package belltest is the contract of a bell, as one exported test that every
// bell passes against its real server. A bell may lose, double, delay and
// reorder rings; what it may not do is block, swallow a ring that a free
// listener could take while nothing is wrong, or stay deaf when its server is
// there again.
//
//	func TestBell(t *testing.T) { belltest.Run(t, open) }
//
// Tests of a package that calls Run also verify with goleak in TestMain: the
// suite closes every bell that it opened.
package belltest

import (
	"context"
	"testing"
	"time"

	"github.com/daybookdev/daybook"
)

// Harness is a place for rings that nobody else uses (a schema, a key prefix, a
// subject, a virtual host), with the server behind it. Run asks for a fresh one
// for each of its tests; several may share one server, but not one Line.
type Harness struct {
	// Open opens one more end of the bell on the same place, as another process
	// would, with echoes every Echo and the shortest times to ring again that
	// the bell has. It must not wait for the server.
	Open func(t *testing.T) daybook.Bell
	// Most bounds how many listeners one ring may wake; 0 is one.
	Most int
	// Keeps says that rings wait in the bell while nobody listens, so that
	// Depth and Peek show them and a listener that comes later hears them.
	Keeps bool
	// Acknowledges says that a ring which isn't done is rung again: soon after
	// Done(false), and when the listener that had it is gone.
	Acknowledges bool
	// DepthMost bounds how many rings of one queue may lie in the bell; 0 is
	// 1000.
	DepthMost int64
	// Line is what lies between the bell's ends and the server; nil for a bell
	// inside the process. *proxy.Proxy is one.
	Line Line
	// Restart kills the server and starts it again at the same address. Nil
	// leaves that test out. KeepsOver says that rings outlive it.
	Restart   func(t *testing.T)
	KeepsOver bool
	// Wipe removes all that the server has of the bell, as FLUSHALL does. Nil
	// leaves that test out.
	Wipe func(t *testing.T)
	// Connections counts the server's connections of the place's ends. Nil
	// leaves the count out. An end may have ConnectionsMost; 0 is 8.
	Connections     func(t *testing.T) int
	ConnectionsMost int
}

// Line is a connection that the suite spoils. After Freeze the connections of
// that moment pass nothing for ever, and new ones work: what a router does that
// forgot them.
type Line interface {
	Cut() int // how many connections it ended
	Down(down bool)
	Stall(stalled bool)
	Freeze()
}

// Echo is how often a bell under test wants an echo, and Patience how long the
// suite waits for what must come: no bell needs nearly as much.
const (
	Echo     = 200 * time.Millisecond
	Patience = 30 * time.Second
)

// settle is for what must not come: nothing came for so long. A slow machine
// makes these looks milder and never wrong.
const settle = 300 * time.Millisecond

// Run holds a bell to the contract. open is called once for each test.
func Run(t *testing.T, open func(t *testing.T) Harness) {
	for _, c := range []struct {
		name  string
		test  func(t *testing.T, p *place)
		needs func(h Harness) bool
	}{
		{"ring reaches a listener", ringReaches, nil},
		{"one ring wakes one of many", oneOfMany, nil},
		{"busy listener swallows nothing", busySwallowsNothing, nil},
		{"busy listener hears later", busyHearsLater, keeps},
		{"empty list hears every queue", hearsAll, nil},
		{"other queues aren't heard", hearsOwnOnly, nil},
		{"hostile names", hostileNames, nil},
		{"many queues in one listening", manyQueues, nil},
		{"rings coalesce", ringsCoalesce, nil},
		{"listening ends with its context", endsWithContext, nil},
		{"close", closeTwice, nil},
		{"close leaves nothing", closeLeavesNothing, nil},
		{"publish is taken over", publishTaken, outside},
		{"job arrives with its ring", jobArrives, outside},
		{"depth and peek leave rings", depthAndPeek, outside},
		{"depth is bounded", depthBounded, outside},
		{"rings wait for a listener", ringsWait, keeps},
		{"done isn't rung again", doneOnce, acknowledges},
		{"not done goes to another", notDone, acknowledges},
		{"never done is rung again", neverDone, acknowledges},
		{"stats count", statsCount, outside},
		{"who rings where somebody waits needs no server", ringsNear, outside},
		{"ring never blocks", ringNeverBlocks, line},
		{"publish answers in its time", publishInTime, line},
		{"cut connection heals", cutHeals, line},
		{"server away and back heals", downHeals, line},
		{"stalled server heals", stallHeals, line},
		{"half-open connection is found", freezeHeals, line},
		{"opened while the server is away", openedAway, line},
		{"server restarted", restarted, func(h Harness) bool { return h.Restart != nil }},
		{"server wiped", wiped, func(h Harness) bool { return h.Wipe != nil }},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := open(t)
			if c.needs != nil && !c.needs(h) {
				t.Log("this bell has no such thing")
				return
			}
			c.test(t, &place{Harness: h})
		})
	}
}

func keeps(h Harness) bool        { return h.Keeps }
func acknowledges(h Harness) bool { return h.Acknowledges }
func line(h Harness) bool         { return h.Line != nil }
func outside(h Harness) bool      { return h.Line != nil || h.Keeps || h.Restart != nil }

// place is a harness with what the tests do with it.
type place struct{ Harness }

// bell opens an end that is closed when the test ends.
func (p *place) bell(t *testing.T) daybook.Bell {
	t.Helper()
	b := p.Open(t)
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return b
}

// outside opens an end that other processes hear.
func (p *place) outside(t *testing.T) daybook.Outside {
	t.Helper()
	b, ok := p.bell(t).(daybook.Outside)
	if !ok {
		t.Fatal("the bell isn't a daybook.Outside, but its harness has a server")
	}
	return b
}

// most is how many listeners one ring may wake.
func (p *place) most() int { return max(p.Most, 1) }

// soon waits until done, and fails the test when that takes too long.
func soon(t *testing.T, what string, done func() bool) {
	t.Helper()
	deadline := time.Now().Add(Patience)
	for !done() {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %s", what, Patience)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// within is a context for one call to a bell.
func within(t *testing.T, most time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), most)
	t.Cleanup(cancel)
	return ctx
}
