package storetest

import (
	"encoding/json"
	"errors"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/daybookdev/daybook"
)

// What owners report at random, whether they still own or not.

func (m *model) outcome(t *rapid.T, g grantRow) daybook.Outcome {
	o := daybook.Outcome{Job: g.ref.Job, Owner: daybook.Owner{Session: g.session, Generation: g.ref.Generation}}
	o.Kind = rapid.SampledFrom([]daybook.OutcomeKind{daybook.OutcomeSucceeded, daybook.OutcomeFailed,
		daybook.OutcomeFailed, daybook.OutcomeReleased}).Draw(t, "outcome")
	after := time.Duration(rapid.SampledFrom([]int{0, 5}).Draw(t, "after")) * time.Second
	switch o.Kind {
	case daybook.OutcomeSucceeded:
		o.Result = json.RawMessage(`{"ok": true}`)
	case daybook.OutcomeFailed:
		o.RetryIn, o.Permanent = &after, rapid.IntRange(0, 5).Draw(t, "permanent") == 0
		o.Problem = daybook.NewProblem("boom", "", "")
	case daybook.OutcomeReleased:
		o.In = after
	}
	return o
}

// move is the pure move of an outcome.
func (m *model) move(o daybook.Outcome) (daybook.Change, error) {
	j, now := m.job(o.Job), m.w.clock.time()
	switch o.Kind {
	case daybook.OutcomeSucceeded:
		return j.Complete(o.Owner, o.Result, now)
	case daybook.OutcomeReleased:
		return j.Release(o.Owner, o.In, now)
	}
	return j.Fail(o.Owner, daybook.Failure{Problem: o.Problem, Permanent: o.Permanent, Delay: *o.RetryIn}, now)
}

// finish reports for a claim that is held now.
func (m *model) finish(t *rapid.T) {
	m.report(t, func(g grantRow) bool {
		j := m.jobs[g.ref.Job]
		return j.Session == g.session && j.Generation == g.ref.Generation
	})
}

// finishLate reports for any claim that was ever given.
func (m *model) finishLate(t *rapid.T) { m.report(t, func(grantRow) bool { return true }) }

// finishMany reports for several claims in one call, most of them as done.
func (m *model) finishMany(t *rapid.T) {
	if len(m.granted) == 0 {
		t.Skip("no claim")
	}
	var outcomes []daybook.Outcome
	for _, g := range m.granted {
		j := m.jobs[g.ref.Job]
		held := j.Session == g.session && j.Generation == g.ref.Generation
		if !held && rapid.IntRange(0, 9).Draw(t, "late too") > 0 {
			continue
		}
		o := daybook.Outcome{Job: g.ref.Job, Owner: daybook.Owner{Session: g.session, Generation: g.ref.Generation},
			Kind: daybook.OutcomeSucceeded}
		if rapid.IntRange(0, 5).Draw(t, "otherwise") == 0 {
			o = m.outcome(t, g)
		}
		outcomes = append(outcomes, o)
	}
	m.reported(t, outcomes)
}

func (m *model) report(t *rapid.T, of func(grantRow) bool) {
	var from []grantRow
	for _, g := range m.granted {
		if of(g) {
			from = append(from, g)
		}
	}
	m.reported(t, []daybook.Outcome{m.outcome(t, pick(t, from, "claim"))})
}

func (m *model) reported(t *rapid.T, outcomes []daybook.Outcome) {
	answers, err := m.w.book.Finish(m.w.ctx, outcomes)
	m.w.ok(err)
	for i, o := range outcomes {
		m.reportedOne(t, o, answers[i])
	}
}

// reportedOne holds one answer against the pure move.
func (m *model) reportedOne(t *rapid.T, o daybook.Outcome, got daybook.Answer) {
	if _, there := m.jobs[o.Job]; !there {
		agree(t, "report of a pruned job", got.Err, daybook.ErrNotFound)
		return
	}
	c, refused := m.move(o)
	switch {
	case refused == nil:
		agree(t, "report of an owner", got.Err, nil)
		same(m.w, "already", got.Already, false)
		same(m.w, "state", got.State, c.Now.State)
		m.apply(c)
	case m.repeated(o):
		agree(t, "repeated report", got.Err, nil)
		same(m.w, "already", got.Already, true)
		same(m.w, "state", got.State, m.jobs[o.Job].State)
	default:
		agree(t, "report that is refused", got.Err, refused)
		if errors.Is(refused, daybook.ErrFenced) { // an open effect leaves no evidence
			m.refuse(o)
		}
	}
}

