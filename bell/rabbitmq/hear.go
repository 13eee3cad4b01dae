package rabbitmq

import (
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// hearing is the channel on which rings come in, with a consumer for each queue.
type hearing struct {
	s     *session
	ch    *amqp.Channel
	over  chan struct{} // closed when the channel is
	cause error         // why; to be read when over
	work  sync.WaitGroup
	tags  atomic.Int64
	lost  atomic.Bool // a queue was deleted, and rings with it

	calls sync.Mutex // the client can't tell the answers of two calls apart

	mu        sync.Mutex
	consumers map[string]*consumer // by queue; everyQueue is all of them
	refused   map[string]time.Time // queues that can't be listened to, and since when
}

// refusedFor is when a queue that can't be listened to is tried again.
const refusedFor = 30 * time.Second

// hear listens, as long as a channel lasts. The error says that the connection
// ended; without one another channel may be opened.
func (s *session) hear() error {
	h, err := s.openHearing()
	if err != nil {
		return err
	}
	defer h.work.Wait()
	for first := true; ; first = false {
		change, _ := s.b.noted.Wanted()
		more, err := h.align()
		if err != nil {
			return s.channelOver(h, err)
		}
		if first || h.lost.Swap(false) {
			s.b.ears.CatchUp() // what was rung meanwhile is lost
		}
		if more {
			s.b.noted.Set(0, s.epoch)
			continue
		}
		s.b.noted.Set(change, s.epoch)
		again := time.NewTimer(refusedFor) // queues that couldn't be listened to
		select {
		case <-s.b.noted.Wake():
		case <-again.C:
		case <-h.over:
			return s.channelOver(h, h.cause)
		case <-s.b.life.Done():
			s.b.link.Drop()
			<-h.over
			return errOver
		}
		again.Stop()
	}
}

func (s *session) openHearing() (*hearing, error) {
	ch, err := s.conn.Channel()
	if err != nil {
		return nil, err
	}
	h := &hearing{s: s, ch: ch, over: make(chan struct{}), consumers: map[string]*consumer{}, refused: s.refused}
	closes := ch.NotifyClose(make(chan *amqp.Error, 1))
	s.b.work.Go(func() {
		if reason, ok := <-closes; ok {
			h.cause = reason
		} else {
			h.cause = errOver
		}
		close(h.over)
	})
	if s.heard.Swap(true) || s.epoch > 1 {
		s.b.counts.reconnects.Add(1)
	}
	return h, h.takeOne()
}

// takeOne makes each consumer hold one ring at a time. Its answer also says that
// the server has done all that it was told before on this channel.
func (h *hearing) takeOne() error {
	h.calls.Lock()
	defer h.calls.Unlock()
	return h.ch.Qos(1, 0, false)
}

// channelOver decides what the end of a channel means.
func (s *session) channelOver(h *hearing, cause error) error {
	s.b.noted.Forget()
	h.ch.Close() // where it isn't; an error means that it is
	<-h.over
	if s.conn.IsClosed() {
		return cause
	}
	if queue, ok := s.b.blamed(h.cause); ok {
		s.refused[queue] = time.Now()
		s.b.sayDeaf(queue, h.cause)
		return nil
	}
	select { // another channel, but not in a circle
	case <-time.After(standAside):
		return nil
	case <-s.over:
		return errOver
	case <-s.b.life.Done():
		return errOver
	}
}

// part is how many queues are listened to at once. To make ten thousand of them
// takes the server some ten seconds, once; those of the first parts are heard
// meanwhile, and rings of the others wait at the server.
const part = 1000

// align brings the consumers in line with who listens here, a part of the new
// ones at a time. more reports that some are left.
func (h *hearing) align() (more bool, err error) {
	fresh, gone := h.compare()
	for _, c := range gone {
		if err := c.leave(); err != nil {
			return false, err
		}
	}
	if len(fresh) == 0 {
		return false, nil
	}
	if len(fresh) > part {
		fresh, more = fresh[:part], true
	}
	if err := h.s.declareAll(fresh); err != nil {
		return false, err
	}
	for _, q := range fresh {
		c := &consumer{h: h, queue: q, place: h.s.b.place(q)}
		deliveries, err := c.consume()
		if err != nil {
			return false, err
		}
		h.mu.Lock()
		h.consumers[q] = c
		h.mu.Unlock()
		h.work.Go(func() { c.run(deliveries) })
	}
	return more, h.takeOne()
}

// compare finds the queues that are wanted and have no consumer, and the
// consumers that nobody wants.
func (h *hearing) compare() (fresh []string, gone []*consumer) {
	queues, all := h.s.b.ears.Queues()
	if all {
		queues = append(queues, everyQueue)
	}
	want := make(map[string]bool, len(queues))
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, q := range queues {
		want[q] = true
		if h.consumers[q] == nil && time.Since(h.refused[q]) > refusedFor {
			fresh = append(fresh, q)
		}
	}
	for q, c := range h.consumers {
		if !want[q] {
			gone = append(gone, c)
		}
	}
	return fresh, gone
}

// ended takes out a consumer that is over, so that align makes another where one
// is wanted.
func (h *hearing) ended(c *consumer) {
	h.mu.Lock()
	if h.consumers[c.queue] == c {
		delete(h.consumers, c.queue)
	}
	h.mu.Unlock()
	h.s.b.noted.Poke()
}

// declarers is how many channels make queues side by side, where there are many:
// the server writes them to disk together.
const declarers = 4

// declareAll makes queues at the server. One that can't be made is used as it
// is.
func (s *session) declareAll(queues []string) error {
	each := max((len(queues)+declarers-1)/declarers, 32)
	var made []<-chan error
	for some := range slices.Chunk(queues, each) {
		done := make(chan error, 1)
		made = append(made, done)
		s.b.work.Go(func() { done <- s.declareSome(some) })
	}
	var failed error
	for _, done := range made {
		if err := <-done; err != nil {
			failed = err
		}
	}
	return failed
}

func (s *session) declareSome(queues []string) error {
	for len(queues) > 0 {
		ch, err := s.conn.Channel()
		if err != nil {
			return err
		}
		closes := ch.NotifyClose(make(chan *amqp.Error, 1))
		for _, q := range queues {
			if err = s.b.declare(ch, q); err != nil {
				break
			}
		}
		if err == nil {
			err = ch.Qos(1, 0, false) // answered when all are made
		}
		if err == nil {
			return ch.Close()
		}
		select {
		case reason, ok := <-closes:
			if ok {
				err = reason
			}
		case <-s.over:
			return errOver
		}
		queue, ok := s.b.blamed(err)
		if !ok {
			return err
		}
		s.b.sayOdd(queue, err)
		queues = after(queues, queue)
	}
	return nil
}

// after is what comes after one of the queues; nothing, when it isn't there.
func after(queues []string, queue string) []string {
	for i, q := range queues {
		if q == queue {
			return queues[i+1:]
		}
	}
	return nil
}

// consumer listens to one queue, and holds one ring of it at most.
type consumer struct {
	h            *hearing
	queue, place string

	mu       sync.Mutex
	tag      string // "" while it doesn't consume
	stopping bool
}

// consume begins; nil is a consumer that shall stop.
func (c *consumer) consume() (<-chan amqp.Delivery, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopping {
		return nil, nil
	}
	c.tag = strconv.FormatInt(c.h.tags.Add(1), 10)
	return c.h.ch.Consume(c.place, c.tag, false, false, false, true, nil)
}

// pause stops consuming, so that a ring given back goes to others. Nothing more
// is on its way here while one ring is unacknowledged.
func (c *consumer) pause(deliveries <-chan amqp.Delivery) {
	c.mu.Lock()
	if c.tag != "" {
		c.h.ch.Cancel(c.tag, true) // an error means that the channel is over
		c.tag = ""
	}
	c.mu.Unlock()
	for d := range deliveries {
		d.Reject(true)
	}
}

// leave stops for good, and waits until the server has noted it, so that the
// rings that it sent meanwhile are given back.
func (c *consumer) leave() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopping = true
	if c.tag == "" {
		return nil
	}
	c.h.calls.Lock()
	defer c.h.calls.Unlock()
	err := c.h.ch.Cancel(c.tag, false)
	c.tag = ""
	return err
}

func (c *consumer) stops() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stopping
}
