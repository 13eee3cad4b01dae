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
	lockJob     = "SELECT j.seq" + ofJob
	ofJob       = ` FROM daybook.job j WHERE j.id = ANY ($1::text[]::uuid[]) ORDER BY j.seq FOR UPDATE`
	lockReady   = `SELECT r.seq FROM unnest($1::text[]::uuid[]) u(id) JOIN daybook.job j ON j.id = u.id AND j.state = 0
		JOIN daybook.ready r ON r.lane = CASE WHEN j.held_by IS NULL THEN j.queue ELSE -j.queue END AND r.rank = j.rank
			AND r.run_at = coalesce(j.run_at, j.enqueued_at) AND r.seq = j.seq
		ORDER BY r.seq FOR UPDATE OF r`
	lockOwned = `SELECT o.seq FROM daybook.owned o WHERE o.id = ANY ($1::text[]::uuid[]) ORDER BY o.seq FOR UPDATE`
	loadJobs  = "SELECT " + jobColumns + " FROM daybook.job j" + jobJoins + " WHERE j.id = ANY ($1::text[]::uuid[])"

	// Of a set of jobs whose own rows tell where they are, which nobody but the holder
	// of the lock changes, none is in ready or owned: they are neither locked nor
	// looked for there, which saves a third of the time.
	lockAtRest = "WITH l AS MATERIALIZED (SELECT j.state" + ofJob + ") SELECT count(*) FILTER (WHERE l.state = 0) FROM l"
	loadAtRest = "SELECT " + jobColumns + ` FROM daybook.job j JOIN daybook.queue q ON q.n = j.queue
		LEFT JOIN daybook.owned o ON false LEFT JOIN daybook.session s ON false LEFT JOIN daybook.ended d ON false
		WHERE j.id = ANY ($1::text[]::uuid[])`
)

// setFrom is from how many jobs on it is worth a round trip to know whether all of
// them are at rest.
const setFrom = 100

// Lock loads jobs without args and holds them until the transaction ends. It
// waits two seconds for whoever holds one, then answers CodeBusy.
func (t *tx) Lock(_ context.Context, ids []daybook.ID) ([]daybook.Job, error) {
	jobs := make([]daybook.Job, len(ids))
	if len(ids) == 0 {
		return jobs, nil
	}
	t.bePatient()
	list := texts(ids)
	rest, err := t.atRest(list)
	if err != nil {
		return nil, err
	}
	load := loadAtRest
	if !rest {
		for _, lock := range []string{lockJob, lockReady, lockOwned} {
			t.later(anyCount, "", lock, list)
		}
		load = loadJobs
	}
	found := make(map[daybook.ID]daybook.Job, len(ids))
	err = t.rows(load, []any{list}, func(row []any) error {
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

// bePatient bounds how long the transaction waits for a lock.
func (t *tx) bePatient() {
	if !t.patience {
		t.later(anyCount, "", setPatience)
		t.patience = true
	}
}

// atRest locks a set of jobs, and reports whether their own rows tell where each is.
func (t *tx) atRest(list []string) (bool, error) {
	if len(list) < setFrom {
		return false, nil
	}
	n, err := t.one(lockAtRest, list)
	return err == nil && num(n) == 0, err
}
