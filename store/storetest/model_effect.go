package storetest

import (
	"cmp"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/daybookdev/daybook"
)

// What owners do with the ledger at random, whether they still own or not.

var effectNames = []string{"charge", "mail"}

// keepEffect writes a row of the ledger into the model, and what the job's row
// tells of it.
func (m *model) keepEffect(e daybook.Effect) {
	if m.effects[e.Job] == nil {
		m.effects[e.Job] = map[string]daybook.Effect{}
	}
	m.effects[e.Job][e.Name] = e
	j := m.jobs[e.Job]
	j.OpenEffect, j.Ledger, j.Effects = "", false, len(m.effects[e.Job])
	for _, name := range slices.Sorted(maps.Keys(m.effects[e.Job])) {
		if j.OpenEffect == "" && m.effects[e.Job][name].State == daybook.EffectIsOpen {
			j.OpenEffect = name
		}
		j.Ledger = j.Ledger || name != daybook.HandlerEffect
	}
	j.Happened = m.effects[e.Job][daybook.HandlerEffect].State == daybook.EffectDone
	m.jobs[e.Job] = j
}

// write does what SaveEffect does.
func (m *model) write(job daybook.ID, w daybook.EffectWrite) {
	if e := w.Effect; e.Name != "" {
		was := m.effects[job][e.Name]
		e.Calls, e.Late = slices.Clone(was.Calls), m.evidence[job][e.Name]
		if w.Called {
			e.Calls = append(e.Calls, daybook.EffectCall{Generation: e.Generation, Round: e.Round, At: e.BegunAt})
			slices.SortFunc(e.Calls, func(a, b daybook.EffectCall) int { return int(a.Generation - b.Generation) })
		}
		m.keepEffect(e)
	}
	if w.Change != nil {
		m.apply(*w.Change)
	}
}

// broken names the invariants that the run broke on purpose.
func (m *model) broken() []string {
	for _, effects := range m.effects {
		for _, e := range effects {
			if e.Doubled {
				return []string{"effect-doubled"}
			}
		}
	}
	return nil
}

// owners draws a claim: mostly one that is held.
func (m *model) owners(t *rapid.T) (daybook.ID, daybook.Owner) {
	var held []grantRow
	for _, g := range m.granted {
		if j := m.jobs[g.ref.Job]; j.Session == g.session && j.Generation == g.ref.Generation {
			held = append(held, g)
		}
	}
	if len(held) == 0 || rapid.IntRange(0, 4).Draw(t, "late") == 0 {
		held = m.granted
	}
	g := pick(t, held, "claim")
	return g.ref.Job, daybook.Owner{Session: g.session, Generation: g.ref.Generation}
}

func (m *model) beginEffect(t *rapid.T) {
	id, o := m.owners(t)
	b := daybook.Begin{Name: rapid.SampledFrom(effectNames).Draw(t, "effect"), Call: daybook.NewID(),
		Policy: rapid.SampledFrom([]daybook.Policy{daybook.PolicyRepeatable, daybook.PolicyKeyed, daybook.PolicyChecked,
			daybook.PolicyAsk}).Draw(t, "policy"), NextKey: rapid.Bool().Draw(t, "next key"),
		Limit:       time.Duration(rapid.SampledFrom([]int{0, 1, 20}).Draw(t, "limit")) * time.Second,
		Fingerprint: rapid.SampledFrom([]string{"", "", "a", "a", "b"}).Draw(t, "input")}
	switch b.Policy {
	case daybook.PolicyKeyed:
		b.Window = time.Duration(rapid.SampledFrom([]int{20, 60, 3600}).Draw(t, "window")) * time.Second
	case daybook.PolicyChecked:
		b.Quiet = time.Duration(rapid.SampledFrom([]int{0, 10}).Draw(t, "quiet")) * time.Second
	}
	e := m.effects[id][b.Name]
	if e.Used == o.Generation && rapid.Bool().Draw(t, "again") {
		b.Call = e.Call
	}
	got, err := m.w.book.BeginEffect(m.w.ctx, id, o, b)
	j, there := m.jobs[id]
	if !there {
		agree(t, "begin of a pruned job", err, daybook.ErrNotFound)
		return
	}
	j = m.job(id)
	want, write, refused := j.BeginEffect(o, e, b, m.w.clock.time())
	if errors.Is(refused, daybook.ErrFenced) {
		if past := m.attemptOf(id, o); past.Outcome == daybook.OutcomeAsked && e.Used == o.Generation && e.Call == b.Call ||
			past.Error != nil && past.Error.Kind == string(daybook.ReasonEffectChanged) && err == nil {
			agree(t, "begin of who was told to ask", err, nil)
			same(m.w, "decision", got.Decision, daybook.DecisionAsk)
			return
		}
		agree(t, "begin of who isn't the owner", err, refused)
		m.late(id, o, "effect_begin:"+b.Name, daybook.Late{})
		return
	}
	agree(t, "begin", err, refused)
	if err == nil {
		want.Result, got.Result = nil, nil
		same(m.w, "begun", got.Key+string(got.Decision), want.Key+string(want.Decision))
		same(m.w, "until", got.CallUntil+got.WaitUntil, want.CallUntil+want.WaitUntil)
		m.write(id, write)
	}
}

