package postgres

import (
	"fmt"
	"sync"
	"time"
)

const (
	// fewQueues is up to how many queues claimFew asks, and fewMost how many jobs
	// it looks at: with so many it leaves the call to claim_jobs.
	fewQueues = 8
	fewMost   = 64
	// fewRest is for how long queues are left to claim_jobs that wanted it. They
	// are, too, when so many calls in a row took longer than fewLong: claim_jobs is
	// to find out whether marks would help.
	fewRest  = 100 * time.Millisecond
	fewLong  = time.Millisecond
	fewLongs = 3
)

// claimFew claims whatever is eligible, when that is less than fewMost jobs and
// no more than the call wants: then neither shares nor priorities matter. It does
// what claim_jobs does, at less than half of the cost, and answers no row when
// that is to be asked: the call was made before, the session isn't one that may
// claim without a closer look, the timeline changed, there is more, or a suspect
// or a job with effects is among it. Nothing is written then, nor when there is
// nothing to claim; that is one row without a job.
//
// It looks at each queue's priorities from one to the next (k), finds what is
// eligible (p), locks the session, which may have ended since (h), takes what
// nobody holds (d) and reads it (x). Literal limits stand where the planner would
// guess otherwise. Who pauses a queue waits for the lock on the table of calls, which
// the server takes for it before it fixes what the statement sees: see
// functions_pause.sql.
const claimFew = `WITH RECURSIVE s AS MATERIALIZED (
		SELECT t.at, w.n, w.worker, w.lease, w.started_at, w.renewed_at, w.expires_at, w.marked_at, w.renewals, w.starts,
			w.queues, w.kinds
		FROM (SELECT coalesce($1::bigint, daybook.clock()) AS at OFFSET 0) t CROSS JOIN daybook.session w
		WHERE w.id = $2::uuid AND w.ended_at IS NULL AND NOT w.quiet AND w.expires_at - t.at >= w.lease / 2
			AND daybook.new_call($3::uuid)
			AND (SELECT substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) <> v.value FROM daybook.setting v
				WHERE v.name = 'timeline') IS NOT TRUE),
	k (at, lane, rank) AS (
		SELECT s.at, r.lane, r.rank FROM s%[3]s
			CROSS JOIN LATERAL (SELECT w.n FROM daybook.queue w WHERE w.name = %[4]s AND w.paused_at IS NULL OFFSET 0) q
			CROSS JOIN LATERAL (SELECT r.lane, r.rank FROM daybook.ready r WHERE r.lane = q.n
				ORDER BY r.rank, r.run_at, r.seq LIMIT 1) r
		UNION ALL
		SELECT k.at, r.lane, r.rank FROM k CROSS JOIN LATERAL (SELECT r.lane, r.rank FROM daybook.ready r
			WHERE r.lane = k.lane AND r.rank > k.rank ORDER BY r.rank, r.run_at, r.seq LIMIT 1) r),
	p AS MATERIALIZED (SELECT array_agg(x.place) AS places, count(*) AS n, bool_or(x.odd) AS odd
		FROM (SELECT x.place, x.odd FROM k
			CROSS JOIN LATERAL (SELECT r.ctid AS place, r.suspect OR r.ledger AS odd FROM daybook.ready r
				WHERE r.lane = k.lane AND r.rank = k.rank AND r.run_at <= k.at
					AND (r.expires_at IS NULL OR r.expires_at > k.at) AND ($5::text[] IS NULL OR r.kind = ANY ($5))
				ORDER BY r.run_at, r.seq LIMIT %[2]d) x LIMIT %[2]d) x),
	h AS MATERIALIZED (SELECT s.at, p.places, w.n, w.renewed_at, w.expires_at, w.renewals
		FROM p CROSS JOIN s CROSS JOIN daybook.session w
		WHERE p.n BETWEEN 1 AND least($6::bigint, %[2]d - 1) AND NOT p.odd AND w.id = $2::uuid
			AND w.ended_at IS NULL AND NOT w.quiet AND w.expires_at - s.at >= w.lease / 2
		FOR SHARE OF w),
	d AS (DELETE FROM daybook.ready r WHERE r.ctid = ANY (ARRAY(SELECT x.place FROM h
			CROSS JOIN LATERAL (SELECT r.ctid AS place FROM daybook.ready r WHERE r.ctid = ANY (h.places)
				OFFSET 0 FOR UPDATE SKIP LOCKED) x))
		RETURNING r.seq, r.lane),
	x AS MATERIALIZED (SELECT j.* FROM d CROSS JOIN LATERAL (SELECT j.*, greatest(coalesce(j.generation, 0) + 1,
			coalesce((SELECT v.value::bigint FROM daybook.setting v WHERE v.name = 'incarnation'), 0) << 32) AS next
			FROM daybook.job j WHERE j.seq = d.seq OFFSET 0) j),
	c AS (INSERT INTO daybook.call AS c (id, session, at) SELECT $3::uuid, h.n, h.at
		FROM h WHERE EXISTS (SELECT FROM d) RETURNING c.n),
	o AS (INSERT INTO daybook.owned (id, seq, generation, session, claimed_at, call, queue, granted, deadline)
		SELECT x.id, x.seq, x.next, h.n, h.at, (SELECT c.n FROM c), x.queue, h.renewals, h.at + x.timeout
		FROM h CROSS JOIN x),
	b AS (INSERT INTO daybook.outbox (at, queue, ring, waiting, running, attempts)
		SELECT h.at, d.lane, false, -d.n, d.n, d.n
		FROM h CROSS JOIN (SELECT d.lane, count(*) AS n FROM d GROUP BY d.lane) d)
	SELECT x.seq, x.id, x.queue, x.rank, x.kind, x.args, x.next, x.enqueued_at, x.run_at, x.expires_at,
		x.max_failures, x.set_aside_lost, x.timeout, x.key, x.failures, x.crashes, x.first_claimed_at, x.origin,
		NULL::text, %[5]s, s.at, daybook.clock() - s.at, s.n,
		s.worker, s.lease, s.started_at, coalesce(h.renewed_at, s.renewed_at), coalesce(h.expires_at, s.expires_at),
		s.marked_at, coalesce(h.renewals, s.renewals), s.starts, s.queues, s.kinds,
		x.trace
	FROM p CROSS JOIN s LEFT JOIN h ON true LEFT JOIN x ON true
	WHERE p.n = 0 OR h.n IS NOT NULL`

