package postgres

import "github.com/daybookdev/daybook"

// Many revived jobs go as a set: one statement for their rows, one that makes them
// wait, one for the timeline. Each row must still be what the change was made of.
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
