package sqlite

import (
	"context"
	"database/sql/driver"
	"math"
	"slices"
	"strings"

	"github.com/daybookdev/daybook"
)

// Queues lists the queues in name order, counted if asked: every number from
// sums and the rows not folded yet, or from the small tables of live jobs.
func (v *view) Queues(_ context.Context, counted bool) (list []daybook.Queue, err error) {
	err = v.q.rows(someQueues+" ORDER BY name", nil, func(row []driver.Value) error {
		list = append(list, scanQueue(row))
		return nil
	})
	for i := range list {
		if err == nil {
			err = v.lookAhead(&list[i])
		}
	}
	if err != nil || !counted {
		return list, err
	}
	byNumber := make(map[int64]*daybook.Queue, len(list))
	for i := range list {
		byNumber[list[i].Ref] = &list[i]
	}
	if err := v.countFlows(byNumber); err != nil {
		return nil, err
	}
	if err := v.countLive(byNumber); err != nil {
		return nil, err
	}
	return list, v.countEffects(byNumber)
}

const (
	someQueues = "SELECT n, name, paused_at, paused_by, paused_reason FROM queue"
	oneQueue   = someQueues + " WHERE name = ?"
)

func scanQueue(row []driver.Value) daybook.Queue {
	return daybook.Queue{Ref: num(row[0]), Name: text(row[1]), Paused: row[2] != nil, PausedAt: at(row[2]),
		PausedBy: text(row[3]), PausedReason: text(row[4])}
}

// Queue loads one queue by the index of names.
func (v *view) Queue(_ context.Context, name string) (q daybook.Queue, found bool, err error) {
	err = v.q.rows(oneQueue, []driver.Value{name}, func(row []driver.Value) error {
		q, found = scanQueue(row), true
		return nil
	})
	return q, found, err
}

// Queues of a write transaction adds what the transaction itself did so far,
// which is written at its end.
func (t *tx) Queues(ctx context.Context, counted bool) ([]daybook.Queue, error) {
	list, err := t.view.Queues(ctx, counted)
	for i := range list {
		if d := t.deltas[list[i].Ref]; d != nil && counted {
			list[i].Counts.Add(d.counts)
		}
	}
	return list, err
}

// nextDue finds the first job of a priority that is due after a time and
// doesn't expire before it is: one seek, past those that expired.
const nextDue = `SELECT run_at FROM ready WHERE lane = +? AND rank = +? AND run_at > ?
	AND (expires_at IS NULL OR expires_at > max(run_at, ?)) ORDER BY run_at, seq LIMIT 1`

// lookAhead finds out whether a queue has an eligible job, and when the next
// ones become eligible: at most three seeks a priority, however many wait.
func (v *view) lookAhead(q *daybook.Queue) error {
	earliest := func(into *daybook.Time, t daybook.Time) {
		if *into == 0 || t < *into {
			*into = t
		}
	}
	return v.ranks(q.Ref, func(rank int64) (bool, error) {
		for after := int64(math.MinInt64); ; after = int64(v.now) {
			due, err := one(v.q, nextDue, q.Ref, rank, after, int64(v.now))
			if err != nil || due == nil {
				return true, err
			}
			earliest(&q.Next, at(due))
			if at(due) > v.now {
				earliest(&q.NextLater, at(due))
				return true, nil
			}
			q.Ready = true
		}
	})
}

const nextRank = "SELECT rank FROM ready WHERE lane = +? AND rank > ? ORDER BY rank LIMIT 1"

// ranks visits the priorities that a queue has waiting, the highest first: one
// seek each, however many jobs wait.
func (v *view) ranks(queue int64, visit func(rank int64) (more bool, err error)) error {
	rank := int64(-1 << 20)
	for {
		next, err := one(v.q, nextRank, queue, rank)
		if err != nil || next == nil {
			return err
		}
		rank = num(next)
		more, err := visit(rank)
		if err != nil || !more {
			return err
		}
	}
}

var countColumns = strings.Join(daybook.CountNames, ", ")

func (v *view) countFlows(queues map[int64]*daybook.Queue) error {
	return v.q.rows("SELECT queue, "+countColumns+" FROM sums UNION ALL SELECT queue, "+countColumns+" FROM outbox", nil,
		func(row []driver.Value) error {
			q := queues[num(row[0])]
			if q == nil {
				return nil // check finds it
			}
			var c daybook.Counts
			for i, field := range c.Fields() {
				*field = num(row[i+1])
			}
			q.Counts.Add(c)
			return nil
		})
}

