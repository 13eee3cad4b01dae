package rabbitmq

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/daybookdev/daybook"
	amqp "github.com/rabbitmq/amqp091-go"
)

// Know names queues for Depth and Peek, which otherwise show those that this end
// rang or listens to: the server doesn't list its queues to clients.
func (b *Bell) Know(queues ...string) { b.known.add(queues...) }

func (k *known) sorted() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Sorted(maps.Keys(k.queues))
}

// Depth is daybook.Outside's. It shows the queues that this end rang, listens to
// or was told of (Know), and those rings that no process has in hand. The copies
// for those who listen to every queue aren't counted.
func (b *Bell) Depth(ctx context.Context) (map[string]int64, error) {
	return inTime(ctx, b, func(l *looker) (map[string]int64, error) { return l.depth(ctx) })
}

// Peek is daybook.Outside's. It takes the rings and gives them back at once: for
// that moment nobody else hears them, and whoever does then is told that they
// were delivered before.
func (b *Bell) Peek(ctx context.Context, most int) ([]daybook.Ring, error) {
	return inTime(ctx, b, func(l *looker) ([]daybook.Ring, error) { return l.peek(ctx, most) })
}

// inTime asks the server something, and doesn't wait longer than ctx.
func inTime[T any](ctx context.Context, b *Bell, ask func(*looker) (T, error)) (answer T, err error) {
	if !b.link.Wait(ctx) {
		return answer, b.unavailable("can't be reached", nil)
	}
	s := b.current()
	if s == nil {
		return answer, b.unavailable("can't be reached", nil)
	}
	type result struct {
		answer T
		err    error
	}
	done := make(chan result, 1)
	go func() {
		l := &looker{s: s}
		answer, err := ask(l)
		l.close()
		done <- result{answer, err}
	}()
	select {
	case r := <-done:
		return r.answer, r.err
	case <-ctx.Done():
		return answer, b.unavailable("doesn't say in time what lies in it", ctx.Err())
	}
}

// looker is a channel to look around with. The server closes it at the first
// queue that isn't there.
type looker struct {
	s  *session
	ch *amqp.Channel
}

func (l *looker) open() error {
	if l.ch != nil && !l.ch.IsClosed() {
		return nil
	}
	ch, err := l.s.conn.Channel()
	if err != nil {
		return l.s.b.unavailable("was lost", err)
	}
	l.ch = ch
	return nil
}

// close gives back what was taken.
func (l *looker) close() {
	if l.ch != nil {
		l.ch.Close() // an error means that it is closed
	}
}

func (l *looker) depth(ctx context.Context) (map[string]int64, error) {
	b := l.s.b
	depth := map[string]int64{}
	for _, queue := range b.known.sorted() {
		if err := ctx.Err(); err != nil {
			return nil, b.unavailable("doesn't say in time what lies in it", err)
		}
		if err := l.open(); err != nil {
			return nil, err
		}
		at, err := l.ch.QueueDeclarePassive(b.place(queue), true, false, false, false, nil)
		if reason, ok := errors.AsType[*amqp.Error](err); ok && reason.Code == amqp.NotFound {
			continue
		}
		if err != nil {
			return nil, b.unavailable("doesn't say what lies in it", err)
		}
		if at.Messages > 0 {
			depth[queue] = int64(at.Messages)
		}
	}
	return depth, nil
}

func (l *looker) peek(ctx context.Context, most int) (rings []daybook.Ring, err error) {
	b := l.s.b
	depth, err := l.depth(ctx)
	if err != nil {
		return nil, err
	}
	for _, queue := range slices.Sorted(maps.Keys(depth)) {
		for range depth[queue] {
			if len(rings) >= most {
				return rings, nil
			}
			if err := l.open(); err != nil {
				return nil, err
			}
			m, ok, err := l.ch.Get(b.place(queue), false)
			if err != nil {
				return nil, b.unavailable("doesn't show what lies in it", err)
			}
			if !ok {
				break // heard meanwhile
			}
			r := daybook.Ring{Queue: queue}
			if id, err := daybook.ParseID(m.CorrelationId); err == nil {
				r.Job = id
			}
			rings = append(rings, r)
		}
	}
	return rings, nil
}
