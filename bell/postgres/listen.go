package postgres

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/internal/ring"
)

var (
	// errDeaf is the end of a connection that passes nothing.
	errDeaf = errors.New("what this end rings doesn't come back")
	// errPaused is the end of a process's long sleep: rings that came meanwhile
	// were seen to by others.
	errPaused = errors.New("this process was stopped for a while")
)

// listen hears rings while anybody listens, until the bell is closed.
func (b *Bell) listen() {
	var pause ring.Pause
	circle := newCircle(b.id)
	circle.hears, circle.take, circle.send = b.ears.Hears, b.ears.Try, b.say
	lost, silent, sessions := false, 0, 0
	for {
		if !b.ears.Any() {
			sessions = 0
			select {
			case <-b.changed:
				continue
			case <-b.ctx.Done():
				return
			}
		}
		s := &session{Bell: b, circle: circle, again: sessions > 0}
		err := s.run(b.ctx)
		if s.listening {
			sessions++
		}
		if !s.echoed.IsZero() {
			pause.Over()
			lost, silent = false, 0
		}
		switch {
		case b.ctx.Err() != nil || err == nil:
			continue
		case !lost:
			b.log.Warn("the bell can't be heard; work is found by polling meanwhile", "bell", b.where, "cause", causeOf(err))
			lost = true
		}
		if s.mute {
			if silent++; silent == 2 {
				b.log.Warn("the bell hears nothing of what it rings, though both are taken: LISTEN wants a session of its "+
					"own, which PgBouncer in transaction mode doesn't give; give the bell a URL around it", "bell", b.where)
			}
		}
		if !pause.Wait(b.ctx) {
			return
		}
	}
}

// session is one connection's listening.
type session struct {
	*Bell
	circle *circle
	again  bool // it follows another one
	conn   *pgconn.PgConn
	notes  chan string
	broken chan error

	listening bool      // LISTEN was taken
	echoed    time.Time // when a ping of ours last came back
	mute      bool      // the server took a ping, and it never came back

	heard     time.Time // when anything last came in
	nextPing  time.Time
	nonce     string // of the ping that is out
	sent      time.Time
	pingsSeen int64 // pings that the server had taken when it went out
}

// run listens until the connection fails, or nobody listens: then it is nil.
func (s *session) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s.notes, s.broken = make(chan string), make(chan error, 1)
	if err := s.open(ctx); err != nil {
		return err
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		for {
			if err := s.conn.WaitForNotification(ctx); err != nil {
				s.broken <- err
				return
			}
		}
	}()
	err := s.serve(ctx)
	s.connected.Store(false)
	if err == nil || ctx.Err() != nil {
		s.say(message{kind: bye, from: s.id})
	}
	cancel()
	<-read
	letGo(s.conn)
	return err
}

// open connects and listens. Rings that came before may have been lost.
func (s *session) open(ctx context.Context) error {
	opening, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	config := s.config.Copy()
	config.OnNotification = func(_ *pgconn.PgConn, n *pgconn.Notification) {
		if n.Channel != s.channel {
			return
		}
		select {
		case s.notes <- n.Payload:
		case <-ctx.Done():
		}
	}
	conn, err := pgconn.ConnectConfig(opening, config)
	if err != nil {
		return err
	}
	s.conn = conn
	listen := `LISTEN "` + strings.ReplaceAll(s.channel, `"`, `""`) + `"`
	// Nobody takes notifications before serve does; one that comes with this
	// answer would wait for it, so it is read to the end there.
	done := make(chan error, 1)
	go func() { done <- conn.ExecParams(opening, listen, nil, nil, nil, nil).Read().Err }()
	for {
		select {
		case <-s.notes: // before our hello: nothing is lost that the catch-up doesn't find
			continue
		case err = <-done:
		}
		break
	}
	if err != nil {
		letGo(conn)
		return err
	}
	s.listening = true
	if s.again {
		s.reconnects.Add(1)
	}
	s.ears.CatchUp()
	return nil
}

// serve hears and pings.
func (s *session) serve(ctx context.Context) error {
	c := s.circle
	c.begin()
	c.hello = func() { s.ping(time.Now(), false) }
	c.keep = func(r daybook.Ring) { s.ears.Leave(r) }
	defer func() { s.passed.Store(c.passed) }()
	now := time.Now()
	s.heard = now
	s.ping(now, true)
	for {
		next, err := s.due(now)
		if err != nil {
			return err
		}
		wait := time.NewTimer(time.Until(next))
		select {
		case text := <-s.notes:
			now = time.Now()
			s.note(now, text)
		case <-wait.C:
			now = time.Now()
		case <-s.changed:
			if now = time.Now(); !s.ears.Any() {
				wait.Stop()
				return nil
			}
			s.ping(now, false) // with what is listened to now
		case err := <-s.broken:
			wait.Stop()
			return err
		case <-ctx.Done():
			wait.Stop()
			return nil
		}
		wait.Stop()
		s.passed.Store(c.passed)
		if now.Sub(next) > max(s.bound(), time.Second) {
			return errPaused
		}
	}
}

// note acts on a notification.
func (s *session) note(now time.Time, text string) {
	s.heard = now
	m, ok := read(text)
	if !ok {
		return
	}
	if m.kind == ping && m.from == s.id && m.nonce == s.nonce {
		s.nonce = ""
		s.echoed = now
		s.circle.echo = now.Sub(s.sent)
		s.echoTook.Store(int64(max(s.circle.echo, 1)))
		s.echoAt.Store(&now)
		if !s.connected.Swap(true) && s.again {
			s.log.Info("the bell is heard again", "bell", s.where)
		}
	}
	s.circle.hear(now, m)
}

// due does what is due, and says when to come again. A ping that stays out, or
// a long silence that a ping doesn't end, is the end of the connection.
func (s *session) due(now time.Time) (next time.Time, err error) {
	s.mu.Lock()
	if s.refused { // it says nothing of what is heard
		s.refused, s.nonce = false, ""
	}
	taken := s.pinged > s.pingsSeen
	s.mu.Unlock()
	if s.nonce != "" {
		if over := s.sent.Add(s.bound()); now.Before(over) {
			next = over
		} else {
			s.mute = taken && s.echoed.IsZero()
			return next, errDeaf
		}
	} else if !now.Before(s.nextPing) || now.Sub(s.heard) >= s.echo {
		s.circle.forget(now)
		s.ping(now, s.echoed.IsZero())
		next = s.sent.Add(s.bound())
	}
	next = earlier(next, s.nextPing)
	if s.nonce == "" {
		next = earlier(next, s.heard.Add(s.echo))
	}
	return earlier(next, s.circle.tick(now)), nil
}

// bound is how long an echo may take.
func (b *Bell) bound() time.Duration { return min(max(b.echo, 250*time.Millisecond), 5*time.Second) }

// ping tells all members that we are here and what we listen to. One that is out
// already is followed by another.
func (s *session) ping(now time.Time, hello bool) {
	queues, all := s.ears.Queues()
	c := s.circle
	c.group, c.digest = groupOf(queues, all), digestOf(queues)
	if all {
		c.digest = everything()
	}
	period := c.period(s.echo)
	s.nextPing = now.Add(ring.Jitter(period))
	nonce := s.nonce
	if nonce == "" {
		nonce = newSeed()
		s.nonce, s.sent = nonce, now
		s.mu.Lock()
		s.pingsSeen = s.pinged
		s.mu.Unlock()
	}
	s.say(message{kind: ping, from: s.id, group: c.group, digest: c.digest, period: period, nonce: nonce, hello: hello})
}
