package postgres

import (
	"context"
	"fmt"

	"github.com/daybookdev/daybook"
)

// aheadOf is lookAhead for a few queues by name, each once at least unless it
// isn't there. Idle workers ask it, so it is one round trip and is planned once.
const aheadOf = `WITH RECURSIVE now AS MATERIALIZED (SELECT coalesce($1::bigint, daybook.clock()) AS at),
	q AS MATERIALIZED (SELECT w.n, w.name, w.paused_at IS NOT NULL AS paused
		FROM (SELECT u.name FROM unnest($2::text[]) u(name) LIMIT %d) u
		CROSS JOIN LATERAL (SELECT w.n, w.name, w.paused_at FROM daybook.queue w WHERE w.name = u.name OFFSET 0) w),
	top (lane, rank, run_at, expires_at) AS (
		SELECT r.* FROM q CROSS JOIN LATERAL (SELECT r.lane, r.rank, r.run_at, r.expires_at FROM daybook.ready r
			WHERE r.lane = q.n ORDER BY r.rank, r.run_at, r.seq LIMIT 1) r
		UNION ALL
		SELECT r.* FROM top t CROSS JOIN LATERAL (SELECT r.lane, r.rank, r.run_at, r.expires_at FROM daybook.ready r
			WHERE r.lane = t.lane AND r.rank > t.rank ORDER BY r.rank, r.run_at, r.seq LIMIT 1) r)
	SELECT q.name, q.paused, a.next, a.later, now.at FROM now LEFT JOIN q ON true
	LEFT JOIN LATERAL (SELECT a.next, a.later FROM (` + aheadOfTops + `) a (lane, next, later, at)
		WHERE a.lane = q.n OFFSET 0) a ON true`

// fewAheads is aheadOf by the number of queues.
var fewAheads = func() (list [fewQueues + 1]string) {
	for n := 1; n <= fewQueues; n++ {
		list[n] = fmt.Sprintf(aheadOf, n)
	}
	return list
}()

// QueuesAhead tells when the next jobs of a few queues become eligible.
func (v *view) QueuesAhead(
	_ context.Context, names []string,
) (list []daybook.Queue, now daybook.Time, known bool, err error) {
	if v.s == nil || !v.s.prepares || v.s.Pooled() || len(names) == 0 || len(names) > fewQueues || v.before == nil {
		return nil, 0, false, nil
	}
	q := map[string]*daybook.Queue{}
	err = v.raw(fewAheads[len(names)], []any{v.nowOrNull(), names}, true, func(row cells) error {
		now = row.at(4)
		if row.null(0) {
			return nil
		}
		name := row.text(0)
		if q[name] == nil {
			q[name] = &daybook.Queue{Name: name, Paused: row.truth(1)}
		}
		q[name].Next = earlier(q[name].Next, row.at(2))
		q[name].NextLater = earlier(q[name].NextLater, row.at(3))
		return nil
	})
	for _, queue := range q {
		queue.Ready = queue.Next != 0 && queue.Next <= now
		list = append(list, *queue)
	}
	return list, now, true, err
}

// earlier is the earlier one of two times; 0 is none.
func earlier(a, b daybook.Time) daybook.Time {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}
