package postgres

import (
	"context"
	"slices"
	"strings"

	"github.com/daybookdev/daybook"
)

var _ daybook.Reviver = (*tx)(nil)

// reviveSet finds jobs of a state (f), makes those that are plain wait (u), each where
// the row's version is the one that was found, and answers what it found, what moved in
// which queue, and what was left. It needs no look under the lock: a job has effects
// opened only while it runs, and its row gets another version each time it comes to
// rest. So what the ledger has against a row's version when it is found is all it ever
// will have.
const reviveSet = `WITH c AS MATERIALIZED (SELECT coalesce({now}::bigint, daybook.clock()) AS at),
	f AS MATERIALIZED (SELECT j.seq, j.id, j.xmin AS version, j.reason, l.open, l.happened
		FROM daybook.job j CROSS JOIN LATERAL (SELECT min(e.name) FILTER (WHERE e.state = 'open') AS open,
			bool_or(e.name = 'handler' AND e.state = 'done') AS happened FROM daybook.effect e WHERE e.seq = j.seq) l
		WHERE {matching}),
	u AS (UPDATE daybook.job j SET state = 0, run_at = (SELECT c.at FROM c), expires_at = NULL, failures = NULL,
			crashes = NULL, first_claimed_at = NULL, ended_at = NULL, reason = NULL
		FROM f WHERE j.seq = f.seq AND j.xmin = f.version AND f.open IS NULL AND f.happened IS NOT TRUE
		RETURNING j.seq, j.queue, j.rank, j.run_at, j.kind, j.held_by, j.generation, f.reason,
			f.happened IS NOT NULL AS ledger),
	r AS (INSERT INTO daybook.ready (lane, rank, run_at, seq, kind, ledger)
		SELECT CASE WHEN u.held_by IS NULL THEN u.queue ELSE -u.queue END, u.rank, u.run_at, u.seq, u.kind, u.ledger
		FROM u),
	e AS (INSERT INTO daybook.event (seq, at, what, generation, actor, reason, detail)
		SELECT u.seq, u.run_at, 'revived', nullif(u.generation, 0), nullif({actor}::text, ''), nullif({why}::text, ''),
			{was}::text || coalesce(' (' || u.reason || ')', '') FROM u)
	SELECT NULL::uuid, NULL::text, (SELECT c.at FROM c), count(*), max(f.seq) FROM f UNION ALL
	SELECT NULL, (SELECT q.name FROM daybook.queue q WHERE q.n = u.queue), NULL, count(*),
		count(*) FILTER (WHERE u.held_by IS NULL) FROM u GROUP BY u.queue UNION ALL
	SELECT f.id, f.open, NULL, NULL, f.seq FROM f WHERE f.seq NOT IN (SELECT u.seq FROM u)`

// oneByOne is inOrder where rows that were found are looked up again: in the order in
// which they are locked.
var oneByOne = append(slices.Clip(inOrder), "enable_hashjoin = off", "enable_mergejoin = off")

// ReviveSet revives what matches a filter that names a state of jobs at rest.
func (t *tx) ReviveSet(_ context.Context, q daybook.Finding, by daybook.By) (set daybook.RevivedSet, plain bool,
	err error) {
	f := ofState(q.Filter)
	if !daybook.Allowed(daybook.MoveRevive, f.State, daybook.Waiting) || f.Key != "" || t.s == nil {
		return set, false, nil
	}
	t.bePatient()
	var p params
	query := strings.NewReplacer("{now}", p.add(t.nowOrNull()), "{actor}", p.add(by.Actor), "{why}", p.add(by.Reason),
		"{was}", p.add("was "+string(f.State)), "{matching}", matching(f, q, &p)).Replace(reviveSet)
	one := daybook.Change{Move: daybook.MoveRevive, Was: daybook.Job{State: f.State},
		Now: daybook.Job{State: daybook.Waiting}}
	err = t.under(oneByOne, t.ask(query, p, func(row []any) error {
		switch {
		case row[0] != nil && row[1] != nil:
			set.Open = append(set.Open, daybook.Job{Ref: num(row[4]), ID: id(row[0]), State: f.State,
				OpenEffect: text(row[1])})
		case row[0] != nil:
			set.Left = append(set.Left, id(row[0]))
		case row[1] != nil:
			set.Moved += int(num(row[3]))
			t.countMany(text(row[1]), one.Delta(), num(row[3]), num(row[4]) > 0)
			if num(row[4]) > 0 {
				set.Ring = append(set.Ring, text(row[1]))
			}
		default:
			t.at, set.Found, set.Last = at(row[2]), int(num(row[3])), num(row[4])
		}
		return nil
	}))
	return set, err == nil, err
}

// Many jobs that were read and then revived go as a set, too: one statement for their
// rows, one that makes them wait, one for the timeline. Each row must still be what the
// change was made of.
const (
	reviveJobs = `UPDATE daybook.job j SET state = 0, run_at = u.run_at, expires_at = NULL, failures = NULL,
			crashes = NULL, first_claimed_at = NULL, ended_at = NULL, reason = NULL
		FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[]) u(seq, state, generation, run_at)
		WHERE j.seq = u.seq AND j.state = u.state AND coalesce(j.generation, 0) = u.generation`
	reviveReady = `INSERT INTO daybook.ready (lane, rank, run_at, seq, kind, suspect, ledger, expires_at)
		SELECT CASE WHEN j.held_by IS NULL THEN j.queue ELSE -j.queue END, j.rank, j.run_at, j.seq, j.kind, false,
			EXISTS (SELECT FROM daybook.effect e WHERE e.seq = j.seq), NULL
		FROM daybook.job j WHERE j.seq = ANY ($1::bigint[])`
	reviveEvents = `INSERT INTO daybook.event (seq, at, what, generation, actor, reason, detail)
		SELECT u.seq, u.at, 'revived', nullif(u.generation, 0), nullif(u.actor, ''), nullif(u.reason, ''), u.detail
		FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::text[], $5::text[], $6::text[])
			u(seq, at, generation, actor, reason, detail)`
)

// saveRevived carries out revivals, each of another job.
func (t *tx) saveRevived(changes []daybook.Change) {
	n := len(changes)
	seqs, states, generations := make([]int64, n), make([]int64, n), make([]int64, n)
	due, at := make([]int64, n), make([]int64, n)
	actors, reasons, details := make([]string, n), make([]string, n), make([]string, n)
	for i, c := range changes {
		seqs[i], states[i], generations[i] = c.Was.Ref, slowCode(c.Was.State), c.Was.Generation
		due[i], at[i] = int64(c.Now.RunAt), int64(c.Event.At)
		actors[i], reasons[i], details[i] = c.Event.Actor, c.Event.Reason, c.Event.Detail
	}
	t.later(int64(n), "jobs", reviveJobs, seqs, states, generations, due)
	t.later(int64(n), "waiting jobs", reviveReady, seqs)
	t.later(int64(n), "events", reviveEvents, seqs, at, generations, actors, reasons, details)
}
