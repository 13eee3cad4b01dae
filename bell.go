package daybook

import (
	"context"
	"time"
)

// Ring is one notification: the queue has work. It may be lost, doubled, late or
// out of order, and nothing may depend on it.
type Ring struct {
	Queue string
	Job   ID // a hint for consumers that route by job; zero is any job of the queue
}

// Heard is a ring that reached a listener.
type Heard struct {
	Ring
	Again bool // the bell says that it was delivered before
	// Done, where it isn't nil, tells the bell that the listener has acted on the
	// ring: it asked the book, whatever the book had. false means that it couldn't
	// ask, and another listener should. A bell that keeps rings until they are
	// acknowledged rings again for one that is never done. Twice is harmless.
	Done func(acted bool)
}

// Finish calls Done, if there is one.
func (h Heard) Finish(acted bool) {
	if h.Done != nil {
		h.Done(acted)
	}
}

// Bell says "look now". Losing, doubling or delaying every ring costs latency and
// never work.
type Bell interface {
	// Ring says that the queue has work. It returns at once: rings of a queue that
	// come while one is on its way become one more. Its failure is nobody's error.
	Ring(ctx context.Context, queue string)
	// Listen returns a channel of rings, until ctx ends; then the channel is
	// closed. One ring wakes one listener: a listener that isn't receiving is busy,
	// and the ring goes to another, or waits, or is lost. An empty list listens to
	// every queue. A bell that can't be reached is listened to when it can: Listen
	// fails only for what will never work, and it rings every queue listened to
	// once (as far as it knows them; "" means all of them) when it can be heard
	// again, since rings were lost meanwhile.
	Listen(ctx context.Context, queues []string) (<-chan Heard, error)
	// Close stops all listening. Calling it twice is harmless.
	Close() error
}

// Outside is a bell that other processes hear too. Rings for it lie in the
// book's outbox until a relay has published them.
type Outside interface {
	Bell
	// Publish returns nil when the bell has taken over all of the rings. It doesn't
	// wait longer than ctx. An error means that some may not be rung.
	Publish(ctx context.Context, rings []Ring) error
	// Depth says how many rings lie in the bell, by queue, for people to see: rings
	// for jobs that are in the book already. A bell that keeps none answers nil.
	Depth(ctx context.Context) (map[string]int64, error)
	// Peek reads up to most rings that lie in the bell and leaves them there.
	Peek(ctx context.Context, most int) ([]Ring, error)
	// Stats says what this process's end of the bell has seen.
	Stats() BellStats
}

// Knower is a bell whose server doesn't tell which queues there are: Depth and
// Peek show those that it rang, listens to, or was told of.
type Knower interface {
	Know(queues ...string)
}

// BellStats count since the bell was opened.
type BellStats struct {
	Published  int64         // rings that the bell took over
	Failed     int64         // rings that it didn't take, or not in time
	Heard      int64         // rings that reached this process
	Doubled    int64         // of them, delivered again
	Passed     int64         // of them, handed on because nobody here was free
	Reconnects int64         // times that the listening began anew
	Listening  bool          // a listener is connected, or nobody listens here
	Echo       time.Duration // round trip of the last echo; 0 is none yet
	EchoAt     time.Time     // when it came back
}

// NoBell is the choice of no bell at all: workers find everything by their
// poll. It is for Options.Bell of a store whose default is another one.
type NoBell struct{}

// Ring rings nobody.
func (NoBell) Ring(context.Context, string) {}

// Listen hears nothing until ctx ends.
func (NoBell) Listen(ctx context.Context, _ []string) (<-chan Heard, error) {
	rings := make(chan Heard)
	context.AfterFunc(ctx, func() { close(rings) })
	return rings, nil
}

// Close does nothing.
func (NoBell) Close() error { return nil }
