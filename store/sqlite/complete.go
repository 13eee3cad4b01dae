package sqlite

import (
	"cmp"
	"context"
	"database/sql/driver"
	"slices"

	"github.com/daybookdev/daybook"
)

var (
	// lookUp finds the rows of jobs that this process doesn't remember.
	lookUp = texts{head: "SELECT id, seq, queue FROM job WHERE id IN (", row: "?", tail: ")"}.cache()
	// countPlain counts the rows that a set of successes names: by number,
	// generation and session, and without an open effect. What Job.Complete
	// refuses isn't among them. The next two statements name the same rows.
	countPlain = texts{head: "WITH v (seq, generation) AS (VALUES ", row: "(?, ?)", tail: `) SELECT count(*)
		FROM v CROSS JOIN owned o ON o.seq = v.seq AND o.generation = v.generation AND o.session = +?
		LEFT JOIN effect e ON e.seq = o.seq AND e.state = 'open' WHERE e.seq IS NULL`}.cache()
	insertCompleted = texts{head: completedFrom + "seq IN (", row: "?", tail: ")"}.cache()
	deleteCompleted = texts{head: "DELETE FROM owned WHERE seq IN (", row: "?", tail: ")"}.cache()
)

const completedFrom = `INSERT INTO ended (seq, generation, through, session, outcome, claimed_at, ended_at, started_at)
	SELECT seq, generation, generation, session, 1, claimed_at, ?, started_at FROM owned WHERE `

// The same of a run: rows that follow one another without a gap, so that no
// other row can stand between the first and the last.
const (
	countPlainRun = `SELECT count(*) FROM owned o WHERE o.seq >= ? AND o.seq <= ?
		AND o.generation = +? AND o.session = +?
		AND NOT EXISTS (SELECT 1 FROM effect e WHERE e.seq >= ? AND e.seq <= ? AND e.state = 'open')`
	insertRun = completedFrom + "seq >= ? AND seq <= ?"
	deleteRun = "DELETE FROM owned WHERE seq >= ? AND seq <= ?"
)

const setResult = "UPDATE ended SET result = ? WHERE seq = ? AND generation = ?"

// Complete moves a session's successes from owned to ended as one set. When any
// of them is not plain it leaves them all: to find out which costs as much as
// going one by one.
func (t *tx) Complete(_ context.Context, session daybook.ID, successes []daybook.Outcome) (left []int, err error) {
	plain, err := t.completeAll(session, successes)
	if plain {
		return nil, err
	}
	left = make([]int, len(successes))
	for i := range left {
		left[i] = i
	}
	return left, err
}

func (t *tx) completeAll(session daybook.ID, successes []daybook.Outcome) (bool, error) {
	n, err := t.sessionNumber(session)
	if err != nil || n == 0 {
		return false, err
	}
	rows, known, err := t.completed(successes)
	if err != nil || !known {
		return false, err
	}
	set := cut(rows)
	set.tx, set.session = t, n
	plain, err := set.countPlain()
	if err != nil || plain != int64(len(rows)) {
		return false, err
	}
	if err := set.move(); err != nil {
		return false, err
	}
	for i := range rows {
		t.count(rows[i].queue, completedOne, false)
		if len(rows[i].result) == 0 {
			continue // most handlers have none
		}
		if _, err := t.q.exec(setResult, string(rows[i].result), rows[i].seq, rows[i].generation); err != nil {
			return false, err
		}
	}
	return true, nil
}

// completedOne counts one success.
var completedOne = daybook.Change{Move: daybook.MoveComplete, Was: daybook.Job{State: daybook.Running},
	Now: daybook.Job{State: daybook.Succeeded}}.Delta()

// completed is one success with the row that it names.
type completed struct {
	ref
	generation int64
	result     []byte
}

// completed finds the rows of successes, in the order of their numbers; false
// when the book doesn't know one of the jobs.
func (t *tx) completed(successes []daybook.Outcome) (rows []completed, known bool, err error) {
	found := make([]ref, len(successes))
	if unknown := t.refs.take(successes, found); len(unknown) > 0 {
		if known, err = t.lookUp(successes, unknown, found); err != nil || !known {
			return nil, known, err
		}
	}
	rows = make([]completed, len(successes))
	for i := range successes {
		rows[i] = completed{found[i], successes[i].Owner.Generation, successes[i].Result}
	}
	slices.SortFunc(rows, func(a, b completed) int { return cmp.Compare(a.seq, b.seq) })
	return rows, true, nil
}

// lookUp finds the rows of the jobs at these places by id.
func (t *tx) lookUp(successes []daybook.Outcome, places []int, into []ref) (all bool, err error) {
	byID := make(map[daybook.ID]ref, len(places))
	err = inChunks(len(places), func(from, size int) error {
		ids := make([]driver.Value, size)
		for n, i := range places[from : from+size] {
			ids[n] = blob(successes[i].Job)
		}
		return t.q.rows(lookUp[size], ids, func(row []driver.Value) error {
			byID[id(row[0])] = ref{num(row[1]), num(row[2])}
			return nil
		})
	})
	for _, i := range places {
		found, ok := byID[successes[i].Job]
		if !ok {
			return false, err
		}
		into[i] = found
	}
	return true, err
}

// completion is one set under way: its runs, and the rows between them.
type completion struct {
	*tx
	session int64
	runs    [][]completed
	loose   []completed
}

// cut finds the runs among sorted rows.
func cut(rows []completed) (set completion) {
	for len(rows) > 0 {
		n := 1
		for n < len(rows) && rows[n].seq == rows[n-1].seq+1 && rows[n].generation == rows[0].generation {
			n++
		}
		if n < rangeLeast {
			set.loose = append(set.loose, rows[:n]...)
		} else {
			set.runs = append(set.runs, rows[:n])
		}
		rows = rows[n:]
	}
	return set
}

// countPlain counts what the session may complete.
func (c *completion) countPlain() (plain int64, err error) {
	for _, run := range c.runs {
		first, last := run[0].seq, run[len(run)-1].seq
		n, err := one(c.q, countPlainRun, first, last, run[0].generation, c.session, first, last)
		if err != nil {
			return 0, err
		}
		plain += num(n)
	}
	err = inChunks(len(c.loose), func(from, size int) error {
		args := make([]driver.Value, 0, size*2+1)
		for _, row := range c.loose[from : from+size] {
			args = append(args, row.seq, row.generation)
		}
		n, err := one(c.q, countPlain[size], append(args, c.session)...)
		plain += num(n)
		return err
	})
	return plain, err
}

// move moves the rows from owned to ended.
func (c *completion) move() error {
	for _, run := range c.runs {
		err := c.moveRows(insertRun, deleteRun, len(run), run[0].seq, run[len(run)-1].seq)
		if err != nil {
			return err
		}
	}
	return inChunks(len(c.loose), func(from, size int) error {
		seqs := make([]driver.Value, size)
		for i := range size {
			seqs[i] = c.loose[from+i].seq
		}
		return c.moveRows(insertCompleted[size], deleteCompleted[size], size, seqs...)
	})
}

func (c *completion) moveRows(insert, remove string, n int, seqs ...driver.Value) error {
	if _, err := c.q.exec(insert, append([]driver.Value{int64(c.now)}, seqs...)...); err != nil {
		return err
	}
	removed, err := c.q.exec(remove, seqs...)
	if err != nil {
		return err
	}
	return sure(removed, int64(n), "completions")
}
