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
	mu   sync.Mutex
	made map[string][]*natsgo.Subscription // by queue; everyQueue is all of them
	own  *natsgo.Subscription              // replies and echoes
	away map[string]bool                   // queues that others shall hear, since the listeners here are busy
}

// everyQueue stands for the subscription of those who listen to every queue. No
// queue is called so.
const everyQueue = "*"

func (s *subscriptions) init() {
	s.made, s.away = map[string][]*natsgo.Subscription{}, map[string]bool{}
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
		case <-b.noted.Wake():
		case <-again:
		}
	}
}

// settle brings the subscriptions in line, and is false when that should be
// tried again soon.
func (b *Bell) settle() bool {
	epoch, up := b.link.Up()
	if !up {
		b.noted.Forget()
		return true // the connection pokes
	}
	nc := b.client.Load()
	change, before := b.noted.Wanted()
	b.subs.mu.Lock()
	err := b.align(nc)
	b.subs.mu.Unlock()
	if err == nil {
		bounded, cancel := context.WithTimeout(b.life, listenMost)
		err = nc.FlushWithContext(bounded)
		cancel()
	}
	if err != nil {
		return false
	}
	if now, up := b.link.Up(); !up || now != epoch {
		return true
	}
	if before != epoch {
		if b.kept != nil {
			b.kept.connected()
		}
		b.ears.CatchUp() // what was rung meanwhile is lost
		if epoch > 1 {
			b.counts.reconnects.Add(1)
		}
	}
	b.noted.Set(change, epoch)
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
	nc := b.client.Load()
	if !b.link.Connected() {
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
	b.noted.Poke()
}
