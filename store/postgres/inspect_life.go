package postgres

// Where a job is, and whether its life followed the table.

// What runs without a job of its own goes by its id, everything else by the
// job's number. A job that was pruned since it was named is nowhere, rightly.
var onePlace = filled(`SELECT v, id, format('waits %s, runs %s, succeeded %s, ended or set aside %s', w, r, s, e)
	FROM (SELECT p.v, j.id::text, {is ready}::int AS w, (o.id IS NOT NULL)::int AS r, {is done}::int AS s,
			(j.state <> 0)::int AS e
		FROM part p CROSS JOIN LATERAL (SELECT * FROM daybook.job x
			WHERE x.seq = CASE WHEN p.v NOT LIKE '%-%' THEN p.v::bigint END OFFSET 0) j
		LEFT JOIN LATERAL (SELECT * FROM daybook.owned x WHERE x.id = j.id OFFSET 0) o ON true) stands
	WHERE w + r + s + e <> 1
	UNION ALL SELECT p.v, o.id::text,
		CASE WHEN j.seq IS NULL THEN 'runs, and its job is gone' ELSE 'runs as another job' END
	FROM part p CROSS JOIN LATERAL (SELECT * FROM daybook.owned x
		WHERE x.id = CASE WHEN p.v LIKE '%-%' THEN p.v::uuid END OFFSET 0) o
	LEFT JOIN LATERAL (SELECT x.seq FROM daybook.job x WHERE x.id = o.id OFFSET 0) j ON true
	WHERE j.seq IS DISTINCT FROM o.seq`)

// A waiting row is at the one key that its job's own columns give, so it can't
// be there twice. A job with effects that says it has none would complete
// without a look at them.
var placeAgrees = filled(`SELECT p.v, j.id::text, 'waits elsewhere than it says, or otherwise'
	FROM part p CROSS JOIN LATERAL (SELECT CASE WHEN p.v LIKE '{%' THEN p.v::bigint[] END AS n OFFSET 0) k
	CROSS JOIN LATERAL (SELECT * FROM daybook.ready x
		WHERE x.lane = k.n[1] AND x.rank = k.n[2] AND x.run_at = k.n[3] AND x.seq = k.n[4] OFFSET 0) r
	LEFT JOIN LATERAL (SELECT * FROM daybook.job x WHERE x.seq = r.seq OFFSET 0) j ON true
	WHERE j.seq IS NULL OR r.lane <> {lane} OR r.rank <> j.rank OR r.run_at <> {run at} OR r.kind <> j.kind
		OR r.expires_at IS DISTINCT FROM j.expires_at OR r.suspect <> {suspect} OR NOT r.ledger AND {has effects}
	UNION ALL SELECT p.v, j.id::text, 'runs with another queue, run limit, suspicion or ledger'
	FROM part p CROSS JOIN LATERAL (SELECT * FROM daybook.job x
		WHERE x.seq = CASE WHEN p.v NOT LIKE '{%' THEN p.v::bigint END OFFSET 0) j
	CROSS JOIN LATERAL (SELECT * FROM daybook.owned x WHERE x.id = j.id OFFSET 0) o
	WHERE o.queue <> j.queue OR {deadline} <> least(o.claimed_at + coalesce(j.timeout, {day}), {time max})
		OR o.suspect <> {suspect} OR NOT o.ledger AND {has effects}`)

var knownState = filled(`SELECT p.v, j.id::text, format('state %s', j.state) {jobs alone}
	WHERE j.state NOT IN (0, 3, 4, 5, 6, 7)
		OR EXISTS (SELECT FROM daybook.ended e WHERE e.seq = j.seq AND e.outcome NOT BETWEEN 1 AND 6 OFFSET 0)`)

var oneOutcome = filled(`SELECT p.v, j.id::text, 'two outcomes account for one generation' {jobs}
	CROSS JOIN LATERAL (SELECT max(e.through) AS told, bool_or(e.low <= e.prior) AS twice FROM {attempts} e) h
	WHERE h.twice OR o.generation <= h.told`)

