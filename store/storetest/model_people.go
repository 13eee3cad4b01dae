package storetest

import (
	"time"

	"pgregory.net/rapid"

	"github.com/daybookdev/daybook"
)

// What time, the reconciler and people do at random.

func (m *model) advance(t *rapid.T) {
	steps := []time.Duration{time.Microsecond, time.Millisecond, time.Second, time.Second, 5 * time.Second,
		5 * time.Second, 11 * time.Second, 11 * time.Second, 31 * time.Second, time.Minute, 8 * 24 * time.Hour,
		31 * 24 * time.Hour}
	m.w.clock.advance(rapid.SampledFrom(steps).Draw(t, "by"))
}

// lapse lets every lease run out.
func (m *model) lapse(t *rapid.T) {
	m.w.clock.advance(31 * time.Second)
	m.pass(t, daybook.AtOnce)
}

func (m *model) reconcile(t *rapid.T) {
	certainties := []daybook.Certainty{daybook.Unsure, daybook.Sure, daybook.AtOnce}
	m.pass(t, rapid.SampledFrom(certainties).Draw(t, "certainty"))
}

func (m *model) pass(t *rapid.T, certainty daybook.Certainty) {
	t.Helper()
	now := m.w.clock.time()
	var want pass
	for id, s := range m.sessions {
		next, changed := s.Expiry(now, certainty)
		if !changed {
			continue
		}
		m.sessions[id] = next
		if next.Live() {
			want.marked++
		} else {
			want.ended++
		}
	}
	running := func(j daybook.Job) bool { return j.State == daybook.Running }
	for _, j := range m.where(running) {
		if s := m.sessions[j.Session]; !s.Live() {
			m.lose(j, daybook.Loss{Cause: daybook.LossSession, Owner: owner(j), Starts: s.Starts})
			want.revoked++
		}
	}
	for _, j := range m.where(running) {
		if j.Deadline() <= now {
			m.lose(j, daybook.Loss{Cause: daybook.LossTimeout, Owner: owner(j)})
			want.overdue++
		}
	}
	for _, j := range m.where(func(j daybook.Job) bool { return j.State == daybook.Waiting }) {
		if c, err := j.Expire(now); err == nil {
			m.apply(c)
			want.expired++
		}
	}
	same(m.w, "what the pass did", m.w.reconcile(certainty), want)
}

func (m *model) lose(j daybook.Job, l daybook.Loss) {
	c, err := j.Lose(l, m.w.clock.time())
	m.w.ok(err)
	m.apply(c)
}

// person carries one person's decision out on book and model.
func (m *model) person(t *rapid.T, what string, j daybook.Job, do func() (daybook.Job, error),
	move func() (daybook.Change, error)) {
	t.Helper()
	got, err := do()
	c, refused := move()
	agree(t, what, err, refused)
	if err == nil {
		same(m.w, what+": state", got.State, c.Now.State)
		m.apply(c)
	}
}

func (m *model) anyJob(t *rapid.T) daybook.Job {
	return pick(t, m.where(func(daybook.Job) bool { return true }), "job")
}

func (m *model) cancel(t *rapid.T) {
	j, force := m.anyJob(t), rapid.Bool().Draw(t, "force")
	m.person(t, "cancel", j,
		func() (daybook.Job, error) { return m.w.book.Cancel(m.w.ctx, j.ID, someone, force) },
		func() (daybook.Change, error) { return j.Cancel(someone, force, m.w.clock.time()) })
}

func (m *model) revive(t *rapid.T) {
	j := m.anyJob(t)
	m.person(t, "revive", j, func() (daybook.Job, error) { return m.w.book.Revive(m.w.ctx, j.ID, someone) },
		func() (daybook.Change, error) { return j.Revive(someone, m.w.clock.time()) })
}

func (m *model) settle(t *rapid.T) {
	j := m.anyJob(t)
	v := daybook.Verdict{Happened: rapid.Bool().Draw(t, "happened"), Stay: rapid.Bool().Draw(t, "stay")}
	name := rapid.SampledFrom(append(effectNames, daybook.HandlerEffect)).Draw(t, "effect")
	m.person(t, "settle", j,
		func() (daybook.Job, error) { return m.w.book.Settle(m.w.ctx, j.ID, name, v, someone) },
		func() (daybook.Change, error) {
			effect, known := m.effects[j.ID][name]
			if !known {
				return daybook.Change{}, daybook.ErrNotFound
			}
			for other, e := range m.effects[j.ID] {
				v.More = v.More || other != name && e.State == daybook.EffectIsOpen
			}
			return j.Settle(effect, v, someone, m.w.clock.time())
		})
}

