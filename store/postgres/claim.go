package postgres

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/daybookdev/daybook"
)

const claimJobs = `SELECT seq, id, queue, rank, kind, args, generation, enqueued_at, run_at, expires_at, max_failures,
	set_aside_lost, timeout, key, failures, crashes, first_claimed_at, origin, effects, header, trace
	FROM daybook.claim_jobs($1::uuid, $2::uuid, $3::bigint, $4::text[], $5::text[], $6::int, $7::boolean,
	$8::bigint, $9::int[], $10::int[], $11::bigint[], $12::bigint[], $13::boolean, $14::boolean)`

// claiming is one claim call.
type claiming struct {
	session     daybook.ID
	call        any // nil when it isn't to be remembered
	incarnation any // nil when nobody has looked at the session yet
	queues      []string
	kinds       []string
	limit       int
	oldest      bool
	last        bool // nothing else is to be done in the transaction
}

// ClaimSet carries out a whole claim call as one set.
func (t *tx) ClaimSet(_ context.Context, r daybook.ClaimRequest) (out daybook.Claimed, plain bool, err error) {
	a, err := t.claim(claiming{session: r.Session, call: r.Call.String(), queues: r.Queues, kinds: r.Kinds, limit: r.Limit,
		oldest: r.Oldest})
	if err != nil || a.head == nil {
		return out, false, err
	}
	out.Jobs, out.Full = a.jobs, a.more
	if out.Session, err = a.head.session(r.Session); err == nil {
		t.s.lists.learn(out.Session)
	}
	return out, true, err
}

// standingPatience is for how long an enqueue waits for the locks of the claim that it
// makes for a worker: nothing holds one of those for so long that is well.
const standingPatience = "SELECT set_config('lock_timeout', '100', true)"

// ClaimStanding makes a claim call in the round trip that commits an enqueue.
func (t *tx) ClaimStanding(_ context.Context, r daybook.ClaimRequest) (out daybook.Claimed, made bool, err error) {
	c := claiming{session: r.Session, call: r.Call.String(), queues: r.Queues, kinds: r.Kinds, limit: r.Limit,
		oldest: r.Oldest, last: t.begin != nil && len(t.deltas) == 0}
	if !t.mayClaimFew(c) || slices.ContainsFunc(t.kept, func(s statement) bool { return s.want != anyCount }) {
		return out, false, nil
	}
	t.later(anyCount, "", standingPatience)
	a, err := t.claimFew(c)
	if err != nil || a.head == nil {
		return out, false, err
	}
	out.Jobs = a.jobs
	out.Session, err = a.head.session(r.Session)
	return out, true, err
}

// Claim finds eligible jobs and gives them to the session.
func (t *tx) Claim(_ context.Context, c daybook.Claiming) ([]daybook.Job, error) {
	a, err := t.claim(claiming{session: c.Session.ID, incarnation: c.Incarnation, queues: c.Queues, kinds: c.Kinds,
		limit: c.Limit, oldest: c.Oldest})
	return a.jobs, err
}

// claim makes one call. Of very many queues it asks those that have work.
func (t *tx) claim(c claiming) (answer, error) {
	if tour := t.s.tours.begin(c.queues, t.s.opts.Now != nil); tour != nil {
		return tour.claim(t, c)
	}
	c.last = c.incarnation == nil && t.begin != nil && len(t.deltas) == 0
	if t.mayClaimFew(c) {
		if a, err := t.claimFew(c); err != nil || a.head != nil {
			return a, err
		}
	}
	a, err := t.claimFrom(c)
	if len(a.jobs) >= fewMost && len(c.queues) <= fewQueues {
		t.s.rests.add(c.queues)
	}
	return a, err
}

// claimFrom makes one call to all the queues.
func (t *tx) claimFrom(c claiming) (answer, error) {
	look := t.s.marks.begin(c, t.s.opts.Now != nil)
	a, err := t.askFor(c, look.hints)
	look.end(a)
	if err == nil && a.head != nil && t.at == 0 {
		t.at = daybook.Time(a.head.Now)
	}
	return a, err
}

// answer is what claim_jobs answers; no header is that it changed nothing.
type answer struct {
	head *header
	jobs []daybook.Job
	more bool // queues that weren't asked have work too
}

// header is what a claim call says once. Times and spans are microseconds.
type header struct {
	Now       int64   `json:"now"`
	Lanes     []int64 `json:"lanes"`     // parallel to the queues; 0 is paused or unknown
	LookedAt  int     `json:"looked_at"` // queues that the call got to
	Dry       []int   `json:"dry"`       // those of them that have nothing left, by their places from 1
	Looked    int64   `json:"looked"`    // what finding took
	Gaps      int64   `json:"gaps"`      // what looking for unknown ranks took of it
	N         int64   `json:"n"`
	Worker    string  `json:"worker"`
	Lease     int64   `json:"lease"`
	StartedAt int64   `json:"started_at"`
	RenewedAt int64   `json:"renewed_at"`
	ExpiresAt int64   `json:"expires_at"`
	MarkedAt  int64   `json:"marked_at"`
	Renewals  int64   `json:"renewals"`
	Starts    bool    `json:"starts"`
	Quiet     bool    `json:"quiet"`
	Queues    string  `json:"queues"` // JSON lists, as they are stored; "" when they are known
	Kinds     string  `json:"kinds"`

	last  string        // the kind read last
	lists *sessionLists // where they are known
}

