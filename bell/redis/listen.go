package redis

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/internal/ring"
)

// listen hears rings while anybody listens, until the bell is closed.
func (b *Bell) listen() {
	defer close(b.ended)
	var pause ring.Pause
	lost := false
	for n := 0; ; {
		if !b.ears.Any() {
			select {
			case <-b.changed:
				continue
			case <-b.closing:
				return
			}
		}
		s := &session{Bell: b, began: func() {
			if n++; n > 1 {
				b.reconnects.Add(1)
			}
			if pause.Over(); lost {
				b.log.Info("the bell is heard again", "bell", b.where)
			}
			lost = false
		}}
		err := s.run(b.ctx)
		switch {
		case b.ctx.Err() != nil:
			return
		case err == nil: // nobody listens any more
			n = 0
			continue
		case !lost:
			b.log.Warn("the bell can't be heard; work is found by polling meanwhile", "bell", b.where, "cause", causeOf(err))
		}
		lost = true
		if !pause.Wait(b.ctx) {
			return
		}
	}
}

// session is one connection's listening.
type session struct {
	*Bell
	began func()

	client *redis.Client
	conn   *redis.Conn
	next   time.Time // when the next echo is due
	passes ring.Pause

	version int64    // of the listeners that keys are for
	keys    []string // lists to pop from; nil when somebody listens to every queue
}

// passesLeast and passesMost are how long a busy listener keeps off the lists
// after others took what it had popped.
const passesLeast, passesMost = 20 * time.Millisecond, 100 * time.Millisecond

// holdsFor is how long a ring is offered here before the others get another
// chance at it.
const holdsFor = 100 * time.Millisecond

// run listens until the connection fails, or nobody listens: then it is nil.
func (s *session) run(ctx context.Context) error {
	s.passes = ring.Pause{Least: passesLeast, Most: passesMost}
	s.client = s.connect(1)
	s.conn = s.client.Conn()
	// A driver's read ends with its context's deadline and with nothing else.
	cut := context.AfterFunc(ctx, func() { s.client.Close() })
	defer func() {
		s.connected.Store(false)
		s.blocked.Store(0)
		cut()
		s.conn.Close()
		s.client.Close()
	}()
	if err := s.greet(ctx); err != nil {
		return err
	}
	for wait, turn := trial, min(max(s.echo/2, trial), blockMost); ; wait = turn {
		if !s.aim() {
			return nil
		}
		if err := s.ping(ctx); err != nil {
			return err
		}
		r, ok, err := s.pop(ctx, wait)
		if err != nil {
			return err
		}
		if !s.connected.Swap(true) {
			s.began()
			s.ears.CatchUp() // rings that came before may have been lost
		}
		if ok {
			if err := s.deliver(ctx, r); err != nil {
				return err
			}
		}
	}
}

// trial is how long the first pop waits. A server that answers everything else may
// refuse it, to a user without the right or as a replica: nothing is heard then.
const trial = 10 * time.Millisecond

// greet finds out whether the server answers, and how it calls this connection.
func (s *session) greet(ctx context.Context) error {
	if err := s.ping(ctx); err != nil {
		return err
	}
	asking, cancel := context.WithTimeout(ctx, s.bound())
	defer cancel()
	id, err := s.conn.ClientID(asking).Result()
	if err != nil {
		return err
	}
	s.blocked.Store(id)
	return nil
}

// bound is how long an answer may take that comes at once.
func (b *Bell) bound() time.Duration { return min(max(b.echo, 250*time.Millisecond), patience) }

// ping asks for an echo when one is due.
func (s *session) ping(ctx context.Context) error {
	sent := time.Now()
	if sent.Before(s.next) {
		return nil
	}
	s.next = sent.Add(s.echo)
	asking, cancel := context.WithTimeout(ctx, s.bound())
	defer cancel()
	if err := s.conn.Ping(asking).Err(); err != nil {
		return err
	}
	now := time.Now()
	s.echoTook.Store(int64(max(now.Sub(sent), 1)))
	s.echoAt.Store(&now)
	return nil
}

// aim looks which queues are listened to, and is false when none is.
func (s *session) aim() bool {
	version := s.Bell.version.Load()
	if version != s.version {
		queues, all := s.ears.Queues()
		s.keys = nil
		for _, q := range queues {
			if !all {
				s.keys = append(s.keys, s.listKey(q))
			}
		}
		s.version = version
	}
	s.heeded.Store(version)
	return s.ears.Any()
}

