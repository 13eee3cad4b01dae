package nats

import (
	"context"
	"sync"
	"time"

	natsgo "github.com/nats-io/nats.go"
)

// subscriptions are what the server was told that this process wants to hear.
// The one goroutine of tend brings them in line with who listens here.
type subscriptions struct {
	wake chan struct{} // holds one

	mu      sync.Mutex
	made    map[string][]*natsgo.Subscription // by queue; everyQueue is all of them
	own     *natsgo.Subscription              // replies and echoes
	away    map[string]bool                   // queues that others shall hear, since the listeners here are busy
	epoch   int                               // the connection that all of them were confirmed on
	wanted  int                               // counts changes of what is wanted
	have    int                               // the change that the server has noted
	changed chan struct{}                     // closed when have or epoch changed
}

// everyQueue stands for the subscription of those who listen to every queue. No
// queue is called so.
const everyQueue = "*"

func (s *subscriptions) init() {
	s.wake, s.changed = make(chan struct{}, 1), make(chan struct{})
	s.made, s.away = map[string][]*natsgo.Subscription{}, map[string]bool{}
}

// poke says that something may have changed.
func (s *subscriptions) poke() {
	s.mu.Lock()
	s.wanted++
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// settled reports whether the server has noted what is wanted on the connection
// of this moment.
func (s *subscriptions) settled() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.epoch > 0 && s.have > 0
}

// unsettle says that the connection is another one.
func (s *subscriptions) unsettle() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.epoch = 0
}

// await waits until the server has noted all that is wanted now, while it is
// connected.
func (s *subscriptions) await(ctx context.Context, connected func() bool) {
	s.mu.Lock()
	until := s.wanted
	s.mu.Unlock()
	look := time.NewTicker(50 * time.Millisecond) // whether it is still connected
	defer look.Stop()
	for connected() {
		s.mu.Lock()
		done, changed := s.have >= until, s.changed
		s.mu.Unlock()
		if done {
			return
		}
		select {
		case <-changed:
		case <-look.C:
		case <-ctx.Done():
			return
		}
	}
}

// retrySoon is when the server is told again what it didn't confirm.
const retrySoon = 250 * time.Millisecond

// tend keeps the subscriptions until the bell is closed.
func (b *Bell) tend() {
	for {
		var again <-chan time.Time
		if !b.settle() {
			again = time.After(retrySoon)
		}
		select {
		case <-b.life.Done():
			return
		case <-b.subs.wake:
		case <-again:
		}
	}
}

// settle brings the subscriptions in line, and is false when that should be
// tried again soon.
func (b *Bell) settle() bool {
	nc, epoch, up := b.link.current()
	if !up {
		b.subs.unsettle()
		return true // the connection pokes
	}
	s := &b.subs
	s.mu.Lock()
	until := s.wanted
	anew := s.epoch != epoch
	err := b.align(nc)
	s.mu.Unlock()
	if err == nil {
		bounded, cancel := context.WithTimeout(b.life, listenMost)
		err = nc.FlushWithContext(bounded)
		cancel()
	}
	if err != nil {
		return false
	}
	if _, now, up := b.link.current(); !up || now != epoch {
		return true
	}
	if anew {
		if b.kept != nil {
			b.kept.connected()
		}
		b.ears.CatchUp() // what was rung meanwhile is lost
		if epoch > 1 {
			b.counts.reconnects.Add(1)
		}
	}
	s.mu.Lock()
	s.have, s.epoch = until, epoch
	close(s.changed)
	s.changed = make(chan struct{})
	s.mu.Unlock()
	return true
}

// align makes what is missing and ends what nobody wants. It wants the lock.
func (b *Bell) align(nc *natsgo.Conn) (err error) {
	s := &b.subs
	if s.own == nil {
		if s.own, err = nc.ChanSubscribe(b.names.replies+b.token+".>", b.arrivals); err != nil {
			return err
		}
	}
	queues, all := b.ears.Queues()
	want := make(map[string]bool, len(queues)+1)
	for _, q := range queues {
		want[q] = true
	}
	want[everyQueue] = all
	for q := range want {
		if want[q] && s.made[q] == nil && !s.away[q] {
			if err := b.subscribe(nc, q); err != nil {
				return err
			}
		}
	}
	for q := range s.made {
		if !want[q] {
			s.end(q)
		}
	}
	return nil
}

// subscribe wants the lock. All subscriptions share one channel, since each with
// one of its own would cost a goroutine.
func (b *Bell) subscribe(nc *natsgo.Conn, queue string) error {
	prefixes := []string{b.names.rings}
	if b.kept != nil {
		prefixes = append(prefixes, b.names.keeps)
	}
	for _, prefix := range prefixes {
		sub, err := nc.ChanQueueSubscribe(prefix+escape(queue), b.names.group, b.arrivals)
		if err != nil {
			b.subs.end(queue)
			return err
		}
		b.subs.made[queue] = append(b.subs.made[queue], sub)
	}
	return nil
}

// end wants the lock. An error means that the connection is gone, and the
// subscription with it.
func (s *subscriptions) end(queue string) {
	for _, sub := range s.made[queue] {
		sub.Unsubscribe()
	}
	delete(s.made, queue)
}

// stepAside takes this process out of the queue's group and then sends the
// message, in this order also for the server: so another member gets it, or the
// server says that there is none.
func (b *Bell) stepAside(queue string, m *natsgo.Msg) error {
	nc, _, up := b.link.current()
	if !up {
		return natsgo.ErrDisconnected
	}
	s := &b.subs
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, q := range []string{queue, everyQueue} {
		s.away[q] = true
		s.end(q)
	}
	return nc.PublishMsg(m)
}

// comeBack ends what stepAside began. Twice is harmless.
func (b *Bell) comeBack(queue string) {
	s := &b.subs
	s.mu.Lock()
	delete(s.away, queue)
	delete(s.away, everyQueue)
	s.mu.Unlock()
	s.poke()
}
