package nats

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/internal/ring"
	natsgo "github.com/nats-io/nats.go"
)

// Bell is one process's end. Its one connection is made in the background, and
// made again for as long as the bell is open.
type Bell struct {
	target target
	names  names
	token  string // of this end, in the subjects of what comes back to it
	log    *slog.Logger
	kept   *store // nil is core NATS, which keeps nothing

	ears     *ring.Ears
	out      *ring.Out
	arrivals chan *natsgo.Msg // what comes in, of all subscriptions

	life   context.Context // ends with Close
	end    context.CancelFunc
	work   sync.WaitGroup
	closed sync.Once

	link   *ring.Link
	client atomic.Pointer[natsgo.Conn] // nil until it was connected once
	noted  *ring.Noted
	asked  *ring.Echo
	subs   subscriptions
	back   givenBack

	refused ring.Said // by the server, since it was connected

	counts struct{ heard, doubled, passed, reconnects atomic.Int64 }
}

var _ daybook.Outside = (*Bell)(nil)

// queueSize is how many rings may wait for the one goroutine that hands them on,
// which never waits. What comes on top is lost, and made up for by a catch-up.
const queueSize = 8192

// Open makes a bell at once, whether the server is there or not, and connects in
// the background. The error is daybook.ErrInvalid, for a URL or a name that can
// never work; it doesn't show the URL.
func Open(url string, o Options) (*Bell, error) {
	t, err := parse(url)
	if err != nil {
		return nil, err
	}
	if o.Name == "" {
		o.Name = "daybook"
	}
	if err := daybook.CheckName("name", o.Name); err != nil {
		return nil, err
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.Echo <= 0 {
		o.Echo = EchoDefault
	}
	b := &Bell{target: t, names: newNames(o.Name), token: daybook.NewID().String(), log: o.Log.With("bell", t.shown),
		arrivals: make(chan *natsgo.Msg, queueSize)}
	b.life, b.end = context.WithCancel(context.Background())
	b.link, b.noted = ring.NewLink(), ring.NewNoted()
	b.asked = ring.NewEcho(&ring.Echo{Every: o.Echo, Send: b.sendEcho, Due: b.echoDue, Silent: b.silent})
	b.subs.init()
	if t.jetStream || o.JetStream {
		b.kept = newStore(b, o)
	}
	b.ears = ring.NewEars(b.noted.Poke, func(r daybook.Ring) { b.giveBack(daybook.Heard{Ring: r}) })
	b.out = ring.NewOut(b.send, nil)
	for _, loop := range []func(){b.connect, b.tend, b.receive, func() { b.asked.Run(b.life) }} {
		b.work.Go(loop)
	}
	if b.kept != nil {
		b.work.Go(b.kept.look)
	}
	return b, nil
}

// Ring is daybook.Bell's. A listener of this end that waits for rings hears it
// straight away, and nobody else then.
func (b *Bell) Ring(_ context.Context, queue string) {
	if daybook.CheckName("queue", queue) == nil && b.ears.Ring(daybook.Ring{Queue: queue}, b.out.Ring) {
		b.counts.heard.Add(1)
	}
}

// listenMost bounds how long Listen waits for a connected server to confirm.
const listenMost = 2 * time.Second

// Listen is daybook.Bell's. While the server is there, it returns when the
// server has noted the listener.
func (b *Bell) Listen(ctx context.Context, queues []string) (<-chan daybook.Heard, error) {
	for _, q := range queues {
		if err := daybook.CheckName("queue", q); err != nil {
			return nil, err
		}
	}
	rings, err := b.ears.Listen(ctx, queues)
	if err != nil {
		return nil, err
	}
	bounded, cancel := context.WithTimeout(ctx, listenMost)
	defer cancel()
	b.noted.Await(bounded, b.link.Connected)
	if b.kept != nil {
		b.kept.lookNow() // rings may lie there since before
	}
	return rings, nil
}

// Publish is daybook.Outside's: nil when the server has read the rings, with
// JetStream when its stream has them.
func (b *Bell) Publish(ctx context.Context, rings []daybook.Ring) error {
	return b.out.Publish(ctx, rings)
}

// Depth is daybook.Outside's; core NATS keeps nothing and answers nil.
func (b *Bell) Depth(ctx context.Context) (map[string]int64, error) {
	if b.kept == nil {
		return nil, b.answers(ctx)
	}
	return b.kept.depth(ctx)
}

// Peek is daybook.Outside's; core NATS keeps nothing and answers nil.
func (b *Bell) Peek(ctx context.Context, most int) ([]daybook.Ring, error) {
	if b.kept == nil {
		return nil, b.answers(ctx)
	}
	return b.kept.peek(ctx, most)
}

// Stats is daybook.Outside's.
func (b *Bell) Stats() daybook.BellStats {
	s := daybook.BellStats{Published: b.out.Published(), Failed: b.out.Failed(),
		Heard: b.counts.heard.Load(), Doubled: b.counts.doubled.Load(), Passed: b.counts.passed.Load(),
		Reconnects: b.counts.reconnects.Load(),
		Listening:  !b.ears.Any() || b.link.Connected() && b.noted.Settled()}
	s.Echo, s.EchoAt = b.asked.Last()
	return s
}

// Close is daybook.Bell's. Rings that are on their way have a second to leave.
func (b *Bell) Close() error {
	b.closed.Do(func() {
		b.out.Close()
		b.ears.Close()
		if b.kept != nil {
			b.kept.giveBackAll()
		}
		b.end()
		b.link.HangUp()
		b.work.Wait()
	})
	return nil
}

// unavailable is what a caller is told when the server didn't do its part.
func (b *Bell) unavailable(what string, cause error) error {
	return &daybook.Error{Code: daybook.CodeUnavailable, Err: cause,
		Text: "the bell at " + b.target.shown + " " + what + "; jobs are safe in the book and are found by polling"}
}
