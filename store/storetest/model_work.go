package storetest

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/daybookdev/daybook"
)

// What callers and workers do at random.

func (m *model) request(t *rapid.T) daybook.Request {
	r := daybook.Request{
		Queue:       rapid.SampledFrom([]string{"q", "q", "q", "r"}).Draw(t, "queue"),
		Kind:        rapid.SampledFrom([]string{"a", "b"}).Draw(t, "kind"),
		Args:        json.RawMessage(rapid.SampledFrom([]string{`1`, `1.0`, `2`}).Draw(t, "args")),
		Key:         rapid.SampledFrom([]string{"", "", "k1", "k2"}).Draw(t, "key"),
		Priority:    rapid.IntRange(-1, 1).Draw(t, "priority"),
		MaxFailures: rapid.IntRange(1, 4).Draw(t, "max_failures"),
		OnLost: rapid.SampledFrom([]daybook.OnLost{daybook.LostRetry, daybook.LostRetry,
			daybook.LostSetAside}).Draw(t, "on_lost"),
		In:      time.Duration(rapid.SampledFrom([]int{0, 0, 1, 20}).Draw(t, "in")) * time.Second,
		Timeout: rapid.SampledFrom([]time.Duration{0, time.Minute}).Draw(t, "timeout"),
	}
	if rapid.IntRange(0, 3).Draw(t, "expires") == 0 {
		r.ExpiresAt = m.w.clock.now().Add(40 * time.Second)
	}
	return r
}

func (m *model) enqueue(t *rapid.T) {
	r := m.request(t)
	n, err := r.Prepare()
	m.w.ok(err)
	got, err := m.w.book.Enqueue(m.w.ctx, r)
	if k, known := m.keys[r.Key]; r.Key != "" && known {
		want, refused := n.Replay(k.fingerprint, k.job, true)
		agree(t, "enqueue of a known key", err, refused)
		if refused == nil {
			same(m.w, "receipt", got, want)
			k.replays++
			m.keys[r.Key] = k
		}
		return
	}
	m.w.ok(err)
	same(m.w, "replayed", got.Replayed, false)
	n.Job.ID = got.ID
	j := n.Enqueue(m.w.clock.time())
	m.order = append(m.order, got.ID)
	if r.Key != "" {
		m.keys[r.Key] = keyRow{job: got.ID, fingerprint: n.Fingerprint}
	}
	m.apply(daybook.Change{Move: daybook.MoveEnqueue, Now: j})
}

func (m *model) startSession(t *rapid.T) {
	if len(m.live()) >= 4 {
		t.Skip("enough sessions")
	}
	r := daybook.SessionRequest{Worker: fmt.Sprint("w", len(m.started)), Starts: rapid.Bool().Draw(t, "starts"),
		Lease: rapid.SampledFrom([]time.Duration{10 * time.Second, 30 * time.Second}).Draw(t, "lease")}
	s, err := m.w.book.StartSession(m.w.ctx, r)
	m.w.ok(err)
	m.sessions[s.ID] = s
	m.started = append(m.started, s.ID)
}

// liveSession draws a session that may claim, most of the time.
func (m *model) liveSession(t *rapid.T) daybook.Session {
	if live := m.live(); len(live) > 0 && rapid.IntRange(0, 7).Draw(t, "live") > 0 {
		return pick(t, live, "session")
	}
	return m.anySession(t)
}

// anySession draws a session, ended or not.
func (m *model) anySession(t *rapid.T) daybook.Session {
	return m.sessions[pick(t, slices.DeleteFunc(slices.Clone(m.started), func(id daybook.ID) bool {
		return m.sessions[id].ID.IsZero()
	}), "session")]
}

// mayClaim is the part of a claim that is about the session.
func (m *model) mayClaim(id daybook.ID) (s daybook.Session, err error) {
	s = m.sessions[id]
	switch {
	case s.ID.IsZero():
		return s, daybook.ErrNotFound
	case !s.Live():
		return s, daybook.ErrFenced
	}
	if s.HalfSpent(m.w.clock.time()) {
		s, err = s.Renew(m.w.clock.time(), false)
		m.sessions[id] = s
	}
	return s, err
}

func (m *model) grant(s daybook.Session, queue string) daybook.Grant {
	g := daybook.Grant{Session: s, Incarnation: m.incarnation, Paused: m.paused[queue]}
	g.Suspects = len(m.where(func(j daybook.Job) bool { return j.Session == s.ID && j.Suspect() }))
	return g
}