// pop waits for a ring, for a while.
func (s *session) pop(ctx context.Context, wait time.Duration) (r daybook.Ring, ok bool, err error) {
	asking, cancel := context.WithTimeout(ctx, wait+s.bound())
	defer cancel()
	seconds := strconv.FormatFloat(wait.Seconds(), 'f', 3, 64)
	if s.keys == nil {
		return s.popAny(asking, seconds)
	}
	// The server looks at the lists in this order: no queue is always first.
	words := make([]any, 0, len(s.keys)+2)
	words = append(words, "BLPOP")
	from := rand.N(len(s.keys))
	for i := range s.keys {
		words = append(words, s.keys[(from+i)%len(s.keys)])
	}
	answer, err := s.conn.Do(asking, append(words, seconds)...).StringSlice()
	if errors.Is(err, redis.Nil) {
		return r, false, nil
	}
	if err != nil || len(answer) != 2 {
		return r, false, err
	}
	return ringOf(strings.TrimPrefix(answer[0], s.listPrefix()), answer[1]), true, nil
}

// popAny pops a ring of any queue.
func (s *session) popAny(ctx context.Context, seconds string) (r daybook.Ring, ok bool, err error) {
	answer, err := s.conn.Do(ctx, "BZPOPMIN", s.rungKey(), seconds).StringSlice()
	if errors.Is(err, redis.Nil) {
		return r, false, nil
	}
	if err != nil || len(answer) != 3 {
		return r, false, err
	}
	queue := answer[1]
	job, err := takeScript.Run(ctx, s.conn, []string{s.rungKey(), s.listKey(queue)}, queue).Text()
	if errors.Is(err, redis.Nil) {
		return r, false, nil // another listener has it
	}
	return ringOf(queue, job), err == nil, err
}

// deliver gives a ring to a listener here that waits for one. While all are busy
// the other processes may have it; when nobody waits there either it is held for
// the first here that does, and offered to them again and again.
func (s *session) deliver(ctx context.Context, r daybook.Ring) error {
	for {
		if s.ears.Try(r) {
			s.passes.Over()
			return nil
		}
		back, ok, err := s.offer(ctx, r)
		if err != nil {
			return err
		}
		if !ok {
			s.passed.Add(1)
			return s.rest(ctx)
		}
		r = back
		left := s.ears.Leave(r)
		if left == nil {
			return s.giveBack(ctx, r)
		}
		over := time.NewTimer(holdsFor)
		select {
		case <-left.Taken():
			over.Stop()
			s.passes.Over()
			return nil
		case <-ctx.Done():
		case <-over.C:
		}
		over.Stop()
		if !s.ears.Withdraw(left) {
			return s.orGone(ctx, r, left)
		}
		if s.aim(); !s.ears.Hears(r.Queue) {
			return s.giveBack(ctx, r)
		}
		if err := s.ping(ctx); err != nil {
			return err
		}
	}
}

// orGone is for a ring that was left here and isn't any more: a listener took
// it, or the last of its queue left.
func (s *session) orGone(ctx context.Context, r daybook.Ring, left *ring.Left) error {
	select {
	case <-left.Taken():
		return nil
	default:
		return s.giveBack(ctx, r)
	}
}

// offer gives a ring to whoever waits at the server, and takes it back when
// nobody does.
func (s *session) offer(ctx context.Context, r daybook.Ring) (back daybook.Ring, ok bool, err error) {
	asking, cancel := context.WithTimeout(ctx, s.bound())
	defer cancel()
	if err := s.leave(asking, s.conn, r); err != nil {
		return r, false, err
	}
	job, err := againScript.Run(asking, s.conn, []string{s.rungKey(), s.listKey(r.Queue)}, r.Queue).Text()
	if errors.Is(err, redis.Nil) {
		return r, false, nil
	}
	return ringOf(r.Queue, job), err == nil, err
}

// giveBack leaves a ring to the other processes: nobody here listens to its
// queue any more.
func (s *session) giveBack(ctx context.Context, r daybook.Ring) error {
	asking, cancel := context.WithTimeout(ctx, s.bound())
	defer cancel()
	s.passed.Add(1)
	return s.leave(asking, s.conn, r)
}

// rest keeps off the lists for a moment: two busy processes would hand a ring to
// and fro.
func (s *session) rest(ctx context.Context) error {
	s.passes.Wait(ctx)
	return nil
}

// nudging ends a pop that waits at the server for queues that are no longer what
// is listened to.
func (b *Bell) nudging() {
	for {
		select {
		case <-b.nudge:
		case <-b.ctx.Done():
			return
		}
		pause := ring.Pause{Least: 2 * time.Millisecond, Most: 100 * time.Millisecond}
		for b.connected.Load() && b.heeded.Load() < b.version.Load() {
			b.unblock()
			if !pause.Wait(b.ctx) {
				return
			}
		}
	}
}

// unblock is in vain when the connection isn't waiting just now; then it looks
// at the queues by itself, or is asked again. Its pop ends in a few seconds
// anyway, should the server refuse.
func (b *Bell) unblock() {
	id := b.blocked.Load()
	if id == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(b.ctx, b.bound())
	defer cancel()
	b.client.ClientUnblock(ctx, id)
}
