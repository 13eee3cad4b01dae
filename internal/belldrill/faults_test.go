package belldrill

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/relay"
)

// The faults of a bell with a server. Each is done in the middle of enqueueing
// and working.
var faults = []struct {
	name string
	mode mode
	do   func(d *drill)
}{
	{"killed and restarted", honest, func(d *drill) { d.parts(times(), func(int) { must(d, d.restart()) }) }},
	{"wiped", honest, func(d *drill) { d.parts(times(), func(int) { must(d, d.wipe()) }) }},
	{"replayed from the start", keeps, func(d *drill) {
		d.parts(4, func(int) { must(d, d.hurt.replay(d.Context())) })
		must(d, d.hurt.replay(d.Context()))
		d.enqueue(batch) // is rung behind them
		d.await()
	}},
	{"doubled", doubles, func(d *drill) { d.parts(4, func(int) {}) }},
	{"dropped", drops, func(d *drill) { d.parts(2, func(int) {}) }},
	{"rings for nothing", honest, func(d *drill) { d.parts(4, func(int) { d.foreign() }) }},
	{"stopped", honest, func(d *drill) {
		d.parts(2, func(part int) {
			if part > 0 {
				return
			}
			must(d, d.pause())
			over := time.AfterFunc(d.stopFor(), func() {
				if err := d.resume(); err != nil {
					d.Errorf("resuming: %v", err)
				}
			})
			d.Cleanup(func() { over.Stop(); d.resume() })
		})
	}},
}

// stopFor is how long a server stands still.
func (d *drill) stopFor() time.Duration {
	if long() {
		return time.Minute
	}
	return 2 * time.Second
}

// times is how often a server is started again: some take seconds.
func times() int {
	if long() {
		return 4
	}
	return 2
}

// poll is the workers': at its default it makes most of a drill that loses rings.
func poll() time.Duration {
	if long() {
		return daybook.PollDefault
	}
	return time.Second
}

// parts enqueues in parts, does something behind each while the workers are at
// it, and waits until they have nothing to do: then the next part needs a ring,
// or somebody who looks.
func (d *drill) parts(n int, do func(part int)) {
	d.Helper()
	d.enqueue(batch)
	d.await()
	for part := range n {
		<-time.After(rest)
		d.enqueue(d.n / n)
		do(part)
		d.await()
	}
}

// rest is a lull in the work, in which workers end their looks. A shorter one
// makes the drill milder, and never wrong.
const rest = 200 * time.Millisecond

// foreign publishes rings for jobs that nobody knows, that have ended, and that
// are in another queue, and for a queue that isn't there.
func (d *drill) foreign() {
	d.Helper()
	rings := []daybook.Ring{{Queue: "nobody"}, {Queue: queues[0], Job: daybook.NewID()}}
	for i, id := range d.accepted[:min(50, len(d.accepted))] {
		rings = append(rings, daybook.Ring{Queue: queues[i%len(queues)], Job: id})
	}
	must(d, d.hurt.Outside.Publish(d.Context(), rings))
}

func TestBellsLie(t *testing.T) {
	for _, bell := range []string{"postgres", "redis", "nats", "jetstream", "rabbitmq"} {
		for _, f := range faults {
			t.Run(bell+"/"+f.name, func(t *testing.T) {
				d := newDrill(t, bell, poll())
				d.hurt.mode = f.mode
				d.work()
				f.do(d)
				d.verdict()
			})
		}
		t.Run(bell+"/relay killed between ring and mark", func(t *testing.T) { relayKilled(t, bell) })
		t.Run(bell+"/no poll, wiped", func(t *testing.T) { noPoll(t, bell) })
	}
}

func TestNoBellAtAll(t *testing.T) {
	d := newDrill(t, "none", poll())
	d.work()
	d.parts(2, func(int) {})
	d.verdict()
}

// relayKilled lets a relay die between ring and mark, again and again. Its
// goroutine ends there as its process would: nothing behind that is done.
func relayKilled(t *testing.T, bell string) {
	kills := 5
	if long() {
		kills = 100
	}
	d := newDrill(t, bell, 0)
	d.work()
	var died atomic.Int64
	dies := d.openBook(d.hurt, func(gap string, _ daybook.ID) {
		if gap == daybook.GapMark && died.Load() < int64(kills) {
			died.Add(1)
			runtime.Goexit()
		}
	})
	d.parts(kills, func(part int) {
		for died.Load() <= int64(part) {
			d.enqueue(batch * 2) // one of these transactions only the outbox tells of
			var over sync.WaitGroup
			over.Go(func() { relay.New(dies, relay.Options{}).Pass(d.Context()) })
			over.Wait()
		}
	})
	d.verdict()
	if died.Load() < int64(kills) {
		t.Errorf("the relay died %d times, want %d: the drill is void", died.Load(), kills)
	}
}

// noPoll has workers that never poll, an enqueuer whose rings are lost, and
// relays that sleep through the drill: the reconciler alone rings anew.
func noPoll(t *testing.T, bell string) {
	d := newDrill(t, bell, -1)
	d.pass.Every = time.Hour
	d.work()
	d.hurt.mode = drops
	d.parts(2, func(int) { must(d, d.wipe()) })
	d.verdict()
}
