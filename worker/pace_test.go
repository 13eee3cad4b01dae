package worker

import (
	"errors"
	"log/slog"
	"slices"
	"testing"
	"time"
)

func TestSpareIsShortAndBounded(t *testing.T) {
	for _, c := range []struct {
		mean  time.Duration
		slots int
		want  int
	}{
		{0, 100, 0},                   // unknown: take nothing ahead
		{time.Nanosecond, 1, 10},      // no-op handlers: ten for each slot
		{time.Nanosecond, 100, 1000},  // at most one claim call's worth
		{time.Nanosecond, 5000, 5000}, // or one for each slot
		{waitAim, 100, 100},           // as long as the wait is meant to be
		{10 * waitAim, 100, 10},       // slower: fewer
		{time.Second, 10, 0},          // slow: none waits behind them
		{time.Hour, 10_000, 0},
	} {
		p := pace{mean: c.mean}
		if got := p.spare(c.slots); got != c.want {
			t.Errorf("mean %s, %d slots: %d may wait, want %d", c.mean, c.slots, got, c.want)
		}
	}
}

func TestPaceFollowsHandlers(t *testing.T) {
	var p pace
	for range 100 {
		p.add(time.Second)
	}
	for range 100 {
		p.add(time.Millisecond)
	}
	if p.mean > 10*time.Millisecond {
		t.Errorf("after 100 fast handlers the mean is %s", p.mean)
	}
	p.stuck(3, 5*time.Second) // those that ended count
	if p.mean > 10*time.Millisecond {
		t.Errorf("after a busy time the mean is %s", p.mean)
	}
	p.stuck(0, 5*time.Second) // nothing runs: nothing is learnt
	if p.mean > 10*time.Millisecond {
		t.Errorf("after an idle time the mean is %s", p.mean)
	}
	p.stuck(3, 5*time.Second)
	if p.mean != 5*time.Second {
		t.Errorf("after handlers that don't return the mean is %s, want 5s", p.mean)
	}
}

func TestRotaIsFair(t *testing.T) {
	for _, c := range []struct {
		name    string
		weights map[string]int
		want    map[string]int // how often first in 70 turns
	}{
		{"even", nil, map[string]int{"a": 10, "b": 10, "c": 10, "d": 10, "e": 10, "f": 10, "g": 10}},
		{"weighted", map[string]int{"a": 5, "c": 3, "d": 2},
			map[string]int{"a": 25, "c": 15, "d": 10, "b": 5, "e": 5, "f": 5, "g": 5}},
	} {
		t.Run(c.name, func(t *testing.T) {
			queues := []string{"a", "b", "c", "d", "e", "f", "g"}
			r := newRota(queues, c.weights)
			first := map[string]int{}
			last := ""
			for range 70 {
				order := r.order()
				first[order[0]]++
				if order[0] == last && c.weights == nil {
					t.Errorf("%s was first twice in a row", last)
				}
				last = order[0]
				if sorted := slices.Sorted(slices.Values(order)); !slices.Equal(sorted, queues) {
					t.Fatalf("order %v doesn't hold each queue once", order)
				}
			}
			for q, want := range c.want {
				if first[q] != want {
					t.Errorf("%s was first %d times, want %d", q, first[q], want)
				}
			}
		})
	}
}

func TestRetryPausesGrowAndStayBounded(t *testing.T) {
	r := retry{log: discard()}
	for n := range 100 {
		d := r.after(errAway)
		if least := min(retryFirst<<min(n, 10), retryMost) / 2; d < least || d > retryMost*3/2 {
			t.Fatalf("pause %d is %s, want at least %s and at most %s", n, d, least, retryMost*3/2)
		}
	}
	r.healed()
	if d := r.after(errAway); d > 2*retryFirst {
		t.Errorf("after it healed the first pause is %s", d)
	}
}

var errAway = errors.New("away")

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

// A worker that waits for room is woken when a slot is free, however slow handlers have
// become since it began to wait: what was worth waiting for then may never be there.
func TestRoomIsToldAtThePaceOfNow(t *testing.T) {
	for _, slots := range []int{1, 4, 20, 1000} {
		for before := time.Microsecond; before < time.Second; before *= 3 {
			for now := time.Microsecond; now < time.Second; now *= 3 {
				e := &engine{Worker: &Worker{cfg: Config{Concurrency: slots}}, wake: make(chan struct{}, 1)}
				e.pace.mean = before
				e.busy, e.queue = slots, make([]*run, e.pace.spare(slots))
				if room := e.waitingRoom(); room > 0 || e.mayHear() {
					t.Fatalf("%d slots, all taken: room for %d more", slots, room)
				}
				e.pace.mean = now
				for len(e.queue) > 0 || e.busy > 0 {
					if len(e.queue) > 0 {
						e.queue = e.queue[1:]
					} else {
						e.busy--
					}
					e.tellRoom()
					if worth := e.worthACall(); worth != (len(e.wake) == 1) {
						t.Fatalf("%d slots, %s, then %s: with %d waiting and %d running told %v, want %v",
							slots, before, now, len(e.queue), e.busy, len(e.wake) == 1, worth)
					}
					if len(e.wake) == 1 {
						break
					}
				}
				if len(e.wake) == 0 {
					t.Fatalf("%d slots, %s, then %s: never told", slots, before, now)
				}
			}
		}
	}
}
