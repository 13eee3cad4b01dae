package sqlite

import (
	"context"
	"database/sql/driver"
	"strconv"
	"strings"

	"github.com/daybookdev/daybook"
)

var (
	_ daybook.OutboxView = (*view)(nil)
	_ daybook.OutboxTx   = (*tx)(nil)
)

// Rings walks the outbox, which has the rows of the last minutes. Writes come
// one after the other, so a number below the highest one never shows up later.
func (v *view) Rings(_ context.Context, from int64, most int) (daybook.RingBatch, error) {
	b := daybook.RingBatch{Now: v.now}
	err := v.q.rows(readRings, []driver.Value{from, int64(most)}, func(row []driver.Value) error {
		b.Next = num(row[0])
		b.Rows = append(b.Rows, daybook.RingRow{Row: strconv.FormatInt(b.Next, 10), Queue: text(row[1]), At: at(row[2])})
		return nil
	})
	if b.Full = len(b.Rows) == most; b.Full || err != nil {
		return b, err
	}
	last, err := one(v.q, "SELECT max(n) FROM outbox")
	if err == nil && last != nil {
		b.Next = num(last)
	} else {
		b.Next = from
	}
	return b, err
}

const readRings = `SELECT o.n, q.name, o.at FROM outbox o CROSS JOIN queue q ON q.n = o.queue
	WHERE o.n > ? AND o.ring = 1 ORDER BY o.n LIMIT ?`

// OldestRing walks the outbox: a row that was left by a fold has an earlier time
// than those before it.
func (v *view) OldestRing(_ context.Context) (daybook.Time, error) {
	oldest, err := one(v.q, "SELECT min(at) FROM outbox WHERE ring = 1")
	if err != nil || oldest == nil {
		return 0, err
	}
	return at(oldest), nil
}

// LiveSessions reads the sessions, which are one a process, until there are
// enough.
func (v *view) LiveSessions(_ context.Context, most int) (int, error) {
	n, err := one(v.q, "SELECT count(*) FROM (SELECT 1 FROM session WHERE ended_at IS NULL LIMIT ?)", int64(most))
	if err != nil {
		return 0, err
	}
	return int(num(n)), nil
}

// DropRings folds the rows into the sums and removes them. Numbers of the
// outbox are never used again, so that a row is the one that was read.
func (t *tx) DropRings(_ context.Context, rows []daybook.RingRow) (int, error) {
	list := make([]string, len(rows))
	for i, r := range rows {
		list[i] = r.Row
	}
	listed := "[" + strings.Join(list, ",") + "]"
	if _, err := t.q.exec(foldSums+dropped+addSums, listed); err != nil {
		return 0, err
	}
	n, err := t.q.exec("DELETE FROM outbox WHERE "+dropped, listed)
	return int(n), err
}

const dropped = "n IN (SELECT value FROM json_each(?)) AND ring = 1"
