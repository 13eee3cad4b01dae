package rabbitmq

import (
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"github.com/daybookdev/daybook/internal/ring"
	amqp "github.com/rabbitmq/amqp091-go"
)

// session is one connection and what was made on it.
type session struct {
	b       *Bell
	conn    *amqp.Connection
	epoch   int
	over    chan struct{} // closed when the connection is
	blocked atomic.Bool   // the server takes nothing: it is short of memory or disk
	stopped chan struct{} // receives when it becomes blocked; holds one
	echoes  *echoes
	speaker *speaker // only the goroutine that sends uses it

	heard   atomic.Bool          // it listened already
	refused map[string]time.Time // queues that can't be listened to, and since when
}

const (
	// connectMost bounds one try to connect, with the handshake and the making
	// of what every connection has.
	connectMost = 10 * time.Second
	// stuckMost bounds one write.
	stuckMost = 5 * time.Second
)

// connect keeps a connection, until the bell is closed.
func (b *Bell) connect() {
	var pause ring.Pause
	for b.life.Err() == nil {
		s, err := b.dial()
		if err == nil {
			pause.Over()
			err = s.serve()
		}
		b.down(err)
		pause.Wait(b.life)
	}
}

// writer is a connection whose writes end: a server that reads no more gives no
// error otherwise.
type writer struct{ net.Conn }

func (w writer) Write(p []byte) (int, error) {
	if err := w.SetWriteDeadline(time.Now().Add(stuckMost)); err != nil {
		return 0, err
	}
	return w.Conn.Write(p)
}

func (b *Bell) dial() (*session, error) {
	late := time.AfterFunc(connectMost, b.link.Drop)
	defer late.Stop()
	properties := amqp.NewConnectionProperties()
	properties.SetClientConnectionName("daybook " + b.name)
	conn, err := amqp.DialConfig(b.url, amqp.Config{Properties: properties,
		Dial: func(network, address string) (net.Conn, error) {
			raw, err := (&net.Dialer{Timeout: connectMost}).DialContext(b.life, network, address)
			if err != nil {
				return nil, err
			}
			if !b.link.Use(raw) {
				return nil, net.ErrClosed
			}
			return writer{raw}, nil
		}})
	if err != nil {
		return nil, err
	}
	s := &session{b: b, conn: conn, over: make(chan struct{}), stopped: make(chan struct{}, 1),
		refused: map[string]time.Time{}}
	closes := conn.NotifyClose(make(chan *amqp.Error, 1))
	blocks := conn.NotifyBlocked(make(chan amqp.Blocking, 16))
	b.work.Go(func() { s.watch(closes, blocks) })
	if s.echoes, err = openEchoes(s); err == nil {
		s.speaker, err = openSpeaker(s)
	}
	if err != nil {
		b.link.Drop()
		<-s.over
		return nil, err
	}
	return s, nil
}

// watch notes what the server says about the connection, until it ends.
func (s *session) watch(closes <-chan *amqp.Error, blocks <-chan amqp.Blocking) {
	defer close(s.over)
	for {
		select {
		case <-closes: // closed without a value, too
			return
		case block, open := <-blocks:
			if !open {
				<-closes
				return
			}
			s.setBlocked(block)
		}
	}
}

func (s *session) setBlocked(block amqp.Blocking) {
	if s.blocked.Swap(block.Active) == block.Active {
		return
	}
	if !block.Active {
		s.b.log.Info("the bell's server takes rings again")
		s.b.out.Poke()
		return
	}
	s.b.log.Warn("the bell's server takes no rings: it is short of memory or disk; "+
		"until it has more, jobs start by polling", "cause", block.Reason)
	select {
	case s.stopped <- struct{}{}:
	default:
	}
}

// serve is the life of a session: it can ring now, and listens.
func (s *session) serve() error {
	b := s.b
	before, _ := b.link.Up()
	s.epoch = before + 1 // only this goroutine comes up
	b.session.Store(s)
	changed, first := b.link.Set(true)
	if changed && !first {
		b.log.Info("the bell is connected again; workers look for what was rung meanwhile")
	}
	b.out.Poke()
	var err error
	for err == nil {
		err = s.hear()
	}
	b.link.Drop()
	<-s.over
	return err
}

var errOver = errors.New("the connection ended")

// down tells people, once, that the server is away.
func (b *Bell) down(cause error) {
	b.noted.Forget()
	if b.life.Err() != nil {
		return
	}
	if changed, first := b.link.Set(false); changed || first {
		b.log.Warn("the bell can't be reached; it is tried again and again, and until then jobs start by polling",
			"cause", causeOf(cause))
	}
}

// causeOf is an error of the client for the log.
func causeOf(err error) string {
	return ring.Cause(err, func(err error) (string, bool) {
		said, ok := errors.AsType[*amqp.Error](err)
		if !ok {
			return "", false
		}
		return fmt.Sprintf("the server says: %s (%d)", said.Reason, said.Code), true
	})
}

// current is the session that is connected now, or nil.
func (b *Bell) current() *session {
	if !b.link.Connected() {
		return nil
	}
	return b.session.Load()
}
