package sqlite

// Where a job is, and whether its life followed the table.

var onePlace = filled(`SELECT k, id,
		format('waits %d, runs %d, succeeded %d, ended or set aside %d', w, r, s, e)
	FROM (SELECT p.k, j.id, {is ready} AS w, o.seq IS NOT NULL AS r, {is done} AS s,
			coalesce(j.state <> 0, 0) AS e
		FROM part p LEFT JOIN job j ON j.seq = p.v LEFT JOIN owned o ON o.seq = p.v)
	WHERE id IS NULL OR w + r + s + e <> 1`)

// A waiting row is at the one key that its job's own columns give, so it can't
// be there twice.
var placeAgrees = filled(`SELECT p.k, j.id, 'waits elsewhere than it says, or otherwise'
	FROM part p CROSS JOIN ready r
		ON r.lane = p.v ->> 0 AND r.rank = p.v ->> 1 AND r.run_at = p.v ->> 2 AND r.seq = p.v ->> 3
	LEFT JOIN job j ON j.seq = r.seq
	WHERE j.seq IS NULL OR r.lane <> {lane} OR r.rank <> j.rank OR r.run_at <> j.run_at
		OR r.expires_at IS NOT j.expires_at OR r.suspect <> {suspect}
	UNION ALL SELECT p.k, j.id, 'runs with another queue, run limit or suspicion'
	FROM part p CROSS JOIN owned o ON o.seq = p.v CROSS JOIN job j ON j.seq = o.seq
	WHERE o.queue <> j.queue OR o.deadline <> min(o.claimed_at + j.timeout, {time max})
		OR o.suspect <> {suspect}`)

var knownState = filled(`SELECT p.k, j.id, format('state %d', j.state) {jobs}
	WHERE j.state NOT IN (0, 3, 4, 5, 6, 7)
		OR EXISTS (SELECT 1 FROM ended e WHERE e.seq = j.seq AND e.outcome NOT BETWEEN 1 AND 6)`)

var oneOutcome = filled(`SELECT p.k, j.id, 'two outcomes account for one generation' {jobs}
	WHERE EXISTS (SELECT 1 FROM ended e WHERE e.seq = j.seq AND {low} <= {prior})
		OR o.generation <= (SELECT max(e.through) FROM ended e WHERE e.seq = j.seq)`)

// Three ways to come back from an end: an attempt after the success, life
// after an attempt that ended in a cancel, and life after an event that ended
// the job. An expired job that waited for a judgement goes on by it.
var finalStays = filled(`SELECT p.k, j.id, format('at generation %d', coalesce(o.generation, j.generation))
	{jobs}
	WHERE EXISTS (SELECT 1 FROM ended d WHERE d.seq = j.seq AND d.outcome = 1
			AND (o.seq IS NOT NULL OR EXISTS (SELECT 1 FROM ended e
				WHERE e.seq = d.seq AND e.generation > d.generation)))
		OR EXISTS (SELECT 1 FROM ended e WHERE e.seq = j.seq AND e.outcome = 5
			AND ({next} IS NOT NULL OR j.state <> 5) AND NOT EXISTS (SELECT 1 FROM event r
				WHERE r.seq = j.seq AND r.what = 'revived' AND r.generation >= e.through
				AND r.generation < coalesce({next}, 1 << 62)))
		OR ` + ranAfter("cancelled") + `
		OR j.state = 0 AND EXISTS (SELECT 1 FROM event x WHERE x.seq = j.seq
			AND x.what IN ('cancelled', 'expired', 'moved out') AND NOT EXISTS (SELECT 1 FROM event r
				WHERE r.seq = x.seq AND r.n > x.n
				AND (r.what = 'revived' OR r.what = 'settled' AND x.what = 'expired')))
			AND NOT {is done}`)

// The fast moves leave the generation in owned and in the success; job has the
// one of the last slow move. Only a new incarnation leaves a gap.
var generationHistory = filled(`SELECT k, id,
		format('generation %d, its history accounts for %d', coalesce(owner, own), told)
	FROM (SELECT p.k, j.id, j.generation AS own, o.generation AS owner,
			(SELECT coalesce(max(e.through), 0) FROM ended e WHERE e.seq = j.seq AND e.outcome <> 1) AS told,
			EXISTS (SELECT 1 FROM ended e WHERE e.seq = j.seq AND (
				e.through NOT IN (e.generation, e.generation + 1) OR {low} % {step} <> 0 AND {low} > {prior} + 1
				OR e.count <> e.generation - {low} + 1 AND e.generation >> 32 = {low} >> 32)) AS gap {jobs})
	WHERE own <> told OR gap OR owner <> own + 1 AND (owner <= own OR owner % {step} <> 0)`)

var asideReason = filled(`SELECT p.k, j.id,
		format('state %d, reason %s', j.state, coalesce(nullif(j.reason, ''), 'none')) {jobs}
	WHERE (j.state = 4) <> (coalesce(j.reason, '') <> '')`)

// A person's settlement sends a job on whatever its counts say.
var failuresLimit = filled(`SELECT p.k, j.id, format('%d of %d failures, %d of %d crashes',
		j.failures, j.max_failures, j.crashes, {crash limit})
	{jobs} WHERE (j.failures >= j.max_failures OR j.crashes >= {crash limit})
		AND NOT EXISTS (SELECT 1 FROM event x WHERE x.seq = j.seq AND x.what = 'settled')`)

// A release to a later time is one after which the job became due later than
// the attempt ended; a hold or a settlement moves that time too.
var snoozeLimit = filled(`SELECT p.k, j.id,
		format('snoozing for %d days', (e.ended_at - j.first_claimed_at) / 86400000000)
	{jobs} CROSS JOIN ended e ON e.seq = j.seq
		AND e.generation = (SELECT max(m.generation) FROM ended m WHERE m.seq = j.seq)
	WHERE {is ready} AND e.outcome = 3 AND j.run_at > e.ended_at AND e.ended_at - j.first_claimed_at >= {snooze}
		AND NOT EXISTS (SELECT 1 FROM event x WHERE x.seq = j.seq AND x.what IN ('unheld', 'settled'))`)

var movedStill = filled(`SELECT p.k, j.id,
		format('state %d, generation %d', j.state, coalesce(o.generation, j.generation)) {jobs}
	WHERE (j.state = 7 OR EXISTS (SELECT 1 FROM event x WHERE x.seq = j.seq AND x.what = 'moved out'))
		AND (j.generation > 0 OR o.seq IS NOT NULL OR EXISTS (SELECT 1 FROM ended e WHERE e.seq = j.seq))`)
