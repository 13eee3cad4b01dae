package rabbitmq

import (
	"context"
	"time"

	"github.com/daybookdev/daybook"
	amqp "github.com/rabbitmq/amqp091-go"
)

// sendMost bounds how long one batch of rings may take.
const sendMost = 5 * time.Second

// speaker is the channel on which rings go out, with confirmation. It is the
// sending goroutine's alone.
type speaker struct {
	s       *session
	ch      *amqp.Channel
	closed  <-chan *amqp.Error
	returns <-chan amqp.Return
	made    map[string]bool // queues that are at the server as they should be
	odd     map[string]bool // queues that are there and can't be made
}

// returnsMost is more than one batch: the client waits for room.
const returnsMost = 4096

func openSpeaker(s *session) (*speaker, error) {
	p := &speaker{s: s, made: map[string]bool{}, odd: map[string]bool{}}
	return p, p.open()
}

func (p *speaker) open() error {
	ch, err := p.s.conn.Channel()
	if err != nil {
		return err
	}
	p.ch = ch
	p.closed = ch.NotifyClose(make(chan *amqp.Error, 1))
	p.returns = ch.NotifyReturn(make(chan amqp.Return, returnsMost))
	return ch.Confirm(false)
}

// send hands a batch to the server and waits until it has confirmed each ring.
func (b *Bell) send(ctx context.Context, rings []daybook.Ring) error {
	ctx, cancel := context.WithTimeout(ctx, sendMost)
	defer cancel()
	if !b.link.Wait(ctx) {
		return b.unavailable("can't be reached", nil)
	}
	s := b.current()
	if s == nil {
		return b.unavailable("can't be reached", nil)
	}
	select {
	case <-s.stopped: // of an earlier time
	default:
	}
	for len(rings) > 0 {
		if s.blocked.Load() {
			return b.unavailable("takes no rings: the server is short of memory or disk", nil)
		}
		var err error
		if rings, err = s.speaker.speak(ctx, rings); err != nil {
			return err
		}
	}
	return nil
}

// speak sends rings once. What is to be sent again is what the server had no
// queue for; each time it knows one more queue, or one more that it can't make.
func (p *speaker) speak(ctx context.Context, rings []daybook.Ring) (again []daybook.Ring, err error) {
	b := p.s.b
	if p.ch.IsClosed() {
		if err := p.open(); err != nil {
			return nil, b.unavailable("was lost", err)
		}
	}
	var fresh []string
	confirms := make([]*amqp.DeferredConfirmation, 0, len(rings))
	for _, r := range rings {
		if !p.made[r.Queue] && !p.odd[r.Queue] {
			fresh = append(fresh, r.Queue)
			err = b.declare(p.ch, r.Queue)
		}
		var c *amqp.DeferredConfirmation
		if err == nil {
			c, err = p.publish(r)
		}
		if err != nil {
			return p.refused(rings, fresh, err)
		}
		confirms = append(confirms, c)
	}
	for _, c := range confirms {
		select {
		case <-c.Done():
		case <-p.s.stopped:
			return nil, b.unavailable("takes no rings: the server is short of memory or disk", nil)
		case <-ctx.Done():
			return nil, b.unavailable("doesn't confirm in time", ctx.Err())
		}
		if !c.Acked() {
			return p.refused(rings, fresh, nil)
		}
	}
	for _, q := range fresh {
		p.made[q] = true
	}
	return p.returned(rings), nil
}

// publish sends a ring to its queue, and to those who listen to every queue,
// if there are any. The rings live in memory: whoever listens looks into the
// book when the server comes back.
func (p *speaker) publish(r daybook.Ring) (*amqp.DeferredConfirmation, error) {
	m := amqp.Publishing{Type: "ring", MessageId: daybook.NewID().String(), Body: []byte(r.Queue)}
	if !r.Job.IsZero() {
		m.CorrelationId = r.Job.String()
	}
	if err := p.ch.Publish("", p.s.b.place(everyQueue), false, false, m); err != nil {
		return nil, err
	}
	return p.ch.PublishWithDeferredConfirm("", p.s.b.place(r.Queue), true, false, m)
}

// returned are the rings that had no queue: it was made once, and is gone.
func (p *speaker) returned(rings []daybook.Ring) (again []daybook.Ring) {
	gone := map[string]bool{}
	for {
		select {
		case r, open := <-p.returns:
			if !open {
				return again
			}
			if q, ok := p.s.b.queueOf(r.RoutingKey); ok {
				gone[q] = true
				delete(p.made, q)
				delete(p.odd, q)
				p.s.b.said.Forget(q)
			}
			continue
		default:
		}
		break
	}
	for _, r := range rings {
		if gone[r.Queue] {
			again = append(again, r)
		}
	}
	return again
}

// refused finds out why the server closed the channel. For a queue that can't be
// made everything is sent once more, without the making of that queue.
func (p *speaker) refused(rings []daybook.Ring, fresh []string, cause error) ([]daybook.Ring, error) {
	b := p.s.b
	if p.ch.IsClosed() {
		select {
		case reason, ok := <-p.closed:
			if ok && reason != nil {
				cause = reason
			}
		case <-time.After(time.Second): // the client says it in a moment, if it knows
		}
	}
	queue, ok := b.blamed(cause)
	if !ok || p.odd[queue] {
		return nil, b.unavailable("didn't take the rings", cause)
	}
	p.odd[queue] = true
	b.sayOdd(queue, cause)
	for _, q := range fresh {
		if q == queue {
			break
		}
		p.made[q] = true
	}
	return rings, nil
}
