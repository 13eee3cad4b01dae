package postgres

import (
	"context"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/daybookdev/daybook"
)

// Jobs past retention are found by how they ended. Those that a slow move ended
// are in the order of job_final. Successes are in the history, where what was
// removed leaves its rows until its whole day is dropped, so each day is walked
// once, in the order of its own index on (seq, generation), and its row in
// history_day says how far. What has no day is in ended_rest, whose rows go with
// their job, and is read by the time it was filed.
const (
	noneOpen     = `(SELECT true FROM daybook.effect e WHERE e.seq = j.seq AND e.state = 'open' LIMIT 1) IS NULL`
	findOldOther = `SELECT j.id FROM daybook.job j
		WHERE j.ended_at <= $1::bigint AND j.state IN (3, 5, 6, 7) AND ` + noneOpen + `
		ORDER BY j.ended_at LIMIT $2::bigint`
	findOldRest = `SELECT j.id FROM daybook.ended_rest d
		CROSS JOIN LATERAL (SELECT j.id FROM daybook.job j WHERE j.seq = d.seq AND ` + noneOpen + ` OFFSET 0) j
		WHERE d.filed_at <= $1::bigint AND d.outcome = 1 LIMIT $2::bigint`
	findOldDays = `SELECT h.name, h.walked_seq, h.walked_generation FROM daybook.history_day h
		WHERE h.from_at <= $1::bigint AND NOT h.walked ORDER BY h.from_at`
	findOldInDay = `WITH w AS MATERIALIZED (SELECT e.seq, e.generation, e.outcome, e.filed_at FROM daybook.{day} e
			WHERE (e.seq, e.generation) > ($1::bigint, $2::bigint) ORDER BY e.seq, e.generation LIMIT $3::bigint)
		(SELECT w.seq, w.generation, NULL, false, (SELECT count(*) FROM w) FROM w
			ORDER BY w.seq DESC, w.generation DESC LIMIT 1)
		UNION ALL
		(SELECT w.seq, w.generation, j.id, w.filed_at <= $4::bigint, 0 FROM w
			CROSS JOIN LATERAL (SELECT j.id FROM daybook.job j WHERE j.seq = w.seq AND ` + noneOpen + ` OFFSET 0) j
			WHERE w.outcome = 1 ORDER BY w.seq, w.generation)`
)

// dayWalk is how far a day was walked: all before the place needs no look any
// more.
type dayWalk struct {
	name            string
	seq, generation int64
	done            bool // the whole day
}

// findOld finds final jobs past retention that have no open effect. save, which
// may be nil, keeps how far a day was walked.
func (v *view) findOld(cutoff, limit int64, save func(dayWalk)) (ids []daybook.ID, err error) {
	var days []dayWalk
	collect := func(row []any) error {
		if int64(len(ids)) < limit {
			ids = append(ids, id(row[0]))
		}
		return nil
	}
	// A write holds the days: none is dropped under its walk.
	hold := ""
	if save != nil {
		hold = " FOR KEY SHARE"
	}
	err = v.planned(v.ask(findOldRest, []any{cutoff, limit}, collect),
		v.ask(findOldOther, []any{cutoff, limit}, collect),
		v.ask(findOldDays+hold, []any{cutoff}, func(row []any) error {
			days = append(days, dayWalk{name: text(row[0]), seq: num(row[1]), generation: num(row[2])})
			return nil
		}))
	for i := range days {
		if err == nil && int64(len(ids)) < limit {
			err = v.walkDay(days[i], cutoff, limit, &ids, save)
		}
	}
	return ids, err
}

// walkMost bounds the rows that one search looks at in a day. Only a day that
// isn't past retention as a whole can have so many that it stops at.
const walkMost = 100_000