func (m *model) attemptOf(id daybook.ID, o daybook.Owner) daybook.Attempt {
	for _, a := range m.attempts[id] {
		if a.Generation == o.Generation && a.Session == o.Session {
			return a
		}
	}
	return daybook.Attempt{}
}

func (m *model) finishEffect(t *rapid.T) {
	id, o := m.owners(t)
	f := daybook.EffectEnd{Name: rapid.SampledFrom(effectNames).Draw(t, "effect"),
		Outcome: rapid.SampledFrom([]daybook.EffectOutcome{daybook.OutcomeDone, daybook.OutcomeAbsent,
			daybook.OutcomeUnknown}).Draw(t, "outcome")}
	if f.Outcome == daybook.OutcomeDone {
		f.Result = json.RawMessage(`{"n": 1.0}`)
	}
	e := m.effects[id][f.Name]
	got, err := m.w.book.FinishEffect(m.w.ctx, id, o, f)
	if _, there := m.jobs[id]; !there {
		agree(t, "finish of a pruned job", err, daybook.ErrNotFound)
		return
	}
	write, refused := m.job(id).FinishEffect(o, e, f, m.w.clock.time())
	if errors.Is(refused, daybook.ErrFenced) {
		if m.attemptOf(id, o).Outcome == daybook.OutcomeAsked && f.Outcome == daybook.OutcomeUnknown &&
			e.Used == o.Generation {
			agree(t, "finish of who was told to ask", err, nil)
			return
		}
		agree(t, "finish of who isn't the owner", err, refused)
		m.late(id, o, "effect_finish:"+f.Name, daybook.Late{Outcome: f.Outcome, Said: string(f.Result)})
		return
	}
	agree(t, "finish", err, refused)
	if err == nil {
		m.write(id, write)
		same(m.w, "state", got.State, m.effects[id][f.Name].State)
		same(m.w, "the job", got.Job, m.jobs[id].State)
	}
}

// late keeps what a fenced owner said, once, and weighs it.
func (m *model) late(id daybook.ID, o daybook.Owner, operation string, l daybook.Late) {
	key := refusalKey{o.Generation, o.Session, operation}
	if m.refusals[id] == nil {
		m.refusals[id] = map[refusalKey]bool{}
	}
	known := m.refusals[id][key]
	m.refusals[id][key] = true
	l.Generation, l.At = o.Generation, m.w.clock.time()
	name, finish := strings.CutPrefix(operation, "effect_finish:")
	if !finish {
		return
	}
	if m.evidence[id] == nil {
		m.evidence[id] = map[string][]daybook.Late{}
	}
	if !known { // also of an effect that nobody began yet
		all := append(slices.Clone(m.evidence[id][name]), l)
		slices.SortFunc(all, func(a, b daybook.Late) int {
			return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Generation, b.Generation))
		})
		m.evidence[id][name] = all
	}
	if e, there := m.effects[id][name]; there {
		e.Late = m.evidence[id][name]
		m.effects[id][name] = e
		if l.Outcome == daybook.OutcomeDone {
			m.write(id, e.Evidence(l, m.w.clock.time()))
		}
	}
}
