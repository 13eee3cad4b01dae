package sqlite

import (
	"context"
	"database/sql/driver"

	"github.com/daybookdev/daybook"
)

var (
	// findCompleted finds the rows that a set of successes names: by id,
	// generation and session, and without an open effect. What Job.Complete
	// refuses isn't among them. The next two statements name the rows found.
	findCompleted = texts{head: "WITH v (id, generation) AS (VALUES ", row: "(?, ?)",
		tail: `) SELECT o.seq, o.queue, v.id FROM v CROSS JOIN job j ON j.id = v.id
			CROSS JOIN owned o ON o.seq = j.seq AND o.generation = v.generation AND o.session = ?
			WHERE NOT EXISTS (SELECT 1 FROM effect e WHERE e.seq = j.seq AND e.state = 'open')`}.cache()
	insertCompleted = texts{head: `INSERT INTO ended
		(seq, generation, through, session, outcome, claimed_at, ended_at, started_at)
		SELECT seq, generation, generation, session, 1, claimed_at, ?, started_at
		FROM owned WHERE seq IN (`, row: "?", tail: ")"}.cache()
	deleteCompleted = texts{head: "DELETE FROM owned WHERE seq IN (", row: "?", tail: ")"}.cache()
)

const setResult = "UPDATE ended SET result = ? WHERE seq = ? AND generation = ?"

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
	named := make([]driver.Value, 0, size*2+1)
	for i := range successes {
		named = append(named, blob(successes[i].Job), successes[i].Owner.Generation)
	}
	seqs := make([]driver.Value, 1, size+1)
	seqs[0] = int64(t.now)
	byID := make(map[daybook.ID]int64, size)
	err := t.q.rows(findCompleted[size], append(named, session), func(row []driver.Value) error {
		seqs = append(seqs, row[0])
		byID[id(row[2])] = num(row[0])
		moved[num(row[1])]++
		return nil
	})
	if err != nil || len(byID) != size {
		return false, err
	}
	if _, err := t.q.exec(insertCompleted[size], seqs...); err != nil {
		return false, err
	}
	if err := t.setResults(successes, byID); err != nil {
		return false, err
	}
	removed, err := t.q.exec(deleteCompleted[size], seqs[1:]...)
	return removed == int64(size), err
}

// setResults adds the results that there are. Most handlers have none.
func (t *tx) setResults(successes []daybook.Outcome, byID map[daybook.ID]int64) error {
	for i := range successes {
		o := &successes[i]
		if len(o.Result) == 0 {
			continue
		}
		if _, err := t.q.exec(setResult, string(o.Result), byID[o.Job], o.Owner.Generation); err != nil {
			return err
		}
	}
	return nil
}
