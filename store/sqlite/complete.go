package sqlite

import (
	"context"
	"database/sql/driver"

	"github.com/daybookdev/daybook"
)

// The rows that a set of successes names: by id, generation and session, and
// without an open effect. What Job.Complete refuses isn't among them.
const completed = ` FROM v CROSS JOIN job j ON j.id = v.id
	CROSS JOIN owned o ON o.seq = j.seq AND o.generation = v.generation AND o.session = v.session
	WHERE NOT EXISTS (SELECT 1 FROM effect e WHERE e.seq = j.seq AND e.state = 'open')`

var (
	insertCompleted = texts{head: "WITH v (id, generation, session, result) AS (VALUES ", row: "(?, ?, ?, ?)",
		tail: `) INSERT INTO ended (seq, generation, through, session, outcome, claimed_at, ended_at, started_at, result)
			SELECT o.seq, o.generation, o.generation, o.session, 1, o.claimed_at, ?, o.started_at, v.result` + completed}.cache()
	deleteCompleted = texts{head: "WITH v (id, generation, session) AS (VALUES ", row: "(?, ?, ?)",
		tail: ") DELETE FROM owned WHERE seq IN (SELECT o.seq" + completed + ") RETURNING queue"}.cache()
)

// Complete moves a session's successes from owned to ended as one set, or
// answers false and changes nothing when any of them is not plain.
func (t *tx) Complete(_ context.Context, session daybook.ID, successes []daybook.Outcome) (bool, error) {
	n, err := t.sessionNumber(session)
	if err != nil || n == 0 {
		return false, err
	}
	if _, err := t.q.exec("SAVEPOINT hot"); err != nil {
		return false, err
	}
	moved := map[int64]int64{}
	all := true
	err = inChunks(len(successes), func(from, size int) error {
		if all {
			all, err = t.completeChunk(n, successes[from:from+size], moved)
		}
		return err
	})
	if err != nil {
		return false, err
	}
	if !all {
		if _, err := t.q.exec("ROLLBACK TO hot"); err != nil {
			return false, err
		}
	}
	for queue, count := range moved {
		if all {
			t.count(queue, daybook.Counts{Running: -count, Succeeded: count}, false)
		}
	}
	_, err = t.q.exec("RELEASE hot")
	return all, err
}

func (t *tx) completeChunk(session int64, successes []daybook.Outcome, moved map[int64]int64) (bool, error) {
	size := len(successes)
	insert, remove := make([]driver.Value, 0, size*4+1), make([]driver.Value, 0, size*3)
	for i := range successes {
		o := &successes[i]
		job, generation := blob(o.Job), driver.Value(o.Owner.Generation)
		insert = append(insert, job, generation, session, nullJSON(o.Result))
		remove = append(remove, job, generation, session)
	}
	changed, err := t.q.exec(insertCompleted[size], append(insert, int64(t.now))...)
	if err != nil || changed != int64(size) {
		return false, err
	}
	removed := 0
	err = t.q.rows(deleteCompleted[size], remove, func(row []driver.Value) error {
		moved[num(row[0])]++
		removed++
		return nil
	})
	return removed == size, err
}
