package sqlite

import (
	"context"
	"database/sql/driver"
	"strings"

	"github.com/daybookdev/daybook"
)

// sideTables have rows of a job, by its seq.
var sideTables = []string{"ended", "progress", "effect", "effect_call", "event", "refusal"}

// Prune removes jobs with their rows. A key's record gets the end first, since
// from here on it alone answers for the request.
func (t *tx) Prune(_ context.Context, jobs []daybook.Job) error {
	for _, j := range jobs {
		if !j.State.Final() {
			return daybook.Fail(daybook.CodeRefused, "job %s is %s; only a job that has ended is removed", j.ID, j.State)
		}
		if err := t.endKey(j); err != nil {
			return err
		}
		n, err := t.q.exec(`DELETE FROM job WHERE seq = ? AND NOT EXISTS (SELECT 1 FROM owned o WHERE o.seq = job.seq)
			AND (state = ? OR state = 0 AND EXISTS (SELECT 1 FROM ended d WHERE d.seq = job.seq AND d.outcome = 1))`,
			j.Ref, slowCode(j.State))
		if err == nil {
			err = sure(n, 1, "final jobs")
		}
		if err != nil {
			return err
		}
		for _, table := range sideTables {
			if _, err := t.q.exec("DELETE FROM "+table+" WHERE seq = ?", j.Ref); err != nil {
				return err
			}
		}
	}
	return nil
}

func (t *tx) endKey(j daybook.Job) error {
	if j.Key == "" {
		return nil
	}
	_, err := t.q.exec(`UPDATE request SET ended_at = ?, state = ?,
		result = coalesce((SELECT result FROM ended WHERE seq = ? AND outcome = 1), (SELECT result FROM job WHERE seq = ?))
		WHERE key = ? AND job = ?`, int64(j.EndedAt), string(j.State), j.Ref, j.Ref, j.Key, blob(j.ID))
	return err
}

// Sweep folds counting rows and drops what nobody needs any more.
func (t *tx) Sweep(_ context.Context, c daybook.Cutoffs, limit int) (int, error) {
	folded, err := t.foldCounts(c.Counting, limit, c.KeepRings)
	if err != nil {
		return 0, err
	}
	total := folded
	for _, s := range []struct {
		query  string
		cutoff daybook.Time
	}{
		{`DELETE FROM request WHERE key IN (SELECT key FROM request r WHERE r.ended_at <= ? AND r.ended_at IS NOT NULL
			AND NOT EXISTS (SELECT 1 FROM job j WHERE j.id = r.job) LIMIT ?)`, c.Keys},
		{`DELETE FROM call WHERE id IN (SELECT c.id FROM session s CROSS JOIN call c ON c.session = s.n
			WHERE s.ended_at IS NOT NULL AND s.ended_at <= ? LIMIT ?)`, t.now},
		{`DELETE FROM session WHERE n IN (SELECT s.n FROM session s WHERE s.ended_at <= ? AND s.ended_at IS NOT NULL
			AND NOT EXISTS (SELECT 1 FROM owned o WHERE o.session = s.n) LIMIT ?)`, c.Sessions},
	} {
		n, err := t.q.exec(s.query, int64(s.cutoff), int64(limit))
		if err != nil {
			return 0, err
		}
		total = max(total, int(n))
	}
	return total, nil
}

// foldSums, a condition, and addSums carry rows of the outbox into the sums.
var foldSums, addSums = func() (from, to string) {
	sums, sets := make([]string, len(daybook.CountNames)), make([]string, len(daybook.CountNames))
	for i, name := range daybook.CountNames {
		sums[i] = "sum(" + name + ")"
		sets[i] = name + " = " + name + " + excluded." + name
	}
	from = "INSERT INTO sums (queue, " + countColumns + ") SELECT queue, " + strings.Join(sums, ", ")
	return from + " FROM outbox WHERE ", " GROUP BY queue ON CONFLICT (queue) DO UPDATE SET " + strings.Join(sets, ", ")
}()

const upTo = "n <= ? AND at <= ?"

// keepRings leaves one row for each queue of which one is folded that asks for
// a ring, a new one: who published an old one and takes it out then must not
// take this one for it.
var keepRings = "INSERT INTO outbox (queue, at, ring, " + countColumns + ") SELECT queue, min(at), 1" +
	strings.Repeat(", 0", len(daybook.CountNames)) + " FROM outbox WHERE ring = 1 AND " + upTo + " GROUP BY queue"

// foldCounts carries old counting rows into the sums and removes them, in one
// transaction, so that sums and rest always add up. With rings it looks at more
// rows than can stay for them, so that it gets on however many queues there are.
func (t *tx) foldCounts(cutoff daybook.Time, limit int, rings bool) (int, error) {
	const last = `SELECT max(n) FROM (SELECT n FROM outbox WHERE at <= ? ORDER BY n
		LIMIT ? + ? * (SELECT 2 * count(*) FROM queue))`
	through, err := one(t.q, last, int64(cutoff), int64(limit), flag(rings))
	if err != nil || through == nil {
		return 0, err
	}
	args := []driver.Value{through, int64(cutoff)}
	if _, err := t.q.exec(foldSums+upTo+addSums, args...); err != nil {
		return 0, err
	}
	kept := int64(0)
	if rings {
		if kept, err = t.q.exec(keepRings, args...); err != nil {
			return 0, err
		}
	}
	n, err := t.q.exec("DELETE FROM outbox WHERE "+upTo, args...)
	return int(n - kept), err
}