// fewClaims is claimFew by the number of queues. Of one alone it knows the name.
var fewClaims = func() (list [fewQueues + 1]string) {
	list[1] = fmt.Sprintf(claimFew, 1, fewMost, "", "($4::text[])[1]", "($4::text[])[1]")
	for n := 2; n <= fewQueues; n++ {
		list[n] = fmt.Sprintf(claimFew, n, fewMost,
			fmt.Sprintf(" CROSS JOIN (SELECT u.name FROM unnest($4::text[]) u(name) LIMIT %d) u", n), "u.name",
			"(SELECT w.name FROM daybook.queue w WHERE w.n = x.queue)")
	}
	return list
}()

// rests are queues that are left to claim_jobs for a while.
type rests struct {
	mu    sync.Mutex
	until map[string]time.Time
	longs int // calls of claimFew in a row that took long
}

func (r *rests) has(queues []string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, q := range queues {
		if until, rests := r.until[q]; rests && time.Now().Before(until) {
			return true
		}
	}
	return false
}

// met counts calls that took long, and reports whether they were too many.
func (r *rests) met(took time.Duration) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.longs++
	if took <= fewLong {
		r.longs = 0
	}
	return r.longs >= fewLongs
}

func (r *rests) add(queues []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.until == nil || len(r.until) > knownMost {
		r.until = map[string]time.Time{}
	}
	for _, q := range queues {
		r.until[q] = time.Now().Add(fewRest)
	}
}

// mayClaimFew reports whether claimFew is worth trying. Where statements aren't
// prepared, planning it takes longer than claim_jobs.
func (t *tx) mayClaimFew(c claiming) bool {
	return c.last && c.call != nil && len(c.queues) > 0 && len(c.queues) <= fewQueues && t.s.prepares &&
		!t.s.opts.wholeClaims && !t.s.Pooled() && !t.s.rests.has(c.queues) && t.s.marks.cheap(c.kinds)
}

// claimFew makes a whole claim call, in its transaction; no header is that it
// did nothing.
func (t *tx) claimFew(c claiming) (a answer, err error) {
	args := []any{t.nowOrNull(), c.session.String(), c.call, c.queues, kindsOrNull(c.kinds), int64(c.limit)}
	places := make(map[string]int, len(c.queues))
	for i, q := range c.queues {
		places[q] = i
	}
	var order []place
	var took int64
	err = t.raw(fewClaims[len(c.queues)], args, true, func(row cells) error {
		if a.head == nil {
			a.head = headerOf(row)
			took = row.num(21)
		}
		if row.null(0) {
			return nil
		}
		queue := row.text(19)
		j, err := a.head.job(row, 33, queue, c.session)
		order = append(order, place{places[queue], len(a.jobs)})
		a.jobs = append(a.jobs, j)
		return err
	})
	if err == nil && (a.head == nil || t.s.rests.met(time.Duration(took)*time.Microsecond)) {
		t.s.rests.add(c.queues)
	}
	a.sort(order, c.oldest)
	return a, err
}

// headerOf reads what claimFew says in each row.
func headerOf(row cells) *header {
	return &header{Now: row.num(20), N: row.num(22), Worker: row.text(23), Lease: row.num(24), StartedAt: row.num(25),
		RenewedAt: row.num(26), ExpiresAt: row.num(27), MarkedAt: row.num(28), Renewals: row.num(29),
		Starts: row.truth(30), Queues: row.text(31), Kinds: row.text(32)}
}

func kindsOrNull(kinds []string) any {
	if len(kinds) == 0 {
		return nil
	}
	return kinds
}
