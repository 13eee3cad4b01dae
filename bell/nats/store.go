package nats

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/daybookdev/daybook"
	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// store is the stream of a bell with JetStream. It keeps the newest ring of each
// queue, as a work queue with one consumer for each, made when first needed.
//
// The stream isn't what wakes: a ring that it stores is also an ordinary message
// to the queue's group, and who gets that fetches what is stored, with a
// deadline to acknowledge it. What is left over, because nobody listened or a
// listener died, is found by looking at the list of stored subjects now and
// then, one request however many queues. So ten thousand queues need no ten
// thousand open pull requests.
type store struct {
	b           *Bell
	acknowledge time.Duration
	age         time.Duration
	now         chan struct{} // holds one: look at once

	mu        sync.Mutex
	nc        *natsgo.Conn
	js        jetstream.JetStream
	stream    jetstream.Stream              // nil while there is none
	trouble   string                        // what was said last about it
	consumers map[string]jetstream.Consumer // by queue
	held      map[*taking]bool              // in the hands of listeners here
}

const (
	// fetchMost is how long a ring that was heard may take until it is stored.
	fetchMost = 250 * time.Millisecond
	// apiMost bounds one request about the stream.
	apiMost = 2 * time.Second
	// idleConsumer is when the server forgets a queue's consumer.
	idleConsumer = time.Hour
)

func newStore(b *Bell, o Options) *store {
	s := &store{b: b, acknowledge: o.Acknowledge, age: o.Age, now: make(chan struct{}, 1),
		consumers: map[string]jetstream.Consumer{}, held: map[*taking]bool{}}
	if s.acknowledge <= 0 {
		s.acknowledge = AcknowledgeDefault
	}
	if s.age <= 0 {
		s.age = AgeDefault
	}
	return s
}

// connected begins anew with a server that may be another one, or the same
// without its data.
func (s *store) connected() {
	s.lost()
	s.ensure()
	s.lookNow()
}

// ensure makes the stream, if there is none. What goes wrong is said once.
func (s *store) ensure() (jetstream.Stream, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stream != nil {
		return s.stream, nil
	}
	nc, up := s.b.client.Load(), s.b.link.Connected()
	if !up {
		return nil, s.b.unavailable("can't be reached", nil)
	}
	if nc != s.nc {
		s.nc, s.js = nc, nil
	}
	ctx, cancel := context.WithTimeout(s.b.life, apiMost)
	defer cancel()
	stream, err := s.open(ctx)
	if err != nil {
		return nil, s.complain(err)
	}
	if s.trouble != "" {
		s.b.log.Info("the stream of rings is there now", "stream", s.b.names.stream)
		s.trouble = ""
	}
	s.stream = stream
	clear(s.consumers)
	return stream, nil
}

// open wants the lock.
func (s *store) open(ctx context.Context) (jetstream.Stream, error) {
	if s.js == nil {
		js, err := jetstream.New(s.nc)
		if err != nil {
			return nil, err
		}
		s.js = js
	}
	stream, err := s.js.CreateStream(ctx, jetstream.StreamConfig{
		Name: s.b.names.stream, Subjects: []string{s.b.names.keeps + "*"},
		Description: "the newest ring of each queue, for Daybook; nothing is lost with it",
		Retention:   jetstream.WorkQueuePolicy, Discard: jetstream.DiscardOld,
		MaxMsgsPerSubject: 1, MaxAge: s.age,
	})
	if !errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
		return stream, err
	}
	// Somebody made it with other limits or more replicas, which is well.
	stream, err = s.js.Stream(ctx, s.b.names.stream)
	if err != nil {
		return nil, err
	}
	config := stream.CachedInfo().Config
	if config.Retention != jetstream.WorkQueuePolicy || config.MaxMsgsPerSubject < 1 || config.NoAck ||
		!slices.Contains(config.Subjects, s.b.names.keeps+"*") {
		return nil, errOtherStream
	}
	return stream, nil
}

var errOtherStream = errors.New("another stream has the name")

// complain wants the lock. It turns an error of the stream into a sentence, and
// logs that when it is a new one.
func (s *store) complain(err error) error {
	what := "can't keep rings now"
	name := s.b.names.stream
	switch {
	case errors.Is(err, errOtherStream):
		what = "has a stream " + name + " that isn't for rings: it wants work-queue retention, the subject " +
			s.b.names.keeps + "* and one message a subject; delete it or give the bell another name"
	case errors.Is(err, jetstream.ErrJetStreamNotEnabled), errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount):
		what = "has no JetStream: enable it on the server, or leave jetstream=1 out of the bell's URL"
	}
	if s.trouble != what {
		s.trouble = what
		s.b.log.Error("the bell's server "+what+"; rings go on without being kept", "cause", causeOf(err))
	}
	return s.b.unavailable(what, err)
}

