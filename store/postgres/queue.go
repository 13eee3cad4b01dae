package postgres

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/daybookdev/daybook"
)

// Queues lists the queues in name order, counted if asked: every number from
// sums and the rows not folded yet, or from the small tables of live jobs, in
// one round trip.
func (v *view) Queues(_ context.Context, counted bool) ([]daybook.Queue, error) {
	now := v.nowOrNull()
	q := &queueList{place: map[int64]int{}, kinds: map[int64]map[string]*daybook.KindCounts{}}
	list := []statement{v.ask(listQueues, nil, q.scanQueue), v.ask(lookAhead, []any{now}, v.scanAhead(q))}
	if counted && v.s != nil {
		list = append(list, settings("enable_seqscan = DEFAULT")...) // what is small is read whole
	}
	if counted {
		list = append(list, v.ask(sumCounts, nil, q.scanCounts), v.ask(countWaiting, []any{now}, q.scanWaiting),
			v.ask(countRunning, nil, q.scanRunning), v.ask(countAside, nil, q.scanAside),
			v.ask(countEffects, nil, q.scanEffects))
	}
	if err := v.planned(list...); err != nil {
		return nil, err
	}
	q.addKinds()
	return q.list, nil
}

// Queues of a write transaction adds what the transaction itself did so far,
// which is written at its end.
func (t *tx) Queues(ctx context.Context, counted bool) ([]daybook.Queue, error) {
	list, err := t.view.Queues(ctx, counted)
	for i := range list {
		if d := t.deltas[list[i].Name]; d != nil && counted {
			list[i].Counts.Add(d.counts)
		}
	}
	return list, err
}

// Queue loads one queue by the index of names.
func (v *view) Queue(_ context.Context, name string) (daybook.Queue, bool, error) {
	q := &queueList{place: map[int64]int{}}
	if err := v.look(oneQueue, []any{name}, q.scanQueue); err != nil || len(q.list) == 0 {
		return daybook.Queue{}, false, err
	}
	return q.list[0], true, nil
}

const (
	someQueues = `SELECT q.n, q.name, q.paused_at, q.paused_by, q.paused_reason FROM daybook.queue q `
	oneQueue   = someQueues + `WHERE q.name = $1::text`
	listQueues = someQueues + `ORDER BY q.name`
)

// lookAhead finds out whether each queue has an eligible job, and when the next
// ones become so, however many wait. It goes from one pair of queue and priority
// to the next by a probe of ready's primary key, above the lanes of held jobs,
// and then looks for two rows of each pair: the first that isn't past its expiry
// before it can run, and the first that is due later. Most often the probe met
// the former already.
const lookAhead = `WITH RECURSIVE now AS MATERIALIZED (SELECT coalesce($1::bigint, daybook.clock()) AS at),
	top (lane, rank, run_at, expires_at) AS (
		(SELECT r.lane, r.rank, r.run_at, r.expires_at FROM daybook.ready r WHERE r.lane > 0
			ORDER BY r.lane, r.rank, r.run_at, r.seq LIMIT 1)
		UNION ALL
		SELECT r.* FROM top t CROSS JOIN LATERAL (SELECT r.lane, r.rank, r.run_at, r.expires_at FROM daybook.ready r
			WHERE (r.lane, r.rank) > (t.lane, t.rank) ORDER BY r.lane, r.rank, r.run_at, r.seq LIMIT 1) r)` + aheadOfTops

// aheadOfTops is what lookAhead and fewAhead have in common.
const aheadOfTops = `
	SELECT t.lane, CASE WHEN t.expires_at <= greatest(t.run_at, now.at) THEN f.run_at ELSE t.run_at END, l.run_at, now.at
	FROM now CROSS JOIN top t
	LEFT JOIN LATERAL (SELECT r.run_at FROM daybook.ready r WHERE t.expires_at <= greatest(t.run_at, now.at)
		AND r.lane = t.lane AND r.rank = t.rank AND (r.expires_at IS NULL OR r.expires_at > greatest(r.run_at, now.at))
		ORDER BY r.run_at, r.seq LIMIT 1) f ON true
	LEFT JOIN LATERAL (SELECT r.run_at FROM daybook.ready r WHERE r.lane = t.lane AND r.rank = t.rank
		AND r.run_at > now.at AND (r.expires_at IS NULL OR r.expires_at > r.run_at)
		ORDER BY r.run_at, r.seq LIMIT 1) l ON true`

// sumCounts adds the folded counts and the rest, by queue.
var sumCounts = func() string {
	sums := make([]string, len(daybook.CountNames))
	for i, name := range daybook.CountNames {
		sums[i] = "sum(c." + name + ")::bigint"
	}
	all := "SELECT queue, " + strings.Join(daybook.CountNames, ", ") + " FROM daybook."
	return "SELECT c.queue, " + strings.Join(sums, ", ") +
		" FROM (" + all + "sums UNION ALL " + all + "outbox) c GROUP BY c.queue"
}()

