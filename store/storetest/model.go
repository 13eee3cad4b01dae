package storetest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/daybookdev/daybook"
)

// runModel makes random moves on a book and on a model of it: plain maps of
// values, changed by the same pure moves. After each move the whole book must
// equal the model. A failure prints the seed and the shortest run that fails.
func runModel(t *testing.T, open opener) {
	rapid.Check(t, func(rt *rapid.T) {
		w := &world{tb: rt, t: t, ctx: t.Context(), clock: newClock(), open: open}
		w.book = open(t, Options{Now: w.clock.now})
		defer w.book.Close()
		m := newModel(w)
		moves := map[string]func(*rapid.T){"": m.compare}
		for _, move := range m.moves() {
			for i := range move.often {
				moves[move.name+strings.Repeat("'", i)] = move.run
			}
		}
		for range 2 { // twice the usual length: jobs need many moves to get into trouble
			rt.Repeat(moves)
		}
		verify(w.ctx, rt, w.book, m.broken()...)
	})
}

type randomMove struct {
	name  string
	often int
	run   func(*rapid.T)
}

// moves lists what may happen, and how often beside the others.
func (m *model) moves() []randomMove {
	return []randomMove{
		{"enqueue", 3, m.enqueue}, {"session", 2, m.startSession}, {"claim", 4, m.claim},
		{"claim again", 1, m.repeatClaim}, {"claim a job", 1, m.claimJob}, {"import", 1, m.imported},
		{"finish", 2, m.finish}, {"begin effect", 4, m.beginEffect}, {"finish effect", 3, m.finishEffect},
		{"finish many", 2, m.finishMany}, {"finish late", 1, m.finishLate}, {"renew", 2, m.renew},
		{"start", 1, m.start}, {"end session", 1, m.endSession}, {"advance", 2, m.advance}, {"lapse", 2, m.lapse},
		{"reconcile", 1, m.reconcile}, {"cancel", 1, m.cancel}, {"revive", 2, m.revive}, {"settle", 1, m.settle},
		{"hold", 1, m.hold}, {"unhold", 1, m.unhold}, {"pause", 1, m.pause}, {"resume", 2, m.resume},
		{"restored", 1, m.restored}, {"prune", 1, m.prune}, {"sweep", 1, m.sweep},
	}
}

// model is what the book must be.
type model struct {
	w           *world
	order       []daybook.ID // by arrival
	jobs        map[daybook.ID]daybook.Job
	attempts    map[daybook.ID][]daybook.Attempt
	effects     map[daybook.ID]map[string]daybook.Effect
	evidence    map[daybook.ID]map[string][]daybook.Late // by effect, what came too late
	refusals    map[daybook.ID]map[refusalKey]bool
	keys        map[string]keyRow
	sessions    map[daybook.ID]daybook.Session
	started     []daybook.ID // sessions by start
	calls       map[daybook.ID]callRow
	made        []daybook.ID // calls by time
	granted     []grantRow   // every claim ever given
	paused      map[string]bool
	incarnation int64
	counts      map[string]daybook.Counts
}

type refusalKey struct {
	generation int64
	session    daybook.ID
	operation  string
}

type keyRow struct {
	job         daybook.ID
	fingerprint daybook.Fingerprint
	replays     int64
	ended       daybook.Time
	state       daybook.State
}

type callRow struct {
	session daybook.ID
	given   []daybook.ClaimRef
	at      daybook.Time
}

type grantRow struct {
	ref     daybook.ClaimRef
	session daybook.ID
}

func newModel(w *world) *model {
	return &model{w: w, jobs: map[daybook.ID]daybook.Job{}, attempts: map[daybook.ID][]daybook.Attempt{},
		effects: map[daybook.ID]map[string]daybook.Effect{}, evidence: map[daybook.ID]map[string][]daybook.Late{},
		refusals: map[daybook.ID]map[refusalKey]bool{},
		keys:     map[string]keyRow{},
		sessions: map[daybook.ID]daybook.Session{}, calls: map[daybook.ID]callRow{}, paused: map[string]bool{},
		counts: map[string]daybook.Counts{}}
}

// apply writes what a move did into the model.
func (m *model) apply(c daybook.Change) {
	j := c.Now
	m.jobs[j.ID] = j
	counts := m.counts[j.Queue]
	counts.Add(c.Delta())
	m.counts[j.Queue] = counts
	if c.Effect != nil {
		m.keepEffect(*c.Effect)
	}
	if c.Attempt != nil {
		m.attempts[j.ID] = append(folded(m.attempts[j.ID], *c.Attempt, c.Was.Ledger), *c.Attempt)
	}
}

// folded joins the two newest attempts before a release is added, as a store
// does, so that the newest stays unfolded; not those of a job with a ledger.
func folded(list []daybook.Attempt, next daybook.Attempt, ledger bool) []daybook.Attempt {
	n := len(list)
	if next.Outcome != daybook.OutcomeReleased || n < 2 || ledger {
		return list
	}
	if both, ok := list[n-1].Fold(list[n-2]); ok {
		return append(list[:n-2], both)
	}
	return list
}

