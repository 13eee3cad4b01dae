package postgres

import (
	"fmt"
	"strings"

	"github.com/daybookdev/daybook"
)

// Sessions, counting rows and the sums of a queue.

const leaseLength = `SELECT p.v, s.id::text,
		format('%s ms given, %s ms long', (s.expires_at - s.renewed_at) / 1000, s.lease / 1000)
	FROM part p CROSS JOIN LATERAL (SELECT * FROM daybook.session x WHERE x.n = p.v::bigint OFFSET 0) s
	WHERE s.expires_at - s.renewed_at > s.lease`

const ringQueue = `SELECT p.v, format('queue %s', p.v),
		format('%s counting rows of a queue that does not exist', count(*))
	FROM part p
	JOIN (SELECT queue FROM daybook.outbox UNION ALL SELECT queue FROM daybook.sums) x ON x.queue = p.v::bigint
	WHERE NOT EXISTS (SELECT FROM daybook.queue q WHERE q.n = p.v::bigint OFFSET 0) GROUP BY p.v`

var countColumns = strings.Join(daybook.CountNames, ", ")

// counted are the counts of each queue: what was folded and what wasn't yet.
var counted = ", counted AS MATERIALIZED (SELECT queue, " + eachCount("coalesce(sum(%[1]s), 0) AS %[1]s") +
	" FROM (SELECT queue, " + countColumns + " FROM daybook.sums UNION ALL SELECT queue, " + countColumns +
	" FROM daybook.outbox) c GROUP BY queue)"

func eachCount(format string) string {
	list := make([]string, len(daybook.CountNames))
	for i, name := range daybook.CountNames {
		list[i] = fmt.Sprintf(format, name)
	}
	return strings.Join(list, ", ")
}

// See daybook.Counts.Balanced.
var conservation = counted + `
	SELECT p.v, coalesce(q.name, format('queue %s', c.queue)), format('%s came in, %s stand or went out',
		accepted + moved_in, waiting + running + set_aside + succeeded + cancelled + expired + moved_out)
	FROM part p JOIN counted c ON c.queue = p.v::bigint LEFT JOIN daybook.queue q ON q.n = c.queue
	WHERE accepted + moved_in <> waiting + running + set_aside + succeeded + cancelled + expired + moved_out`

// sampled is how many of the jobs that succeeded, and of those that ended
// otherwise, are counted.
const sampled = 2000

// Jobs that wait, run or are set aside are counted to the last. Pruned jobs
// stay counted where they ended, so of those there may be fewer rows; and some
// are enough to look at, since one snapshot must not walk all that ever ended.
var countsTrue = counted + fmt.Sprintf(`, stand (queue, place, n) AS (
	SELECT abs(lane), 1, count(*) FROM daybook.ready GROUP BY abs(lane)
	UNION ALL SELECT queue, 2, count(*) FROM daybook.owned GROUP BY queue
	UNION ALL SELECT queue, 4, count(*) FROM daybook.job WHERE state = 4 AND state <> 0 GROUP BY queue
	UNION ALL SELECT j.queue, 3, count(*) FROM (SELECT * FROM daybook.job ORDER BY seq DESC LIMIT %[1]d) j
		WHERE j.state = 0 AND EXISTS (SELECT FROM daybook.ended x WHERE x.seq = j.seq AND x.outcome = 1 OFFSET 0)
		GROUP BY j.queue
	UNION ALL SELECT queue, state, count(*) FROM (SELECT queue, state FROM daybook.job
		WHERE state IN (3, 5, 6, 7) AND state <> 0 LIMIT %[1]d) e GROUP BY queue, state
), found AS MATERIALIZED (SELECT queue AS n,
	sum(n) FILTER (WHERE place = 1) AS w, sum(n) FILTER (WHERE place = 2) AS r, sum(n) FILTER (WHERE place = 4) AS a,
	sum(n) FILTER (WHERE place = 3) AS s, sum(n) FILTER (WHERE place = 5) AS c, sum(n) FILTER (WHERE place = 6) AS e,
	sum(n) FILTER (WHERE place = 7) AS m FROM stand GROUP BY queue
), both_ways AS (SELECT p.v, coalesce(q.name, format('queue %%s', p.v)) AS name, `, sampled) +
	bothWays("waiting", "w") + bothWays("running", "r") + bothWays("set_aside", "a") + bothWays("succeeded", "s") +
	bothWays("cancelled", "c") + bothWays("expired", "e") + bothWays("moved_out", "m") + `p.v::bigint AS n
	FROM part p LEFT JOIN daybook.queue q ON q.n = p.v::bigint LEFT JOIN counted ON counted.queue = p.v::bigint
	LEFT JOIN found ON found.n = p.v::bigint)
	SELECT v, name, format('%s waiting in %s rows, %s running in %s, %s set aside in %s, %s succeeded in %s,'
		|| ' %s cancelled in %s, %s expired in %s, %s moved out in %s',
		waiting, w, running, r, set_aside, a, succeeded, s, cancelled, c, expired, e, moved_out, m) FROM both_ways
	WHERE waiting <> w OR running <> r OR set_aside <> a
		OR succeeded < s OR cancelled < c OR expired < e OR moved_out < m`

// bothWays selects a count and the rows that stand for it.
func bothWays(count, rows string) string {
	return fmt.Sprintf("coalesce(%[1]s, 0) AS %[1]s, coalesce(%[2]s, 0) AS %[2]s, ", count, rows)
}
