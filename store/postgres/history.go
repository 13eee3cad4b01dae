package postgres

import (
	"context"

	"github.com/daybookdev/daybook"
)

// attemptRows reads ended. The worker's name of a success is its session's,
// while that is there.
const attemptRows = `SELECT e.generation, coalesce(e.through, e.generation), e.first, e.count, s.id,
	coalesce(e.worker, s.worker), e.claimed_at, e.started_at, coalesce(e.ended_at, e.filed_at), e.outcome, e.why,
	e.error, e.error_kind, e.trace, e.cut
	FROM daybook.ended e LEFT JOIN daybook.session s ON s.n = e.session `

// scanAttempt reads attemptRows.
func scanAttempt(into *[]daybook.Attempt) func(row []any) error {
	return func(row []any) error {
		*into = append(*into, daybook.Attempt{Generation: num(row[0]), Through: num(row[1]), First: num(row[2]),
			Count: num(row[3]), Session: id(row[4]), Worker: text(row[5]), ClaimedAt: at(row[6]), StartedAt: at(row[7]),
			EndedAt: at(row[8]), Outcome: outcomeOf(num(row[9])), Why: text(row[10]), Error: scanProblem(row[11:15])})
		return nil
	}
}

// AttemptOf loads the attempt that accounts for a generation: the first in
// ended_job, of all partitions, that ends at it or later.
func (v *view) AttemptOf(_ context.Context, j daybook.Job, generation int64) (daybook.Attempt, bool, error) {
	var list []daybook.Attempt
	err := v.look(attemptRows+"WHERE e.seq = $1::bigint AND e.generation >= $2::bigint ORDER BY e.generation LIMIT 1",
		[]any{j.Ref, generation}, scanAttempt(&list))
	if err != nil || len(list) == 0 {
		return daybook.Attempt{}, false, err
	}
	from := list[0].Generation
	if list[0].First != 0 {
		from = list[0].First
	}
	return list[0], generation >= from, nil
}

// History loads what happened to a job, each list by the index on its seq.
func (v *view) History(_ context.Context, j daybook.Job) (h daybook.History, err error) {
	seq, k, found, calls := []any{j.Ref}, daybook.KeyRecord{}, false, []effectCall(nil)
	list := []statement{
		v.ask(attemptRows+"WHERE e.seq = $1::bigint ORDER BY e.generation", seq, scanAttempt(&h.Attempts)),
		v.ask(`SELECT e.at, e.what, e.generation, e.actor, e.reason, e.detail FROM daybook.event e
			WHERE e.seq = $1::bigint ORDER BY e.at, e.n`, seq, scanEvent(&h.Events)),
		v.ask(refusalRows, seq, scanRefusal(j.ID, &h.Refusals)),
		v.ask(callRows+" WHERE c.seq = $1::bigint ORDER BY c.generation, c.round", seq, scanCall(&calls)),
		v.ask(effectRows+" WHERE e.seq = $1::bigint ORDER BY e.begun_at, e.name", seq, scanEffect(&h.Effects)),
	}
	if j.Key != "" {
		list = append(list, v.ask(readKey, []any{j.Key}, scanKey(&k, &found)))
	}
	err = v.planned(list...)
	addCalls(h.Effects, calls)
	for i := range h.Effects {
		h.Effects[i].Late = daybook.LateOf(h.Effects[i].Name, h.Refusals)
	}
	if found {
		h.Key = &k
	}
	return h, err
}

const refusalRows = `SELECT r.generation, r.session, r.operation, r.at, r.said FROM daybook.refusal r
	WHERE r.seq = $1::bigint ORDER BY r.at, r.generation, r.operation COLLATE "C"`

func scanEvent(into *[]daybook.Event) func(row []any) error {
	return func(row []any) error {
		*into = append(*into, daybook.Event{At: at(row[0]), What: text(row[1]), Generation: num(row[2]), Actor: text(row[3]),
			Reason: text(row[4]), Detail: text(row[5])})
		return nil
	}
}

func scanRefusal(job daybook.ID, into *[]daybook.Refusal) func(row []any) error {
	return func(row []any) error {
		*into = append(*into, daybook.Refusal{Job: job, Generation: num(row[0]), Session: id(row[1]), Operation: text(row[2]),
			At: at(row[3]), Said: text(row[4])})
		return nil
	}
}
