package sqlite

import (
	"strings"

	"github.com/daybookdev/daybook"
)

// Sessions, counting rows and the sums of a queue.

const leaseLength = `SELECT p.k, s.id,
		format('%d ms given, %d ms long', (s.expires_at - s.renewed_at) / 1000, s.lease / 1000)
	FROM part p CROSS JOIN session s ON s.n = p.v WHERE s.expires_at - s.renewed_at > s.lease`

const ringQueue = `SELECT p.k, format('counting row %d', x.n), format('queue %d does not exist', x.queue)
	FROM part p CROSS JOIN outbox x ON x.n = p.v WHERE NOT EXISTS (SELECT 1 FROM queue q WHERE q.n = x.queue)`

// counted are the counts of each queue: what was folded and what wasn't yet.
var counted = ", counted (queue, " + countColumns + ") AS MATERIALIZED (SELECT queue, sum(" +
	strings.Join(daybook.CountNames, "), sum(") + ") FROM (SELECT queue, " + countColumns +
	" FROM sums UNION ALL SELECT queue, " + countColumns + " FROM outbox) GROUP BY queue)"

// See daybook.Counts.Balanced.
var conservation = counted + `
	SELECT p.k, coalesce(q.name, format('queue %d', c.queue)), format('%d came in, %d stand or went out',
		accepted + moved_in, waiting + running + set_aside + succeeded + cancelled + expired + moved_out)
	FROM part p CROSS JOIN counted c ON c.queue = p.v LEFT JOIN queue q ON q.n = c.queue
	WHERE accepted + moved_in <> waiting + running + set_aside + succeeded + cancelled + expired + moved_out`

// Jobs that wait, run or are set aside are counted to the last. Pruned jobs
// stay counted where they ended, so of those there may be fewer rows; and the
// newest tenThousand rows are enough to look at, since one snapshot must not
// walk all that ever ended.
var countsTrue = counted + `, stand (queue, place, n) AS (
	SELECT abs(lane), 'waiting', count(*) FROM ready GROUP BY 1
	UNION ALL SELECT queue, 'running', count(*) FROM owned GROUP BY 1
	UNION ALL SELECT queue, 'aside', count(*) FROM job INDEXED BY job_slow
		WHERE state = 4 AND state <> 0 GROUP BY 1
	UNION ALL SELECT j.queue, 3, count(*) FROM (SELECT seq FROM ended INDEXED BY ended_success
		WHERE outcome = 1 ORDER BY ended_at DESC LIMIT ` + tenThousand + `) d
		CROSS JOIN job j ON j.seq = d.seq GROUP BY 1
	UNION ALL SELECT queue, state, count(*) FROM (SELECT queue, state FROM job INDEXED BY job_slow
		WHERE state IN (3, 5, 6, 7) AND state <> 0 LIMIT ` + tenThousand + `) GROUP BY 1, 2
), found (queue, w, r, a, s, c, e, m) AS MATERIALIZED (SELECT queue,
	total(n) FILTER (WHERE place = 'waiting'), total(n) FILTER (WHERE place = 'running'),
	total(n) FILTER (WHERE place = 'aside'), total(n) FILTER (WHERE place = 3),
	total(n) FILTER (WHERE place = 5), total(n) FILTER (WHERE place = 6), total(n) FILTER (WHERE place = 7)
	FROM stand GROUP BY queue
), both AS (SELECT p.k, coalesce(q.name, format('queue %d', p.v)) AS name,
	ifnull(waiting, 0) AS waiting, ifnull(running, 0) AS running, ifnull(set_aside, 0) AS set_aside,
	ifnull(succeeded, 0) AS succeeded, ifnull(cancelled, 0) AS cancelled, ifnull(expired, 0) AS expired,
	ifnull(moved_out, 0) AS moved_out, ifnull(w, 0) AS w, ifnull(r, 0) AS r, ifnull(a, 0) AS a,
	ifnull(s, 0) AS s, ifnull(c, 0) AS c, ifnull(e, 0) AS e, ifnull(m, 0) AS m
	FROM part p LEFT JOIN queue q ON q.n = p.v LEFT JOIN counted ON counted.queue = p.v
	LEFT JOIN found ON found.queue = p.v)
	SELECT k, name, format('%d waiting in %d rows, %d running in %d, %d set aside in %d, %d succeeded in %d,'
		|| ' %d cancelled in %d, %d expired in %d, %d moved out in %d',
		waiting, w, running, r, set_aside, a, succeeded, s, cancelled, c, expired, e, moved_out, m) FROM both
	WHERE waiting <> w OR running <> r OR set_aside <> a
		OR succeeded < s OR cancelled < c OR expired < e OR moved_out < m`

const tenThousand = "10000"
