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