// lost forgets the stream: it must be made again.
func (s *store) lost() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stream = nil
}

// gone reports errors that say that there is no such stream, or no such consumer.
func gone(err error) bool {
	return errors.Is(err, jetstream.ErrStreamNotFound) || errors.Is(err, jetstream.ErrNoStreamResponse) ||
		errors.Is(err, natsgo.ErrNoResponders) || errors.Is(err, jetstream.ErrConsumerNotFound) ||
		errors.Is(err, jetstream.ErrConsumerDeleted)
}

// send stores rings; whoever listens hears them from that. Where the stream is
// gone it is made anew, once.
func (s *store) send(ctx context.Context, rings []daybook.Ring) error {
	for try := 1; ; try++ {
		if _, err := s.ensure(); err != nil {
			return err
		}
		err := s.publish(ctx, rings)
		if err == nil {
			return nil
		}
		if !gone(err) || try == 2 {
			return s.b.unavailable("didn't keep the rings in time", err)
		}
		s.lost()
	}
}

func (s *store) publish(ctx context.Context, rings []daybook.Ring) error {
	s.mu.Lock()
	js := s.js
	s.mu.Unlock()
	acks := make([]jetstream.PubAckFuture, 0, len(rings))
	for _, r := range rings {
		ack, err := js.PublishMsgAsync(s.b.message(s.b.names.keeps, r), jetstream.WithRetryAttempts(0))
		if err != nil {
			return err
		}
		acks = append(acks, ack)
	}
	for _, ack := range acks {
		select {
		case <-ack.Ok():
		case err := <-ack.Err():
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// pull asks for one ring; without a wait, for one that lies there now.
func pull(ctx context.Context, c jetstream.Consumer, wait time.Duration) (jetstream.MessageBatch, error) {
	if wait == 0 {
		return c.FetchNoWait(1)
	}
	return c.Fetch(1, jetstream.FetchContext(ctx))
}

// fetch takes what is kept of a queue's ring, or nil.
func (s *store) fetch(queue string, wait time.Duration) jetstream.Msg {
	for range 2 {
		c, err := s.consumer(queue)
		if err != nil {
			return nil
		}
		ctx, cancel := context.WithTimeout(s.b.life, wait)
		defer cancel()
		fetched, err := pull(ctx, c, wait)
		if err == nil {
			for m := range fetched.Messages() {
				return m
			}
			err = fetched.Error()
		}
		if err == nil || !gone(err) {
			return nil
		}
		s.mu.Lock()
		delete(s.consumers, queue)
		s.mu.Unlock()
	}
	return nil
}

// consumer is the one of a queue, which all processes share.
func (s *store) consumer(queue string) (jetstream.Consumer, error) {
	stream, err := s.ensure()
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	c := s.consumers[queue]
	s.mu.Unlock()
	if c != nil {
		return c, nil
	}
	ctx, cancel := context.WithTimeout(s.b.life, apiMost)
	defer cancel()
	c, err = stream.CreateOrUpdateConsumer(ctx, jetstream.ConsumerConfig{
		Durable: escape(queue), FilterSubject: s.b.names.keeps + escape(queue), AckPolicy: jetstream.AckExplicitPolicy,
		AckWait: s.acknowledge, MaxDeliver: -1, InactiveThreshold: idleConsumer, MemoryStorage: true,
	})
	if err != nil {
		if gone(err) {
			s.lost()
		}
		return nil, err
	}
	s.mu.Lock()
	s.consumers[queue] = c
	s.mu.Unlock()
	return c, nil
}

func (s *store) hold(t *taking) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held[t] = true
}

func (s *store) release(t *taking) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.held, t)
}

// giveBackAll gives others what listeners here still had in hand, before the
// bell closes: sooner than their deadlines would.
func (s *store) giveBackAll() {
	s.mu.Lock()
	var held []*taking
	for t := range s.held {
		held = append(held, t)
	}
	clear(s.held)
	nc := s.nc
	s.mu.Unlock()
	for _, t := range held {
		t.kept.Nak()
		m := s.b.message(s.b.names.rings, t.ring.Ring)
		m.Header.Set(againHeader, "1")
		nc.PublishMsg(m)
	}
	if len(held) > 0 && s.b.link.Connected() {
		nc.FlushTimeout(listenMost)
	}
}

