package postgres

import (
	"fmt"
	"strings"
	"time"

	"github.com/daybookdev/daybook"
)

// rules has the query of every invariant in daybook.Invariants. Most ask about
// one job with the rows that belong to it.
var rules = map[string]rule{
	"one-place": {full: []source{walkJobs, walkOwners}, live: append([]source{walkOwners}, liveJobs...),
		query: onePlace},
	"place-agrees":       always(placeAgrees, walkReady, walkOwned),
	"known-state":        ofJobs(knownState),
	"one-outcome":        ofJobs(oneOutcome),
	"final-stays":        ofJobs(finalStays),
	"generation-history": ofJobs(generationHistory),
	"running-session":    always(runningSession, walkOwned),
	"lost-revoked":       {full: []source{walkOwned}, live: []source{walkOwned}, query: lostRevoked, wrong: passedBy},
	"run-limit":          {full: []source{walkOwned}, live: []source{walkOwned}, query: runLimit, wrong: passedBy},
	"failures-limit":     always(failuresLimit, walkWaiting),
	"claim-after-end":    ofJobs(claimAfterEnd),
	"success-effects":    always(successEffects, walkOpen),
	"effect-owner":       {full: []source{walkJobsOf("effect")}, live: liveJobs, query: effectOwner},
	"effect-doubled":     {full: []source{walkJobsOf("effect")}, live: liveJobs, query: effectDoubled},
	"paused-claim":       ofJobs(pausedClaim),
	"held-claim":         always(heldClaim, walkOwned),
	"aside-reason":       ofJobs(asideReason),
	"cancel-kept":        ofJobs(cancelKept),
	"expired-claim":      ofJobs(expiredClaim),
	"moved-still":        ofJobs(movedStill),
	"origin-once":        ofJobs(originOnce),
	"snooze-limit":       always(snoozeLimit, walkWaiting),
	"size-limit":         ofJobs(sizeLimit),
	"args-json":          {full: everyJob, live: liveJobs, query: argsJSON, rows: 200, wrong: notJSON},
	// Attempts go with their partition, long after their job.
	"rows-with-job": {full: []source{walkJobsOf("effect"), walkJobsOf("effect_call"),
		walkJobsOf("event"), walkJobsOf("refusal"),
		walkJobsOf("progress")}, query: rowsWithJob},
	"key-kept":        ofJobs(keyKept),
	"key-fingerprint": {full: everyJob, live: liveJobs, query: keyFingerprint, rows: 200, wrong: otherFingerprint},
	"key-one-job":     ofJobs(keyOneJob),
	"key-end":         {full: []source{walkKeys}, live: []source{walkEndedKeys}, query: keyEnd},
	"lease-length":    {full: []source{walkSessions}, live: []source{walkLiveSessions}, query: leaseLength},
	"ring-queue":      always(ringQueue, walkCounted),
	"conservation":    ofQueues(conservation),
	"counts-true":     ofQueues(countsTrue),
}

// ofJobs is a rule about any job.
func ofJobs(query string) rule { return rule{full: everyJob, live: liveJobs, query: query} }

// always is a rule about rows that are all live.
func always(query string, sources ...source) rule {
	return rule{full: sources, live: sources, query: query}
}

// ofQueues is a rule about a queue's sums. Every chunk adds up all queues, so
// there should be one.
func ofQueues(query string) rule {
	r := always(query, walkQueues)
	r.rows = 20_000
	return r
}

const (
	// passesAllowed is what "within two passes" is held to: a mark that gets
	// old (daybook.MarkMax) and two passes that take their time. It counts only
	// up to the last pass that was taken, since a book that nobody opened for
	// a day had no passes.
	passesAllowed = 5 * time.Minute
	// clockSlack is how far two times of one book may be in the wrong order
	// because the machine's clock was set back between them.
	clockSlack = time.Second
)

// filled puts SQL together: every {name} is replaced by the fragment of that name.
func filled(sql string) string { return fragments.Replace(fragments.Replace(fragments.Replace(sql))) }

