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
	hash  uint64
	hears func(queue string) bool
	take  func(daybook.Ring) bool // gives it to a listener here that waits for one now
	keep  func(daybook.Ring)      // leaves it for the next free listener here
	send  func(message)
	hello func() // sends a ping of ours soon

	group   string // of our own queues, as the others know it
	digest  digest
	members map[string]*member         // the others
	silent  map[string]map[string]bool // queue → groups that don't listen to it, learned from rings handed on
	watches []watch
	spoke   stamp // of our last message, if said
	full    stamp // since when we count as busy, if busy
	said    bool
	busy    bool
	answer  time.Time     // when to answer a hello; zero is no need
	echo    time.Duration // how long a message takes, as far as known
	passed  int64         // rings handed on
}

// member is another process that listens.
type member struct {
	id     string
	hash   uint64
	heard  time.Time
	spoke  stamp // of its last message
	full   stamp // since when it counts as busy, if busy
	busy   bool
	period time.Duration
	group  string
	digest digest
}

// watch waits for a sign of the members that are to see to a ring before us.
type watch struct {
	ahead []string
	due   time.Time
	m     message
}

const (
	// signWithin is how long a member has to show that it is there after a ring
	// went to it; longer where an echo takes long, see signTimes.
	signWithin = 30 * time.Millisecond
	signTimes  = 5
	signMost   = time.Second
	// watchers is how many members watch a ring's first, each after those before
	// it, so that several may have died at once.
	watchers = 7
	// spokenFor is how long a message is sign enough for rings that come later. A
	// ring to a member that died in between is lost, as when a worker dies with a
	// ring in its hand: others follow, or the poll finds the work.
	spokenFor = 400 * time.Millisecond
	// fullFor is how long a member counts as busy after it handed a ring on, so
	// that a busy fleet doesn't hand rings round and round.
	fullFor = 100 * time.Millisecond
	// busyHops is how often a ring is handed on by the busy, and hopsMost how
	// often at all.
	busyHops, hopsMost = 16, 48
	// silencesMost bounds the queues of which something is remembered from rings
	// handed on, and silentMost the groups of each.
	silencesMost, silentMost = 1 << 14, 1 << 8
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
	return &circle{self: self, hash: hash(self), members: map[string]*member{}, silent: map[string]map[string]bool{}}
}

// hear acts on a message.
func (c *circle) hear(now time.Time, m message) {
	if m.from == c.self {
		c.spoke, c.said = m.at, true
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
	o.heard, o.spoke = now, m.at
	c.watches = slices.DeleteFunc(c.watches, func(w watch) bool { return slices.Contains(w.ahead, m.from) })
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
	c.learn(m)
	switch {
	case m.to == c.self:
		c.act(m)
	case m.to != "" && m.from == c.self: // handed on by us: is that member there?
		c.watch(now, m, m.to)
	case m.to == "":
		if order := c.order(m); order[0] == c.self {
			c.act(m)
		} else if at := slices.Index(order[:], c.self); at > 0 {
			c.watch(now, m, order[:at]...)
		}
	}
}

// learn takes from a ring that was handed on what it says of its sender.
func (c *circle) learn(m message) {
	o := c.members[m.from]
	switch {
	case m.why == deaf && o != nil:
		c.note(o.group, m.queue)
	case m.why == busy && m.from == c.self:
		c.full, c.busy = m.at, true
	case m.why == busy && o != nil:
		o.full, o.busy = m.at, true
	}
}

// note remembers that no member of the group listens to the queue.
func (c *circle) note(group, queue string) {
	if len(c.silent) >= silencesMost {
		clear(c.silent)
	}
	groups := c.silent[queue]
	if groups == nil || len(groups) >= silentMost {
		groups = map[string]bool{}
		c.silent[queue] = groups
	}
	groups[group] = true
}

// order is who sees to a ring: the first takes it, the others watch in turn; ""
// is nobody. The busy come behind all others.
func (c *circle) order(m message) (ids [1 + watchers]string) {
	var ranks [len(ids)]rank
	for r := range c.ranks(m) {
		if last := ranks[len(ranks)-1]; last.id != "" && last.before(r) {
			continue
		}
		for i := range ranks {
			if ranks[i].id == "" || r.before(ranks[i]) {
				r, ranks[i] = ranks[i], r
			}
			if r.id == "" {
				break
			}
		}
	}
	for i, r := range ranks {
		ids[i] = r.id
	}
	return ids
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
func (c *circle) ranks(m message) func(yield func(rank) bool) {
	seed, queue := hash(m.seed), placesOf(m.queue)
	silent := c.silent[m.queue]
	may := func(d *digest, group string) bool { return d.may(queue) && (silent == nil || !silent[group]) }
	return func(yield func(rank) bool) {
		if may(&c.digest, c.group) || c.hears(m.queue) {
			if !yield(rank{c.self, c.busy && m.at.since(c.full) < fullFor, mix(seed ^ c.hash)}) {
				return
			}
		}
		for id, o := range c.members {
			full := o.busy && m.at.since(o.full) < fullFor
			if may(&o.digest, o.group) && !yield(rank{id, full, mix(seed ^ o.hash)}) {
				return
			}
		}
	}
}

// watch waits for a sign of those ahead, unless the first gave one just now.
func (c *circle) watch(now time.Time, m message, ahead ...string) {
	if o := c.members[ahead[0]]; o != nil && m.at.since(o.spoke) < spokenFor {
		return
	}
	wait := min(max(signWithin, signTimes*c.echo), signMost)
	due := now.Add(time.Duration(len(ahead)) * wait)
	c.watches = append(c.watches, watch{slices.Clone(ahead), due, m})
}

// act takes a ring that is ours, or hands it on.
func (c *circle) act(m message) {
	switch {
	case !c.hears(m.queue):
		c.note(c.group, m.queue)
		c.pass(m, deaf)
	case c.take(m.ring()):
		if len(c.members) > 0 && (!c.said || m.at.since(c.spoke) >= spokenFor) {
			c.send(message{kind: alive, from: c.self})
		}
	default:
		c.pass(m, busy)
	}
}

// pass hands a ring to the next member that may take it now. With nobody left
// it stays here, if somebody here listens to its queue.
func (c *circle) pass(m message, why reason) {
	var next rank
	for r := range c.ranks(m) {
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
		for _, who := range w.ahead {
			if !accused[who] {
				c.send(message{kind: accuse, from: c.self, about: who})
			}
			accused[who] = true
			delete(c.members, who)
		}
		w.m.from, w.m.to, w.m.why = "", "", fresh
		c.act(w.m)
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
	c.watches, c.answer, c.busy, c.said = nil, time.Time{}, false, false
}
