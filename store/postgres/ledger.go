package postgres

import (
	"context"
	"strings"
	"time"

	"github.com/daybookdev/daybook"
)

// SaveEffect writes a row of the ledger, its call and its event. The owner of a
// running job must still be the one that was read; the set of completions
// passes its job by from here on.
func (t *tx) SaveEffect(_ context.Context, j daybook.Job, w daybook.EffectWrite) error {
	e := w.Effect
	if e.Name == "" && w.Event == nil {
		return nil
	}
	if j.State == daybook.Running {
		session, value := sessionNumber("$3", j.Session)
		t.later(1, "running jobs", "UPDATE daybook.owned SET ledger = true WHERE id = $1::text::uuid"+
			" AND generation = $2::bigint AND session = "+session, j.ID.String(), j.Generation, value)
	}
	if w.Called {
		t.later(anyCount, "", `INSERT INTO daybook.effect_call (seq, name, generation, round, at)
			VALUES ($1::bigint, $2::text, $3::bigint, $4::int, $5::bigint) ON CONFLICT DO NOTHING`,
			j.Ref, e.Name, e.Generation, int64(e.Round), int64(e.BegunAt))
	}
	if e.Name != "" {
		t.saveEffect(j.Ref, e)
	}
	t.saveEvent(j.Ref, w.Event)
	return t.flush()
}

func (t *tx) saveEffect(seq int64, e daybook.Effect) {
	var call any
	if !e.Call.IsZero() {
		call = e.Call.String()
	}
	t.later(1, "effects", `INSERT INTO daybook.effect (seq, name, policy, state, generation, round, key, begun_at,
			ended_at, settled_by, doubled, result, call_until, safe_until, quiet, fingerprint, call, used, probed, unsure)
		VALUES ($1::bigint, $2::text, $3::text, $4::text, $5::bigint, $6::int, $7::text, $8::bigint, $9::bigint,
			$10::text, $11::boolean, $12::text, $13::bigint, $14::bigint, $15::bigint, $16::text, $17::text::uuid,
			$18::bigint, $19::bigint, $20::bigint)
		ON CONFLICT (seq, name) DO UPDATE SET policy = excluded.policy, state = excluded.state,
			generation = excluded.generation, round = excluded.round, key = excluded.key, begun_at = excluded.begun_at,
			ended_at = excluded.ended_at, settled_by = excluded.settled_by, doubled = excluded.doubled,
			result = excluded.result, call_until = excluded.call_until, safe_until = excluded.safe_until,
			quiet = excluded.quiet, fingerprint = excluded.fingerprint, call = excluded.call, used = excluded.used,
			probed = excluded.probed, unsure = excluded.unsure`,
		seq, e.Name, string(e.Policy), string(e.State), e.Generation, int64(e.Round), e.Key, int64(e.BegunAt),
		null(e.EndedAt), nullText(e.SettledBy), e.Doubled, nullJSON(e.Result), null(e.CallUntil), null(e.SafeUntil),
		nullInt(e.Quiet.Microseconds()), nullText(e.Fingerprint), call, nullInt(e.Used), nullInt(e.Probed),
		nullInt(e.Unsure))
}

func (t *tx) saveEvent(seq int64, e *daybook.Event) {
	if e == nil {
		return
	}
	t.later(1, "events", `INSERT INTO daybook.event (seq, at, what, generation, actor, reason, detail)
		VALUES ($1::bigint, $2::bigint, $3::text, $4::bigint, $5::text, $6::text, $7::text)`,
		seq, int64(e.At), e.What, nullInt(e.Generation), nullText(e.Actor), nullText(e.Reason), nullText(e.Detail))
}

const effectRows = `SELECT e.seq, i.id, e.name, e.policy, e.state, e.generation, e.round, e.key, e.begun_at, e.ended_at,
	e.settled_by, e.doubled, e.result, e.call_until, e.safe_until, e.quiet, e.fingerprint, e.call, e.used, e.probed,
	e.unsure
	FROM daybook.effect e
	CROSS JOIN LATERAL (SELECT j.id FROM daybook.job j WHERE j.seq = e.seq OFFSET 0) i`

