package postgres

import (
	"cmp"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/daybookdev/daybook"
)

// circle decides which process takes a ring. NOTIFY reaches every listener, and
// one is to wake. All of them see the same messages in the same order, know each
// other by their pings, and order themselves for each ring by a hash of its seed:
// the first takes it, the second watches that the first is there, and nobody
// else does anything. One that can't use a ring hands it on by name.
//
// It does no I/O and reads no clock. Nothing depends on the members' views being
// the same: where they differ, a ring wakes two, or waits for a watch. It belongs
// to one goroutine.
type circle struct {
	self  string
	hears func(queue string) bool
	take  func(daybook.Ring) bool // gives it to a listener here that waits for one now
	keep  func(daybook.Ring)      // leaves it for the next free listener here
	send  func(message)
	hello func() // sends a ping of ours soon

	group   string // of our own queues, as the others know it
	digest  digest
	members map[string]*member // the others
	silent  map[silence]bool   // what handed-on rings taught
	watches []watch
	spoke   time.Time     // when the others last heard of us
	full    time.Time     // until when we count as busy
	answer  time.Time     // when to answer a hello; zero is no need
	echo    time.Duration // how long a message takes, as far as known
	passed  int64         // rings handed on
}

// member is another process that listens.
type member struct {
	id     string
	hash   uint64
	heard  time.Time
	period time.Duration
	group  string
	digest digest
	full   time.Time // until when it counts as busy
}

// silence says that no member of the group listens to the queue.
type silence struct{ group, queue string }

// watch waits for a sign of the member that a ring went to.
type watch struct {
	who string
	due time.Time
	m   message
}

const (
	// signWithin is how long a member has to show that it is there after a ring
	// went to it; longer where an echo takes long, see signTimes.
	signWithin = 30 * time.Millisecond
	signTimes  = 5
	signMost   = time.Second
	// spokenFor is how long a message is sign enough for rings that come later;
	// a member that was heard less lately than signAfter gives a sign. A ring to
	// one that died in between is lost, as when a worker dies with a ring in its
	// hand: others follow, or the poll finds the work.
	spokenFor, signAfter = 500 * time.Millisecond, 300 * time.Millisecond
	// fullFor is how long a member counts as busy after it handed a ring on, so
	// that a busy fleet doesn't hand rings round and round; its own count is
	// shorter, so that views that differ double a ring and don't lose it.
	fullFor, ownFullFor = 150 * time.Millisecond, 100 * time.Millisecond
	// busyHops is how often a ring is handed on by the busy, and hopsMost how
	// often at all.
	busyHops, hopsMost = 8, 32
	// silencesMost bounds what is remembered of handed-on rings.
	silencesMost = 1 << 16
	// answerEach is the time that a hello gives each member to answer in: 300
	// members answer within 1.5 s, in no order.
	answerEach, answerMost = 5 * time.Millisecond, 5 * time.Second
	// pingsEach spreads the pings of a large circle, which all of its members
	// have to hear, to ten a second.
	pingsEach = 100 * time.Millisecond
	// periodsKept is how many of its periods a member is remembered in silence,
	// in tenths.
	periodsKept = 25
)

func newCircle(self string) *circle {
	return &circle{self: self, members: map[string]*member{}, silent: map[silence]bool{}}
}

// hear acts on a message.
func (c *circle) hear(now time.Time, m message) {
	if m.from == c.self {
		c.spoke = now
	} else if m.from != "" {
		c.met(now, m)
	}
	switch m.kind {
	case accuse:
		if m.about == c.self {
			c.hello()
		} else if m.from != c.self {
			delete(c.members, m.about)
		}
	case rung:
		c.rung(now, m)
	}
}

// met notes that another member is there, and what it says of itself.
func (c *circle) met(now time.Time, m message) {
	if m.kind == bye {
		delete(c.members, m.from)
		return
	}
	o := c.members[m.from]
	if o == nil { // what it listens to is unknown until its next ping
		o = &member{id: m.from, hash: hash(m.from), digest: everything(), group: m.from, period: time.Minute}
		c.members[m.from] = o
	}
	o.heard = now
	c.watches = slices.DeleteFunc(c.watches, func(w watch) bool { return w.who == m.from })
	if m.kind != ping {
		return
	}
	o.group, o.digest, o.period = m.group, m.digest, m.period
	if m.hello && c.answer.IsZero() {
		c.answer = now.Add(rand.N(min(answerEach*time.Duration(len(c.members)), answerMost)))
	}
}

// rung acts on a ring.
func (c *circle) rung(now time.Time, m message) {
	c.learn(now, m)
	switch {
	case m.to == c.self:
		c.act(now, m)
	case m.to != "" && m.from == c.self: // handed on by us: is that member there?
		c.watch(now, m.to, m)
	case m.to == "":
		first, second := c.order(now, m)
		if first == c.self {
			c.act(now, m)
		} else if second == c.self {
			c.watch(now, first, m)
		}
	}
}

