package nats

import (
	"errors"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/internal/ring"
	natsgo "github.com/nats-io/nats.go"
)

// A ring goes to any member of its queue's group, also to one whose workers are
// all busy. That one steps out of the group and passes the ring on; it comes
// back when one of its workers is free, which it can only see by offering a
// ring: the one that it passed on, which is thereby doubled. When the server
// says that the group has no other member, the ring just waits here.
const (
	// grace is how long a busy worker has, since most are back at once.
	grace = 2 * time.Millisecond
	// hopsMost bounds how often one ring is passed on.
	hopsMost = 8
	// standAside is how long a process leaves a ring to others that its worker
	// couldn't act on.
	standAside = time.Second
)

const (
	hopsHeader  = "Daybook-Hops"
	againHeader = "Daybook-Again"
)

// What comes back to one bell: behind its names.replies stand the bell's own
// token, one of these, and a queue or a number.
const (
	replyPassed = "passed"
	replyBack   = "back"
	replyEcho   = "echo"
)

// receive hands on what comes in, until the bell is closed. It never waits.
func (b *Bell) receive() {
	for {
		select {
		case <-b.life.Done():
			return
		case m := <-b.arrivals:
			b.arrived(m)
		}
	}
}

func (b *Bell) arrived(m *natsgo.Msg) {
	if rest, ok := strings.CutPrefix(m.Subject, b.names.replies+b.token+"."); ok {
		b.replied(rest, m)
		return
	}
	queue, ok := b.names.queueOf(m.Subject)
	if !ok || daybook.CheckName("queue", queue) != nil {
		return // not ours: whoever sends here may send anything
	}
	h := daybook.Heard{Ring: daybook.Ring{Queue: queue}, Again: m.Header.Get(againHeader) != ""}
	if id, err := daybook.ParseID(string(m.Data)); err == nil {
		h.Job = id
	}
	hops, _ := strconv.Atoi(m.Header.Get(hopsHeader))
	b.counts.heard.Add(1)
	if h.Again {
		b.counts.doubled.Add(1)
	}
	b.hand(h, hops)
}

// replied hears echoes, and that nobody else listens to a queue (status 503).
func (b *Bell) replied(rest string, m *natsgo.Msg) {
	what, token, _ := strings.Cut(rest, ".")
	switch queue := unescape(token); {
	case what == replyEcho:
		if n, err := strconv.Atoi(token); err == nil {
			b.asked.Came(n)
		}
	case m.Header.Get("Status") != "503":
	case what == replyPassed:
		b.comeBack(queue)
	case what == replyBack:
		b.back.nobody(queue)
	}
}

// sendEcho sends this end a message through the server.
func (b *Bell) sendEcho(token int) error {
	return b.client.Load().Publish(b.names.replies+b.token+"."+replyEcho+"."+strconv.Itoa(token), nil)
}

func (b *Bell) echoDue() (epoch int, due bool) {
	epoch, due = b.link.Up()
	return epoch, due && b.noted.Settled()
}

// silent makes the client connect anew.
func (b *Bell) silent(epoch int) {
	if now, up := b.link.Up(); up && now == epoch {
		b.down(errSilent)
		b.link.Drop()
	}
}

var errSilent = errors.New("the server doesn't answer")

// hand gives a ring to a listener here who waits for one, or keeps it for the
// first who does and passes it on meanwhile.
func (b *Bell) hand(h daybook.Heard, hops int) {
	t := b.take(h)
	if b.ears.TryHeard(t.heard) {
		t.taken()
		return
	}
	left, joined := b.ears.LeaveHeard(t.heard)
	switch {
	case left == nil: // its listener has just gone
		b.pass(h, hops)
		b.comeBack(h.Queue)
	case joined: // they have been busy for a while; who waits for left comes back
		b.pass(h, hops)
	default:
		b.work.Go(func() { b.waitFor(left, t, hops) })
	}
}

// waitFor waits until a ring that was left is taken, and passes it on when that
// takes long.
func (b *Bell) waitFor(left *ring.Left, t *taking, hops int) {
	late := time.NewTimer(grace)
	defer late.Stop()
	select {
	case <-left.Gone():
	case <-late.C:
		b.pass(t.heard, hops)
		select {
		case <-left.Gone():
		case <-b.life.Done():
		}
	}
	b.comeBack(t.heard.Queue)
	select {
	case <-left.Taken():
		t.taken()
	default:
	}
}

// pass gives a ring to another process, if there is one.
func (b *Bell) pass(h daybook.Heard, hops int) {
	if hops >= hopsMost {
		return
	}
	m := b.message(b.names.rings, h.Ring)
	m.Reply = b.names.replies + b.token + "." + replyPassed + "." + escape(h.Queue)
	m.Header.Set(hopsHeader, strconv.Itoa(hops+1))
	if h.Again {
		m.Header.Set(againHeader, "1")
	}
	if b.stepAside(h.Queue, m) == nil {
		b.counts.passed.Add(1)
	}
}

// message is a ring as it goes out.
func (b *Bell) message(prefix string, r daybook.Ring) *natsgo.Msg {
	m := natsgo.NewMsg(prefix + escape(r.Queue))
	if !r.Job.IsZero() {
		m.Data = []byte(r.Job.String())
	}
	return m
}

// givenBack are rings that a worker here couldn't act on, while they are offered
// to others.
type givenBack struct {
	mu    sync.Mutex
	alone map[string]bool // by queue: true when there are no others
}

func (g *givenBack) begin(queue string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.alone == nil {
		g.alone = map[string]bool{}
	}
	g.alone[queue] = false
}

// nobody says that no other process listens to the queue.
func (g *givenBack) nobody(queue string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, ok := g.alone[queue]; ok {
		g.alone[queue] = true
	}
}

func (g *givenBack) end(queue string) (alone bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	alone = g.alone[queue]
	delete(g.alone, queue)
	return alone
}

// giveBack rings for others what a worker here couldn't act on, and after a
// while here again when there are none.
func (b *Bell) giveBack(h daybook.Heard) {
	if b.life.Err() != nil {
		return
	}
	b.work.Go(func() {
		if h.Queue == "" { // it was told to look at everything
			if b.pause(standAside) {
				b.ears.CatchUp()
			}
			return
		}
		h.Again, h.Done = true, nil
		m := b.message(b.names.rings, h.Ring)
		m.Reply = b.names.replies + b.token + "." + replyBack + "." + escape(h.Queue)
		m.Header.Set(againHeader, "1")
		b.back.begin(h.Queue)
		err := b.stepAside(h.Queue, m)
		waited := b.pause(standAside)
		b.comeBack(h.Queue)
		if alone := b.back.end(h.Queue); waited && (alone || err != nil) {
			b.hand(h, hopsMost)
		}
	})
}

// pause waits, and is false when the bell is closed meanwhile.
func (b *Bell) pause(d time.Duration) bool {
	over := time.NewTimer(d)
	defer over.Stop()
	select {
	case <-over.C:
		return true
	case <-b.life.Done():
		return false
	}
}
