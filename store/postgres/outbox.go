package postgres

import (
	"context"
	"strconv"
	"strings"

	"github.com/daybookdev/daybook"
)

var (
	_ daybook.OutboxView = (*view)(nil)
	_ daybook.OutboxTx   = (*tx)(nil)
)

// A row is named by its place and by the transaction that wrote it: when the row
// is gone its place can have another's row, and that must not be taken for it.
const (
	readRings = `SELECT o.ctid::text || ' ' || o.xmin::text, q.name, o.at FROM daybook.outbox o
		CROSS JOIN LATERAL (SELECT q.name FROM daybook.queue q WHERE q.n = o.queue OFFSET 0) q
		WHERE o.ring AND o.ctid >= $1::text::tid LIMIT $2::bigint`
	// behindRings is where rows go that are written next, unless there is room
	// in front: whoever writes beside others may still have the pages before.
	behindRings = `SELECT daybook.clock(), greatest(0,
		pg_relation_size($1::text::regclass) / current_setting('block_size')::int - 32)`
	oldestRing   = `SELECT min(o.at) FROM daybook.outbox o WHERE o.ring`
	liveSessions = `SELECT count(*) FROM (SELECT 1 FROM daybook.session s WHERE s.ended_at IS NULL LIMIT $1::bigint) s`
)

// Rings reads rows that ask for a ring in the order in which they lie, from a
// page on. The outbox has no index, since every enqueue would pay for it. While
// nothing old is kept it is a few pages, and rows are written wherever there was
// one; while somebody holds an old snapshot it grows, and new rows are at its
// end, which is where a look from the mark begins.
func (v *view) Rings(_ context.Context, from int64, most int) (b daybook.RingBatch, err error) {
	err = v.planned(v.ask(behindRings, []any{v.schema.quoted() + ".outbox"}, func(row []any) error {
		b.Now, b.Next = at(row[0]), num(row[1])
		return nil
	}), v.ask(readRings, []any{block(from), int64(most)}, func(row []any) error {
		b.Rows = append(b.Rows, daybook.RingRow{Row: text(row[0]), Queue: text(row[1]), At: at(row[2])})
		return nil
	}))
	if b.Full = len(b.Rows) == most; b.Full {
		b.Next = blockOf(b.Rows[most-1])
	}
	return b, err
}

// block is where a page of a table begins.
func block(n int64) string { return "(" + strconv.FormatInt(n, 10) + ",0)" }

// blockOf is the page that a row lies on.
func blockOf(r daybook.RingRow) int64 {
	place, _, _ := strings.Cut(strings.TrimPrefix(r.Row, "("), ",")
	n, _ := strconv.ParseInt(place, 10, 64)
	return n
}

// OldestRing walks over the outbox.
func (v *view) OldestRing(_ context.Context) (oldest daybook.Time, err error) {
	err = v.planned(v.ask(oldestRing, nil, func(row []any) error {
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