// expected is what a claim must give: the pure move, over the queue in order.
func (m *model) expected(r daybook.ClaimRequest) (claims []daybook.Change, err error) {
	s, err := m.mayClaim(r.Session)
	if err != nil {
		return nil, err
	}
	g := m.grant(s, r.Queues[0])
	waiting := m.where(func(j daybook.Job) bool {
		return j.Queue == r.Queues[0] && (len(r.Kinds) == 0 || slices.Contains(r.Kinds, j.Kind))
	})
	slices.SortStableFunc(waiting, byAge(r.Oldest))
	for _, j := range waiting {
		c, err := j.Claim(g, m.w.clock.time())
		if err != nil || len(claims) == r.Limit {
			continue
		}
		if j.Suspect() {
			g.Suspects++
		}
		claims = append(claims, c)
	}
	return claims, nil
}

func (m *model) claim(t *rapid.T) {
	r := daybook.ClaimRequest{Session: m.liveSession(t).ID, Limit: rapid.IntRange(1, 5).Draw(t, "limit"),
		Queues: []string{rapid.SampledFrom([]string{"q", "q", "r"}).Draw(t, "queue")}, Call: daybook.NewID(),
		Oldest: rapid.Bool().Draw(t, "oldest")}
	if rapid.IntRange(0, 4).Draw(t, "by kind") == 0 {
		r.Kinds = []string{"a"}
	}
	want, refused := m.expected(r)
	got, err := m.w.book.Claim(m.w.ctx, r)
	agree(t, "claim", err, refused)
	if err != nil {
		return
	}
	for i, c := range want {
		if i < len(got.Jobs) && got.Jobs[i].ID != c.Now.ID {
			g := got.Jobs[i]
			t.Fatalf("claim %d of %d (oldest %v):\n got %s, priority %d, from %s\nwant %s, priority %d, from %s", i+1,
				len(want), r.Oldest, g.ID, g.Priority, g.RunAt, c.Now.ID, c.Now.Priority, c.Now.RunAt)
		}
	}
	same(m.w, "claims", len(got.Jobs), len(want))
	m.give(t, r, want, got)
}

// give notes what a call was given.
func (m *model) give(t *rapid.T, r daybook.ClaimRequest, want []daybook.Change, got daybook.Claimed) {
	row := callRow{session: r.Session, at: m.w.clock.time()}
	for i, c := range want {
		compareClaims(t, "as claimed", got.Jobs[i], c.Now)
		m.apply(c)
		ref := daybook.ClaimRef{Job: c.Now.ID, Generation: c.Now.Generation}
		row.given = append(row.given, ref)
		m.granted = append(m.granted, grantRow{ref, r.Session})
	}
	if len(row.given) > 0 {
		m.calls[r.Call] = row
		m.made = append(m.made, r.Call)
	}
}

// repeatClaim asks again with an old call's id.
func (m *model) repeatClaim(t *rapid.T) {
	call := pick(t, m.made, "call")
	row := m.calls[call]
	if s := m.sessions[row.session]; s.ID.IsZero() || !s.Live() {
		t.Skip("the call is gone with its session")
	}
	var want []daybook.ClaimRef
	for _, ref := range row.given {
		if j := m.jobs[ref.Job]; j.Session == row.session && j.Generation == ref.Generation {
			want = append(want, ref)
		}
	}
	if len(want) == 0 && m.w.clock.time().Sub(row.at) >= daybook.CallKept {
		t.Skip("a store may have forgotten the call")
	}
	got, err := m.w.book.Claim(m.w.ctx, daybook.ClaimRequest{Session: row.session, Queues: []string{"q"},
		Limit: 9, Call: call})
	m.w.ok(err)
	same(m.w, "claims of the repeated call", len(got.Jobs), len(want))
	for _, j := range got.Jobs {
		same(m.w, "claim is the call's", slices.Contains(want, ref(j)), true)
		compareClaims(t, "as claimed again", j, m.job(j.ID))
	}
}

// claimJob claims one job by its id, eligible or not.
func (m *model) claimJob(t *rapid.T) {
	s, j := m.liveSession(t), m.anyJob(t)
	r := daybook.ClaimRequest{Session: s.ID, Job: j.ID, Call: daybook.NewID()}
	was := m.sessions[s.ID]
	s, refused := m.mayClaim(s.ID)
	var c daybook.Change
	if refused == nil {
		c, refused = j.Claim(m.grant(s, j.Queue), m.w.clock.time())
	}
	got, err := m.w.book.Claim(m.w.ctx, r)
	agree(t, "claim of a job", err, refused)
	if err != nil {
		m.sessions[was.ID] = was // what the refused call did to the session is undone with it
		return
	}
	m.give(t, r, []daybook.Change{c}, got)
}
