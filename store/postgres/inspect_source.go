package postgres

import (
	"math"
	"slices"

	"github.com/daybookdev/daybook"
)

// What walks walk. Each is in the order of a key or an index, so that a chunk
// costs its rows and not the table.

var (
	beforeOne = []any{int64(math.MinInt64)}
	beforeTwo = []any{int64(math.MinInt64), int64(math.MinInt64)}
)

var (
	// The second part of the key is the last job when the walk began: else it
	// might run after those that come in for ever.
	walkJobs = source{query: `SELECT seq::text AS named, seq, until FROM daybook.job CROSS JOIN LATERAL (SELECT
			coalesce(nullif($2::bigint, 0), (SELECT max(x.seq) FROM daybook.job x)) AS until) l
		WHERE seq > $1::bigint AND seq <= until ORDER BY seq LIMIT $3::bigint`,
		start: []any{int64(math.MinInt64), int64(0)}}
	walkAside = source{query: `SELECT seq::text AS named, seq FROM daybook.job
		WHERE state = 4 AND state <> 0 AND seq > $1::bigint ORDER BY seq LIMIT $2::bigint`, start: beforeOne}
	// What runs, by the number of its job.
	walkOwned = source{query: `SELECT seq::text AS named, id FROM daybook.owned WHERE id > $1::text::uuid
		ORDER BY id LIMIT $2::bigint`, start: []any{daybook.ID{}}}
	// The same, but a row that isn't of the job that it names goes by its own id.
	walkOwners = source{query: `SELECT CASE WHEN j.seq = o.seq THEN o.seq::text ELSE o.id::text END AS named, o.id
		FROM (SELECT id, seq FROM daybook.owned WHERE id > $1::text::uuid ORDER BY id LIMIT $2::bigint) o
		LEFT JOIN LATERAL (SELECT seq FROM daybook.job x WHERE x.id = o.id OFFSET 0) j ON true ORDER BY o.id`,
		start: []any{daybook.ID{}}}
	// Jobs that wait, by the number of the job.
	walkWaiting = source{query: waitingBehind("seq::text"), start: slices.Concat(beforeTwo, beforeTwo)}
	// The rows of ready by their own key.
	walkReady = source{query: waitingBehind("ARRAY[lane, rank, run_at, seq]::text"),
		start: slices.Concat(beforeTwo, beforeTwo)}
	// States that no table has: a look that finds nothing in a healthy book.
	walkOdd = source{query: `SELECT seq::text AS named, seq FROM (
			SELECT seq FROM daybook.job WHERE state <> 0 AND state > 7
			UNION ALL SELECT seq FROM daybook.job WHERE state <> 0 AND state = 1
			UNION ALL SELECT seq FROM daybook.job WHERE state <> 0 AND state = 2
			UNION ALL SELECT seq FROM daybook.job WHERE state <> 0 AND state < 0) odd
		WHERE seq > $1::bigint ORDER BY seq LIMIT $2::bigint`, start: beforeOne}
	// Jobs that succeeded, and jobs that ended otherwise or were set aside.
	walkSucceeded = source{successes: true, start: []any{int64(0), int64(0), int64(0), int64(0)}}
	walkEnded     = source{query: `SELECT seq::text AS named, ended_at, seq FROM daybook.job WHERE ended_at IS NOT NULL
		AND ended_at >= $1::bigint AND (ended_at, seq) > ($1::bigint, $2::bigint) ORDER BY ended_at, seq LIMIT $3::bigint`,
		start: beforeTwo, since: true}
	walkOpen = source{query: `SELECT seq::text AS named, seq FROM daybook.effect WHERE state = 'open' AND seq > $1::bigint
		GROUP BY seq ORDER BY seq LIMIT $2::bigint`, start: beforeOne}
	walkSessions = source{query: `SELECT n::text AS named, n FROM daybook.session WHERE n > $1::bigint
		ORDER BY n LIMIT $2::bigint`, start: beforeOne}
	// The first part of the key stays what it is.
	walkLiveSessions = source{query: `SELECT n::text AS named, $1::bigint, n FROM daybook.session
		WHERE (ended_at IS NULL OR ended_at >= $1::bigint) AND n > $2::bigint ORDER BY n LIMIT $3::bigint`,
		start: beforeTwo, since: true}
	walkKeys = source{query: `SELECT key AS named, key FROM daybook.request WHERE key > $1::text
		ORDER BY key LIMIT $2::bigint`, start: []any{""}}
	walkEndedKeys = source{query: `SELECT key AS named, ended_at, key FROM daybook.request WHERE ended_at IS NOT NULL
		AND ended_at >= $1::bigint AND (ended_at, key) > ($1::bigint, $2::text) ORDER BY ended_at, key LIMIT $3::bigint`,
		start: []any{int64(math.MinInt64), ""}, since: true}
	walkQueues = source{query: `SELECT n::text AS named, n FROM (SELECT n FROM daybook.queue WHERE n > $1::bigint
		UNION SELECT queue FROM daybook.sums WHERE queue > $1::bigint) q ORDER BY n LIMIT $2::bigint`, start: beforeOne}
	// Counting rows have no key of their own, and are folded by the minute: they
	// go by their queue.
	walkCounted = source{query: `SELECT queue::text AS named, queue FROM (SELECT queue FROM daybook.outbox
		UNION SELECT queue FROM daybook.sums) c WHERE queue > $1::bigint ORDER BY queue LIMIT $2::bigint`,
		start: beforeOne}
)

func waitingBehind(name string) string {
	return "SELECT " + name + ` AS named, lane, rank, run_at, seq FROM daybook.ready
		WHERE (lane, rank, run_at, seq) > ($1::bigint, $2::bigint, $3::bigint, $4::bigint)
		ORDER BY lane, rank, run_at, seq LIMIT $5::bigint`
}

// walkJobsOf is a source of the jobs that a side table has rows of.
func walkJobsOf(table string) source {
	return source{start: beforeOne, query: "SELECT seq::text AS named, seq FROM daybook." + table +
		" WHERE seq > $1::bigint GROUP BY seq ORDER BY seq LIMIT $2::bigint"}
}

var (
	everyJob = []source{walkJobs}
	// liveJobs are those that somebody may still move, and those that ended
	// since the last check.
	liveJobs = []source{walkWaiting, walkOwned, walkAside, walkOdd, walkSucceeded, walkEnded, walkOpen}
)
