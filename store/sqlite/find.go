package sqlite

import (
	"context"
	"database/sql/driver"
	"strconv"
	"strings"

	"github.com/daybookdev/daybook"
)

// Find returns ids of jobs that want a move. Each search has an index of its
// own or walks only jobs that are owned.
func (v *view) Find(_ context.Context, q daybook.Finding) ([]daybook.ID, error) {
	cutoff, after, limit := int64(q.Cutoff), q.After, int64(q.Limit)
	switch q.What {
	case daybook.FindOfEndedSessions:
		return v.ids(`SELECT j.id FROM owned o LEFT JOIN session s ON s.n = o.session CROSS JOIN job j ON j.seq = o.seq
			WHERE o.seq > ? AND (s.n IS NULL OR s.ended_at IS NOT NULL) ORDER BY o.seq LIMIT ?`, after, limit)
	case daybook.FindPastRunLimit:
		return v.ids(`SELECT j.id FROM owned o CROSS JOIN job j ON j.seq = o.seq WHERE o.seq > ? AND o.deadline <= ?
			ORDER BY o.seq LIMIT ?`, after, cutoff, limit)
	case daybook.FindPastExpiry:
		return v.ids(findPastExpiry, cutoff, after, limit)
	case daybook.FindPastRetention:
		return v.findOld(cutoff, limit)
	case daybook.FindMatching:
		return v.findMatching(q)
	}
	return nil, daybook.Invalid("find", "doesn't know %q", string(q.What))
}

func (v *view) ids(query string, args ...driver.Value) (ids []daybook.ID, err error) {
	err = v.q.rows(query, args, func(row []driver.Value) error {
		ids = append(ids, id(row[0]))
		return nil
	})
	return ids, err
}

const (
	findPastExpiry = `SELECT j.id FROM ready r INDEXED BY ready_expiry CROSS JOIN job j ON j.seq = r.seq
		WHERE r.expires_at <= ? AND r.expires_at IS NOT NULL AND r.lane > 0 AND r.seq > ? ORDER BY r.seq LIMIT ?`
	noneOpen         = "AND NOT EXISTS (SELECT 1 FROM effect e WHERE e.seq = j.seq AND e.state = 'open') "
	findOldSuccesses = `SELECT j.id FROM ended d INDEXED BY ended_success CROSS JOIN job j ON j.seq = d.seq
		WHERE d.outcome = 1 AND d.ended_at <= ? ` + noneOpen + `ORDER BY d.ended_at LIMIT ?`
	findOldOthers = `SELECT j.id FROM job j INDEXED BY job_ended WHERE j.ended_at <= ? AND j.ended_at IS NOT NULL
		AND j.state <> ? ` + noneOpen + `ORDER BY j.ended_at LIMIT ?`
)

// findOld finds final jobs past retention that have no open effect, the oldest
// first: successes by their attempt, the others by their own row.
func (v *view) findOld(cutoff, limit int64) ([]daybook.ID, error) {
	old, err := v.ids(findOldSuccesses, cutoff, limit)
	if err != nil || int64(len(old)) == limit {
		return old, err
	}
	more, err := v.ids(findOldOthers, cutoff, slowCode(daybook.SetAside), limit-int64(len(old)))
	return append(old, more...), err
}

// findMatching walks jobs by arrival.
func (v *view) findMatching(q daybook.Finding) ([]daybook.ID, error) {
	f := q.Filter
	where, args, err := v.conditions(f)
	if err != nil {
		return nil, err
	}
	where, args = append(where, "j.seq > ?"), append(args, q.After)
	if f.Reason != "" && f.State == "" {
		f.State = daybook.SetAside
	}
	if f.Key != "" {
		where, args = append(where, "j.key = ?"), append(args, f.Key)
	}
	const owned = "EXISTS (SELECT 1 FROM owned o WHERE o.seq = j.seq)"
	const done = "EXISTS (SELECT 1 FROM ended d WHERE d.seq = j.seq AND d.outcome = 1)"
	switch f.State {
	case "":
	case daybook.Waiting:
		where = append(where, "j.state = 0 AND NOT "+owned+" AND NOT "+done)
	case daybook.Running:
		where = append(where, owned)
	case daybook.Succeeded:
		where = append(where, "(j.state = 0 AND "+done+" OR j.state = 3)")
	default:
		where = append(where, "j.state = "+strconv.FormatInt(slowCode(f.State), 10))
	}
	return v.ids("SELECT j.id FROM job j WHERE "+strings.Join(where, " AND ")+" ORDER BY j.seq LIMIT ?", append(args, int64(q.Limit))...)
}
