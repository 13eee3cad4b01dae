package postgres

import (
	"strconv"

	"github.com/daybookdev/daybook"
)

// findMatching walks jobs by arrival, each state from where it stands.
func (v *view) findMatching(q daybook.Finding) (ids []daybook.ID, err error) {
	f := ofState(q.Filter)
	var p params
	switch {
	case f.Key != "":
		after, limit := p.add(q.After)+"::bigint", " LIMIT "+p.add(int64(q.Limit))+"::bigint"
		return v.ids("SELECT j.id FROM daybook.job j WHERE j.id = (SELECT k.job FROM daybook.request k WHERE k.key = "+
			p.add(f.Key)+"::text) AND j.seq > "+after+" AND "+conditions(f, &p)+" AND "+stands(f.State)+limit, p...)
	case f.State == daybook.Running:
		after, limit := p.add(q.After)+"::bigint", " LIMIT "+p.add(int64(q.Limit))+"::bigint"
		return v.ids("SELECT j.id FROM (SELECT o.id, o.seq FROM daybook.owned o WHERE o.seq > "+after+
			" ORDER BY o.seq OFFSET 0) o CROSS JOIN LATERAL (SELECT j.id FROM daybook.job j WHERE j.id = o.id AND "+
			conditions(f, &p)+" OFFSET 0) j ORDER BY o.seq"+limit, p...)
	case f.State == daybook.Waiting:
		if ids, few, err := v.fewWaiting(f, q); few || err != nil {
			return ids, err
		}
	case f.State != "" && f.State != daybook.Succeeded:
		query := "SELECT j.id FROM daybook.job j WHERE " + matching(f, q, &p)
		err = v.under(inOrder, v.ask(query, p, func(row []any) error {
			ids = append(ids, id(row[0]))
			return nil
		}))
		return ids, err
	}
	return v.walkJobs(f, q)
}

// ofState is a filter with the state that its other parts name.
func ofState(f daybook.Filter) daybook.Filter {
	if f.Reason != "" && f.State == "" {
		f.State = daybook.SetAside
	}
	if f.Held {
		f.State = daybook.Waiting
	}
	return f
}

// matching are the next jobs j of a state that job.state tells, in the order of
// job_slow and of no other index.
func matching(f daybook.Filter, q daybook.Finding, p *params) string {
	state := strconv.FormatInt(slowCode(f.State), 10)
	return conditions(f, p) + " AND j.state <> 0 AND j.state <= " + state + " AND (j.state, j.seq) > (" + state + ", " +
		p.add(q.After) + "::bigint) ORDER BY j.state, j.seq LIMIT " + p.add(int64(q.Limit)) + "::bigint"
}

// Whether a job j waits, or runs: a look into one place of an index, whatever
// the planner believes of the table.
const (
	isReady = `(SELECT true FROM daybook.ready r WHERE r.lane = CASE WHEN j.held_by IS NULL THEN j.queue ELSE -j.queue END
		AND r.rank = j.rank AND r.run_at = coalesce(j.run_at, j.enqueued_at) AND r.seq = j.seq LIMIT 1)`
	isOwned = `(SELECT true FROM daybook.owned o WHERE o.id = j.id LIMIT 1)`
)

// stands is the condition that a job j is in a state.
func stands(state daybook.State) string {
	switch state {
	case "":
		return "true"
	case daybook.Waiting:
		return "j.state = 0 AND " + isReady
	case daybook.Running:
		return "j.state = 0 AND " + isOwned
	case daybook.Succeeded:
		return "(j.state = 3 OR j.state = 0 AND " + isReady + " IS NULL AND " + isOwned + " IS NULL)"
	}
	return "j.state = " + strconv.FormatInt(slowCode(state), 10)
}

// fewWaiting finds waiting jobs in ready, which has no order by arrival: when
// they are few enough to be sorted each time. Many are walked to instead.
func (v *view) fewWaiting(f daybook.Filter, q daybook.Finding) (ids []daybook.ID, few bool, err error) {
	const most = 20_000
	var p params
	ready := "r.seq > " + p.add(q.After) + "::bigint"
	if f.Queue != "" {
		ready += " AND r.lane = ANY (ARRAY[" + numberOf(f.Queue, &p) + ", -" + numberOf(f.Queue, &p) + "])"
	}
	if f.Kind != "" {
		ready += " AND r.kind = " + p.add(f.Kind) + "::text"
	}
	if f.Held || f.HeldBy != "" {
		ready += " AND r.lane < 0"
	}
	query := `WITH few AS MATERIALIZED (SELECT r.seq FROM daybook.ready r
			WHERE ` + ready + ` LIMIT ` + p.add(int64(most+1)) + `::bigint),
		counted AS MATERIALIZED (SELECT count(*) AS n FROM few)
		SELECT NULL, n FROM counted UNION ALL (SELECT j.id, NULL FROM (SELECT w.seq FROM few w ORDER BY w.seq OFFSET 0) w
			CROSS JOIN LATERAL (SELECT j.id FROM daybook.job j WHERE j.seq = w.seq AND ` + conditions(f, &p) + ` OFFSET 0) j
			WHERE (SELECT n FROM counted) <= ` + p.add(int64(most)) + `::bigint
			ORDER BY w.seq LIMIT ` + p.add(int64(q.Limit)) + `::bigint)`
	err = v.look(query, p, func(row []any) error {
		if row[0] == nil {
			few = num(row[1]) <= most
		} else {
			ids = append(ids, id(row[0]))
		}
		return nil
	})
	return ids, few, err
}

// A walk by arrival may meet long stretches without a match, so it goes in
// steps that are each one short statement.
const stepFirst, stepMost = 1000, 50_000

// walkJobs walks all jobs in the order of the primary key.
func (v *view) walkJobs(f daybook.Filter, q daybook.Finding) (ids []daybook.ID, err error) {
	after, step := q.After, int64(max(stepFirst, 2*q.Limit))
	for {
		found, last, seen, err := v.walkStep(f, after, step, q.Limit-len(ids))
		if ids = append(ids, found...); err != nil || len(ids) == q.Limit || seen < step {
			return ids, err
		}
		after, step = last, min(4*step, stepMost)
	}
}

// walkStep looks at the next step jobs. It answers the last of them, and how
// many there were.
func (v *view) walkStep(f daybook.Filter, after, step int64, limit int) (
	ids []daybook.ID, last, seen int64, err error,
) {
	var p params
	query := `WITH w AS MATERIALIZED (SELECT j.seq, j.id, j.queue, j.rank, j.state, j.kind, j.run_at, j.enqueued_at,
			j.reason, j.held_by FROM daybook.job j
			WHERE j.seq > ` + p.add(after) + `::bigint ORDER BY j.seq LIMIT ` + p.add(step) + `::bigint)
		SELECT NULL, max(w.seq), count(*) FROM w UNION ALL
		(SELECT j.id, NULL, NULL FROM w j WHERE ` + conditions(f, &p) + ` AND ` + stands(f.State) + `
			ORDER BY j.seq LIMIT ` + p.add(int64(limit)) + `::bigint)`
	err = v.look(query, p, func(row []any) error {
		if row[0] == nil {
			last, seen = num(row[1]), num(row[2])
		} else {
			ids = append(ids, id(row[0]))
		}
		return nil
	})
	return ids, last, seen, err
}
