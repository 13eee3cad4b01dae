package postgres

import (
	"context"
	"strings"

	"github.com/daybookdev/daybook"
)

// Sweep folds counting rows and drops what nobody needs any more, in one round
// trip. Several may run at once: each takes what no other holds.
func (t *tx) Sweep(_ context.Context, c daybook.Cutoffs, limit int) (int, error) {
	t.bePatient() // for a fold of the same queue
	now, most, total := t.nowOrNull(), int64(limit), int64(0)
	count := func(row []any) error {
		total = max(total, num(row[0]))
		return nil
	}
	folding := []any{int64(c.Counting), most}
	folds := []statement{t.ask(foldCounts, folding, count)}
	if c.KeepRings {
		folds = []statement{t.ask(foldOthers, folding, count), t.ask(foldRings, folding, count)}
	}
	err := t.planned(append(folds,
		t.ask(sweepKeys, []any{int64(c.Keys), most}, count),
		t.ask(sweepCalls, []any{now, most}, count),
		t.ask(sweepOldCalls, []any{now, most, daybook.CallKept.Microseconds()}, count),
		t.ask(sweepSessions, []any{int64(c.Sessions), most}, count))...)
	return int(total), err
}

// foldCounts carries old counting rows into the sums and removes them, in one
// statement, so that sums and rest always add up. Rows of outbox are never
// updated, so that one that is locked is still the one that was found. The sums
// are taken in the order of their queues: two folds can't deadlock.
var (
	foldCounts = fold("o.at <= $1::bigint LIMIT $2::bigint", "", "(SELECT count(*) FROM gone)")
	// foldOthers leaves rows that ask for a ring to foldRings.
	foldOthers = fold("o.at <= $1::bigint AND NOT o.ring LIMIT $2::bigint", "", "(SELECT count(*) FROM gone)")
	// foldRings leaves one row a queue, a new one: who published an old one and
	// takes it out then must not take this one for it. More rows are looked at
	// than stay, so that it gets on however many queues there are.
	foldRings = fold(`o.at <= $1::bigint AND o.ring ORDER BY o.at
			LIMIT $2::bigint + 2 * (SELECT count(*) FROM daybook.queue)`,
		`, kept AS (INSERT INTO daybook.outbox (at, queue, ring) SELECT min(at), queue, true FROM gone GROUP BY queue
			RETURNING 1)`,
		"(SELECT count(*) FROM gone) - (SELECT count(*) FROM kept)")
)

// fold is a statement that folds the rows that which selects, does more with
// them, and answers how many went.
func fold(which, more, went string) string {
	names := strings.Join(daybook.CountNames, ", ")
	var sums, sets []string
	for _, name := range daybook.CountNames {
		sums = append(sums, "coalesce(sum("+name+"), 0)")
		sets = append(sets, name+" = s."+name+" + excluded."+name)
	}
	return `WITH gone AS (DELETE FROM daybook.outbox WHERE ctid = ANY (ARRAY(SELECT o.ctid FROM daybook.outbox o
			WHERE ` + which + ` FOR UPDATE SKIP LOCKED)) RETURNING at, queue, ` + names + `),
		folded AS (INSERT INTO daybook.sums AS s (queue, ` + names + `)
			SELECT queue, ` + strings.Join(sums, ", ") + ` FROM gone GROUP BY queue ORDER BY queue
			ON CONFLICT (queue) DO UPDATE SET ` + strings.Join(sets, ", ") + `)` + more + `
		SELECT ` + went
}

// Keys go by request_ended, calls of ended sessions by session_ended and
// call_session, as do those of live sessions that are old and have no job left,
// and then the sessions that have none left and own nothing. Who owns something
// is read from owned once.
const (
	sweepKeys = `WITH gone AS (DELETE FROM daybook.request WHERE key = ANY (ARRAY(SELECT k.key FROM daybook.request k
			WHERE k.ended_at <= $1::bigint AND k.ended_at IS NOT NULL
				AND (SELECT true FROM daybook.job j WHERE j.id = k.job LIMIT 1) IS NULL
			ORDER BY k.ended_at LIMIT $2::bigint FOR UPDATE SKIP LOCKED)) RETURNING 1)
		SELECT count(*) FROM gone`
	sweepCalls = `WITH gone AS (DELETE FROM daybook.call WHERE id = ANY (ARRAY(SELECT c.id
			FROM (SELECT s.n FROM daybook.session s
				WHERE s.ended_at <= coalesce($1::bigint, daybook.clock()) AND s.ended_at IS NOT NULL ORDER BY s.ended_at OFFSET 0) s
			CROSS JOIN LATERAL (SELECT c.id FROM daybook.call c WHERE c.session = s.n OFFSET 0 FOR UPDATE SKIP LOCKED) c
			LIMIT $2::bigint)) RETURNING 1)
		SELECT count(*) FROM gone`
	sweepOldCalls = `WITH gone AS (DELETE FROM daybook.call WHERE id = ANY (ARRAY(SELECT c.id
			FROM (SELECT s.n FROM daybook.session s WHERE s.ended_at IS NULL OFFSET 0) s
			CROSS JOIN LATERAL (SELECT c.id FROM daybook.call c WHERE c.session = s.n
				AND c.at <= coalesce($1::bigint, daybook.clock()) - $3::bigint
				AND c.n <> ALL (ARRAY(SELECT DISTINCT o.call FROM daybook.owned o WHERE o.call IS NOT NULL))
				OFFSET 0 FOR UPDATE SKIP LOCKED) c
			LIMIT $2::bigint)) RETURNING 1)
		SELECT count(*) FROM gone`
	sweepSessions = `WITH gone AS (DELETE FROM daybook.session WHERE n = ANY (ARRAY(SELECT s.n FROM daybook.session s
			WHERE s.ended_at <= $1::bigint AND s.ended_at IS NOT NULL
				AND s.n <> ALL (ARRAY(SELECT DISTINCT o.session FROM daybook.owned o))
				AND (SELECT true FROM daybook.call c WHERE c.session = s.n LIMIT 1) IS NULL
			ORDER BY s.ended_at LIMIT $2::bigint FOR UPDATE SKIP LOCKED)) RETURNING 1)
		SELECT count(*) FROM gone`
)
