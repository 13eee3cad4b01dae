package postgres

import (
	"context"

	"github.com/daybookdev/daybook"
)

// Locks are taken in one order: jobs by arrival, then their rows in ready, then
// those in owned. Claims and completions skip what is locked, so they wait for
// nobody; what leaves owned for ready holds the job's own lock. So a job that
// isn't in ready when that is looked at, and not in owned when that is looked
// at after it, has ended: nobody moves it while its lock is held.
const (
	setPatience = "SET LOCAL lock_timeout = '" + busyAfter + "'"
	lockJob     = `SELECT j.seq FROM daybook.job j WHERE j.id = ANY ($1::text[]::uuid[]) ORDER BY j.seq FOR UPDATE`
	lockReady   = `SELECT r.seq FROM unnest($1::text[]::uuid[]) u(id) JOIN daybook.job j ON j.id = u.id AND j.state = 0
		JOIN daybook.ready r ON r.lane = CASE WHEN j.held_by IS NULL THEN j.queue ELSE -j.queue END AND r.rank = j.rank
			AND r.run_at = coalesce(j.run_at, j.enqueued_at) AND r.seq = j.seq
		ORDER BY r.seq FOR UPDATE OF r`
	lockOwned = `SELECT o.seq FROM daybook.owned o WHERE o.id = ANY ($1::text[]::uuid[]) ORDER BY o.seq FOR UPDATE`
	loadJobs  = "SELECT " + jobColumns + " FROM daybook.job j" + jobJoins + " WHERE j.id = ANY ($1::text[]::uuid[])"
)

// Lock loads jobs without args and holds them until the transaction ends. It
// waits two seconds for whoever holds one, then answers CodeBusy.
func (t *tx) Lock(_ context.Context, ids []daybook.ID) ([]daybook.Job, error) {
	jobs := make([]daybook.Job, len(ids))
	if len(ids) == 0 {
		return jobs, nil
	}
	if !t.patience {
		t.later(anyCount, "", setPatience)
		t.patience = true
	}
	list := texts(ids)
	for _, lock := range []string{lockJob, lockReady, lockOwned} {
		t.later(anyCount, "", lock, list)
	}
	found := make(map[daybook.ID]daybook.Job, len(ids))
	err := t.rows(loadJobs, []any{list}, func(row []any) error {
		j, err := scanJob(row)
		found[j.ID] = j
		return err
	})
	if err != nil {
		return nil, err
	}
	for i, id := range ids {
		jobs[i] = found[id]
	}
	return jobs, nil
}