// walkDay adds what it finds in one day. What must be looked at again, because
// it is found now or isn't old enough, stops the place that is kept.
func (v *view) walkDay(d dayWalk, cutoff, limit int64, ids *[]daybook.ID, save func(dayWalk)) error {
	kept, stopped := d, false
	step, count := 2*limit, int64(0)
	for looked := int64(0); looked < walkMost && !d.done && int64(len(*ids)) < limit; looked += count {
		count = 0
		query := strings.Replace(findOldInDay, "{day}", pgx.Identifier{d.name}.Sanitize(), 1)
		err := v.look(query, []any{d.seq, d.generation, step, cutoff}, func(row []any) error {
			seq, generation := num(row[0]), num(row[1])
			if row[2] == nil {
				d.seq, d.generation, count = seq, generation, num(row[4])
				return nil
			}
			if !stopped {
				kept.seq, kept.generation, stopped = seq, generation-1, true
			}
			if truth(row[3]) && int64(len(*ids)) < limit {
				*ids = append(*ids, id(row[2]))
			}
			return nil
		})
		if err != nil {
			return err
		}
		d.done = count < step
		if !stopped {
			kept, step = d, min(4*step, stepMost)
		}
	}
	if save != nil {
		save(kept)
	}
	return nil
}

// saveWalk keeps how far a day was walked, once nobody files into it any more.
// It waits for nobody: the next walk may keep as much.
func (t *tx) saveWalk(d dayWalk) {
	t.later(anyCount, "", `UPDATE daybook.history_day
		SET walked_seq = $2::bigint, walked_generation = $3::bigint, walked = $4::boolean
		WHERE name = (SELECT h.name FROM daybook.history_day h WHERE h.name = $1::text AND NOT h.walked
			AND h.to_at <= daybook.clock() - 86400000000
			AND ((h.walked_seq, h.walked_generation) < ($2, $3) OR $4) FOR NO KEY UPDATE SKIP LOCKED)`,
		d.name, d.seq, d.generation, d.done)
}

// sideTables have rows of a job, by its seq.
var sideTables = []string{"ended_rest", "progress", "effect", "effect_call", "event", "refusal"}

// Prune removes jobs with their rows. A key's record gets the end first, since
// from here on it alone answers for the request. The attempts go with their day.
func (t *tx) Prune(_ context.Context, jobs []daybook.Job) error {
	if len(jobs) == 0 {
		return t.flush()
	}
	var seqs, codes, ended []int64
	var keys, states []string
	for _, j := range jobs {
		if !j.State.Final() {
			return daybook.Fail(daybook.CodeRefused, "job %s is %s; only a job that has ended is removed", j.ID, j.State)
		}
		seqs, codes, ended = append(seqs, j.Ref), append(codes, slowCode(j.State)), append(ended, int64(j.EndedAt))
		keys, states = append(keys, j.Key), append(states, string(j.State))
	}
	t.later(anyCount, "", endKeys, seqs, keys, ended, states)
	t.later(int64(len(jobs)), "final jobs", pruneJobs, seqs, codes)
	for _, table := range sideTables {
		t.later(anyCount, "", "DELETE FROM daybook."+table+" WHERE seq = ANY ($1::bigint[])", seqs)
	}
	return t.flush()
}

const (
	endKeys = `UPDATE daybook.request k SET ended_at = u.ended_at, state = u.state, result = coalesce((SELECT d.result
			FROM daybook.ended d WHERE d.seq = u.seq AND d.outcome = 1 ORDER BY d.generation DESC LIMIT 1), j.result)
		FROM unnest($1::bigint[], $2::text[], $3::bigint[], $4::text[]) u(seq, key, ended_at, state)
		JOIN daybook.job j ON j.seq = u.seq WHERE u.key <> '' AND k.key = u.key AND k.job = j.id`
	pruneJobs = `DELETE FROM daybook.job j USING unnest($1::bigint[], $2::bigint[]) u(seq, code)
		WHERE j.seq = u.seq AND (SELECT true FROM daybook.owned o WHERE o.id = j.id LIMIT 1) IS NULL AND (j.state = u.code
			OR j.state = 0 AND (SELECT true FROM daybook.ended d WHERE d.seq = j.seq AND d.outcome = 1 LIMIT 1))`
)
