package postgres

import (
	"encoding/json"
	"fmt"

	"github.com/daybookdev/daybook"
)

// Jobs that move in go as a set: a statement for their rows, one that makes them
// wait, one for the timeline. An origin is unique: one that the index knows makes
// the first statement insert fewer rows than it was given, and the call is refused.
const (
	arriveJobs = `INSERT INTO daybook.job (seq, id, queue, kind, rank, state, run_at, max_failures, set_aside_lost,
			timeout, enqueued_at, expires_at, ended_at, reason, held_by, origin, args, trace, failures)
		SELECT u.seq, u.id, u.queue, u.kind, u.rank, u.state, u.run_at, nullif(u.max_failures, 0),
			nullif(u.set_aside_lost, false), nullif(u.timeout, 0), u.enqueued_at, nullif(u.expires_at, 0),
			nullif(u.ended_at, 0), nullif(u.reason, ''), nullif(u.held_by, ''), u.origin, u.args, nullif(u.trace, ''),
			nullif(u.failures, 0)
		FROM unnest($1::bigint[], $2::uuid[], $3::int[], $4::text[], $5::smallint[], $6::smallint[], $7::bigint[],
			$8::int[], $9::boolean[], $10::bigint[], $11::bigint[], $12::bigint[], $13::bigint[], $14::text[],
			$15::text[], $16::text[], $17::text[], $18::text[], $19::int[])
			u(seq, id, queue, kind, rank, state, run_at, max_failures, set_aside_lost, timeout, enqueued_at, expires_at,
			ended_at, reason, held_by, origin, args, trace, failures)
		ORDER BY u.seq ON CONFLICT DO NOTHING`
	arriveReady = `INSERT INTO daybook.ready (lane, rank, run_at, seq, kind, suspect, ledger, expires_at)
		SELECT CASE WHEN j.held_by IS NULL THEN j.queue ELSE -j.queue END, j.rank, j.run_at, j.seq, j.kind, false, false,
			j.expires_at
		FROM daybook.job j WHERE j.seq = ANY ($1::bigint[])`
	arriveEvents = `INSERT INTO daybook.event (seq, at, what, detail)
		SELECT u.seq, u.at, u.what, nullif(u.detail, '')
		FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::text[]) u(seq, at, what, detail)`
)

// arrivals are the columns of arriveJobs.
type arrivals struct {
	seqs, queues, ranks, states, due, most, timeouts, enqueued, expires, ended, failures []int64
	ids                                                                                  []daybook.ID
	kinds, reasons, holders, origins, args, traces                                       []string
	aside                                                                                []bool
}

func (a *arrivals) add(seq, queue int64, j daybook.Job) error {
	origin, err := json.Marshal(j.Origin)
	if err != nil {
		return fmt.Errorf("writing an origin: %w", err)
	}
	var timeout, most int64
	if j.Timeout != daybook.TimeoutDefault {
		timeout = j.Timeout.Microseconds()
	}
	if j.MaxFailures != daybook.MaxFailuresDefault {
		most = int64(j.MaxFailures)
	}
	a.seqs, a.ids, a.queues = append(a.seqs, seq), append(a.ids, j.ID), append(a.queues, queue)
	a.kinds, a.ranks = append(a.kinds, j.Kind), append(a.ranks, rank(j.Priority))
	a.states, a.due = append(a.states, slowCode(j.State)), append(a.due, int64(j.RunAt))
	a.most, a.timeouts = append(a.most, most), append(a.timeouts, timeout)
	a.aside = append(a.aside, j.OnLost == daybook.LostSetAside)
	a.enqueued, a.expires = append(a.enqueued, int64(j.EnqueuedAt)), append(a.expires, int64(j.ExpiresAt))
	a.ended, a.reasons = append(a.ended, int64(j.EndedAt)), append(a.reasons, string(j.Reason))
	a.holders, a.origins = append(a.holders, j.HeldBy), append(a.origins, string(origin))
	a.args, a.traces = append(a.args, string(j.Args)), append(a.traces, j.Trace().Column())
	a.failures = append(a.failures, int64(j.Failures))
	return nil
}

// saveArrivals inserts jobs that moved in, with numbers in their order.
func (t *tx) saveArrivals(changes []daybook.Change) error {
	if len(changes) == 0 {
		return nil
	}
	var seqs, waiting []int64
	_, err := t.now(t.readInto(&seqs, nextSeqs, t.schema.quoted()+".job", int64(len(changes))))
	if err != nil {
		return err
	}
	var a arrivals
	events := struct {
		seqs, at      []int64
		what, details []string
	}{}
	for i := range changes {
		c := &changes[i]
		c.Now.Ref, c.Was.Ref = seqs[i], seqs[i]
		if err := a.add(seqs[i], t.queues[c.Now.Queue], c.Now); err != nil {
			return err
		}
		if c.Now.State == daybook.Waiting {
			waiting = append(waiting, seqs[i])
		}
		events.seqs, events.at = append(events.seqs, seqs[i]), append(events.at, int64(c.Event.At))
		events.what, events.details = append(events.what, c.Event.What), append(events.details, c.Event.Detail)
	}
	t.later(int64(len(changes)), "new origins", arriveJobs, a.seqs, idList(a.ids), a.queues, a.kinds, a.ranks, a.states,
		a.due, a.most, a.aside, a.timeouts, a.enqueued, a.expires, a.ended, a.reasons, a.holders, a.origins, a.args,
		a.traces, a.failures)
	if len(waiting) > 0 {
		t.later(int64(len(waiting)), "waiting jobs", arriveReady, waiting)
	}
	t.later(int64(len(changes)), "events", arriveEvents, events.seqs, events.at, events.what, events.details)
	for _, c := range changes {
		if c.Effect != nil {
			t.saveEffect(c.Was.Ref, *c.Effect)
		}
	}
	return nil
}
