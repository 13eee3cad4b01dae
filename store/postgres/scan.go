package postgres

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/daybookdev/daybook"
)

// What a driver gives for a column, whichever driver it is.

func num(v any) int64 {
	switch n := v.(type) {
	case int64:
		return n
	case int32:
		return int64(n)
	case int16:
		return int64(n)
	case string:
		i, _ := strconv.ParseInt(n, 10, 64)
		return i
	case []byte:
		i, _ := strconv.ParseInt(string(n), 10, 64)
		return i
	}
	return 0
}

func at(v any) daybook.Time { return daybook.Time(num(v)) }

func text(v any) string {
	switch s := v.(type) {
	case string:
		return s
	case []byte:
		return string(s)
	}
	return ""
}

func raw(v any) json.RawMessage {
	if s := text(v); s != "" {
		return json.RawMessage(s)
	}
	return nil
}

func truth(v any) bool {
	switch b := v.(type) {
	case bool:
		return b
	case string:
		return b == "t" || b == "true"
	case []byte:
		return string(b) == "t" || string(b) == "true"
	}
	return false
}

func id(v any) daybook.ID {
	switch u := v.(type) {
	case [16]byte:
		return u
	case string:
		parsed, _ := daybook.ParseID(u)
		return parsed
	case []byte:
		parsed, _ := daybook.ParseID(string(u))
		return parsed
	}
	return daybook.ID{}
}

// What a column is given: nil is NULL.

func null(t daybook.Time) any { return nullInt(int64(t)) }

func nullInt(n int64) any {
	if n == 0 {
		return nil
	}
	return n
}

func nullText[T ~string](s T) any {
	if s == "" {
		return nil
	}
	return string(s)
}

func nullJSON(doc json.RawMessage) any {
	if len(doc) == 0 {
		return nil
	}
	return string(doc)
}

func nullTrue(b bool) any {
	if !b {
		return nil
	}
	return true
}

// idList is an array literal, which every way to the server carries, and which
// costs less than a list of strings.
func idList(ids []daybook.ID) string {
	list := make([]byte, 0, len(ids)*37+2)
	list = append(list, '{')
	for i, id := range ids {
		if i > 0 {
			list = append(list, ',')
		}
		list, _ = id.AppendText(list)
	}
	return string(append(list, '}'))
}

// texts are ids as they travel: their text goes through every driver and mode.
func texts(ids []daybook.ID) []string {
	list := make([]string, len(ids))
	for i, id := range ids {
		list[i] = id.String()
	}
	return list
}

// rank orders priorities as they run: ascending rank is descending priority.
// -priority would overflow at the lowest one in 16 bits.
func rank(priority int) int64 { return int64(^priority) }

func priority(rank int64) int { return int(^rank) }

// jobColumns are what moves need: everything but args, whoever owns it and
// however it ended. Their order is that of scanJob, their tables those of
// jobTables.
const jobColumns = `j.seq, j.id, q.name, j.kind, j.rank, j.state, coalesce(j.run_at, j.enqueued_at), j.max_failures,
	j.set_aside_lost, j.timeout, j.enqueued_at, j.expires_at, j.key, j.generation, j.failures, j.crashes,
	j.first_claimed_at, j.ended_at, j.reason, j.held_by, j.origin,
	o.generation, o.session, o.claimed_at, o.granted, o.started_at, o.cancel_requested_at, s.id, s.worker, s.expires_at,
	d.generation, d.claimed_at, d.ended_at,
	(SELECT string_agg(e.name || ' ' || e.state, ',' ORDER BY e.name COLLATE "C") FROM daybook.effect e WHERE e.seq =
		j.seq), j.trace`

const jobWidth = 35

// jobJoins hang what tells where it is on a job j. Whether it waits is a look into
// one place of an index for each: as a join, a planner that takes ready for small
// reads all of it for each.
const jobJoins = ` JOIN daybook.queue q ON q.n = j.queue
	LEFT JOIN daybook.owned o ON o.id = j.id
	LEFT JOIN daybook.session s ON s.n = o.session
	LEFT JOIN LATERAL (SELECT w.generation, w.claimed_at, coalesce(w.ended_at, w.filed_at) AS ended_at, w.result
		FROM daybook.ended w WHERE w.seq = j.seq AND w.outcome = 1 AND j.state = 0 AND o.id IS NULL
		AND ` + isReady + ` IS NULL
		ORDER BY w.generation DESC LIMIT 1) d ON true`