// learn takes from a ring that was handed on what it says of its sender.
func (c *circle) learn(now time.Time, m message) {
	o := c.members[m.from]
	switch {
	case m.why == deaf:
		group := c.group
		if m.from != c.self {
			if o == nil {
				return
			}
			group = o.group
		}
		if len(c.silent) >= silencesMost {
			clear(c.silent)
		}
		c.silent[silence{group, m.queue}] = true
	case m.why == busy && m.from == c.self:
		c.full = now.Add(ownFullFor)
	case m.why == busy && o != nil:
		o.full = now.Add(fullFor)
	}
}

// order is who takes the ring, and who watches; "" is nobody. The busy come
// behind all others.
func (c *circle) order(now time.Time, m message) (first, second string) {
	var best, next rank
	for r := range c.ranks(now, m) {
		if best.id == "" || r.before(best) {
			best, next = r, best
		} else if next.id == "" || r.before(next) {
			next = r
		}
	}
	return best.id, next.id
}

// rank is a member's place in the order of a ring.
type rank struct {
	id   string
	busy bool
	hash uint64
}

func (r rank) before(o rank) bool {
	if r.busy != o.busy {
		return o.busy
	}
	return cmp.Or(cmp.Compare(r.hash, o.hash), cmp.Compare(r.id, o.id)) > 0
}

// ranks are all members that may listen to the ring's queue, with ourselves: as
// the others see us, and also when we know better.
func (c *circle) ranks(now time.Time, m message) func(yield func(rank) bool) {
	seed, queue := hash(m.seed), hash(m.queue)
	may := func(d *digest, group string) bool { return d.may(queue) && !c.silent[silence{group, m.queue}] }
	return func(yield func(rank) bool) {
		if may(&c.digest, c.group) || c.hears(m.queue) {
			if !yield(rank{c.self, now.Before(c.full), mix(seed ^ hash(c.self))}) {
				return
			}
		}
		for id, o := range c.members {
			if may(&o.digest, o.group) && !yield(rank{id, now.Before(o.full), mix(seed ^ o.hash)}) {
				return
			}
		}
	}
}

// watch waits for a sign of the member, unless there was one just now.
func (c *circle) watch(now time.Time, who string, m message) {
	if o := c.members[who]; o != nil && now.Sub(o.heard) < spokenFor {
		return
	}
	wait := min(max(signWithin, signTimes*c.echo), signMost)
	c.watches = append(c.watches, watch{who, now.Add(wait), m})
}

// act takes a ring that is ours, or hands it on.
func (c *circle) act(now time.Time, m message) {
	switch {
	case !c.hears(m.queue):
		c.pass(now, m, deaf)
	case c.take(m.ring()):
		if len(c.members) > 0 && now.Sub(c.spoke) > signAfter {
			c.send(message{kind: alive, from: c.self})
		}
	default:
		c.pass(now, m, busy)
	}
}

// pass hands a ring to the next member that may take it now. With nobody left
// it stays here, if somebody here listens to its queue.
func (c *circle) pass(now time.Time, m message, why reason) {
	var next rank
	for r := range c.ranks(now, m) {
		if r.id != c.self && r.id != m.from && (next.id == "" || r.before(next)) {
			next = r
		}
	}
	here := why == busy
	switch {
	case next.id == "" || m.hop >= hopsMost || here && (next.busy || m.hop >= busyHops):
		if here {
			c.keep(m.ring())
		}
		return
	}
	c.passed++
	m.kind, m.from, m.to, m.why, m.hop = rung, c.self, next.id, why, m.hop+1
	c.send(m)
}

// tick does what is due, and says when to come again; the zero time is never.
func (c *circle) tick(now time.Time) (next time.Time) {
	due := c.watches[:0:0]
	c.watches = slices.DeleteFunc(c.watches, func(w watch) bool {
		if w.due.After(now) {
			return false
		}
		due = append(due, w)
		return true
	})
	accused := map[string]bool{}
	for _, w := range due {
		if !accused[w.who] {
			c.send(message{kind: accuse, from: c.self, about: w.who})
		}
		accused[w.who] = true
		delete(c.members, w.who)
		w.m.from, w.m.to, w.m.why = "", "", fresh
		c.act(now, w.m)
	}
	if !c.answer.IsZero() && !c.answer.After(now) {
		c.answer = time.Time{}
		c.hello()
	}
	for _, w := range c.watches {
		next = earlier(next, w.due)
	}
	return earlier(next, c.answer)
}

func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// forget drops members that weren't heard for long. It is called with each ping.
func (c *circle) forget(now time.Time) {
	maps.DeleteFunc(c.members, func(_ string, o *member) bool {
		return now.Sub(o.heard) > o.period*periodsKept/10
	})
}

// period is how long to wait between pings, which everybody has to hear.
func (c *circle) period(echo time.Duration) time.Duration {
	return max(echo, pingsEach*time.Duration(len(c.members)))
}

// begin forgets what may have changed while nothing was heard.
func (c *circle) begin() {
	clear(c.members)
	c.watches, c.answer, c.full, c.spoke = nil, time.Time{}, time.Time{}, time.Time{}
}
