package sqlite

import (
	"context"
	"database/sql/driver"
	"strings"
	"time"

	"github.com/daybookdev/daybook"
)

// effectColumns are in the order in which effects and saveEffect have them.
const effectColumns = `seq, name, policy, state, generation, round, key, begun_at, ended_at, settled_by, doubled,
	result, call_until, safe_until, quiet, fingerprint, call, used, probed, unsure`

// SaveEffect writes a row of the ledger, its call and its event. The owner of a
// running job must still be the one that was read.
func (t *tx) SaveEffect(_ context.Context, j daybook.Job, w daybook.EffectWrite) error {
	if w.Effect.Name == "" && w.Event == nil {
		return nil
	}
	if j.State == daybook.Running {
		if err := t.stillOwned(j); err != nil {
			return err
		}
	}
	e := w.Effect
	if w.Called {
		if _, err := t.q.exec("INSERT INTO effect_call (seq, name, generation, round, at) VALUES (?, ?, ?, ?, ?)"+
			" ON CONFLICT DO NOTHING", j.Ref, e.Name, e.Generation, int64(e.Round), int64(e.BegunAt)); err != nil {
			return err
		}
	}
	if e.Name != "" {
		if err := t.saveEffect(j.Ref, e); err != nil {
			return err
		}
	}
	return t.saveEvent(j.Ref, w.Event)
}

// stillOwned refuses when the claim that a job was read with is over.
func (t *tx) stillOwned(j daybook.Job) error {
	session, err := t.sessionNumber(j.Session)
	if err != nil {
		return err
	}
	n, err := one(t.q, "SELECT count(*) FROM owned WHERE seq = ? AND generation = ? AND session = ?", j.Ref,
		j.Generation, session)
	if err != nil {
		return err
	}
	return sure(num(n), 1, "running jobs")
}

func (t *tx) saveEffect(seq int64, e daybook.Effect) error {
	_, err := t.q.exec(`INSERT INTO effect (`+effectColumns+`) VALUES (`+marks(20)+`) ON CONFLICT DO UPDATE SET
		policy = excluded.policy, state = excluded.state, generation = excluded.generation, round = excluded.round,
		key = excluded.key, begun_at = excluded.begun_at, ended_at = excluded.ended_at, settled_by = excluded.settled_by,
		doubled = excluded.doubled, result = excluded.result, call_until = excluded.call_until,
		safe_until = excluded.safe_until, quiet = excluded.quiet, fingerprint = excluded.fingerprint,
		call = excluded.call, used = excluded.used, probed = excluded.probed, unsure = excluded.unsure`,
		seq, e.Name, string(e.Policy), string(e.State), e.Generation, int64(e.Round), e.Key, int64(e.BegunAt),
		null(e.EndedAt), nullText(e.SettledBy), flag(e.Doubled), nullJSON(e.Result), null(e.CallUntil), null(e.SafeUntil),
		nullInt(e.Quiet.Microseconds()), nullText(e.Fingerprint), nullID(e.Call), nullInt(e.Used), nullInt(e.Probed),
		nullInt(e.Unsure))
	return err
}

func nullID(id daybook.ID) driver.Value {
	if id.IsZero() {
		return nil
	}
	return blob(id)
}

func (t *tx) saveEvent(seq int64, e *daybook.Event) error {
	if e == nil {
		return nil
	}
	_, err := t.q.exec(`INSERT INTO event (seq, at, what, generation, actor, reason, detail) VALUES (`+marks(7)+`)`,
		seq, int64(e.At), e.What, nullInt(e.Generation), nullText(e.Actor), nullText(e.Reason), nullText(e.Detail))
	return err
}

// Effect loads one effect of a job, with its calls and what came too late.
func (v *view) Effect(_ context.Context, j daybook.Job, name string) (daybook.Effect, bool, error) {
	list, err := v.effects("WHERE e.seq = ? AND e.name = ?", j.Ref, name)
	if err != nil || len(list) == 0 {
		return daybook.Effect{}, false, err
	}
	if err := v.addCalls(list, "seq = ? AND name = ?", j.Ref, name); err != nil {
		return daybook.Effect{}, false, err
	}
	return list[0], true, v.addLate(list)
}