// The fragments. A subquery with OFFSET 0 stays what it is: one probe of an
// index a row, and no join that the planner might turn round.
var fragments = strings.NewReplacer(
	// The rows of the chunk as jobs, and who owns them.
	"{jobs}", "{jobs alone} LEFT JOIN LATERAL (SELECT * FROM daybook.owned x WHERE x.id = j.id OFFSET 0) o ON true",
	"{jobs alone}", `FROM part p
		CROSS JOIN LATERAL (SELECT * FROM daybook.job x WHERE x.seq = p.v::bigint OFFSET 0) j`,
	"{lane}", "CASE WHEN j.held_by IS NULL THEN j.queue ELSE -j.queue END",
	"{run at}", "coalesce(j.run_at, j.enqueued_at)",
	"{is ready}", `EXISTS (SELECT FROM daybook.ready x WHERE x.lane = {lane} AND x.rank = j.rank
		AND x.run_at = {run at} AND x.seq = j.seq OFFSET 0)`,
	"{is done}", "EXISTS (SELECT FROM daybook.ended x WHERE x.seq = j.seq AND x.outcome = 1 OFFSET 0)",
	// The attempts of a job j: the lowest and the highest generation that each
	// accounts for, the highest one before it, and the claim after it.
	"{attempts}", `(SELECT x.generation, x.outcome, x.session, x.claimed_at, x.count,
			coalesce(x.first, x.generation) AS low, coalesce(x.through, x.generation) AS through,
			coalesce(x.ended_at, x.filed_at) AS ended_at,
			coalesce(lag(coalesce(x.through, x.generation)) OVER w, 0) AS prior, lead(x.generation) OVER w AS next
		FROM daybook.ended x WHERE x.seq = j.seq WINDOW w AS (ORDER BY x.generation, x.filed_at) OFFSET 0)`,
	// See daybook.Job.CrashLimit and Suspect.
	"{failures}", "coalesce(j.failures, 0)",
	"{crashes}", "coalesce(j.crashes, 0)",
	"{most failures}", fmt.Sprintf("coalesce(j.max_failures, %d)", daybook.MaxFailuresDefault),
	"{crash limit}", fmt.Sprintf("least(%d, {most failures})", daybook.CrashesMax),
	"{suspect}", "({crash limit} > 1 AND {crashes} >= least(2, {crash limit} - 1))",
	// An effect that the job's next owner must know of, as save.go has it: that
	// of a loss counts while it is open.
	"{has effects}", "EXISTS (SELECT FROM daybook.effect x WHERE x.seq = j.seq AND (x.state = 'open' OR x.name <> '"+
		daybook.HandlerEffect+"') OFFSET 0)",
	"{deadline}", "coalesce(o.deadline, o.claimed_at + {day})",
	"{day}", micros(daybook.TimeoutDefault),
	"{step}", fmt.Sprint(daybook.GenerationStep),
	"{slack}", micros(clockSlack),
	"{passes}", micros(passesAllowed),
	"{snooze}", micros(daybook.SnoozeMax),
	"{time max}", fmt.Sprint(int64(daybook.TimeMax)),
	"{args max}", fmt.Sprint(daybook.ArgsMax),
	"{result max}", fmt.Sprint(daybook.ResultMax),
	"{error max}", fmt.Sprint(daybook.ErrorMax),
	"{progress max}", fmt.Sprint(daybook.ProgressMax),
)

func micros(d time.Duration) string { return fmt.Sprint(d.Microseconds()) }

// ranAfter is SQL for: the job was claimed after something happened to it that
// ends it, and no person revived it in between.
func ranAfter(what string) string {
	const unrevived = `NOT EXISTS (SELECT FROM daybook.event r WHERE r.seq = x.seq AND r.what = 'revived' AND r.n > x.n
		AND coalesce(r.generation, 0) < `
	return `EXISTS (SELECT FROM daybook.event x WHERE x.seq = j.seq AND x.what = '` + what + `' AND (
		o.generation > coalesce(x.generation, 0) AND ` + unrevived + `o.generation OFFSET 0)
		OR EXISTS (SELECT FROM daybook.ended e WHERE e.seq = x.seq AND e.generation > coalesce(x.generation, 0)
			AND ` + unrevived + `e.generation OFFSET 0) OFFSET 0)) OFFSET 0)`
}
