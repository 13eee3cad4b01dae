package rabbitmq

import (
	"errors"
	"strconv"

	amqp "github.com/rabbitmq/amqp091-go"
)

// echoes are a queue of this connection alone, to which it sends itself
// messages. It has a channel of its own, so that the making of ten thousand
// queues on another doesn't delay it.
type echoes struct {
	ch    *amqp.Channel
	queue string
}

func openEchoes(s *session) (*echoes, error) {
	ch, err := s.conn.Channel()
	if err != nil {
		return nil, err
	}
	q, err := ch.QueueDeclare("", false, true, true, false, nil)
	if err != nil {
		return nil, err
	}
	back, err := ch.Consume(q.Name, "", true, true, false, false, nil)
	if err != nil {
		return nil, err
	}
	s.b.work.Go(func() {
		for d := range back {
			if token, err := strconv.Atoi(string(d.Body)); err == nil {
				s.b.asked.Came(token)
			}
		}
	})
	return &echoes{ch: ch, queue: q.Name}, nil
}

// sendEcho sends this end a message through the server.
func (b *Bell) sendEcho(token int) error {
	s := b.current()
	if s == nil {
		return errOver
	}
	return s.echoes.ch.Publish("", s.echoes.queue, false, false, amqp.Publishing{Body: []byte(strconv.Itoa(token))})
}

func (b *Bell) echoDue() (epoch int, due bool) {
	s := b.current()
	if s == nil {
		return 0, false
	}
	return s.epoch, true
}

// silent ends a connection that answers nothing. A server that said that it takes
// nothing just now is there.
func (b *Bell) silent(epoch int) {
	if s := b.current(); s != nil && s.epoch == epoch && !s.blocked.Load() {
		b.down(errSilent)
		b.link.Drop()
	}
}

var errSilent = errors.New("the server doesn't answer")
