package sqlite

import (
	"database/sql/driver"

	"github.com/daybookdev/daybook"
)

// alike is what jobs of one call mostly share. It is bound once a statement
// and not once a row: binding a value costs as much as storing it.
type alike struct {
	queue, rank, runAt, maxFailures, setAside, timeout, enqueuedAt int64
	trace                                                          string
}

// insertJobs are the statements for so many jobs that are alike. Parameters
// have no numbers: the driver looks a numbered one up by walking all of them.
var insertJobs = texts{head: "WITH v (seq, id, kind, expires_at, key, args) AS (VALUES ", row: "(?, ?, ?, ?, ?, ?)",
	tail: `) INSERT INTO job (queue, rank, run_at, max_failures, set_aside_lost, timeout, enqueued_at, trace,
		seq, id, kind, expires_at, key, args)
		SELECT ?, ?, ?, ?, ?, ?, ?, ?, seq, id, kind, expires_at, key, args FROM v`}.cache()

// lastSeq is the highest number that any job was ever given.
const lastSeq = "SELECT seq FROM sqlite_sequence WHERE name = 'job'"

// insertReady makes the new jobs' rows in ready from the jobs themselves.
const insertReady = `INSERT INTO ready (lane, rank, run_at, seq, expires_at)
	SELECT queue, rank, run_at, seq, expires_at FROM job WHERE seq > ?`

// insert writes new jobs, many rows a statement. Numbers are given in the order
// of the call, above every one that is there.
func (t *tx) insert(jobs []daybook.Job) error {
	if len(jobs) == 0 {
		return nil
	}
	last, err := one(t.q, lastSeq)
	if err != nil {
		return err
	}
	accepted := daybook.Change{Move: daybook.MoveEnqueue, Now: daybook.Job{State: daybook.Waiting}}.Delta()
	groups := make(map[alike][]int, 1)
	for i := range jobs {
		j := &jobs[i]
		queue, err := t.makeQueue(j.Queue)
		if err != nil {
			return err
		}
		j.Ref = num(last) + int64(i) + 1
		a := alike{queue, rank(j.Priority), int64(j.RunAt), int64(j.MaxFailures), 0, j.Timeout.Microseconds(),
			int64(j.EnqueuedAt), j.Trace().Column()}
		if j.OnLost == daybook.LostSetAside {
			a.setAside = 1
		}
		groups[a] = append(groups[a], i)
		t.count(queue, accepted, j.RunAt <= t.now)
	}
	for a, group := range groups {
		if err := t.insertAlike(a, jobs, group); err != nil {
			return err
		}
	}
	_, err = t.q.exec(insertReady, num(last))
	return err
}

func (t *tx) insertAlike(a alike, jobs []daybook.Job, group []int) error {
	return inChunks(len(group), func(from, size int) error {
		args := make([]driver.Value, 0, size*6+8)
		for _, i := range group[from : from+size] {
			j := &jobs[i]
			args = append(args, j.Ref, blob(j.ID), j.Kind, null(j.ExpiresAt), nullText(j.Key), string(j.Args))
		}
		_, err := t.q.exec(insertJobs[size], append(args, a.queue, a.rank, a.runAt, a.maxFailures, a.setAside, a.timeout,
			a.enqueuedAt, nullText(a.trace))...)
		return err
	})
}