// job is the model's row as a store would load it: the lease is its session's.
func (m *model) job(id daybook.ID) daybook.Job {
	j := m.jobs[id]
	if j.State == daybook.Running {
		j.LeaseUntil = m.sessions[j.Session].ExpiresAt
	}
	return j
}

// pick draws one of a list, or skips the move when there is none.
func pick[T any](t *rapid.T, list []T, label string) T {
	if len(list) == 0 {
		t.Skip("no ", label)
	}
	return list[rapid.IntRange(0, len(list)-1).Draw(t, label)]
}

// where lists the jobs for which keep holds, by arrival.
func (m *model) where(keep func(daybook.Job) bool) (jobs []daybook.Job) {
	for _, id := range m.order {
		if j, there := m.jobs[id]; there && keep(j) {
			jobs = append(jobs, m.job(id))
		}
	}
	return jobs
}

func (m *model) live() (sessions []daybook.Session) {
	for _, id := range m.started {
		if s := m.sessions[id]; !s.ID.IsZero() && s.Live() {
			sessions = append(sessions, s)
		}
	}
	return sessions
}

// agree ends the run unless book and model refused alike.
func agree(t *rapid.T, what string, got, want error) {
	t.Helper()
	if daybook.CodeOf(got) != daybook.CodeOf(want) {
		t.Fatalf("%s: the book answers %v, the model %v", what, got, want)
	}
}

// compare holds the whole book against the model.
func (m *model) compare(t *rapid.T) {
	w := m.w
	w.read(func(v daybook.View) error {
		for id := range m.attempts {
			if _, there := m.jobs[id]; !there {
				_, found, err := v.Job(w.ctx, id)
				w.ok(err)
				same(w, "a pruned job is there", found, false)
			}
		}
		for id := range m.jobs {
			j, found, err := v.Job(w.ctx, id)
			w.ok(err)
			same(w, "job is there", found, true)
			compareJobs(t, "as people see it", j, m.job(id))
			h, err := v.History(w.ctx, j)
			w.ok(err)
			m.compareHistory(t, id, h)
		}
		queues, err := v.Queues(w.ctx, true)
		w.ok(err)
		for _, q := range queues {
			same(w, "counts of "+q.Name, q.Counts, m.counts[q.Name])
			same(w, "paused", q.Paused, m.paused[q.Name])
		}
		for key, want := range m.keys {
			k, found, err := v.Key(w.ctx, key)
			w.ok(err)
			same(w, "key is there", found, true)
			got := keyRow{k.Job, k.Fingerprint, k.Replays, k.EndedAt, k.State}
			same(w, "key "+key, got, want)
		}
		return nil
	})
	m.compareLocked(t)
	m.compareSessions(t)
}

func (m *model) compareLocked(t *rapid.T) {
	ids := slices.Collect(maps.Keys(m.jobs))
	m.w.write(func(tx daybook.Tx) error {
		jobs, err := tx.Lock(m.w.ctx, ids)
		for i, j := range jobs {
			compareJobs(t, "as moves see it", j, m.job(ids[i]))
			same(m.w, "ledger", j.Ledger, m.jobs[j.ID].Ledger)
		}
		return err
	})
}

func (m *model) compareSessions(t *rapid.T) {
	sessions, err := m.w.book.Sessions(m.w.ctx, daybook.SessionFilter{WithEnded: true})
	m.w.ok(err)
	same(m.w, "sessions", len(sessions), len(m.sessions))
	for _, s := range sessions {
		compareSessions(t, "session", s, m.sessions[s.ID])
		running := m.where(func(j daybook.Job) bool { return j.State == daybook.Running && j.Session == s.ID })
		same(m.w, "running claims", s.Running, len(running))
	}
}

func (m *model) compareHistory(t *rapid.T, id daybook.ID, h daybook.History) {
	same(m.w, "attempts", len(h.Attempts), len(m.attempts[id]))
	for i, got := range h.Attempts {
		want := m.attempts[id][i]
		got.Error, want.Error, got.Result, want.Result = nil, nil, nil, nil
		got.Worker, want.Worker = "", ""
		same(m.w, "attempt", fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", want))
	}
	same(m.w, "refusals", len(h.Refusals), len(m.refusals[id]))
	for _, r := range h.Refusals {
		same(m.w, "refusal is known", m.refusals[id][refusalKey{r.Generation, r.Session, r.Operation}], true)
	}
	same(m.w, "effects", len(h.Effects), len(m.effects[id]))
	for _, got := range h.Effects {
		want := m.effects[id][got.Name]
		got.Ref, want.Ref = 0, 0
		same(m.w, "effect", fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", want))
	}
}

// byAge orders waiting jobs as a claim takes them.
func byAge(oldest bool) func(a, b daybook.Job) int {
	return func(a, b daybook.Job) int {
		if !oldest && a.Priority != b.Priority {
			return cmp.Compare(b.Priority, a.Priority)
		}
		return cmp.Compare(a.RunAt, b.RunAt)
	}
}