func (s *store) lookNow() {
	select {
	case s.now <- struct{}{}:
	default:
	}
}

// look finds rings that lie in the stream although somebody here listens to
// their queue, until the bell is closed. At the beginning all are taken; later
// only those that lay there at the look before too, so that nothing is taken
// that is just being delivered.
func (s *store) look() {
	var before map[string]bool
	for {
		every := s.acknowledge / 2
		later := time.NewTimer(every*3/4 + rand.N(every/2+1))
		atOnce := false
		select {
		case <-s.b.life.Done():
			later.Stop()
			return
		case <-s.now:
			atOnce = true
		case <-later.C:
		}
		later.Stop()
		if s.b.link.Connected() && s.b.ears.Any() {
			before = s.lookOnce(before, atOnce)
		}
	}
}

func (s *store) lookOnce(before map[string]bool, atOnce bool) (seen map[string]bool) {
	ctx, cancel := context.WithTimeout(s.b.life, apiMost)
	depth, err := s.depth(ctx)
	cancel()
	if err != nil {
		return nil
	}
	seen = map[string]bool{}
	for queue := range depth {
		if !s.b.ears.Hears(queue) {
			continue
		}
		if !atOnce && !before[queue] {
			seen[queue] = true
			continue
		}
		if !s.ringLeft(queue) {
			break // nobody here is free
		}
	}
	return seen
}

// offerMost is how long a ring found in the stream is offered here.
const offerMost = 100 * time.Millisecond

// ringLeft rings here what is kept of a queue, if nobody has it, and is false
// when nobody here was free to hear it.
func (s *store) ringLeft(queue string) (free bool) {
	m := s.fetch(queue, 0)
	if m == nil {
		return true
	}
	h := daybook.Heard{Ring: daybook.Ring{Queue: queue}}
	if id, err := daybook.ParseID(string(m.Data())); err == nil {
		h.Job = id
	}
	if about, err := m.Metadata(); err == nil && about.NumDelivered > 1 {
		h.Again = true
		s.b.counts.doubled.Add(1)
	}
	s.b.counts.heard.Add(1)
	t := s.b.take(h)
	t.fetched(m)
	if s.b.ears.TryHeard(t.heard) {
		return true
	}
	left, joined := s.b.ears.LeaveHeard(t.heard)
	if left != nil && !joined {
		late := time.NewTimer(offerMost)
		defer late.Stop()
		select {
		case <-left.Taken():
			return true
		case <-left.Gone():
		case <-late.C:
		}
		if !s.b.ears.Withdraw(left) && isClosed(left.Taken()) {
			return true
		}
	}
	s.release(t)
	m.Nak()
	return false
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// depth counts what lies in the stream, by queue.
func (s *store) depth(ctx context.Context) (map[string]int64, error) {
	if !s.b.link.Wait(ctx) {
		return nil, s.b.unavailable("can't be reached", nil)
	}
	for try := 1; ; try++ {
		stream, err := s.ensure()
		if err != nil {
			return nil, err
		}
		info, err := stream.Info(ctx, jetstream.WithSubjectFilter(s.b.names.keeps+">"))
		switch {
		case err == nil:
			depth := make(map[string]int64, len(info.State.Subjects))
			for subject, n := range info.State.Subjects {
				depth[unescape(strings.TrimPrefix(subject, s.b.names.keeps))] = int64(n)
			}
			return depth, nil
		case !gone(err) || try == 2:
			return nil, s.b.unavailable("doesn't say what lies in its stream", err)
		}
		s.lost()
	}
}

// peek reads rings where they lie.
func (s *store) peek(ctx context.Context, most int) (rings []daybook.Ring, err error) {
	depth, err := s.depth(ctx)
	if err != nil {
		return nil, err
	}
	stream, err := s.ensure()
	if err != nil {
		return nil, err
	}
	for queue := range depth {
		if len(rings) >= most {
			break
		}
		m, err := stream.GetLastMsgForSubject(ctx, s.b.names.keeps+escape(queue))
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			continue // heard meanwhile
		}
		if err != nil {
			return nil, s.b.unavailable("doesn't show what lies in its stream", err)
		}
		r := daybook.Ring{Queue: queue}
		if id, err := daybook.ParseID(string(m.Data)); err == nil {
			r.Job = id
		}
		rings = append(rings, r)
	}
	return rings, nil
}
