package sqlite

import (
	"database/sql/driver"
	"math"
	"slices"
)

// What walks walk. Each is in the order of a key or an index, so that a chunk
// costs its rows and not the table.

var (
	first  = []driver.Value{int64(math.MinInt64)}
	first2 = []driver.Value{int64(math.MinInt64), int64(math.MinInt64)}
	first4 = slices.Concat(first2, first2)
)

var (
	walkJobs  = source{query: "SELECT seq, seq FROM job WHERE seq > ? ORDER BY seq LIMIT ?", start: first}
	walkOwned = source{query: "SELECT seq, seq FROM owned WHERE seq > ? ORDER BY seq LIMIT ?", start: first}
	walkAside = source{query: `SELECT seq, seq FROM job INDEXED BY job_slow
		WHERE state = 4 AND state <> 0 AND seq > ? ORDER BY seq LIMIT ?`, start: first}
	// Jobs that wait, by the number of the job.
	walkWaiting = source{query: `SELECT seq, lane, rank, run_at, seq FROM ready
		WHERE (lane, rank, run_at, seq) > (?, ?, ?, ?) ORDER BY lane, rank, run_at, seq LIMIT ?`, start: first4}
	// The rows of ready by their own key.
	walkReady = source{query: `SELECT json_array(lane, rank, run_at, seq), lane, rank, run_at, seq FROM ready
		WHERE (lane, rank, run_at, seq) > (?, ?, ?, ?) ORDER BY lane, rank, run_at, seq LIMIT ?`, start: first4}
	// States that no table has: a look that finds nothing in a healthy book.
	walkOdd = source{query: `SELECT seq, seq FROM (
			SELECT seq FROM job INDEXED BY job_slow WHERE state <> 0 AND state > 7
			UNION ALL SELECT seq FROM job INDEXED BY job_slow WHERE state <> 0 AND state IN (1, 2)
			UNION ALL SELECT seq FROM job INDEXED BY job_slow WHERE state <> 0 AND state < 0)
		WHERE seq > ? ORDER BY seq LIMIT ?`, start: first}
	// Jobs that succeeded, and jobs that ended otherwise or were set aside.
	walkSucceeded = source{query: `SELECT seq, ended_at, seq FROM ended INDEXED BY ended_success
		WHERE outcome = 1 AND (ended_at, seq) > (?, ?) ORDER BY ended_at, seq LIMIT ?`,
		start: first2, since: true}
	walkEnded = source{query: `SELECT seq, ended_at, seq FROM job INDEXED BY job_ended
		WHERE ended_at IS NOT NULL AND (ended_at, seq) > (?, ?) ORDER BY ended_at, seq LIMIT ?`,
		start: first2, since: true}
	walkOpen = source{query: `SELECT seq, seq FROM effect INDEXED BY effect_open WHERE state = 'open' AND seq > ?
		GROUP BY seq ORDER BY seq LIMIT ?`, start: first}
	walkSessions = source{query: "SELECT n, n FROM session WHERE n > ? ORDER BY n LIMIT ?", start: first}
	// The first part of the key stays what it is.
	walkLiveSessions = source{query: `SELECT n, ?1, n FROM session
		WHERE (ended_at IS NULL OR ended_at >= ?1) AND n > ?2
		ORDER BY n LIMIT ?3`, start: first2, since: true}
	walkKeys = source{query: "SELECT json_quote(key), key FROM request WHERE key > ? ORDER BY key LIMIT ?",
		start: []driver.Value{""}}
	walkEndedKeys = source{query: `SELECT json_quote(key), ended_at, key FROM request INDEXED BY request_ended
		WHERE ended_at IS NOT NULL AND (ended_at, key) > (?, ?) ORDER BY ended_at, key LIMIT ?`,
		start: []driver.Value{int64(math.MinInt64), ""}, since: true}
	walkQueues = source{query: `SELECT n, n FROM (SELECT n FROM queue UNION SELECT queue FROM sums) WHERE n > ?
		ORDER BY n LIMIT ?`, start: first}
	walkCounting = source{query: "SELECT n, n FROM outbox WHERE n > ? ORDER BY n LIMIT ?", start: first}
)

// walkJobsOf is a source of the jobs that a side table has rows of.
func walkJobsOf(table string) source {
	return source{start: first, query: "SELECT seq, seq FROM " + table +
		" WHERE seq > ? GROUP BY seq ORDER BY seq LIMIT ?"}
}

var (
	everyJob = []source{walkJobs}
	// liveJobs are those that somebody may still move, and those that ended
	// since the last check.
	liveJobs = []source{walkWaiting, walkOwned, walkAside, walkOdd, walkSucceeded, walkEnded, walkOpen}
)
