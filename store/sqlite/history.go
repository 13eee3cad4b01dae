package sqlite

import (
	"context"
	"database/sql/driver"

	"github.com/daybookdev/daybook"
)

// attempts reads ended rows. The worker's name of a success is its session's,
// while that is there.
func (v *view) attempts(where string, args ...driver.Value) (list []daybook.Attempt, err error) {
	err = v.q.rows(`SELECT e.generation, e.through, e.first, e.count, s.id, coalesce(e.worker, s.worker), e.claimed_at, e.started_at,
		e.ended_at, e.outcome, e.why, e.error, e.error_kind, e.trace, e.cut FROM ended e LEFT JOIN session s ON s.n = e.session `+where,
		args, func(row []driver.Value) error {
			list = append(list, daybook.Attempt{Generation: num(row[0]), Through: num(row[1]), First: num(row[2]), Count: num(row[3]),
				Session: id(row[4]), Worker: text(row[5]), ClaimedAt: at(row[6]), StartedAt: at(row[7]), EndedAt: at(row[8]),
				Outcome: outcomeOf(num(row[9])), Why: text(row[10]), Error: scanProblem(row[11:15])})
			return nil
		})
	return list, err
}

// AttemptOf loads the attempt that accounts for a generation.
func (v *view) AttemptOf(_ context.Context, j daybook.Job, generation int64) (daybook.Attempt, bool, error) {
	list, err := v.attempts("WHERE e.seq = ? AND e.generation >= ? ORDER BY e.generation LIMIT 1", j.Ref, generation)
	if err != nil || len(list) == 0 {
		return daybook.Attempt{}, false, err
	}
	first := list[0].Generation
	if list[0].First != 0 {
		first = list[0].First
	}
	return list[0], generation >= first, nil
}

// History loads what happened to a job.
func (v *view) History(_ context.Context, j daybook.Job) (h daybook.History, err error) {
	if h.Attempts, err = v.attempts("WHERE e.seq = ? ORDER BY e.generation", j.Ref); err != nil {
		return h, err
	}
	if h.Events, err = v.events(j.Ref); err != nil {
		return h, err
	}
	if h.Refusals, err = v.refusals(j); err != nil {
		return h, err
	}
	if h.Effects, err = v.effects("WHERE e.seq = ? ORDER BY e.begun_at, e.name", j.Ref); err != nil {
		return h, err
	}
	for i := range h.Effects {
		h.Effects[i].Late = daybook.LateOf(h.Effects[i].Name, h.Refusals)
	}
	if err = v.addCalls(h.Effects, "seq = ?", j.Ref); err != nil || j.Key == "" {
		return h, err
	}
	record, found, err := v.key(j.Key)
	if found {
		h.Key = &record
	}
	return h, err
}

func (v *view) events(seq int64) (list []daybook.Event, err error) {
	err = v.q.rows("SELECT at, what, generation, actor, reason, detail FROM event WHERE seq = ? ORDER BY at, n",
		[]driver.Value{seq}, func(row []driver.Value) error {
			list = append(list, daybook.Event{At: at(row[0]), What: text(row[1]), Generation: num(row[2]), Actor: text(row[3]),
				Reason: text(row[4]), Detail: text(row[5])})
			return nil
		})
	return list, err
}

func (v *view) refusals(j daybook.Job) (list []daybook.Refusal, err error) {
	err = v.q.rows("SELECT generation, session, operation, at, said FROM refusal WHERE seq = ? ORDER BY at, generation, operation",
		[]driver.Value{j.Ref}, func(row []driver.Value) error {
			list = append(list, daybook.Refusal{Job: j.ID, Generation: num(row[0]), Session: id(row[1]), Operation: text(row[2]),
				At: at(row[3]), Said: text(row[4])})
			return nil
		})
	return list, err
}

// SaveRefusals keeps what fenced owners said: the first time counts.
func (t *tx) SaveRefusals(_ context.Context, refusals []daybook.Refusal) error {
	for _, r := range refusals {
		if _, err := t.q.exec(`INSERT INTO refusal (seq, generation, session, operation, at, said)
			SELECT seq, ?, ?, ?, ?, ? FROM job WHERE id = ? ON CONFLICT DO NOTHING`, r.Generation, blob(r.Session), r.Operation,
			int64(r.At), nullText(r.Said), blob(r.Job)); err != nil {
			return err
		}
	}
	return nil
}