// slow codes of job.state; 0 is told by ready, owned and ended.
var slowStates = []daybook.State{"", daybook.Waiting, daybook.Running, daybook.Succeeded, daybook.SetAside,
	daybook.Cancelled, daybook.Expired, daybook.Moved}

// slowCode is job.state for a state that a slow move led to.
func slowCode(s daybook.State) int64 {
	if s == daybook.Waiting || s == daybook.Running {
		return 0
	}
	for i, known := range slowStates {
		if known == s {
			return int64(i)
		}
	}
	return 0
}

// scanJob reads jobColumns.
func scanJob(row []any) (daybook.Job, error) {
	j := daybook.Job{Ref: num(row[0]), ID: id(row[1]), Queue: text(row[2]), Kind: text(row[3]),
		Priority: priority(num(row[4])),
		State:    daybook.Waiting, RunAt: at(row[6]), MaxFailures: daybook.MaxFailuresDefault, OnLost: daybook.LostRetry,
		Timeout: daybook.TimeoutDefault, EnqueuedAt: at(row[10]), ExpiresAt: at(row[11]), Key: text(row[12]),
		Generation: num(row[13]), Failures: int(num(row[14])), Crashes: int(num(row[15])), FirstClaimedAt: at(row[16]),
		EndedAt: at(row[17]), Reason: daybook.Reason(text(row[18])), HeldBy: text(row[19])}
	if row[7] != nil {
		j.MaxFailures = int(num(row[7]))
	}
	if row[9] != nil {
		j.Timeout = time.Duration(num(row[9])) * time.Microsecond
	}
	if truth(row[8]) {
		j.OnLost = daybook.LostSetAside
	}
	if row[20] != nil {
		j.Origin = &daybook.Origin{}
		if err := json.Unmarshal(raw(row[20]), j.Origin); err != nil {
			return j, err
		}
	}
	scanPlace(&j, num(row[5]), row[21:33])
	scanEffects(&j, text(row[33]))
	t := daybook.TraceOfColumn(text(row[34]))
	j.Traceparent, j.Tracestate = t.Parent, t.State
	return j, nil
}

// scanPlace reads where the job is: owned, succeeded, or what its row tells.
func scanPlace(j *daybook.Job, slow int64, row []any) {
	switch {
	case row[0] != nil:
		j.State, j.Generation = daybook.Running, num(row[0])
		j.ClaimedAt, j.GrantedAt = at(row[2]), num(row[3])
		j.StartedAt, j.CancelRequestedAt = at(row[4]), at(row[5])
		j.Session, j.Worker, j.LeaseUntil = id(row[6]), text(row[7]), at(row[8])
		if row[6] == nil {
			j.Session = orphan(num(row[1]))
		}
		if j.FirstClaimedAt == 0 {
			j.FirstClaimedAt = j.ClaimedAt
		}
	case slow > 0 && slow < int64(len(slowStates)):
		j.State = slowStates[slow]
	case row[9] != nil:
		j.State, j.Generation, j.ClaimedAt, j.EndedAt = daybook.Succeeded, num(row[9]), at(row[10]), at(row[11])
	}
}

// scanEffects reads the job's effects as "name state" pairs, by name. The
// effect that a loss leaves is not the handler's own.
func scanEffects(j *daybook.Job, list string) {
	if list == "" {
		return
	}
	for pair := range strings.SplitSeq(list, ",") {
		name, state, _ := strings.Cut(pair, " ")
		j.Effects++
		j.Happened = j.Happened || name == daybook.HandlerEffect && state == string(daybook.EffectDone)
		j.Ledger = j.Ledger || name != daybook.HandlerEffect
		if j.OpenEffect == "" && state == string(daybook.EffectIsOpen) {
			j.OpenEffect = name
		}
	}
}

// Outcome codes in ended.outcome; the first is the one that completions write.
var outcomes = []daybook.OutcomeKind{"", daybook.OutcomeSucceeded, daybook.OutcomeFailed, daybook.OutcomeReleased,
	daybook.OutcomeLost, daybook.OutcomeCancelled, daybook.OutcomeAsked}

func outcomeCode(o daybook.OutcomeKind) int64 {
	for i, known := range outcomes {
		if known == o {
			return int64(i)
		}
	}
	return 0
}

// outcomeOf reads a code. One that the table doesn't have is shown as it is:
// check names the row, and looking at it must not fail.
func outcomeOf(code int64) daybook.OutcomeKind {
	if code < 0 || code >= int64(len(outcomes)) {
		return daybook.OutcomeKind("outcome " + strconv.FormatInt(code, 10))
	}
	return outcomes[code]
}