// scanEffect reads effectRows.
func scanEffect(into *[]daybook.Effect) func(row []any) error {
	return func(row []any) error {
		*into = append(*into, daybook.Effect{Ref: num(row[0]), Job: id(row[1]), Name: text(row[2]),
			Policy: daybook.Policy(text(row[3])), State: daybook.EffectState(text(row[4])), Generation: num(row[5]),
			Round: int(num(row[6])), Key: text(row[7]), BegunAt: at(row[8]), EndedAt: at(row[9]), SettledBy: text(row[10]),
			Doubled: truth(row[11]), Result: raw(row[12]), CallUntil: at(row[13]), SafeUntil: at(row[14]),
			Quiet: time.Duration(num(row[15])) * time.Microsecond, Fingerprint: text(row[16]), Call: id(row[17]),
			Used: num(row[18]), Probed: num(row[19]), Unsure: num(row[20])})
		return nil
	}
}

// Effect loads one effect of a job, with its calls and what came too late.
func (v *view) Effect(_ context.Context, j daybook.Job, name string) (e daybook.Effect, found bool, err error) {
	var list []daybook.Effect
	var calls []effectCall
	var late []daybook.Refusal
	of := []any{j.Ref, name}
	err = v.planned(
		v.ask(effectRows+" WHERE e.seq = $1::bigint AND e.name = $2::text", of, scanEffect(&list)),
		v.ask(callRows+" WHERE c.seq = $1::bigint AND c.name = $2::text ORDER BY c.generation, c.round", of,
			scanCall(&calls)),
		v.ask(refusalRows, []any{j.Ref}, scanRefusal(j.ID, &late)))
	if err != nil || len(list) == 0 {
		return e, false, err
	}
	addCalls(list, calls)
	list[0].Late = daybook.LateOf(name, late)
	return list[0], true, nil
}

// effectCall is one leave to call, of an effect by name.
type effectCall struct {
	name string
	daybook.EffectCall
}

const callRows = "SELECT c.name, c.generation, c.round, c.at FROM daybook.effect_call c"

func scanCall(into *[]effectCall) func(row []any) error {
	return func(row []any) error {
		*into = append(*into, effectCall{text(row[0]),
			daybook.EffectCall{Generation: num(row[1]), Round: int(num(row[2])), At: at(row[3])}})
		return nil
	}
}

// addCalls hangs the calls on effects of one job.
func addCalls(effects []daybook.Effect, calls []effectCall) {
	for i := range effects {
		for _, c := range calls {
			if c.name == effects[i].Name {
				effects[i].Calls = append(effects[i].Calls, c.EffectCall)
			}
		}
	}
}

// addLate hangs on effects what came too late.
func (v *view) addLate(effects []daybook.Effect) error {
	if len(effects) == 0 {
		return nil
	}
	seqs := make([]int64, len(effects))
	for i := range effects {
		seqs[i] = effects[i].Ref
	}
	late := map[int64][]daybook.Refusal{}
	err := v.look(`SELECT r.generation, r.session, r.operation, r.at, r.said, r.seq FROM daybook.refusal r
		WHERE r.seq = ANY ($1::bigint[]) ORDER BY r.at, r.generation`, []any{seqs}, func(row []any) error {
		var one []daybook.Refusal
		err := scanRefusal(daybook.ID{}, &one)(row)
		late[num(row[5])] = append(late[num(row[5])], one...)
		return err
	})
	for i := range effects {
		effects[i].Late = daybook.LateOf(effects[i].Name, late[effects[i].Ref])
	}
	return err
}

// Effects lists a page of the ledger, by job and name: in the order of its
// primary key, or of effect_open for the open ones, with what came too late.
func (v *view) Effects(_ context.Context, f daybook.EffectFilter) (page daybook.Page[daybook.Effect], err error) {
	after, name, err := openCursor(f.Cursor, 1)
	if err != nil {
		return page, err
	}
	var p params
	where := []string{"true"}
	if f.Open {
		where = append(where, "e.state = 'open'")
	}
	if !f.Job.IsZero() {
		where = append(where, "e.seq = (SELECT j.seq FROM daybook.job j WHERE j.id = "+
			p.add(f.Job.String())+"::text::uuid)")
	}
	if after != nil {
		where = append(where, "(e.seq, e.name) > ("+p.add(after[0])+"::bigint, "+p.add(name)+"::text)")
	}
	query := effectRows + " WHERE " + strings.Join(where, " AND ") + " ORDER BY e.seq, e.name LIMIT " +
		p.add(int64(f.Limit)+1) + "::bigint"
	if err = v.look(query, p, scanEffect(&page.Items)); err != nil {
		return page, err
	}
	if err = v.addLate(page.Items); err != nil || len(page.Items) <= f.Limit {
		return page, err
	}
	page.Items = page.Items[:f.Limit]
	last := page.Items[f.Limit-1]
	page.Cursor = closeCursor([]int64{last.Ref}, last.Name)
	return page, nil
}