// Three ways to come back from an end: an attempt after the success, life
// after an attempt that ended in a cancel, and life after an event that ended
// the job. An expired job that waited for a judgement goes on by it.
var finalStays = filled(`SELECT p.v, j.id::text, format('at generation %s', coalesce(o.generation, j.generation, 0))
	{jobs}
	WHERE EXISTS (SELECT FROM {attempts} d WHERE d.outcome = 1 AND (o.id IS NOT NULL OR d.next > d.generation) OFFSET 0)
		OR EXISTS (SELECT FROM {attempts} e WHERE e.outcome = 5
			AND (coalesce(e.next, o.generation) IS NOT NULL OR j.state <> 5)
			AND NOT EXISTS (SELECT FROM daybook.event r
				WHERE r.seq = j.seq AND r.what = 'revived' AND r.generation >= e.through
				AND r.generation < coalesce(e.next, o.generation, 1::bigint << 62) OFFSET 0) OFFSET 0)
		OR ` + ranAfter("cancelled") + `
		OR j.state = 0 AND EXISTS (SELECT FROM daybook.event x WHERE x.seq = j.seq
			AND x.what IN ('cancelled', 'expired', 'moved out') AND NOT EXISTS (SELECT FROM daybook.event r
				WHERE r.seq = x.seq AND r.n > x.n
				AND (r.what = 'revived' OR r.what = 'settled' AND x.what = 'expired') OFFSET 0) OFFSET 0)
			AND NOT {is done}`)

// The fast moves leave the generation in owned and in the success; job has the
// one of the last slow move. Only a new incarnation leaves a gap.
var generationHistory = filled(`SELECT v, id,
		format('generation %s, its history accounts for %s', coalesce(owner, own), told)
	FROM (SELECT p.v, j.id::text, coalesce(j.generation, 0) AS own, o.generation AS owner, h.told, h.gap {jobs}
		CROSS JOIN LATERAL (SELECT coalesce(max(e.through) FILTER (WHERE e.outcome <> 1), 0) AS told,
			coalesce(bool_or(e.through NOT IN (e.generation, e.generation + 1)
				OR e.low % {step} <> 0 AND e.low > e.prior + 1
				OR e.count <> e.generation - e.low + 1 AND e.generation >> 32 = e.low >> 32), false) AS gap
			FROM {attempts} e) h) held
	WHERE own <> told OR gap OR owner <> own + 1 AND (owner <= own OR owner % {step} <> 0)`)

var asideReason = filled(`SELECT p.v, j.id::text,
		format('state %s, reason %s', j.state, coalesce(nullif(j.reason, ''), 'none'))
	{jobs alone} WHERE (j.state = 4) <> (coalesce(j.reason, '') <> '')`)

// A person's settlement sends a job on whatever its counts say.
var failuresLimit = filled(`SELECT p.v, j.id::text, format('%s of %s failures, %s of %s crashes',
		{failures}, {most failures}, {crashes}, {crash limit})
	{jobs alone} WHERE ({failures} >= {most failures} OR {crashes} >= {crash limit}) AND {is ready}
		AND NOT EXISTS (SELECT FROM daybook.event x WHERE x.seq = j.seq AND x.what = 'settled' OFFSET 0)`)

// A release to a later time is one after which the job became due later than
// the attempt ended; a hold or a settlement moves that time too.
var snoozeLimit = filled(`SELECT p.v, j.id::text,
		format('snoozing for %s days', (e.ended_at - j.first_claimed_at) / {day})
	{jobs alone} CROSS JOIN LATERAL (SELECT x.outcome, coalesce(x.ended_at, x.filed_at) AS ended_at
		FROM daybook.ended x WHERE x.seq = j.seq ORDER BY x.generation DESC LIMIT 1) e
	WHERE {is ready} AND e.outcome = 3 AND {run at} > e.ended_at AND e.ended_at - j.first_claimed_at >= {snooze}
		AND NOT EXISTS (SELECT FROM daybook.event x WHERE x.seq = j.seq AND x.what IN ('unheld', 'settled') OFFSET 0)`)

var movedStill = filled(`SELECT p.v, j.id::text,
		format('state %s, generation %s', j.state, coalesce(o.generation, j.generation, 0))
	{jobs} WHERE (j.state = 7 OR EXISTS (SELECT FROM daybook.event x
			WHERE x.seq = j.seq AND x.what = 'moved out' OFFSET 0))
		AND (j.generation > 0 OR o.id IS NOT NULL OR EXISTS (SELECT FROM daybook.ended e WHERE e.seq = j.seq OFFSET 0))`)
