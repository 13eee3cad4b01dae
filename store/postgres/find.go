package postgres

import (
	"context"
	"strings"

	"github.com/daybookdev/daybook"
)

// Find returns ids of jobs that want a move. Each search has an index of its
// own or walks only jobs that are owned.
func (v *view) Find(_ context.Context, q daybook.Finding) ([]daybook.ID, error) {
	return v.find(q, "")
}

// Find of a write returns only jobs that the transaction now holds: what a
// handler's transaction holds, perhaps for hours, a repair passes by. Those past
// retention nobody holds for long.
func (t *tx) Find(_ context.Context, q daybook.Finding) ([]daybook.ID, error) {
	if q.What == daybook.FindPastRetention {
		return t.findOld(int64(q.Cutoff), int64(q.Limit), t.saveWalk)
	}
	return t.find(q, " FOR UPDATE SKIP LOCKED")
}

func (v *view) find(q daybook.Finding, lock string) ([]daybook.ID, error) {
	switch q.What {
	case daybook.FindOfEndedSessions:
		return v.ids(lockedBy(lock, findOfEndedSessions), q.After, int64(q.Limit))
	case daybook.FindPastRunLimit:
		return v.ids(lockedBy(lock, findPastRunLimit), q.After, int64(q.Limit), int64(q.Cutoff))
	case daybook.FindPastExpiry:
		return v.ids(lockedBy(lock, findPastExpiry), q.After, int64(q.Limit), int64(q.Cutoff))
	case daybook.FindPastRetention:
		return v.findOld(int64(q.Cutoff), int64(q.Limit), nil)
	case daybook.FindMatching:
		return v.findMatching(q)
	}
	return nil, daybook.Invalid("find", "doesn't know %q", string(q.What))
}

func (v *view) ids(query string, args ...any) (ids []daybook.ID, err error) {
	err = v.look(query, args, func(row []any) error {
		ids = append(ids, id(row[0]))
		return nil
	})
	return ids, err
}

// lockedBy puts a lock, or none, where a search of rows would take it.
func lockedBy(lock, query string) string { return strings.ReplaceAll(query, "{lock}", lock) }

// Owned jobs are found by reading owned, which has what runs now and no more,
// and looked up by job_id one at a time until there are enough. So are expired
// ones: ready_expiry gives a few more than are wanted, which are taken by
// arrival, as Finding.After wants it.
const (
	findOwned = `SELECT j.id FROM (SELECT o.id, o.seq FROM daybook.owned o WHERE o.seq > $1::bigint AND {when}
			ORDER BY o.seq OFFSET 0{lock}) o
		CROSS JOIN LATERAL (SELECT j.id FROM daybook.job j WHERE j.id = o.id OFFSET 0{lock}) j
		ORDER BY o.seq LIMIT $2::bigint`
	findPastExpiry = `SELECT j.id FROM (SELECT r.* FROM (SELECT r.lane, r.rank, r.run_at, r.seq FROM daybook.ready r
				WHERE r.expires_at <= $3::bigint AND r.expires_at IS NOT NULL AND r.lane > 0 AND r.seq > $1::bigint
				ORDER BY r.expires_at LIMIT $2::bigint * 10) r ORDER BY r.seq OFFSET 0) w
		CROSS JOIN LATERAL (SELECT j.id FROM daybook.job j WHERE j.seq = w.seq OFFSET 0{lock}) j
		CROSS JOIN LATERAL (SELECT r.seq FROM daybook.ready r WHERE r.lane = w.lane AND r.rank = w.rank
			AND r.run_at = w.run_at AND r.seq = w.seq OFFSET 0{lock}) r
		ORDER BY w.seq LIMIT $2`
)

var (
	findOfEndedSessions = strings.Replace(findOwned, "{when}",
		"NOT EXISTS (SELECT 1 FROM daybook.session s WHERE s.n = o.session AND s.ended_at IS NULL)", 1)
	findPastRunLimit = strings.Replace(findOwned, "{when}",
		"coalesce(o.deadline, o.claimed_at + 86400000000) <= $3::bigint", 1)
)
