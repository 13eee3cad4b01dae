package demo

import (
	"context"
	"sync"

	"github.com/daybookdev/daybook/examples/webhooks"
)

// acceptors is how many requests an enqueuer handles at once.
const acceptors = 8

// inbox is a queue of deliveries to enqueue that takes any number at once.
type inbox struct {
	mu    sync.Mutex
	items []int
	more  chan struct{}
}

func newInbox() *inbox { return &inbox{more: make(chan struct{}, 1)} }

func (b *inbox) put(items []int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.items = append(b.items, items...)
	b.poke()
}

func (b *inbox) poke() {
	select {
	case b.more <- struct{}{}:
	default:
	}
}

// take waits for the next; false when ctx ended.
func (b *inbox) take(ctx context.Context) (int, bool) {
	for {
		b.mu.Lock()
		if len(b.items) > 0 {
			next := b.items[0]
			b.items = b.items[1:]
			if len(b.items) > 0 {
				b.poke() // for the next one who waits
			}
			b.mu.Unlock()
			return next, true
		}
		b.mu.Unlock()
		select {
		case <-ctx.Done():
			return 0, false
		case <-b.more:
		}
	}
}

// accept is an enqueuer: what a receiver of webhooks does with each delivery.
// It answers GitHub, here the parent, only when the job is in the book.
func (c *child) accept(ctx context.Context, sends *inbox) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	all := deliveries(c.Jobs)
	var handlers sync.WaitGroup
	for range acceptors {
		handlers.Go(func() {
			for i, ok := sends.take(ctx); ok; i, ok = sends.take(ctx) {
				if err := c.acceptOne(ctx, i, all[i]); err != nil && ctx.Err() == nil {
					stop(err)
				}
			}
		})
	}
	handlers.Wait()
	if err := context.Cause(ctx); err != context.Canceled {
		return err
	}
	return nil
}

func (c *child) acceptOne(ctx context.Context, i int, d webhooks.Delivery) error {
	receipt, err := c.book.Enqueue(ctx, request(d))
	if err != nil {
		return err
	}
	return c.out.Write(report{Ack: &ack{Delivery: i, ID: receipt.ID, Replayed: receipt.Replayed}})
}
