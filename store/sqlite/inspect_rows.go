package sqlite

import (
	"database/sql/driver"

	"github.com/daybookdev/daybook"
)

// What belongs to a job: effects, origin, documents and its request key.

var successEffects = filled(`SELECT p.k, j.id, format('effect %s is open', f.name) {jobs}
	CROSS JOIN effect f ON f.seq = j.seq WHERE f.state = 'open' AND (j.state = 3 OR {is done})`)

// An effect that came from another system with its job has no generation here.
var effectOwner = filled(`SELECT p.k, j.id, format('effect %s of generation %d', f.name, f.generation) {jobs}
	CROSS JOIN effect f ON f.seq = j.seq
	WHERE f.generation IS NOT o.generation AND NOT (f.generation = 0 AND j.origin IS NOT NULL)
		AND NOT EXISTS (SELECT 1 FROM ended e
			WHERE e.seq = j.seq AND f.generation BETWEEN {low} AND e.generation)`)

var effectDoubled = filled(`SELECT p.k, j.id, format('effect %s', f.name) {jobs}
	CROSS JOIN effect f ON f.seq = j.seq WHERE f.doubled <> 0`)

var originOnce = filled(`SELECT p.k, j.id, 'its origin is another job''s too' {jobs}
	WHERE j.origin IS NOT NULL AND EXISTS (SELECT 1 FROM job x WHERE x.origin = j.origin AND x.seq <> j.seq)`)

var sizeLimit = filled(`SELECT k, id, format('args %d, result %d, error %d, progress %d bytes', a, r, e, w)
	FROM (SELECT p.k, j.id, octet_length(j.args) AS a,
			max(coalesce(octet_length(j.result), 0),
				coalesce((SELECT max(octet_length(e.result)) FROM ended e WHERE e.seq = j.seq), 0)) AS r,
			coalesce((SELECT max(max(coalesce(octet_length(e.error), 0), coalesce(octet_length(e.trace), 0)))
				FROM ended e WHERE e.seq = j.seq), 0) AS e,
			coalesce((SELECT octet_length(w.progress) FROM progress w WHERE w.seq = j.seq), 0) AS w {jobs})
	WHERE a > {args max} OR r > {result max} OR e > {error max} OR w > {progress max}`)

var argsJSON = filled(`SELECT p.k, j.id, format('%d bytes', octet_length(j.args)) {jobs}
	WHERE NOT json_valid(j.args)`)

const rowsWithJob = `SELECT p.k, NULL, 'attempts, effects, events or refusals of a job that is gone'
	FROM part p WHERE NOT EXISTS (SELECT 1 FROM job j WHERE j.seq = p.v)`

var keyKept = filled(`SELECT p.k, j.id, format('key %s', j.key) {jobs}
	WHERE j.key IS NOT NULL AND NOT EXISTS (SELECT 1 FROM request r WHERE r.key = j.key)`)

// The record names one job, so of two jobs with one key it names one at most.
var keyOneJob = filled(`SELECT p.k, j.id, format('key %s belongs to another job', j.key) {jobs}
	CROSS JOIN request r ON r.key = j.key WHERE r.job <> j.id`)

var keyFingerprint = filled(`SELECT p.k, j.id, format('key %s is bound to other queue, kind or args', j.key),
		q.name, j.kind, j.args, r.fingerprint {jobs}
	CROSS JOIN request r ON r.key = j.key AND r.job = j.id LEFT JOIN queue q ON q.n = j.queue`)

func otherFingerprint(row []driver.Value) bool {
	want, err := daybook.FingerprintOf(text(row[0]), text(row[1]), raw(row[2]))
	return err != nil || string(want[:]) != string(raw(row[3]))
}

const keyEnd = `SELECT p.k, r.key, 'its job is gone, and how it ended is not recorded'
	FROM part p CROSS JOIN request r ON r.key = p.v
	WHERE (r.ended_at IS NULL OR r.state IS NULL) AND NOT EXISTS (SELECT 1 FROM job j WHERE j.id = r.job)`
