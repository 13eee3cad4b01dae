package sqlite

import (
	"fmt"
	"strings"
	"time"

	"github.com/daybookdev/daybook"
)

// rules has the query of every invariant in daybook.Invariants. Most ask about
// one job with the rows that belong to it.
var rules = map[string]rule{
	"one-place":          {full: []source{walkJobs, walkOwned}, live: liveJobs, query: onePlace},
	"place-agrees":       always(placeAgrees, walkReady, walkOwned),
	"known-state":        ofJobs(knownState),
	"one-outcome":        ofJobs(oneOutcome),
	"final-stays":        ofJobs(finalStays),
	"generation-history": ofJobs(generationHistory),
	"running-session":    always(runningSession, walkOwned),
	"lost-revoked":       always(lostRevoked, walkOwned),
	"run-limit":          always(runLimit, walkOwned),
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
	"size-limit":         {full: everyJob, live: liveJobs, query: sizeLimit, most: 500},
	"args-json":          {full: everyJob, live: liveJobs, query: argsJSON, most: 500},
	"rows-with-job": {full: []source{walkJobsOf("ended"), walkJobsOf("effect"), walkJobsOf("effect_call"),
		walkJobsOf("event"),
		walkJobsOf("refusal"), walkJobsOf("progress")}, query: rowsWithJob},
	"key-kept": ofJobs(keyKept),
	"key-fingerprint": {full: everyJob, live: liveJobs, query: keyFingerprint, most: 500,
		wrong: otherFingerprint},
	"key-one-job":  ofJobs(keyOneJob),
	"key-end":      {full: []source{walkKeys}, live: []source{walkEndedKeys}, query: keyEnd},
	"lease-length": {full: []source{walkSessions}, live: []source{walkLiveSessions}, query: leaseLength},
	"ring-queue":   always(ringQueue, walkCounting),
	"conservation": always(conservation, walkQueues),
	"counts-true":  always(countsTrue, walkQueues),
}

// ofJobs is a rule about any job.
func ofJobs(query string) rule { return rule{full: everyJob, live: liveJobs, query: query} }

// always is a rule about rows that are all live.
func always(query string, sources ...source) rule {
	return rule{full: sources, live: sources, query: query}
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
func filled(sql string) string { return fragments.Replace(fragments.Replace(sql)) }

var fragments = strings.NewReplacer(
	// The rows of the chunk as jobs, and who owns them.
	"{jobs}", "FROM part p CROSS JOIN job j ON j.seq = p.v LEFT JOIN owned o ON o.seq = j.seq",
	"{lane}", "iif(j.held_by IS NULL, j.queue, -j.queue)",
	"{is ready}", `EXISTS (SELECT 1 FROM ready r
		WHERE r.lane = {lane} AND r.rank = j.rank AND r.run_at = j.run_at AND r.seq = j.seq)`,
	"{is done}", "EXISTS (SELECT 1 FROM ended d WHERE d.seq = j.seq AND d.outcome = 1)",
	// See daybook.Job.CrashLimit and Suspect.
	"{crash limit}", fmt.Sprintf("min(%d, j.max_failures)", daybook.CrashesMax),
	"{suspect}", "({crash limit} > 1 AND j.crashes >= min(2, {crash limit} - 1))",
	// Of an attempt e: its lowest generation, the highest one before it, and
	// the claim after it.
	"{low}", "coalesce(e.first, e.generation)",
	"{prior}", `coalesce((SELECT b.through FROM ended b WHERE b.seq = e.seq AND b.generation < e.generation
		ORDER BY b.generation DESC LIMIT 1), 0)`,
	"{next}", `coalesce((SELECT min(a.generation) FROM ended a
		WHERE a.seq = e.seq AND a.generation > e.generation), o.generation)`,
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
	const unrevived = `NOT EXISTS (SELECT 1 FROM event r
		WHERE r.seq = x.seq AND r.what = 'revived' AND r.n > x.n AND coalesce(r.generation, 0) < `
	return `EXISTS (SELECT 1 FROM event x WHERE x.seq = j.seq AND x.what = '` + what + `' AND (
		o.generation > coalesce(x.generation, 0) AND ` + unrevived + `o.generation)
		OR EXISTS (SELECT 1 FROM ended e WHERE e.seq = x.seq AND e.generation > coalesce(x.generation, 0)
			AND ` + unrevived + `e.generation))))`
}
