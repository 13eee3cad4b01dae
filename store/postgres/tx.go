package postgres

import (
	"cmp"
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/daybookdev/daybook"
)

// view reads one snapshot.
type view struct {
	*unit
	s   *Store // nil inside somebody else's transaction
	at  daybook.Time
	bad error // why the clock could not be read

	brief bool // while a brief list is read
}

// tx is a write transaction: a view that also writes, and that counts.
type tx struct {
	view
	queues   map[string]int64 // queues that this transaction met
	deltas   map[string]*delta
	patience bool     // lock_timeout is set
	met      []string // queues that it inserts single jobs into
}

// delta is what the transaction did to one queue's counts.
type delta struct {
	counts daybook.Counts
	ring   bool
}

var (
	_ daybook.Tx   = (*tx)(nil)
	_ daybook.View = (*view)(nil)
)

// tries is how often a transaction that met a conflict is begun again.
const tries = 10

// Write runs fn in one transaction. What fn doesn't wait for is sent with the
// commit. A conflict with another transaction runs fn again.
func (s *Store) Write(ctx context.Context, doing string, fn func(daybook.Tx) error) error {
	var err error
	for n := range tries {
		if n > 0 && !pause(ctx, n) {
			break
		}
		if err = s.writeOnce(ctx, fn); !passing(err) && !errors.Is(err, errForgotten) {
			break
		}
	}
	return s.schema.friendly(doing, err)
}

// pause lets the other transaction end: 2, 4, 6 … milliseconds.
func pause(ctx context.Context, n int) bool {
	t := time.NewTimer(time.Duration(n) * 2 * time.Millisecond)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

func (s *Store) writeOnce(ctx context.Context, fn func(daybook.Tx) error) error {
	var t *tx
	err := s.transact(ctx, "BEGIN ISOLATION LEVEL READ COMMITTED", func(u *unit) error {
		t = newTx(s, u)
		err := fn(t)
		if err == nil {
			t.flushCounts()
			err = t.bad
		}
		return err
	})
	if t != nil && len(t.met) > 0 {
		err = s.known.learn(t.met, err)
	}
	return err
}

// Read runs fn on one snapshot.
func (s *Store) Read(ctx context.Context, doing string, fn func(daybook.View) error) error {
	err := s.transact(ctx, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", func(u *unit) error {
		v := &view{unit: u, s: s}
		return cmp.Or(fn(v), v.bad)
	})
	return s.schema.friendly(doing, err)
}

// transact runs fn in a transaction on a connection of the pool. The commit
// goes out with what fn left to be sent.
func (s *Store) transact(ctx context.Context, begin string, fn func(u *unit) error) error {
	if s.closed.Load() {
		return closedError()
	}
	acquire, cancel := context.WithTimeout(ctx, s.opts.Patience)
	conn, err := s.pool.Acquire(acquire)
	cancel()
	if err != nil {
		if s.closed.Load() {
			return closedError()
		}
		return errors.Join(errBroken, err)
	}
	c := &line{s: s, conn: conn}
	defer c.release()
	u := &unit{ctx: ctx, schema: s.schema, sender: c, begin: s.begin(begin)}
	u.before, u.readCommitted = u.begin, s.prepares && !s.Pooled()
	if err := fn(u); err != nil {
		c.abort(ctx, u.before == nil)
		return err
	}
	if u.before != nil && len(u.kept) == 0 {
		return nil // nothing was sent
	}
	err = u.commit()
	if err != nil {
		c.abort(ctx, true)
	}
	return err
}

// begin are the statements that begin a transaction.
func (s *Store) begin(how string) []statement {
	list := []statement{{query: how, want: anyCount}}
	if s.opts.Now != nil {
		list = append(list, statement{query: "SELECT set_config('daybook_test.now', $1, true)", want: anyCount,
			args: []any{strconv.FormatInt(int64(daybook.At(s.opts.Now())), 10)}})
	}
	return list
}

// line is a connection of the pool while one transaction has it.
type line struct {
	s    *Store
	conn *pgxpool.Conn
}