// countLive counts waiting, owned and set-aside jobs by kind.
func (v *view) countLive(queues map[int64]*daybook.Queue) error {
	kinds := map[int64]map[string]*daybook.KindCounts{}
	of := func(queue int64, kind string) *daybook.KindCounts {
		if kinds[queue] == nil {
			kinds[queue] = map[string]*daybook.KindCounts{}
		}
		k := kinds[queue][kind]
		if k == nil {
			k = &daybook.KindCounts{Kind: kind, SetAside: map[daybook.Reason]int64{}}
			kinds[queue][kind] = k
		}
		return k
	}
	if err := v.countWaiting(queues, of); err != nil {
		return err
	}
	if err := v.q.rows("SELECT j.queue, j.kind, count(*) FROM owned o CROSS JOIN job j ON j.seq = o.seq GROUP BY 1, 2", nil,
		func(row []driver.Value) error {
			of(num(row[0]), text(row[1])).Running = num(row[2])
			return nil
		}); err != nil {
		return err
	}
	if err := v.q.rows("SELECT queue, kind, reason, count(*) FROM job WHERE state = ? AND state <> 0 GROUP BY 1, 2, 3",
		[]driver.Value{slowCode(daybook.SetAside)}, func(row []driver.Value) error {
			of(num(row[0]), text(row[1])).SetAside[daybook.Reason(text(row[2]))] = num(row[3])
			return nil
		}); err != nil {
		return err
	}
	for queue, named := range kinds {
		q := queues[queue]
		if q == nil {
			continue
		}
		for _, k := range named {
			q.Kinds = append(q.Kinds, *k)
		}
		slices.SortFunc(q.Kinds, func(a, b daybook.KindCounts) int { return strings.Compare(a.Kind, b.Kind) })
	}
	return nil
}

// countEffects counts what the ledger leaves to people, by two small indexes.
func (v *view) countEffects(queues map[int64]*daybook.Queue) error {
	return v.q.rows(`SELECT j.queue, sum(f.open), sum(1 - f.open) FROM (SELECT seq, 1 AS open FROM effect
			INDEXED BY effect_open WHERE state = 'open' UNION ALL SELECT seq, 0 FROM effect INDEXED BY effect_doubled
			WHERE doubled <> 0) f CROSS JOIN job j ON j.seq = f.seq GROUP BY 1`, nil, func(row []driver.Value) error {
		if q := queues[num(row[0])]; q != nil {
			q.OpenEffects, q.Doubled = num(row[1]), num(row[2])
		}
		return nil
	})
}

func (v *view) countWaiting(queues map[int64]*daybook.Queue, of func(int64, string) *daybook.KindCounts) error {
	return v.q.rows(`SELECT j.queue, j.kind, r.lane < 0 AS held, r.run_at <= ? AS due, count(*), min(r.run_at)
		FROM ready r CROSS JOIN job j ON j.seq = r.seq GROUP BY 1, 2, 3, 4`, []driver.Value{int64(v.now)},
		func(row []driver.Value) error {
			q, k, n := queues[num(row[0])], of(num(row[0]), text(row[1])), num(row[4])
			if q == nil {
				return nil
			}
			switch {
			case num(row[2]) != 0:
				q.Held, k.Held = q.Held+n, k.Held+n
			case num(row[3]) != 0:
				q.Eligible, k.Eligible = q.Eligible+n, k.Eligible+n
				k.Oldest = at(row[5])
				if q.Oldest == 0 || k.Oldest < q.Oldest {
					q.Oldest = k.Oldest
				}
			default:
				q.Later, k.Later = q.Later+n, k.Later+n
			}
			return nil
		})
}

// SaveQueue pauses or resumes a queue. Every claim that began before has
// ended, since writes come one after the other.
func (t *tx) SaveQueue(_ context.Context, q daybook.Queue) error {
	n, err := t.makeQueue(q.Name)
	if err != nil {
		return err
	}
	_, err = t.q.exec("UPDATE queue SET paused_at = ?, paused_by = ?, paused_reason = ? WHERE n = ?",
		null(q.PausedAt), nullText(q.PausedBy), nullText(q.PausedReason), n)
	return err
}
