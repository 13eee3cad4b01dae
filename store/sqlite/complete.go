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
	findCompleted = findTexts("o.seq, o.queue").cache()
	// findNamed also tells which row is whose, for those with a result.
	findNamed       = findTexts("o.seq, o.queue, v.id").cache()
	insertCompleted = texts{head: `INSERT INTO ended
		(seq, generation, through, session, outcome, claimed_at, ended_at, started_at)
		SELECT seq, generation, generation, session, 1, claimed_at, ?, started_at
		FROM owned WHERE seq IN (`, row: "?", tail: ")"}.cache()
	deleteCompleted = texts{head: "DELETE FROM owned WHERE seq IN (", row: "?", tail: ")"}.cache()
)

func findTexts(columns string) texts {
	return texts{head: "WITH v (id, generation) AS (VALUES ", row: "(?, ?)",
		tail: ") SELECT " + columns + ` FROM v CROSS JOIN job j ON j.id = v.id
			CROSS JOIN owned o ON o.seq = j.seq AND o.generation = v.generation AND o.session = ?
			WHERE NOT EXISTS (SELECT 1 FROM effect e WHERE e.seq = j.seq AND e.state = 'open')`}
}

const setResult = "UPDATE ended SET result = ? WHERE seq = ? AND generation = ?"

// Complete moves a session's successes from owned to ended as one set, or
// answers false and changes nothing when any of them is not plain.
func (t *tx) Complete(_ context.Context, session daybook.ID, successes []daybook.Outcome) (bool, error) {
	n, err := t.sessionNumber(session)
	if err != nil || n == 0 {
		return false, err
	}
	set := completion{tx: t, successes: successes, seqs: make([]driver.Value, 0, len(successes)),
		queues: map[int64]int64{}}
	for i := range successes {
		if len(successes[i].Result) > 0 {
			set.byID = make(map[daybook.ID]int64, len(successes))
			break
		}
	}
	if err := inChunks(len(successes), func(from, size int) error {
		return set.find(n, successes[from:from+size])
	}); err != nil || len(set.seqs) != len(successes) {
		return false, err
	}
	if err := inChunks(len(set.seqs), func(from, size int) error {
		return set.move(set.seqs[from : from+size])
	}); err != nil {
		return false, err
	}
	for queue, count := range set.queues {
		t.count(queue, daybook.Counts{Running: -count, Succeeded: count}, false)
	}
	return true, set.setResults()
}

// completion is one set under way.
type completion struct {
	*tx
	successes []daybook.Outcome
	seqs      []driver.Value       // the rows found
	queues    map[int64]int64      // how many of each queue
	byID      map[daybook.ID]int64 // nil when no success has a result
}

// find adds the rows that a chunk names.
func (c *completion) find(session int64, chunk []daybook.Outcome) error {
	named := make([]driver.Value, 0, len(chunk)*2+1)
	for i := range chunk {
		named = append(named, blob(chunk[i].Job), chunk[i].Owner.Generation)
	}
	query := findCompleted[len(chunk)]
	if c.byID != nil {
		query = findNamed[len(chunk)]
	}
	return c.q.rows(query, append(named, session), func(row []driver.Value) error {
		c.seqs = append(c.seqs, row[0])
		c.queues[num(row[1])]++
		if c.byID != nil {
			c.byID[id(row[2])] = num(row[0])
		}
		return nil
	})
}

// move moves rows from owned to ended.
func (c *completion) move(seqs []driver.Value) error {
	if _, err := c.q.exec(insertCompleted[len(seqs)], append([]driver.Value{int64(c.now)}, seqs...)...); err != nil {
		return err
	}
	removed, err := c.q.exec(deleteCompleted[len(seqs)], seqs...)
	if err != nil {
		return err
	}
	return sure(removed, int64(len(seqs)), "completions")
}

// setResults adds the results that there are. Most handlers have none.
func (c *completion) setResults() error {
	for i := range c.successes {
		o := &c.successes[i]
		if len(o.Result) == 0 {
			continue
		}
		if _, err := c.q.exec(setResult, string(o.Result), c.byID[o.Job], o.Owner.Generation); err != nil {
			return err
		}
	}
	return nil
}