// repeated finds the attempt that accounts for the outcome's generation.
func (m *model) repeated(o daybook.Outcome) bool {
	for _, a := range m.attempts[o.Job] {
		first := a.Generation
		if a.First != 0 {
			first = a.First
		}
		if first <= o.Owner.Generation && o.Owner.Generation <= a.Generation {
			return o.Repeated(a)
		}
	}
	return false
}

func (m *model) refuse(o daybook.Outcome) {
	operation := map[daybook.OutcomeKind]string{
		daybook.OutcomeSucceeded: "complete",
		daybook.OutcomeFailed:    "fail",
		daybook.OutcomeReleased:  "release"}[o.Kind]
	if m.refusals[o.Job] == nil {
		m.refusals[o.Job] = map[refusalKey]bool{}
	}
	m.refusals[o.Job][refusalKey{o.Owner.Generation, o.Owner.Session, operation}] = true
}

// given lists the claims that a session was ever given.
func (m *model) given(session daybook.ID) (refs []daybook.ClaimRef) {
	for _, g := range m.granted {
		if g.session == session {
			refs = append(refs, g.ref)
		}
	}
	return refs
}

// renew lists all, none or some of what the session was given, or says nothing.
func (m *model) renew(t *rapid.T) {
	s := m.anySession(t)
	var claims []daybook.ClaimRef
	if rapid.Bool().Draw(t, "lists") {
		claims = []daybook.ClaimRef{}
		for _, ref := range m.given(s.ID) {
			if rapid.IntRange(0, 2).Draw(t, "listed") > 0 {
				claims = append(claims, ref)
			}
		}
	}
	got, err := m.w.book.Renew(m.w.ctx, s.ID, claims)
	s, refused := s.Renew(m.w.clock.time(), claims != nil)
	agree(t, "renewal", err, refused)
	if err != nil {
		return
	}
	m.sessions[s.ID] = s
	same(m.w, "lease", got.LeaseUntil, s.ExpiresAt)
	held := map[daybook.ClaimRef]bool{}
	asked := 0
	for _, j := range m.where(func(j daybook.Job) bool { return j.Session == s.ID }) {
		if claims != nil && !slices.Contains(claims, ref(j)) && s.Unlisted(j.GrantedAt) {
			m.lose(j, daybook.Loss{Cause: daybook.LossUnlisted, Owner: owner(j), Starts: s.Starts})
			continue
		}
		held[ref(j)] = true
		if j.CancelRequestedAt != 0 {
			asked++
			same(m.w, "asked to cancel", slices.Contains(got.Cancel, ref(j)), true)
		}
	}
	same(m.w, "claims to cancel", len(got.Cancel), asked)
	lost := 0
	for _, ref := range claims {
		if !held[ref] {
			lost++
			same(m.w, "told as lost", slices.Contains(got.Lost, ref), true)
		}
	}
	same(m.w, "claims lost", len(got.Lost), lost)
}

// start records the start of one claim that the session was ever given.
func (m *model) start(t *rapid.T) {
	g := pick(t, m.granted, "claim")
	lost, err := m.w.book.Started(m.w.ctx, g.session, []daybook.ClaimRef{g.ref})
	m.w.ok(err)
	j, there := m.jobs[g.ref.Job]
	next, refused := j.Started(daybook.Owner{Session: g.session, Generation: g.ref.Generation}, m.w.clock.time())
	same(m.w, "lost", len(lost) == 1, refused != nil || !there)
	switch {
	case !there:
	case refused == nil:
		m.jobs[j.ID] = next
	default: // a late write like any other: kept as evidence
		if m.refusals[j.ID] == nil {
			m.refusals[j.ID] = map[refusalKey]bool{}
		}
		m.refusals[j.ID][refusalKey{g.ref.Generation, g.session, "start"}] = true
	}
}

// endSession gives everything back.
func (m *model) endSession(t *rapid.T) {
	s := pick(t, m.live(), "session")
	m.w.ok(m.w.book.EndSession(m.w.ctx, s.ID))
	for _, j := range m.where(func(j daybook.Job) bool { return j.Session == s.ID }) {
		c, err := j.Release(owner(j), 0, m.w.clock.time())
		m.w.ok(err)
		m.apply(c)
	}
	m.sessions[s.ID] = s.End(m.w.clock.time())
}