// The live jobs by kind: ready alone knows its kinds; those of owned are looked
// up by job_id; what is set aside is read through job_slow.
const (
	countWaiting = `WITH now AS MATERIALIZED (SELECT coalesce($1::bigint, daybook.clock()) AS at)
		SELECT r.lane, r.kind, r.run_at <= now.at, count(*), min(r.run_at)
		FROM now CROSS JOIN daybook.ready r GROUP BY 1, 2, 3`
	countRunning = `SELECT o.queue, j.kind, count(*) FROM daybook.owned o
		CROSS JOIN LATERAL (SELECT j.kind FROM daybook.job j WHERE j.id = o.id OFFSET 0) j GROUP BY 1, 2`
	countAside = `SELECT j.queue, j.kind, j.reason, count(*) FROM daybook.job j WHERE j.state = 4 AND j.state <> 0
		GROUP BY 1, 2, 3`
	// What the ledger leaves to people, by effect_open and effect_doubled.
	countEffects = `SELECT j.queue, count(*) FILTER (WHERE f.open), count(*) FILTER (WHERE NOT f.open)
		FROM (SELECT seq, true AS open FROM daybook.effect WHERE state = 'open'
			UNION ALL SELECT seq, false FROM daybook.effect WHERE doubled) f
		CROSS JOIN LATERAL (SELECT j.queue FROM daybook.job j WHERE j.seq = f.seq OFFSET 0) j GROUP BY 1`
)

// queueList collects what is known of the queues.
type queueList struct {
	list  []daybook.Queue
	place map[int64]int // in list, by number
	kinds map[int64]map[string]*daybook.KindCounts
}

func (q *queueList) scanQueue(row []any) error {
	q.place[num(row[0])] = len(q.list)
	q.list = append(q.list, daybook.Queue{Ref: num(row[0]), Name: text(row[1]), Paused: row[2] != nil,
		PausedAt: at(row[2]), PausedBy: text(row[3]), PausedReason: text(row[4])})
	return nil
}

// scanAhead reads lookAhead, one row a queue and priority. Its time is the
// transaction's from here on.
func (v *view) scanAhead(q *queueList) func(row []any) error {
	return func(row []any) error {
		if v.at == 0 {
			v.at = at(row[3])
		}
		if queue := q.of(num(row[0])); queue != nil {
			queue.Next = earlier(queue.Next, at(row[1]))
			queue.NextLater = earlier(queue.NextLater, at(row[2]))
			queue.Ready = queue.Next != 0 && queue.Next <= v.at
		}
		return nil
	}
}

// of finds a queue by number; nil is one that check will find.
func (q *queueList) of(number int64) *daybook.Queue {
	if i, ok := q.place[number]; ok {
		return &q.list[i]
	}
	return nil
}

func (q *queueList) kind(queue int64, name string) *daybook.KindCounts {
	kinds := q.kinds[queue]
	if kinds == nil {
		kinds = map[string]*daybook.KindCounts{}
		q.kinds[queue] = kinds
	}
	k := kinds[name]
	if k == nil {
		k = &daybook.KindCounts{Kind: name, SetAside: map[daybook.Reason]int64{}}
		kinds[name] = k
	}
	return k
}

func (q *queueList) scanCounts(row []any) error {
	if queue := q.of(num(row[0])); queue != nil {
		for i, field := range queue.Counts.Fields() {
			*field = num(row[i+1])
		}
	}
	return nil
}

func (q *queueList) scanWaiting(row []any) error {
	lane, n := num(row[0]), num(row[3])
	queue := q.of(max(lane, -lane))
	if queue == nil {
		return nil
	}
	k := q.kind(max(lane, -lane), text(row[1]))
	switch {
	case lane < 0:
		queue.Held, k.Held = queue.Held+n, k.Held+n
	case truth(row[2]):
		queue.Eligible, k.Eligible, k.Oldest = queue.Eligible+n, k.Eligible+n, at(row[4])
		if queue.Oldest == 0 || k.Oldest < queue.Oldest {
			queue.Oldest = k.Oldest
		}
	default:
		queue.Later, k.Later = queue.Later+n, k.Later+n
	}
	return nil
}

func (q *queueList) scanRunning(row []any) error {
	q.kind(num(row[0]), text(row[1])).Running = num(row[2])
	return nil
}

func (q *queueList) scanAside(row []any) error {
	q.kind(num(row[0]), text(row[1])).SetAside[daybook.Reason(text(row[2]))] = num(row[3])
	return nil
}

func (q *queueList) scanEffects(row []any) error {
	if queue := q.of(num(row[0])); queue != nil {
		queue.OpenEffects, queue.Doubled = num(row[1]), num(row[2])
	}
	return nil
}

// addKinds hangs the kinds on their queues, by name.
func (q *queueList) addKinds() {
	for number, kinds := range q.kinds {
		queue := q.of(number)
		if queue == nil {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(kinds)) {
			queue.Kinds = append(queue.Kinds, *kinds[name])
		}
	}
}

// SaveQueue pauses or resumes a queue. It waits for every claim that began
// before, which hold the other side of the lock until they end; no claim begins
// until this transaction does.
func (t *tx) SaveQueue(_ context.Context, q daybook.Queue) error {
	t.bePatient()
	n, err := t.makeQueue(q.Name)
	if err != nil {
		return err
	}
	t.later(anyCount, "", "SELECT daybook.claims_exclusive()")
	t.later(1, "queues", `UPDATE daybook.queue SET paused_at = $2::bigint, paused_by = $3::text, paused_reason = $4::text
		WHERE n = $1::int`, n, null(q.PausedAt), nullText(q.PausedBy), nullText(q.PausedReason))
	return t.flush()
}
