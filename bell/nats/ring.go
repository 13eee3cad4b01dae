package nats

import (
	"context"
	"time"

	"github.com/daybookdev/daybook"
	natsgo "github.com/nats-io/nats.go"
)

// sendMost bounds how long one batch of rings may take.
const sendMost = 5 * time.Second

// send hands a batch to the server and waits until it has read it; with
// JetStream, until the stream has it.
func (b *Bell) send(ctx context.Context, rings []daybook.Ring) error {
	ctx, cancel := context.WithTimeout(ctx, sendMost)
	defer cancel()
	if !b.link.Wait(ctx) {
		return b.unavailable("can't be reached", nil)
	}
	if b.kept != nil && b.kept.send(ctx, rings) == nil {
		return nil
	} // what can't be kept is heard all the same
	nc := b.client.Load()
	for _, r := range rings {
		if err := nc.PublishMsg(b.message(b.names.rings, r)); err != nil {
			return b.unavailable("was lost while rings were on their way", err)
		}
	}
	if len(rings) == 0 {
		return nil
	}
	return b.flush(ctx, nc)
}

// flush waits until the server has read all that was sent.
func (b *Bell) flush(ctx context.Context, nc *natsgo.Conn) error {
	if err := nc.FlushWithContext(ctx); err != nil {
		return b.unavailable("doesn't answer", err)
	}
	return nil
}

// answers asks the server whether it is there, for who asks what lies in it.
func (b *Bell) answers(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, sendMost)
	defer cancel()
	if !b.link.Wait(ctx) {
		return b.unavailable("can't be reached", nil)
	}
	return b.flush(ctx, b.client.Load())
}
