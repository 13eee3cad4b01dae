package sqlite

import (
	"database/sql/driver"
	"encoding/json"
	"strconv"
	"time"

	"github.com/daybookdev/daybook"
)

// jobColumns are what moves need: everything but args. Their order is that of
// scanJob.
const jobColumns = `j.seq, j.id, j.queue, j.kind, j.rank, j.state, j.run_at, j.max_failures, j.set_aside_lost, j.timeout,
	j.enqueued_at, j.expires_at, j.key, j.generation, j.failures, j.crashes, j.first_claimed_at, j.ended_at, j.reason,
	j.held_by, j.origin, (SELECT count(*) FROM effect e WHERE e.seq = j.seq), j.trace`

// ownedColumns follow jobColumns where a job may be owned.
const ownedColumns = `o.generation, o.session, o.claimed_at, o.granted, o.started_at, o.cancel_requested_at`

const jobWidth = 23

// slow codes of job.state; 0 is told by ready, owned and ended.
var slowStates = []daybook.State{"", daybook.Waiting, daybook.Running, daybook.Succeeded, daybook.SetAside,
	daybook.Cancelled, daybook.Expired, daybook.Moved}

// slowCode is job.state for a state that a slow move led to.
func slowCode(s daybook.State) int64 {
	switch s {
	case daybook.Waiting, daybook.Running:
		return 0
	}
	for i, known := range slowStates {
		if known == s {
			return int64(i)
		}
	}
	return 0
}

// scanJob reads jobColumns. The state it gives is the slow one, Waiting when
// the other tables tell.
func (v *view) scanJob(row []driver.Value) (daybook.Job, error) {
	queue, err := v.queueName(num(row[2]))
	if err != nil {
		return daybook.Job{}, err
	}
	j := daybook.Job{Ref: num(row[0]), ID: id(row[1]), Queue: queue, Kind: text(row[3]), Priority: priority(num(row[4])),
		State: daybook.Waiting, RunAt: at(row[6]), MaxFailures: int(num(row[7])), OnLost: daybook.LostRetry,
		Timeout: time.Duration(num(row[9])) * time.Microsecond, EnqueuedAt: at(row[10]), ExpiresAt: at(row[11]),
		Key: text(row[12]), Generation: num(row[13]), Failures: int(num(row[14])), Crashes: int(num(row[15])),
		FirstClaimedAt: at(row[16]), EndedAt: at(row[17]), Reason: daybook.Reason(text(row[18])), HeldBy: text(row[19]),
		Ledger: num(row[21]) > 0} // complete looks closer
	if code := num(row[5]); code > 0 && code < int64(len(slowStates)) {
		j.State = slowStates[code]
	}
	if num(row[8]) != 0 {
		j.OnLost = daybook.LostSetAside
	}
	t := daybook.TraceOfColumn(text(row[22]))
	j.Traceparent, j.Tracestate = t.Parent, t.State
	if row[20] != nil {
		j.Origin = &daybook.Origin{}
		if err := json.Unmarshal(raw(row[20]), j.Origin); err != nil {
			return j, err
		}
	}
	return j, nil
}

// scanOwned reads ownedColumns into a job and completes it from the tables
// that say where it is.
func (v *view) scanOwned(j *daybook.Job, row []driver.Value) error {
	if row[0] != nil {
		s, err := v.sessionByNumber(num(row[1]))
		if err != nil {
			return err
		}
		j.State, j.Generation, j.Session, j.Worker = daybook.Running, num(row[0]), s.ID, s.Worker
		j.LeaseUntil, j.ClaimedAt, j.GrantedAt = s.ExpiresAt, at(row[2]), num(row[3])
		j.StartedAt, j.CancelRequestedAt = at(row[4]), at(row[5])
		if j.FirstClaimedAt == 0 {
			j.FirstClaimedAt = j.ClaimedAt
		}
	}
	return nil
}

// complete fills in what scanned columns alone can't tell. It runs further
// statements, so no result set may be open on a single connection.
func (v *view) complete(j *daybook.Job) error {
	if j.State == daybook.Waiting {
		err := v.q.rows("SELECT generation, ended_at, claimed_at FROM ended WHERE seq = ? AND outcome = 1",
			[]driver.Value{j.Ref}, func(row []driver.Value) error {
				j.State, j.Generation, j.EndedAt, j.ClaimedAt = daybook.Succeeded, num(row[0]), at(row[1]), at(row[2])
				return nil
			})
		if err != nil {
			return err
		}
	}
	if !j.Ledger {
		return nil
	}
	j.Ledger = false // the effect that a loss leaves is not the handler's own
	return v.q.rows("SELECT name, state FROM effect WHERE seq = ? ORDER BY name", []driver.Value{j.Ref}, func(row []driver.Value) error {
		j.Effects++
		j.Happened = j.Happened || text(row[0]) == daybook.HandlerEffect && text(row[1]) == string(daybook.EffectDone)
		j.Ledger = j.Ledger || text(row[0]) != daybook.HandlerEffect
		if j.OpenEffect == "" && text(row[1]) == string(daybook.EffectIsOpen) {
			j.OpenEffect = text(row[0])
		}
		return nil
	})
}

// Outcome codes in ended.outcome; the first is the one that ended_success has.
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