func (t *tx) askFor(c claiming, m hints) (a answer, err error) {
	lists := t.s.lists.of(c.session)
	args := []any{c.session.String(), c.call, c.incarnation, c.queues, kindsOrNull(c.kinds), int64(c.limit), c.oldest,
		t.nowOrNull(), m.ends, m.ranks, m.runAts, m.seqs, m.gaps, lists == nil}
	places := map[int64]int{} // of queues in the call, by number
	var order []place
	err = t.raw(claimJobs, args, c.last, func(row cells) error {
		if a.head == nil {
			a.head = &header{lists: lists}
			err := json.Unmarshal(row.raw[19], a.head)
			for i, lane := range a.head.Lanes {
				places[lane] = i
			}
			a.jobs = make([]daybook.Job, 0, min(c.limit, 1000))
			return err
		}
		at := places[row.num(2)]
		j, err := a.head.job(row, 20, c.queues[at], c.session)
		order = append(order, place{at, len(a.jobs)})
		a.jobs = append(a.jobs, j)
		return err
	})
	a.sort(order, c.oldest)
	return a, err
}

// place is where a job's queue stands in the call, and where the job in the
// answer.
type place struct{ queue, job int }

// sort brings the jobs into the order in which they are to run: queue by queue
// as they were asked for, by priority unless age alone counts, then by when they
// became eligible, then by arrival.
func (a *answer) sort(order []place, oldest bool) {
	before := func(x, y place) int {
		j, k := &a.jobs[x.job], &a.jobs[y.job]
		ranks := 0
		if !oldest {
			ranks = cmp.Compare(k.Priority, j.Priority)
		}
		return cmp.Or(cmp.Compare(x.queue, y.queue), ranks, cmp.Compare(j.RunAt, k.RunAt), cmp.Compare(j.Ref, k.Ref))
	}
	if slices.IsSortedFunc(order, before) {
		return
	}
	slices.SortFunc(order, before)
	sorted := make([]daybook.Job, len(order))
	for i, p := range order {
		sorted[i] = a.jobs[p.job]
	}
	a.jobs = sorted
}

// job reads one claimed job, as Job.Claim makes it. Its trace is in a column that
// depends on the statement.
func (h *header) job(row cells, trace int, queue string, session daybook.ID) (daybook.Job, error) {
	j := daybook.Job{Ref: row.num(0), ID: row.id(1), Queue: queue, Priority: priority(row.num(3)),
		Kind: h.kind(row.raw[4]), Args: row.json(5), State: daybook.Running, Generation: row.num(6), EnqueuedAt: row.at(7),
		RunAt: row.at(7), MaxFailures: daybook.MaxFailuresDefault, OnLost: daybook.LostRetry, Timeout: daybook.TimeoutDefault,
		Session: session, Worker: h.Worker, LeaseUntil: daybook.Time(h.ExpiresAt), ClaimedAt: daybook.Time(h.Now),
		FirstClaimedAt: daybook.Time(h.Now), GrantedAt: h.Renewals}
	if !row.null(8) {
		j.RunAt = row.at(8)
	}
	j.ExpiresAt, j.Key, j.Failures, j.Crashes = row.at(9), row.text(13), int(row.num(14)), int(row.num(15))
	if !row.null(10) {
		j.MaxFailures = int(row.num(10))
	}
	if row.truth(11) {
		j.OnLost = daybook.LostSetAside
	}
	if !row.null(12) {
		j.Timeout = time.Duration(row.num(12)) * time.Microsecond
	}
	if !row.null(16) {
		j.FirstClaimedAt = row.at(16)
	}
	if !row.null(trace) {
		t := daybook.TraceOfColumn(row.text(trace))
		j.Traceparent, j.Tracestate = t.Parent, t.State
	}
	scanEffects(&j, row.text(18))
	if row.null(17) {
		return j, nil
	}
	j.Origin = &daybook.Origin{}
	return j, json.Unmarshal(row.raw[17], j.Origin)
}

// kind is a kind's name, made once for neighbours that share it.
func (h *header) kind(name []byte) string {
	if h.last != string(name) {
		h.last = string(name)
	}
	return h.last
}

// session is the session that the call was for.
func (h *header) session(id daybook.ID) (s daybook.Session, err error) {
	s = daybook.Session{ID: id, Worker: h.Worker, Lease: time.Duration(h.Lease) * time.Microsecond,
		StartedAt: daybook.Time(h.StartedAt), RenewedAt: daybook.Time(h.RenewedAt), ExpiresAt: daybook.Time(h.ExpiresAt),
		MarkedAt: daybook.Time(h.MarkedAt), Renewals: h.Renewals, Starts: h.Starts, Quiet: h.Quiet, Ref: h.N}
	if h.lists != nil {
		s.Queues, s.Kinds = h.lists.queues, h.lists.kinds
		return s, nil
	}
	if s.Queues, err = scanNames(h.Queues); err == nil {
		s.Kinds, err = scanNames(h.Kinds)
	}
	return s, err
}
