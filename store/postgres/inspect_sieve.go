package postgres

import (
	"fmt"
	"slices"
	"strings"

	"github.com/daybookdev/daybook"
)

// Most jobs are plain: they wait and never ran, or ran once and succeeded. So
// invariants about single jobs are walked together: one query, the sieve, looks
// up what belongs to each job of a chunk once, and says which invariants the job
// could be against. Only those are then asked about it. What passes the sieve
// can't be wrong as of the sieve's snapshot; what doesn't, the invariant's own
// query decides.

// sieved has the invariants that are walked together, in a fixed order, each
// with the condition without which a job can't be against it. It may use j, o
// (who owns it, if anybody) and h: see sieve.
var sieved = []struct{ invariant, could string }{
	{"one-place", "b.waits::int + ({owned})::int + (h.done IS TRUE)::int + (j.state <> 0)::int <> 1"},
	{"known-state", "j.state NOT IN (0, 3, 4, 5, 6, 7) OR h.odd"},
	{"one-outcome", "NOT {plain} OR h.n = 1 AND {owned}"},
	{"final-stays", "NOT {plain} OR h.n = 1 AND {owned} OR {events}"},
	{"generation-history", "coalesce(j.generation, 0) <> 0 OR NOT {plain} OR {owned} AND (h.n = 1 OR o.generation <> 1)"},
	{"failures-limit", "j.state = 0 AND ({failures} >= {most failures} OR {crashes} >= {crash limit})"},
	{"claim-after-end", `h.after_end OR {owned} AND o.claimed_at > (SELECT x.ended_at FROM daybook.session x
		WHERE x.n = o.session) + {slack}`},
	{"paused-claim", `CASE WHEN h.n > 0 OR {owned} THEN greatest(o.claimed_at, h.claimed_at) > (SELECT x.paused_at
		FROM daybook.queue x WHERE x.n = j.queue) + {slack} END`},
	{"aside-reason", "(j.state = 4) <> (coalesce(j.reason, '') <> '')"},
	{"cancel-kept", "{events}"},
	{"expired-claim", "greatest(o.claimed_at, h.claimed_at) >= j.expires_at OR {events}"},
	{"moved-still", "j.state = 7 OR {events}"},
	{"origin-once", "j.origin IS NOT NULL"},
	{"snooze-limit", "j.state = 0 AND {run at} - j.first_claimed_at >= {snooze}"},
	{"size-limit", `octet_length(j.args) > {args max} OR octet_length(j.result) > {result max} OR h.result > {result max}
		OR h.error > {error max}
		OR (SELECT octet_length(x.progress) FROM daybook.progress x WHERE x.seq = j.seq) > {progress max}`},
	{"key-kept", "{other key}"},
	{"key-one-job", "{other key}"},
	{"key-fingerprint", "j.key IS NOT NULL"},
}

// sieve answers the jobs of part that could be against something: the row's
// name, and the invariants as bits. h is what the history says of a job: how
// many rows, whether all of them are first attempts that succeeded, the latest
// claim and the largest texts. b is what is beside it: a row in ready, events,
// and a key whose record names another job, or none.
var sieve = func() string {
	fill := strings.NewReplacer(
		"{plain}", "(h.n = 0 OR h.n = 1 AND h.plain)", "{owned}", "o.id IS NOT NULL",
		"{events}", "b.events", "{other key}", "b.other_key")
	bits := make([]string, len(sieved))
	for i, s := range sieved {
		bits[i] = fmt.Sprintf("(((%s) IS TRUE)::int << %d)", fill.Replace(s.could), i)
	}
	return filled(`SELECT v, could FROM (SELECT p.v, (` + strings.Join(bits, "\n\t\t| ") + `)::bigint AS could {jobs}
		CROSS JOIN LATERAL (SELECT count(*) AS n,
			bool_and(e.outcome = 1 AND e.generation = 1 AND e.through IS NULL AND e.first IS NULL AND e.count IS NULL) AS plain,
			bool_or(e.outcome = 1) AS done, bool_or(e.outcome NOT BETWEEN 1 AND 6) AS odd, max(e.claimed_at) AS claimed_at,
			bool_or(e.claimed_at > (SELECT x.ended_at FROM daybook.session x WHERE x.n = e.session) + {slack}) AS after_end,
			max(octet_length(e.result)) AS result, max(greatest(octet_length(e.error), octet_length(e.trace))) AS error
			FROM daybook.ended e WHERE e.seq = j.seq OFFSET 0) h
		CROSS JOIN LATERAL (SELECT {is ready} AS waits,
			EXISTS (SELECT FROM daybook.event x WHERE x.seq = j.seq OFFSET 0) AS events,
			CASE WHEN j.key IS NOT NULL THEN (SELECT x.job FROM daybook.request x WHERE x.key = j.key) IS DISTINCT FROM j.id END
				AS other_key OFFSET 0) b OFFSET 0) s WHERE could <> 0`)
}()

// Together lists the invariants that are looked at on one walk with this one.
func (s *Store) Together(invariant string) (names []string) {
	for _, other := range sieved {
		names = append(names, other.invariant)
	}
	if !slices.Contains(names, invariant) {
		return nil
	}
	return names
}

// gathering is what is walked for the invariants of the sieve: who owns a job
// goes by the owner's row, of which one may be without a job.
var gathering = rule{full: []source{walkJobs, walkOwners},
	live: []source{walkWaiting, walkOwners, walkAside, walkOdd, walkSucceeded, walkEnded, walkOpen}}

// inspectTogether walks one chunk for all invariants of the sieve.
func (s *Store) inspectTogether(u *unit, in daybook.Inspection) (out daybook.Inspected, err error) {
	rows, next, err := s.walk(u, gathering, in)
	out.Next, out.Done, out.Walked = next, next == "", int64(len(rows))
	if err != nil || len(rows) == 0 {
		return out, err
	}
	suspects := make([][]string, len(sieved))
	rows = slices.DeleteFunc(rows, func(name string) bool {
		orphan := strings.Contains(name, "-") // an id: for the first invariant, which knows such
		if orphan {
			suspects[0] = append(suspects[0], name)
		}
		return orphan
	})
	err = glance(u, ofPart+sieve, []any{rows}, func(row []any) error {
		could := num(row[1])
		for i := range sieved {
			if could>>i&1 == 1 {
				suspects[i] = append(suspects[i], text(row[0]))
			}
		}
		return nil
	})
	for i := range sieved {
		r, name := rules[sieved[i].invariant], sieved[i].invariant
		most := int(r.chunk(0))
		for rest := suspects[i]; err == nil && len(rest) > 0; rest = rest[min(most, len(rest)):] {
			var found []daybook.Violation
			found, err = ask(u, r, name, rest[:min(most, len(rest))])
			out.Violations = append(out.Violations, found...)
		}
	}
	return out, err
}