func (m *model) hold(t *rapid.T) {
	free := func(j daybook.Job) bool { return j.State == daybook.Waiting && j.HeldBy == "" }
	j := pick(t, m.where(free), "waiting job")
	m.w.hold(j.ID, "cutover")
	j.HeldBy = "cutover"
	m.jobs[j.ID] = j
}

func (m *model) unhold(t *rapid.T) {
	j := m.anyJob(t)
	m.person(t, "unhold", j, func() (daybook.Job, error) { return m.w.book.Unhold(m.w.ctx, j.ID, someone) },
		func() (daybook.Change, error) { return j.Unhold(someone, m.w.clock.time()) })
}

func (m *model) pause(t *rapid.T) {
	queue := rapid.SampledFrom([]string{"q", "r"}).Draw(t, "queue")
	m.paused[queue] = true
	m.w.ok(m.w.book.Pause(m.w.ctx, queue, someone))
}

func (m *model) resume(t *rapid.T) {
	queue := rapid.SampledFrom([]string{"q", "r"}).Draw(t, "queue")
	err := m.w.book.Resume(m.w.ctx, queue, someone)
	if !m.knows(queue) {
		if daybook.CodeOf(err) != daybook.CodeNotFound {
			m.w.Errorf("resume of queue %s that nobody named yet: got %v, want not_found", queue, err)
		}
		return
	}
	m.paused[queue] = false
	m.w.ok(err)
}

// knows reports whether anything named the queue before.
func (m *model) knows(queue string) bool {
	_, counted := m.counts[queue]
	_, paused := m.paused[queue]
	return counted || paused
}

func (m *model) restored(*rapid.T) {
	m.incarnation++
	got, err := m.w.book.Restored(m.w.ctx, m.w.clock.time(), someone)
	m.w.ok(err)
	same(m.w, "incarnation", got, m.incarnation)
}

func (m *model) prune(*rapid.T) {
	cutoff := m.w.clock.time().Add(-daybook.RetentionDefault)
	old := m.where(func(j daybook.Job) bool { return j.Prunable(cutoff) })
	m.w.prune(len(old))
	for _, j := range old {
		delete(m.jobs, j.ID)
		delete(m.effects, j.ID)
		if k, known := m.keys[j.Key]; known {
			k.ended, k.state = j.EndedAt, j.State
			m.keys[j.Key] = k
		}
	}
}

// imported takes a job in from elsewhere, or the same one again.
func (m *model) imported(t *rapid.T) {
	n, err := daybook.Request{Queue: "q", Kind: "a", OnLost: daybook.LostSetAside}.Prepare()
	m.w.ok(err)
	a := daybook.Arrival{HeldBy: rapid.SampledFrom([]string{"", "cutover"}).Draw(t, "held"),
		Origin: daybook.Origin{System: "old", ID: rapid.SampledFrom([]string{"1", "2", "3"}).Draw(t, "id")}}
	if rapid.Bool().Draw(t, "owner died") {
		a.OwnerDied, a.Aside, a.HeldBy = true, daybook.ReasonEffectOpen, ""
	}
	var c daybook.Change
	err = m.w.try(func(tx daybook.Tx) error {
		c = n.Import(a, tx.Now())
		return tx.Save(m.w.ctx, []daybook.Change{c})
	})
	same := func(j daybook.Job) bool { return j.Origin != nil && *j.Origin == a.Origin }
	if len(m.where(same)) > 0 {
		agree(t, "second import", err, daybook.ErrFenced)
		return
	}
	m.w.ok(err)
	m.order = append(m.order, c.Now.ID)
	m.apply(c)
}

// sweep drops what is past its time; sums don't change.
func (m *model) sweep(*rapid.T) {
	_, err := m.w.book.Sweep(m.w.ctx)
	m.w.ok(err)
	now := m.w.clock.time()
	for key, k := range m.keys {
		if _, there := m.jobs[k.job]; !there && k.ended <= now.Add(-daybook.KeyRetention) {
			delete(m.keys, key)
		}
	}
	for id, s := range m.sessions {
		owns := m.where(func(j daybook.Job) bool { return j.Session == id })
		if !s.Live() && s.EndedAt <= now.Add(-daybook.RetentionMin) && len(owns) == 0 {
			m.forget(id)
		}
	}
}

// forget drops a session with its calls; history keeps the attempts without it.
func (m *model) forget(id daybook.ID) {
	delete(m.sessions, id)
	for call, row := range m.calls {
		if row.session == id {
			delete(m.calls, call)
		}
	}
	for _, list := range m.attempts {
		for i := range list {
			if list[i].Session == id {
				list[i].Session = daybook.ID{}
			}
		}
	}
}
