package postgres

import (
	"encoding/json"

	"github.com/daybookdev/daybook"
)

// What belongs to a job: effects, origin, documents and its request key.

var successEffects = filled(`SELECT p.v, j.id::text, format('effect %s is open', f.name) {jobs alone}
	CROSS JOIN LATERAL (SELECT * FROM daybook.effect x WHERE x.seq = j.seq AND x.state = 'open' OFFSET 0) f
	WHERE j.state = 3 OR {is done}`)

// An effect that came from another system with its job has no generation here.
var effectOwner = filled(`SELECT p.v, j.id::text, format('effect %s of generation %s', f.name, f.generation) {jobs}
	CROSS JOIN LATERAL (SELECT * FROM daybook.effect x WHERE x.seq = j.seq OFFSET 0) f
	WHERE f.generation IS DISTINCT FROM o.generation AND NOT (f.generation = 0 AND j.origin IS NOT NULL)
		AND NOT EXISTS (SELECT FROM daybook.ended e WHERE e.seq = j.seq
			AND f.generation BETWEEN coalesce(e.first, e.generation) AND e.generation OFFSET 0)`)

var effectDoubled = filled(`SELECT p.v, j.id::text, format('effect %s', f.name) {jobs alone}
	CROSS JOIN LATERAL (SELECT * FROM daybook.effect x WHERE x.seq = j.seq AND x.doubled OFFSET 0) f`)

// An origin is long: its index has the digest.
var originOnce = filled(`SELECT p.v, j.id::text, 'its origin is another job''s too' {jobs alone}
	WHERE j.origin IS NOT NULL AND EXISTS (SELECT FROM daybook.job x WHERE md5(x.origin) = md5(j.origin)
		AND x.origin IS NOT NULL AND x.origin = j.origin AND x.seq <> j.seq OFFSET 0)`)

var sizeLimit = filled(`SELECT v, id, format('args %s, result %s, error %s, progress %s bytes', a, r, e, w)
	FROM (SELECT p.v, j.id::text, octet_length(j.args) AS a, greatest(octet_length(j.result), h.r, 0) AS r,
			greatest(h.e, 0) AS e,
			coalesce((SELECT octet_length(w.progress) FROM daybook.progress w WHERE w.seq = j.seq), 0) AS w
		{jobs alone} CROSS JOIN LATERAL (SELECT max(octet_length(x.result)) AS r,
			max(greatest(octet_length(x.error), octet_length(x.trace))) AS e FROM daybook.ended x WHERE x.seq = j.seq) h) sizes
	WHERE a > {args max} OR r > {result max} OR e > {error max} OR w > {progress max}`)

var argsJSON = filled(`SELECT p.v, j.id::text, format('%s bytes', octet_length(j.args)), j.args {jobs alone}`)

func notJSON(row []any) bool { return !json.Valid([]byte(text(row[0]))) }

// A job that was pruned since has taken its rows along.
const rowsWithJob = `SELECT p.v, NULL, 'effects, events, refusals or progress of a job that is gone' FROM part p
	WHERE NOT EXISTS (SELECT FROM daybook.job x WHERE x.seq = p.v::bigint OFFSET 0)
		AND (EXISTS (SELECT FROM daybook.effect x WHERE x.seq = p.v::bigint OFFSET 0)
			OR EXISTS (SELECT FROM daybook.effect_call x WHERE x.seq = p.v::bigint OFFSET 0)
			OR EXISTS (SELECT FROM daybook.event x WHERE x.seq = p.v::bigint OFFSET 0)
			OR EXISTS (SELECT FROM daybook.refusal x WHERE x.seq = p.v::bigint OFFSET 0)
			OR EXISTS (SELECT FROM daybook.progress x WHERE x.seq = p.v::bigint OFFSET 0))`

var keyKept = filled(`SELECT p.v, j.id::text, format('key %s', j.key) {jobs alone}
	WHERE j.key IS NOT NULL AND NOT EXISTS (SELECT FROM daybook.request r WHERE r.key = j.key OFFSET 0)`)

// The record names one job, so of two jobs with one key it names one at most.
var keyOneJob = filled(`SELECT p.v, j.id::text, format('key %s belongs to another job', j.key) {jobs alone}
	CROSS JOIN LATERAL (SELECT * FROM daybook.request x WHERE x.key = j.key OFFSET 0) r WHERE r.job <> j.id`)

var keyFingerprint = filled(`SELECT p.v, j.id::text, format('key %s is bound to other queue, kind or args', j.key),
		(SELECT q.name FROM daybook.queue q WHERE q.n = j.queue), j.kind, j.args, r.fingerprint {jobs alone}
	CROSS JOIN LATERAL (SELECT * FROM daybook.request x WHERE x.key = j.key OFFSET 0) r WHERE r.job = j.id`)

func otherFingerprint(row []any) bool {
	want, err := daybook.FingerprintOf(text(row[0]), text(row[1]), raw(row[2]))
	return err != nil || string(want[:]) != text(row[3])
}

const keyEnd = `SELECT p.v, r.key, 'its job is gone, and how it ended is not recorded' FROM part p
	CROSS JOIN LATERAL (SELECT * FROM daybook.request x WHERE x.key = p.v OFFSET 0) r
	WHERE (r.ended_at IS NULL OR r.state IS NULL)
		AND NOT EXISTS (SELECT FROM daybook.job x WHERE x.id = r.job OFFSET 0)`
