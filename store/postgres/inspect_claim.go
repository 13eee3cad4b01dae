package postgres

import "github.com/daybookdev/daybook"

// Who owned a job, and whether it could have been given to them.

var runningSession = filled(`SELECT p.v, j.id::text, format('session %s is gone', o.session) {jobs}
	WHERE o.id IS NOT NULL AND NOT EXISTS (SELECT FROM daybook.session s WHERE s.n = o.session OFFSET 0)`)

// passed are what passedBy reads: since when the claim should be revoked, the
// time, and when the reconciler took its last pass.
const passed = `c.now, (SELECT value FROM daybook.setting WHERE name = '` + daybook.SettingPass + `')`

func passedBy(row []any) bool {
	pass, err := daybook.ParseTime("pass", text(row[2])) // none yet is an error
	return err == nil && at(row[0]).Add(passesAllowed) < min(at(row[1]), pass)
}

// A session that nobody ended counts from its mark, or else from the end of
// its lease.
var lostRevoked = filled(`SELECT p.v, j.id::text, format('its session was lost %s s ago',
		(c.now - coalesce(s.ended_at, s.marked_at, s.expires_at)) / 1000000),
		coalesce(s.ended_at, greatest(s.marked_at, s.expires_at)), ` + passed + `
	{jobs} CROSS JOIN LATERAL (SELECT * FROM daybook.session x WHERE x.n = o.session OFFSET 0) s CROSS JOIN clock c
	WHERE coalesce(s.ended_at, greatest(s.marked_at, s.expires_at)) + {passes} < c.now`)

var runLimit = filled(`SELECT p.v, j.id::text, format('past its run limit for %s s', (c.now - {deadline}) / 1000000),
		{deadline}, ` + passed + ` {jobs} CROSS JOIN clock c WHERE {deadline} + {passes} < c.now`)

var heldClaim = filled(`SELECT p.v, j.id::text, format('held by %s', j.held_by) {jobs}
	WHERE o.id IS NOT NULL AND j.held_by IS NOT NULL`)

// A session's row may be gone sooner than what it did.
var claimAfterEnd = filled(`SELECT p.v, j.id::text, 'claimed by a session that had ended' {jobs}
	LEFT JOIN LATERAL (SELECT x.ended_at FROM daybook.session x WHERE x.n = o.session OFFSET 0) s ON true
	WHERE o.claimed_at > s.ended_at + {slack} OR EXISTS (SELECT FROM daybook.ended e
		CROSS JOIN LATERAL (SELECT x.ended_at FROM daybook.session x WHERE x.n = e.session OFFSET 0) z
		WHERE e.seq = j.seq AND e.claimed_at > z.ended_at + {slack} OFFSET 0)`)

var pausedClaim = filled(`SELECT p.v, j.id::text, format('queue %s is paused', q.name) {jobs}
	CROSS JOIN LATERAL (SELECT * FROM daybook.queue x WHERE x.n = j.queue AND x.paused_at IS NOT NULL OFFSET 0) q
	WHERE o.claimed_at > q.paused_at + {slack} OR EXISTS (SELECT FROM daybook.ended e
		WHERE e.seq = j.seq AND e.claimed_at > q.paused_at + {slack} OFFSET 0)`)

var cancelKept = filled(`SELECT p.v, j.id::text, 'asked to cancel, and waits or ran again' {jobs}
	WHERE ` + ranAfter("cancel asked") + ` OR EXISTS (SELECT FROM daybook.event x WHERE x.seq = j.seq
		AND x.what = 'cancel asked' AND NOT EXISTS (SELECT FROM daybook.event r
			WHERE r.seq = x.seq AND r.n > x.n AND r.what = 'revived' OFFSET 0) OFFSET 0) AND {is ready}`)

// A claim compares expires_at with the time that it writes as claimed_at.
var expiredClaim = filled(`SELECT p.v, j.id::text, 'claimed after it expired' {jobs}
	WHERE o.claimed_at >= j.expires_at OR ` + ranAfter("expired") + `
		OR EXISTS (SELECT FROM daybook.ended e WHERE e.seq = j.seq AND e.claimed_at >= j.expires_at OFFSET 0)`)
