package sqlite

import (
	"context"
	"database/sql/driver"

	"github.com/daybookdev/daybook"
)

var lockJobs = texts{head: "SELECT " + jobColumns + ", " + ownedColumns +
	" FROM job j LEFT JOIN owned o ON o.seq = j.seq WHERE j.id IN (", row: "?", tail: ")"}.cache()

// Lock loads jobs without args. The write transaction began immediate, so it
// holds the only write lock there is and every row with it.
func (t *tx) Lock(_ context.Context, ids []daybook.ID) ([]daybook.Job, error) { return t.lock(ids) }

func (t *tx) lock(ids []daybook.ID) ([]daybook.Job, error) {
	found := make(map[daybook.ID]daybook.Job, len(ids))
	err := inChunks(len(ids), func(from, size int) error {
		args := make([]driver.Value, size)
		for i := range size {
			args[i] = blob(ids[from+i])
		}
		return t.q.rows(lockJobs[size], args, func(row []driver.Value) error {
			j, err := t.scanJob(row)
			if err == nil {
				err = t.scanOwned(&j, row[jobWidth:])
			}
			found[j.ID] = j
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	jobs := make([]daybook.Job, len(ids))
	for i, id := range ids {
		j, ok := found[id]
		if !ok {
			continue
		}
		if err := t.complete(&j); err != nil {
			return nil, err
		}
		jobs[i] = j
	}
	return jobs, nil
}
