package sqlite

// Who owned a job, and whether it could have been given to them.

var runningSession = filled(`SELECT p.k, j.id, format('session %d is gone', o.session) {jobs}
	WHERE o.seq IS NOT NULL AND NOT EXISTS (SELECT 1 FROM session s WHERE s.n = o.session)`)

// A session that nobody ended counts from its mark, or else from the end of
// its lease.
var lostRevoked = filled(`SELECT p.k, j.id, format('its session was lost %d s ago',
		(c.now - coalesce(s.ended_at, s.marked_at, s.expires_at)) / 1000000)
	{jobs} CROSS JOIN session s ON s.n = o.session CROSS JOIN clock c
	WHERE coalesce(s.ended_at, max(coalesce(s.marked_at, 0), s.expires_at)) + {passes} < min(c.now, c.pass)`)

var runLimit = filled(`SELECT p.k, j.id, format('past its run limit for %d s', (c.now - o.deadline) / 1000000)
	{jobs} CROSS JOIN clock c WHERE o.deadline + {passes} < min(c.now, c.pass)`)

var heldClaim = filled(`SELECT p.k, j.id, format('held by %s', j.held_by) {jobs}
	WHERE o.seq IS NOT NULL AND j.held_by IS NOT NULL`)

var claimAfterEnd = filled(`SELECT p.k, j.id, 'claimed by a session that had ended' {jobs}
	LEFT JOIN session s ON s.n = o.session WHERE o.claimed_at > s.ended_at + {slack}
		OR EXISTS (SELECT 1 FROM ended e CROSS JOIN session z ON z.n = e.session
			WHERE e.seq = j.seq AND e.claimed_at > z.ended_at + {slack})`)

var pausedClaim = filled(`SELECT p.k, j.id, format('queue %s is paused', q.name) {jobs}
	CROSS JOIN queue q ON q.n = j.queue WHERE q.paused_at IS NOT NULL
		AND (o.claimed_at > q.paused_at + {slack} OR EXISTS (SELECT 1 FROM ended e
			WHERE e.seq = j.seq AND e.claimed_at > q.paused_at + {slack}))`)

var cancelKept = filled(`SELECT p.k, j.id, 'asked to cancel, and waits or ran again' {jobs}
	WHERE ` + ranAfter("cancel asked") + ` OR {is ready} AND EXISTS (SELECT 1 FROM event x WHERE x.seq = j.seq
		AND x.what = 'cancel asked' AND NOT EXISTS (SELECT 1 FROM event r
			WHERE r.seq = x.seq AND r.n > x.n AND r.what = 'revived'))`)

// A claim compares expires_at with the time that it writes as claimed_at.
var expiredClaim = filled(`SELECT p.k, j.id, 'claimed after it expired' {jobs}
	WHERE o.claimed_at >= j.expires_at OR ` + ranAfter("expired") + `
		OR EXISTS (SELECT 1 FROM ended e WHERE e.seq = j.seq AND e.claimed_at >= j.expires_at)`)
