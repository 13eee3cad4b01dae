package postgres

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/daybookdev/daybook"
)

// world is some circles on one channel, in time of its own: each message reaches
// every end that is alive a millisecond after it was sent, in the same order.
type world struct {
	t    failer
	now  time.Time
	ends []*end
	bus  []flying
	sent map[kind]int
	took map[string][]*end // seed → who took it
	kept map[string][]*end // seed → who keeps it
	when map[string]time.Time
	n    int // rings so far
}

// failer is a test, of rapid's too.
type failer interface {
	Fatalf(format string, args ...any)
}

type flying struct {
	at   time.Time
	text string
}

type end struct {
	*circle
	w      *world
	queues map[string]bool // nil is all
	free   bool
	dead   bool
	next   time.Time // ping
	due    time.Time
}

const worldEcho = 10 * time.Second

func newWorld(t failer) *world {
	return &world{t: t, now: time.Unix(1e9, 0), sent: map[kind]int{},
		took: map[string][]*end{}, kept: map[string][]*end{}, when: map[string]time.Time{}}
}

// join lets another end begin to listen.
func (w *world) join(queues ...string) *end {
	e := &end{circle: newCircle(newID()), w: w, free: true}
	if len(queues) > 0 {
		e.queues = map[string]bool{}
		for _, q := range queues {
			e.queues[q] = true
		}
	}
	e.group, e.digest = groupOf(slices.Sorted(slices.Values(queues)), e.queues == nil), digestOf(queues)
	if e.queues == nil {
		e.digest = everything()
	}
	e.circle.hears = func(q string) bool { return e.queues == nil || e.queues[q] }
	e.circle.send = func(m message) { w.say(m) }
	e.circle.hello = func() { e.ping(false) }
	e.ping(true)
	w.ends = append(w.ends, e)
	return e
}

func (e *end) ping(hello bool) {
	period := e.circle.period(worldEcho)
	e.next = e.w.now.Add(period)
	e.w.say(message{kind: ping, from: e.self, group: e.group, digest: e.digest, period: period,
		nonce: newSeed(), hello: hello})
}

func (w *world) say(m message) {
	text := fmt.Sprintf("%07x", w.now.UnixMilli()&stampMask) + m.text()
	if len(text) > textMax {
		w.t.Fatalf("a message of %d bytes: %s", len(text), text)
	}
	w.sent[m.kind]++
	w.bus = append(w.bus, flying{w.now.Add(time.Millisecond), text})
}

// ring rings a queue, as an enqueuer does, and says which ring that was.
func (w *world) ring(queue string) (seed string) {
	w.n++
	seed = fmt.Sprintf("s%d", w.n)
	w.when[seed] = w.now
	w.say(message{kind: rung, seed: seed, why: fresh, queue: queue})
	return seed
}

// pass lets time go by, from one thing that happens to the next.
func (w *world) pass(d time.Duration) {
	for until := w.now.Add(d); w.now.Before(until); {
		next := until
		if len(w.bus) > 0 {
			next = earlier(next, w.bus[0].at)
		}
		for _, e := range w.ends {
			if !e.dead {
				next = earlier(earlier(next, e.next), e.due)
			}
		}
		w.now = next
		for len(w.bus) > 0 && !w.bus[0].at.After(w.now) {
			text := w.bus[0].text
			w.bus = w.bus[1:]
			w.deliver(text)
		}
		for _, e := range w.ends {
			if !e.dead && !e.next.After(w.now) {
				e.forget(w.now)
				e.ping(false)
			}
			e.look()
		}
	}
}

func (w *world) deliver(text string) {
	m, ok := read(text)
	if !ok {
		w.t.Fatalf("can't read %q", text)
	}
	for _, e := range w.ends {
		if !e.dead {
			e.of(m.seed)
			e.hear(w.now, m)
			e.look()
		}
	}
}

// look does what is due.
func (e *end) look() {
	if e.dead || !e.due.IsZero() && e.due.After(e.w.now) {
		return
	}
	for _, w := range e.watches {
		if !w.due.After(e.w.now) {
			e.of(w.m.seed)
		}
	}
	e.due = e.tick(e.w.now)
}

// of binds the end's hands to the ring at hand.
func (e *end) of(seed string) {
	e.circle.take = func(daybook.Ring) bool {
		if e.free {
			e.w.took[seed] = append(e.w.took[seed], e)
		}
		return e.free
	}
	e.circle.keep = func(daybook.Ring) { e.w.kept[seed] = append(e.w.kept[seed], e) }
}

// settled is a world whose ends know each other.
func settled(t testing.TB, n int, queues ...string) *world {
	w := newWorld(t)
	for range n {
		w.join(queues...)
	}
	w.pass(answerEach*time.Duration(n) + time.Second)
	for _, e := range w.ends {
		if len(e.members) != n-1 {
			t.Fatalf("an end knows %d of %d others", len(e.members), n-1)
		}
	}
	return w
}

