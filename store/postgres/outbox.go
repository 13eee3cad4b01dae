package postgres

import (
	"context"
	"strings"
	"time"

	"github.com/daybookdev/daybook"
)

var (
	_ daybook.OutboxView = (*view)(nil)
	_ daybook.OutboxTx   = (*tx)(nil)
)

// lateBy is how much later than its time most rows show up at most: a look from
// a mark begins that much before it. What takes longer, a user's transaction
// that commits late, is found by a look at everything.
const lateBy = time.Second

// Rings reads rows that ask for a ring through outbox_ring, which has no others.
// Rows that were taken out stay in that index, and in the way, while somebody
// holds an old snapshot; a look from a mark begins behind them.
func (v *view) Rings(_ context.Context, from int64, most int) (b daybook.RingBatch, err error) {
	err = v.byAge(v.ask("SELECT daybook.clock()", nil, func(row []any) error {
		b.Now = at(row[0])
		return nil
	}), v.ask(readRings, []any{from, int64(most)}, func(row []any) error {
		b.Rows = append(b.Rows, daybook.RingRow{Row: text(row[0]), Queue: text(row[1]), At: at(row[2])})
		return nil
	}))
	b.Full = len(b.Rows) == most
	b.Next = int64(b.Now.Add(-lateBy))
	if b.Full {
		b.Next = int64(b.Rows[most-1].At)
	}
	return b, err
}

// byAge runs reads of the outbox, which want its index in order.
func (v *view) byAge(list ...statement) error {
	if v.s != nil { // for the rest of this short transaction
		list = append(settings("enable_bitmapscan = off", "enable_sort = off"), list...)
	}
	return v.planned(list...)
}

// A row is named by its place and by the transaction that wrote it: when the row
// is gone its place can have another's row, and that must not be taken for it.
const (
	readRings = `SELECT o.ctid::text || ' ' || o.xmin::text, q.name, o.at FROM daybook.outbox o
		CROSS JOIN LATERAL (SELECT q.name FROM daybook.queue q WHERE q.n = o.queue OFFSET 0) q
		WHERE o.ring AND o.at >= $1::bigint ORDER BY o.at LIMIT $2::bigint`
	oldestRing   = `SELECT o.at FROM daybook.outbox o WHERE o.ring ORDER BY o.at LIMIT 1`
	liveSessions = `SELECT count(*) FROM (SELECT 1 FROM daybook.session s WHERE s.ended_at IS NULL LIMIT $1::bigint) s`
)

// OldestRing reads the first row of outbox_ring.
func (v *view) OldestRing(_ context.Context) (oldest daybook.Time, err error) {
	err = v.byAge(v.ask(oldestRing, nil, func(row []any) error {
		oldest = at(row[0])
		return nil
	}))
	return oldest, err
}

// LiveSessions reads the sessions, which are one a process, until there are
// enough.
func (v *view) LiveSessions(_ context.Context, most int) (n int, err error) {
	err = v.look(liveSessions, []any{int64(most)}, func(row []any) error {
		n = int(num(row[0]))
		return nil
	})
	return n, err
}

// DropRings takes rows out under their locks and puts one a queue in their
// place that has their counts and asks for nothing. It doesn't touch the sums: a
// relay that wrote one row of them ten times a second would leave a version each
// time, which an old snapshot keeps, and it would wait for other relays there.
func (t *tx) DropRings(_ context.Context, rows []daybook.RingRow) (int, error) {
	names := make([]string, len(rows))
	for i, r := range rows {
		names[i] = r.Row
	}
	places, writers := parts(names)
	dropped := int64(0)
	err := t.planned(t.ask(dropRings, []any{places, writers}, func(row []any) error {
		dropped = num(row[0])
		return nil
	}))
	return int(dropped), err
}

// parts are the places of rows, and the transactions that wrote them.
func parts(names []string) (places, writers []string) {
	places, writers = make([]string, len(names)), make([]string, len(names))
	for i, name := range names {
		places[i], writers[i], _ = strings.Cut(name, " ")
	}
	return places, writers
}

var dropRings = func() string {
	names := strings.Join(daybook.CountNames, ", ")
	sums := make([]string, len(daybook.CountNames))
	for i, name := range daybook.CountNames {
		sums[i] = "sum(" + name + ")::int"
	}
	return `WITH gone AS (DELETE FROM daybook.outbox WHERE ctid = ANY (ARRAY(SELECT o.ctid
			FROM unnest($1::text[]::tid[], $2::text[]::xid[]) u(place, writer)
			CROSS JOIN LATERAL (SELECT w.ctid FROM daybook.outbox w WHERE w.ctid = u.place AND w.xmin = u.writer AND w.ring
				OFFSET 0 FOR UPDATE SKIP LOCKED) o)) RETURNING at, queue, ` + names + `),
		kept AS (INSERT INTO daybook.outbox (at, queue, ring, ` + names + `)
			SELECT min(at), queue, false, ` + strings.Join(sums, ", ") + ` FROM gone GROUP BY queue)
		SELECT count(*) FROM gone`
}()