func (v *view) effects(where string, args ...driver.Value) (list []daybook.Effect, err error) {
	err = v.q.rows("SELECT e."+strings.Join(strings.Fields(effectColumns), " e.")+
		", j.id FROM effect e JOIN job j ON j.seq = e.seq "+where, args, func(row []driver.Value) error {
		list = append(list, daybook.Effect{Ref: num(row[0]), Name: text(row[1]),
			Policy: daybook.Policy(text(row[2])), State: daybook.EffectState(text(row[3])), Generation: num(row[4]),
			Round: int(num(row[5])), Key: text(row[6]), BegunAt: at(row[7]), EndedAt: at(row[8]), SettledBy: text(row[9]),
			Doubled: num(row[10]) != 0, Result: raw(row[11]), CallUntil: at(row[12]), SafeUntil: at(row[13]),
			Quiet: time.Duration(num(row[14])) * time.Microsecond, Fingerprint: text(row[15]), Call: id(row[16]),
			Used: num(row[17]), Probed: num(row[18]), Unsure: num(row[19]), Job: id(row[20])})
		return nil
	})
	return list, err
}

// addCalls hangs the calls on effects of one job.
func (v *view) addCalls(effects []daybook.Effect, where string, args ...driver.Value) error {
	return v.q.rows("SELECT name, generation, round, at FROM effect_call WHERE "+where+" ORDER BY generation, round", args,
		func(row []driver.Value) error {
			for i := range effects {
				if effects[i].Name == text(row[0]) {
					effects[i].Calls = append(effects[i].Calls,
						daybook.EffectCall{Generation: num(row[1]), Round: int(num(row[2])), At: at(row[3])})
				}
			}
			return nil
		})
}

// addLate hangs on effects what came too late.
func (v *view) addLate(effects []daybook.Effect) error {
	refusals := map[int64][]daybook.Refusal{}
	for i := range effects {
		e := &effects[i]
		all, read := refusals[e.Ref]
		if !read {
			var err error
			if all, err = v.refusals(daybook.Job{ID: e.Job, Ref: e.Ref}); err != nil {
				return err
			}
			refusals[e.Ref] = all
		}
		e.Late = daybook.LateOf(e.Name, all)
	}
	return nil
}

// Effects lists a page of the ledger, by job and name, with what came too late.
func (v *view) Effects(_ context.Context, f daybook.EffectFilter) (page daybook.Page[daybook.Effect], err error) {
	after, err := openCursor(f.Cursor)
	if err != nil {
		return page, err
	}
	where, args := []string{"1"}, []driver.Value{}
	if f.Open {
		where = append(where, "e.state = 'open'")
	}
	if !f.Job.IsZero() {
		where, args = append(where, "j.id = ?"), append(args, blob(f.Job))
	}
	if len(after) == 2 {
		where, args = append(where, "e.seq >= ?"), append(args, after[0])
	}
	skip := int64(0)
	if len(after) == 2 {
		skip = after[1]
	}
	effects, err := v.effects("WHERE "+strings.Join(where, " AND ")+" ORDER BY e.seq, e.name LIMIT ? OFFSET ?",
		append(args, int64(f.Limit)+1, skip)...)
	if err != nil {
		return page, err
	}
	if err := v.addLate(effects); err != nil {
		return page, err
	}
	n := skip
	return pageOf(effects, f.Limit, func(last daybook.Effect) []int64 {
		n = 0
		if len(after) == 2 && after[0] == last.Ref {
			n = skip
		}
		for _, e := range effects[:f.Limit] {
			if e.Ref == last.Ref {
				n++
			}
		}
		return []int64{last.Ref, n}
	}), nil
}
