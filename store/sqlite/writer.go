package sqlite

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/daybookdev/daybook"
)

// groupMax bounds the writes that share one commit.
const groupMax = 128

// write is one caller's transaction, waiting for the writer.
type write struct {
	ctx     context.Context
	doing   string
	fn      func(daybook.Tx) error
	alone   func() error // runs with nothing else writing in this process; instead of fn
	done    chan error
	begun   atomic.Bool // the writer has it, or its caller gave it up
	started bool        // the writer has it
}

// Write queues fn for the writer, which runs the writes that wait together in
// one transaction and commits them with one flush.
func (s *Store) Write(ctx context.Context, doing string, fn func(daybook.Tx) error) error {
	return s.submit(&write{ctx: ctx, doing: doing, fn: fn, done: make(chan error, 1)})
}

func (s *Store) submit(w *write) error {
	select {
	case <-s.closed:
		return closedError()
	default:
	}
	select {
	case s.queue <- w:
	case <-s.closed:
		return closedError()
	case <-w.ctx.Done():
		return w.ctx.Err()
	}
	select {
	case err := <-w.done:
		return err
	case <-w.ctx.Done():
		if w.begun.CompareAndSwap(false, true) {
			return w.ctx.Err() // the writer will pass it over
		}
	case <-s.done:
	}
	select {
	case err := <-w.done:
		return err
	case <-s.done:
		select {
		case err := <-w.done:
			return err
		default:
			return closedError()
		}
	}
}

// run is the writer: it owns the writing connection.
func (s *Store) run() {
	defer close(s.done)
	for {
		select {
		case w := <-s.queue:
			s.group(s.gather(w))
		case <-s.closed:
			for {
				select {
				case w := <-s.queue:
					s.group([]*write{w})
				default:
					return
				}
			}
		}
	}
}

// gather takes the writes that wait already. It yields once, so that callers
// that were about to write get into the same commit.
func (s *Store) gather(first *write) []*write {
	group := []*write{first}
	if first.alone != nil {
		return group
	}
	runtime.Gosched()
	for len(group) < groupMax {
		select {
		case w := <-s.queue:
			group = append(group, w)
			if w.alone != nil {
				return group
			}
		default:
			return group
		}
	}
	return group
}

// group runs writes in one transaction and answers each. A write that needs to
// be alone is always the last of its group and runs after it.
func (s *Store) group(group []*write) {
	last := group[len(group)-1]
	if last.alone != nil {
		if len(group) > 1 {
			s.group(group[:len(group)-1])
		}
		if last.begun.CompareAndSwap(false, true) {
			last.done <- last.alone()
		}
		return
	}
	answers := make([]error, len(group))
	err := s.commit(group, answers)
	if err != nil && len(group) > 1 && !errors.Is(err, context.Canceled) {
		// A fault of the database undid all of them: each tries alone, so that
		// one bad write doesn't fail its neighbours.
		for _, w := range group {
			s.group([]*write{w})
		}
		return
	}
	for i, w := range group {
		if err != nil {
			answers[i] = s.friendly(w.doing, err)
		}
		w.done <- answers[i]
	}
}

// commit runs the group's writes in one transaction. It fills in the answers
// of writes that the domain refused; its error is the database's, and then
// nothing may have taken hold.
func (s *Store) commit(group []*write, answers []error) error {
	c, err := s.connection()
	if err != nil {
		return err
	}
	if err := s.beginImmediate(group, c); err != nil {
		return s.broken(err)
	}
	t := newTx(s, c)
	for i, w := range group {
		answers[i] = nil
		if !w.begun.CompareAndSwap(false, true) && !w.started {
			continue // its caller gave it up
		}
		w.started = true
		if len(group) == 1 {
			if err := w.fn(t); err != nil {
				c.exec("ROLLBACK") // alone, it needs no savepoint: all goes
				if isFault(err) {
					return s.broken(err)
				}
				answers[i] = err
				return nil
			}
			break
		}
		var fault error
		if answers[i], fault = t.run(w); fault != nil {
			c.exec("ROLLBACK")
			return s.broken(fault)
		}
	}
	if err := t.flush(); err != nil {
		c.exec("ROLLBACK")
		return s.broken(err)
	}
	if _, err := c.exec("COMMIT"); err != nil {
		c.exec("ROLLBACK")
		return s.broken(err)
	}
	s.names.learn(t.named)
	s.refs.learn(t.claimed)
	return nil
}

// beginImmediate takes the write lock, waiting for other processes as long as
// some caller still wants to.
func (s *Store) beginImmediate(group []*write, c *conn) error {
	deadline := time.Now().Add(s.busy)
	for {
		_, err := c.exec("BEGIN IMMEDIATE")
		if !isBusy(err) || time.Now().After(deadline) {
			return err
		}
		select {
		case <-s.closed:
			return closedError()
		default:
		}
		if !anyWaits(group) {
			return context.Canceled
		}
	}
}

func anyWaits(group []*write) bool {
	for _, w := range group {
		if w.ctx.Err() == nil || w.started {
			return true
		}
	}
	return false
}

// run runs one write inside the group's transaction. refused is the write's
// own error, by which only it is undone; fault is the database's.
func (t *tx) run(w *write) (refused, fault error) {
	before := t.mark()
	if _, fault = t.q.exec("SAVEPOINT one"); fault != nil {
		return nil, fault
	}
	if refused = w.fn(t); refused == nil {
		_, fault = t.q.exec("RELEASE one")
		return nil, fault
	}
	if isFault(refused) {
		return nil, refused
	}
	t.reset(before)
	if _, fault = t.q.exec("ROLLBACK TO one"); fault == nil {
		_, fault = t.q.exec("RELEASE one")
	}
	return refused, fault
}

// isFault tells the database's errors from the domain's and the caller's.
func isFault(err error) bool {
	if _, ours := errors.AsType[*daybook.Error](err); ours {
		return false
	}
	return !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded)
}

// connection is the writer's connection, opened again after a fault.
func (s *Store) connection() (*conn, error) {
	if s.own != nil {
		return s.own, nil
	}
	c, err := connect(context.Background(), s.writes)
	if err == nil {
		s.own = c
	}
	return c, err
}

// broken drops the connection after a fault, since nobody knows what state it
// is in. A book in memory lives in its connection and keeps it.
func (s *Store) broken(err error) error {
	if s.path != Memory && s.own != nil && !isBusy(err) {
		s.own.close()
		s.own = nil
	}
	return err
}

// alone runs do while this process writes nothing else.
func (s *Store) alone(ctx context.Context, doing string, do func() error) error {
	return s.submit(&write{ctx: ctx, doing: doing, alone: do, done: make(chan error, 1)})
}

// Read runs fn on one snapshot.
func (s *Store) Read(ctx context.Context, doing string, fn func(daybook.View) error) error {
	if s.reads == nil {
		return s.Write(ctx, doing, func(t daybook.Tx) error { return fn(t) })
	}
	select {
	case <-s.closed:
		return closedError()
	default:
	}
	t, err := s.reads.BeginTx(ctx, nil)
	if err != nil {
		return s.friendly(doing, err)
	}
	defer t.Rollback()
	v := &view{q: sqlTx{ctx, t}, names: s.names, now: s.clock(), sessions: map[int64]daybook.Session{}}
	if err := fn(v); err != nil {
		return s.friendly(doing, err)
	}
	return nil
}
