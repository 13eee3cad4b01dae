package daybook

import "context"

// Bell says "look now". Rings may be lost, doubled, late or out of order, and
// nothing may depend on one: losing them all costs latency and never work.
type Bell interface {
	// Ring says that the queue has work. It never blocks for long and its
	// failure is nobody's error: the poll floor finds the work.
	Ring(ctx context.Context, queue string)
	// Listen returns a channel of queue names with work, until ctx ends; then
	// the channel is closed. A slow reader loses rings, never gets old ones.
	// An empty list listens to every queue.
	Listen(ctx context.Context, queues []string) (<-chan string, error)
	// Close stops all listening. Calling it twice is harmless.
	Close() error
}

// NoBell is the choice of no bell at all: workers find everything by their
// poll. It is for Options.Bell of a store whose default is another one.
type NoBell struct{}

// Ring rings nobody.
func (NoBell) Ring(context.Context, string) {}

// Listen hears nothing until ctx ends.
func (NoBell) Listen(ctx context.Context, _ []string) (<-chan string, error) {
	rings := make(chan string)
	context.AfterFunc(ctx, func() { close(rings) })
	return rings, nil
}

// Close does nothing.
func (NoBell) Close() error { return nil }