// TestCircleHello: who comes later knows all others at once, long before their next
// pings.
func TestCircleHello(t *testing.T) {
	w := settled(t, 5)
	late := w.join()
	w.pass(time.Second)
	if len(late.members) != 5 {
		t.Errorf("it knows %d of 5", len(late.members))
	}
}

// L72: one ring wakes one of 300, spread over all of them, for a message or two.
func TestCircleOneOfManyL72(t *testing.T) {
	w := settled(t, 300, "mail")
	clear(w.sent)
	by := map[*end]int{}
	const rings = 100
	for range rings {
		seed := w.ring("mail")
		w.pass(40 * time.Millisecond)
		if got := len(w.took[seed]) + len(w.kept[seed]); got != 1 {
			t.Fatalf("a ring woke %d of 300", got)
		}
		by[w.took[seed][0]]++
	}
	if len(by) < 50 {
		t.Errorf("%d rings went to %d of 300 ends", rings, len(by))
	}
	if got := w.sent[rung] + w.sent[alive]; got > 2*rings || w.sent[accuse] > 0 {
		t.Errorf("%d rings took %d messages and %d accusations, want two each at most", rings, got, w.sent[accuse])
	}
}

// 300 that start at once don't drown the channel, nor do they later.
func TestCircleChatterIsBounded(t *testing.T) {
	w := settled(t, 300)
	if got := w.sent[ping]; got > 3*300 {
		t.Errorf("300 ends said %d pings to get to know each other, want three each at most", got)
	}
	w.pass(40 * time.Second) // their pings spread
	clear(w.sent)
	w.pass(30 * time.Second)
	if got := w.sent[ping]; got > 30*12 {
		t.Errorf("300 idle ends say %d pings in 30 s, want ten a second at most", got)
	}
	w.join()
	clear(w.sent)
	w.pass(2 * time.Second)
	if got := w.sent[ping]; got > 330 {
		t.Errorf("a newcomer drew %d pings of 300, want one each", got)
	}
}

func TestCircleBusyPassOn(t *testing.T) {
	w := settled(t, 20, "mail")
	for i, e := range w.ends {
		e.free = i < 5
	}
	for range 200 {
		seed := w.ring("mail")
		w.pass(50 * time.Millisecond)
		if len(w.took[seed]) != 1 || len(w.kept[seed]) != 0 {
			t.Fatalf("a ring was taken %d times and kept %d times; 5 of 20 are free", len(w.took[seed]), len(w.kept[seed]))
		}
	}
}

// A flood while everybody is busy isn't handed round and round.
func TestCircleAllBusyKeep(t *testing.T) {
	w := settled(t, 20, "mail")
	for _, e := range w.ends {
		e.free = false
	}
	clear(w.sent)
	seeds := map[string]bool{}
	for range 1000 {
		seeds[w.ring("mail")] = true
		w.pass(time.Millisecond)
	}
	w.pass(time.Second)
	for seed := range seeds {
		if len(w.kept[seed]) == 0 {
			t.Fatal("a ring was lost although 20 would keep it")
		}
	}
	if got := w.sent[rung]; got > 2*1000 {
		t.Errorf("1000 rings in a second became %d, want twice as many at most", got)
	}
}

func TestCircleSurvivesDeaths(t *testing.T) {
	w := settled(t, 10, "mail")
	for _, e := range w.ends[:7] {
		e.dead = true
	}
	w.pass(time.Second)
	slow := 0
	for range 100 {
		seed, begun := w.ring("mail"), w.now
		for len(w.took[seed]) == 0 && w.now.Sub(begun) < time.Second {
			w.pass(time.Millisecond)
		}
		if took := w.now.Sub(begun); took > (watchers+1)*signWithin {
			t.Fatalf("a ring took %s although 3 are free", took)
		} else if took > 5*time.Millisecond {
			slow++
		}
		w.pass(40 * time.Millisecond)
		if got := len(w.took[seed]); got > 2 {
			t.Fatalf("a ring woke %d", got)
		}
	}
	if slow > 7 {
		t.Errorf("%d of 100 rings waited for a dead end; each of seven is found out once", slow)
	}
}

// One that was believed dead says that it isn't.
func TestCircleAccusedReturns(t *testing.T) {
	w := settled(t, 3, "mail")
	w.say(message{kind: accuse, from: w.ends[0].self, about: w.ends[1].self})
	w.pass(10 * time.Millisecond)
	if w.ends[0].members[w.ends[1].self] == nil && w.ends[2].members[w.ends[1].self] == nil {
		t.Error("the accused is forgotten although it is there")
	}
}