// send makes one round trip.
func (l *line) send(ctx context.Context, list []statement) (changed int64, err error) {
	err = l.trip(ctx, list[len(list)-1].query, func(ctx context.Context) error {
		changed, err = wire{l.conn}.send(ctx, list)
		return err
	})
	return changed, err
}

// trip is one round trip, bounded by the store's patience.
func (l *line) trip(ctx context.Context, call string, do func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, l.s.opts.Patience)
	defer cancel()
	fault := l.s.opts.Fault
	if fault != nil {
		if err := fault(call, false); err != nil {
			l.undo(ctx)
			return errors.Join(errBroken, err)
		}
	}
	err := do(ctx)
	if fault != nil {
		if failed := fault(call, true); failed != nil && err == nil {
			l.undo(ctx)
			return errors.Join(errBroken, failed)
		}
	}
	if stateOf(err) == stateReadOnly {
		l.s.leave()
	}
	return err
}

// abort ends the transaction without its writes. When even that can't be said,
// the connection is closed, by which the server rolls back.
func (l *line) abort(ctx context.Context, begun bool) {
	if !begun || l.conn.Conn().IsClosed() {
		return
	}
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if _, err := l.conn.Exec(bounded, "ROLLBACK"); err != nil {
		l.cut()
	}
}

// undo breaks the connection for a test, as it looks when the server has noticed:
// till then it holds the locks, and who skips what is locked finds nothing.
func (l *line) undo(ctx context.Context) {
	l.conn.Exec(ctx, "ROLLBACK")
	l.cut()
}

func (l *line) cut() {
	bounded, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	l.conn.Conn().PgConn().Conn().Close()
	l.conn.Conn().Close(bounded)
}

func (l *line) release() { l.conn.Release() }

// leave closes all connections: the server has become one that takes no
// writes, and the next connection may find the one that does.
func (s *Store) leave() {
	s.pool.Reset()
	s.txs.Reset()
}

func newTx(s *Store, u *unit) *tx {
	return &tx{view: view{unit: u, s: s}, queues: map[string]int64{}, deltas: map[string]*delta{}}
}

// Now is the database's clock, read once a transaction.
func (v *view) Now() daybook.Time {
	if v.at == 0 && v.bad == nil {
		var now any
		if now, v.bad = v.one("SELECT daybook.clock()"); v.bad == nil {
			v.at = at(now)
		}
	}
	return v.at
}

// nowOrNull is the transaction's time if it was read already; the functions of
// the schema read the clock themselves else.
func (v *view) nowOrNull() any { return null(v.at) }

// count notes what a change did to its queue.
func (t *tx) count(queue string, counts daybook.Counts, ring bool) {
	d := t.deltas[queue]
	if d == nil {
		d = &delta{}
		t.deltas[queue] = d
	}
	d.counts.Add(counts)
	d.ring = d.ring || ring
}

// countMany notes what n alike changes did.
func (t *tx) countMany(queue string, one daybook.Counts, n int64, ring bool) {
	for _, field := range one.Fields() {
		*field *= n
	}
	t.count(queue, one, ring)
}

// insertOutbox fails on a queue that isn't there: its counts would be lost.
var insertOutbox = func() string {
	values := make([]string, len(daybook.CountNames))
	for i := range values {
		values[i] = "$" + strconv.Itoa(i+4) + "::int"
	}
	return "INSERT INTO daybook.outbox (at, ring, queue, " + strings.Join(daybook.CountNames, ", ") +
		") VALUES (coalesce($1::bigint, daybook.clock()), $2::boolean, " +
		"(SELECT n FROM daybook.queue WHERE name = $3::text), " +
		strings.Join(values, ", ") + ")"
}()

// flushCounts leaves one row per queue to be written: the transaction's counts
// and its ring.
func (t *tx) flushCounts() {
	for queue, d := range t.deltas {
		if d.counts == (daybook.Counts{}) && !d.ring {
			continue
		}
		args := []any{t.nowOrNull(), d.ring, queue}
		for _, n := range d.counts.Fields() {
			args = append(args, nullInt(*n))
		}
		t.later(anyCount, "", insertOutbox, args...)
	}
}
