package rabbitmq

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/internal/ring"
)

// Bell is one process's end. Its one connection is made in the background, and
// made again for as long as the bell is open.
type Bell struct {
	url, shown  string
	name        string
	acknowledge time.Duration
	age         time.Duration
	log         *slog.Logger

	ears  *ring.Ears
	out   *ring.Out
	link  *ring.Link
	noted *ring.Noted
	asked *ring.Echo

	life   context.Context // ends with Close
	end    context.CancelFunc
	work   sync.WaitGroup
	closed sync.Once

	session atomic.Pointer[session] // the newest; nil before the first
	known   known
	said    ring.Said // of queues that aren't as they should be

	counts struct{ heard, doubled, passed, reconnects atomic.Int64 }
}

var (
	_ daybook.Outside = (*Bell)(nil)
	_ daybook.Knower  = (*Bell)(nil)
)

// Open makes a bell at once, whether the server is there or not, and connects in
// the background. The error is daybook.ErrInvalid, for a URL or a name that can
// never work; it doesn't show the URL.
func Open(url string, o Options) (*Bell, error) {
	shown, err := parse(url)
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
	for _, d := range []struct {
		is        *time.Duration
		otherwise time.Duration
	}{{&o.Echo, EchoDefault}, {&o.Acknowledge, AcknowledgeDefault}, {&o.Age, AgeDefault}} {
		if *d.is <= 0 {
			*d.is = d.otherwise
		}
	}
	b := &Bell{url: url, shown: shown, name: o.Name, acknowledge: o.Acknowledge, age: o.Age,
		log: o.Log.With("bell", shown), link: ring.NewLink(), noted: ring.NewNoted()}
	b.life, b.end = context.WithCancel(context.Background())
	b.asked = ring.NewEcho(&ring.Echo{Every: o.Echo, Send: b.sendEcho, Due: b.echoDue, Silent: b.silent})
	b.ears = ring.NewEars(b.noted.Poke, b.again)
	b.out = ring.NewOut(b.send, nil)
	b.work.Go(b.connect)
	b.work.Go(func() { b.asked.Run(b.life) })
	return b, nil
}

// Ring is daybook.Bell's. A listener of this end that waits for rings hears it
// straight away, and nobody else then.
func (b *Bell) Ring(_ context.Context, queue string) {
	if daybook.CheckName("queue", queue) != nil {
		return
	}
	b.known.add(queue)
	if b.ears.Ring(daybook.Ring{Queue: queue}, b.out.Ring) {
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
	b.known.add(queues...)
	rings, err := b.ears.Listen(ctx, queues)
	if err != nil {
		return nil, err
	}
	bounded, cancel := context.WithTimeout(ctx, listenMost)
	defer cancel()
	b.noted.Await(bounded, b.link.Connected)
	return rings, nil
}

// again tells a listener once more to look at everything, which it couldn't.
func (b *Bell) again(daybook.Ring) {
	time.AfterFunc(standAside, b.ears.CatchUp)
}

// Publish is daybook.Outside's: nil when the server has confirmed every ring.
func (b *Bell) Publish(ctx context.Context, rings []daybook.Ring) error {
	for _, r := range rings {
		b.known.add(r.Queue)
	}
	return b.out.Publish(ctx, rings)
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

// Close is daybook.Bell's. Rings that are on their way have a second to leave,
// and the server gives others what listeners here still had in hand.
func (b *Bell) Close() error {
	b.closed.Do(func() {
		b.out.Close()
		b.ears.Close()
		b.end()
		b.link.HangUp()
		b.work.Wait()
	})
	return nil
}

// unavailable is what a caller is told when the server didn't do its part.
func (b *Bell) unavailable(what string, cause error) error {
	return &daybook.Error{Code: daybook.CodeUnavailable, Err: cause,
		Text: "the bell at " + b.shown + " " + what + "; jobs are safe in the book and are found by polling"}
}

// known are queues that this end has to do with: the server doesn't list its
// queues to clients.
type known struct {
	mu     sync.Mutex
	queues map[string]bool
}

// knownMost bounds the queues that Depth and Peek ask about.
const knownMost = 2 * daybook.QueuesMax

func (k *known) add(queues ...string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.queues == nil {
		k.queues = map[string]bool{}
	}
	for _, q := range queues {
		if len(k.queues) < knownMost {
			k.queues[q] = true
		}
	}
}