func TestCircleForgetsTheSilent(t *testing.T) {
	w := settled(t, 3, "mail")
	w.ends[1].dead = true
	w.say(message{kind: bye, from: w.ends[2].self})
	w.ends[2].dead = true
	w.pass(time.Second)
	if n := len(w.ends[0].members); n != 1 {
		t.Errorf("%d members after a goodbye, want 1", n)
	}
	w.pass(4 * worldEcho)
	if n := len(w.ends[0].members); n != 0 {
		t.Errorf("%d members after 40 s of silence, want none", n)
	}
}

// Sets of queues too large to tell each other: the first ring of a queue may be
// handed on, and from then on everybody knows.
func TestCircleLargeQueueSets(t *testing.T) {
	w := newWorld(t)
	groups := map[string]bool{}
	for g := range 6 {
		queues := make([]string, 2000)
		for i := range queues {
			queues[i] = fmt.Sprintf("tenant-%d-%d", g, i)
		}
		for range 2 {
			groups[w.join(queues...).group] = true
		}
	}
	w.pass(2 * time.Second)
	if len(groups) != 6 {
		t.Fatalf("%d groups, want 6", len(groups))
	}
	for g := range 6 {
		clear(w.sent)
		const rounds = 20
		for range rounds {
			seed := w.ring(fmt.Sprintf("tenant-%d-77", g))
			w.pass(100 * time.Millisecond)
			if len(w.took[seed]) != 1 {
				t.Fatalf("a ring of group %d was taken %d times", g, len(w.took[seed]))
			}
		}
		if got := w.sent[rung] - rounds; got > 5 {
			t.Errorf("%d rings of a queue were handed on %d times; each of 5 other groups is tried once", rounds, got)
		}
	}
	seed := w.ring("nobody's")
	w.pass(time.Second)
	if n := len(w.took[seed]) + len(w.kept[seed]); n != 0 {
		t.Errorf("%d took a ring of a queue that nobody listens to", n)
	}
}

// Whatever comes and goes: while somebody who listens stays, a ring is taken or
// kept, in bounded time, and wakes few.
func TestCircleProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		queues := [][]string{nil, {"a"}, {"b"}, {"a", "b"}}
		w.join() // stays
		w.pass(50 * time.Millisecond)
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			switch rapid.SampledFrom([]string{"join", "die", "busy", "free", "wait", "ring", "ring", "ring"}).Draw(t, "step") {
			case "join":
				w.join(rapid.SampledFrom(queues).Draw(t, "queues")...)
			case "die":
				if e := w.ends[rapid.IntRange(0, len(w.ends)-1).Draw(t, "who")]; e != w.ends[0] {
					e.dead = true
					w.pass(spokenFor + 2*time.Millisecond) // see spokenFor
				}
			case "busy", "free":
				e := w.ends[rapid.IntRange(0, len(w.ends)-1).Draw(t, "who")]
				e.free = !e.free
			case "wait":
				w.pass(time.Duration(rapid.IntRange(1, 30_000).Draw(t, "ms")) * time.Millisecond)
			case "ring":
				seed := w.ring(rapid.SampledFrom([]string{"a", "b"}).Draw(t, "queue"))
				w.pass(time.Second)
				if len(w.took[seed])+len(w.kept[seed]) == 0 {
					t.Fatalf("ring %s was lost", seed)
				}
				if n := len(w.took[seed]); n > 3 {
					t.Fatalf("ring %s woke %d", seed, n)
				}
			}
		}
	})
}

func TestMessagesReadAsWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := message{kind: rung, seed: newSeed(), why: rapid.SampledFrom([]reason{fresh, busy, deaf}).Draw(t, "why"),
			hop: rapid.IntRange(0, hopsMost).Draw(t, "hop"), from: rapid.SampledFrom([]string{"", newID()}).Draw(t, "from"),
			to:    rapid.SampledFrom([]string{"", newID()}).Draw(t, "to"),
			queue: rapid.StringN(1, -1, daybook.NameMax).Draw(t, "queue")}
		if rapid.Bool().Draw(t, "job") {
			m.job = daybook.NewID()
		}
		text := "0abcdef" + m.text()
		m.at = 0xabcdef
		if len(text) > textMax {
			t.Fatalf("%d bytes: %s", len(text), text)
		}
		if got, ok := read(text); !ok || got != m {
			t.Fatalf("%+v was read as %+v", m, got)
		}
	})
	for _, bad := range []string{"", "r", "p a", "0abcdefz a b", "0abcdefr a b c d e f g", "0abcdefp a b c d e f",
		"0abcdefr s - 0 - - %%% q", "0abcdef hello world", "xabcdefa b"} {
		if m, ok := read(bad); ok {
			t.Errorf("%q was read as %+v", bad, m)
		}
	}
}
