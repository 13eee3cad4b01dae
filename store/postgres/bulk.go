package postgres

import (
	"context"
	"slices"

	"github.com/daybookdev/daybook"
)

const (
	// chunk is how many jobs one statement inserts.
	chunk = 1000
	// bulk is from how many jobs on a call copies them in. Of five thousand COPY
	// takes a sixth less time, and a fifth less of the log; of a thousand a third
	// more time: the server makes a slot for each row that it gathers, and what it
	// made serves the rows behind the first thousand again.
	bulk = 2000
)

// insert writes new jobs, in order.
func (t *tx) insert(jobs []daybook.NewJob) error {
	if to, can := t.sender.(copier); can && len(jobs) >= bulk {
		return t.copyJobs(to, jobs)
	}
	if len(jobs) == 1 {
		t.insertOne(&jobs[0])
		return nil
	}
	for part := range slices.Chunk(jobs, chunk) {
		t.insertChunk(part)
	}
	return nil
}

const insertOneJob = `SELECT daybook.insert_one($1::bigint, $2::text, $3::uuid, $4::text, $5::text, $6::int,
	$7::bigint, $8::bigint, $9::bigint, $10::int, $11::boolean, $12::bigint, $13::text, $14::text)`

// insertKnown does what insert_one does, for a queue that is there: where it
// isn't, its number is NULL, which no job may have. The call of the function takes
// the server nearly twice as long.
const insertKnown = `WITH t AS MATERIALIZED (SELECT coalesce($1::bigint, daybook.clock()) AS at),
	j AS (INSERT INTO daybook.job AS j (enqueued_at, id, queue, rank, kind, args, run_at, expires_at, max_failures,
			set_aside_lost, timeout, key, trace)
		SELECT t.at, $3::uuid, (SELECT q.n FROM daybook.queue q WHERE q.name = $2::text), $6::int, $4::text, $5::text,
			nullif(greatest(t.at, $7::bigint, least(t.at + coalesce($8::bigint, 0), 253402300799999999)), t.at),
			$9::bigint, $10::int, CASE WHEN $11::boolean THEN true END, $12::bigint, $13::text, $14::text FROM t
		RETURNING j.seq, j.queue, j.rank, j.kind, j.expires_at, j.enqueued_at,
			coalesce(j.run_at, j.enqueued_at) AS run_at),
	r AS (INSERT INTO daybook.ready (run_at, seq, lane, rank, kind, expires_at)
		SELECT j.run_at, j.seq, j.queue, j.rank, j.kind, j.expires_at FROM j)
	INSERT INTO daybook.outbox (at, queue, ring, waiting, accepted)
		SELECT j.enqueued_at, j.queue, j.run_at = j.enqueued_at, 1, 1 FROM j`

func (t *tx) insertOne(n *daybook.NewJob) {
	j := &n.Job
	query := insertOneJob
	if t.s != nil && t.s.known.has(j.Queue) && !t.s.Pooled() {
		query = insertKnown
	}
	var most, timeout any
	if j.MaxFailures != daybook.MaxFailuresDefault {
		most = int64(j.MaxFailures)
	}
	if j.Timeout != daybook.TimeoutDefault {
		timeout = j.Timeout.Microseconds()
	}
	t.met = append(t.met, j.Queue)
	t.later(anyCount, "", query, t.nowOrNull(), j.Queue, j.ID.String(), j.Kind, string(j.Args), rank(j.Priority),
		null(j.RunAt), nullInt(n.In.Microseconds()), null(j.ExpiresAt), most, nullTrue(j.OnLost == daybook.LostSetAside),
		timeout, nullText(j.Key), nullText(j.Trace().Column()))
}

const insertJobs = `SELECT daybook.insert_jobs($1::bigint, $2::text[], $3::int[], $4::uuid[], $5::text[],
	$6::text[], $7::int[], $8::bigint[], $9::bigint[], $10::bigint[], $11::int[], $12::boolean[], $13::bigint[],
	$14::text[], $15::text[])`

func (t *tx) insertChunk(jobs []daybook.NewJob) {
	queues, which := queuesOf(jobs)
	ids, kinds, args := make([]daybook.ID, len(jobs)), make([]string, len(jobs)), make([]string, len(jobs))
	for i := range jobs {
		j := &jobs[i].Job
		ids[i], kinds[i], args[i] = j.ID, j.Kind, string(j.Args)
	}
	t.later(anyCount, "", insertJobs, t.nowOrNull(), queues, which, idList(ids), kinds, args,
		numbers(jobs, func(n *daybook.NewJob) (int64, bool) { return rank(n.Job.Priority), n.Job.Priority != 0 }),
		numbers(jobs, func(n *daybook.NewJob) (int64, bool) { return int64(n.Job.RunAt), n.Job.RunAt != 0 }),
		numbers(jobs, func(n *daybook.NewJob) (int64, bool) { return n.In.Microseconds(), n.In > 0 }),
		numbers(jobs, func(n *daybook.NewJob) (int64, bool) { return int64(n.Job.ExpiresAt), n.Job.ExpiresAt != 0 }),
		numbers(jobs, func(n *daybook.NewJob) (int64, bool) {
			return int64(n.Job.MaxFailures), n.Job.MaxFailures != daybook.MaxFailuresDefault
		}), asideOf(jobs),
		numbers(jobs, func(n *daybook.NewJob) (int64, bool) {
			return n.Job.Timeout.Microseconds(), n.Job.Timeout != daybook.TimeoutDefault
		}), keysOf(jobs), tracesOf(jobs))
}

// queuesOf are the names of the jobs' queues and, unless there is only one,
// which of them is each job's, counted from 1.
func queuesOf(jobs []daybook.NewJob) (names []string, which any) {
	places := map[string]int64{}
	list := make([]int64, len(jobs))
	for i := range jobs {
		name := jobs[i].Job.Queue
		if i > 0 && name == jobs[i-1].Job.Queue {
			list[i] = list[i-1]
			continue
		}
		place, known := places[name]
		if !known {
			names = append(names, name)
			place = int64(len(names))
			places[name] = place
		}
		list[i] = place
	}
	if len(names) == 1 {
		return names, nil
	}
	return names, list
}

// numbers are a column of the jobs, NULL where it is the default, and nil when
// it is that for all of them.
func numbers(jobs []daybook.NewJob, of func(*daybook.NewJob) (n int64, given bool)) any {
	var list []*int64
	for i := range jobs {
		n, given := of(&jobs[i])
		if !given {
			continue
		}
		if list == nil {
			list = make([]*int64, len(jobs))
		}
		list[i] = &n
	}
	if list == nil {
		return nil
	}
	return list
}

func asideOf(jobs []daybook.NewJob) any {
	var list []bool
	for i := range jobs {
		if jobs[i].Job.OnLost != daybook.LostSetAside {
			continue
		}
		if list == nil {
			list = make([]bool, len(jobs))
		}
		list[i] = true
	}
	if list == nil {
		return nil
	}
	return list
}

func keysOf(jobs []daybook.NewJob) any {
	var list []*string
	for i := range jobs {
		if jobs[i].Job.Key == "" {
			continue
		}
		if list == nil {
			list = make([]*string, len(jobs))
		}
		list[i] = &jobs[i].Job.Key
	}
	if list == nil {
		return nil
	}
	return list
}

func tracesOf(jobs []daybook.NewJob) any {
	var list []*string
	for i := range jobs {
		if jobs[i].Job.Traceparent == "" {
			continue
		}
		if list == nil {
			list = make([]*string, len(jobs))
		}
		trace := jobs[i].Job.Trace().Column()
		list[i] = &trace
	}
	if list == nil {
		return nil
	}
	return list
}

// copier is a sender that can COPY as well.
type copier interface {
	copyFrom(ctx context.Context, query string, rows *copyRows) error
}

func (l *line) copyFrom(ctx context.Context, query string, rows *copyRows) error {
	return l.trip(ctx, query, func(ctx context.Context) error {
		_, err := l.conn.Conn().PgConn().CopyFrom(ctx, rows, query)
		return err
	})
}

const (
	copyJobs = `COPY daybook.job (seq, enqueued_at, id, queue, rank, kind, args, run_at, expires_at, max_failures,
		set_aside_lost, timeout, key, trace) FROM STDIN (FORMAT binary)`
	copyReady = "COPY daybook.ready (run_at, seq, lane, rank, kind, expires_at) FROM STDIN (FORMAT binary)"
)

// copyJobs does what insert_jobs does.
func (t *tx) copyJobs(to copier, jobs []daybook.NewJob) error {
	lanes, seqs, err := t.number(jobs)
	if err != nil {
		return err
	}
	now := t.Now()
	if t.bad != nil {
		return t.bad
	}
	rows := make([]daybook.Job, len(jobs))
	for i := range jobs {
		rows[i] = jobs[i].Enqueue(now)
		rows[i].Ref = seqs[i]
	}
	err = to.copyFrom(t.ctx, t.schema.in(copyJobs), &copyRows{count: len(rows), row: func(i int, b copyRow) copyRow {
		return jobRow(b, &rows[i], lanes[i])
	}})
	if err != nil {
		return err
	}
	err = to.copyFrom(t.ctx, t.schema.in(copyReady), &copyRows{count: len(rows), row: func(i int, b copyRow) copyRow {
		j := &rows[i]
		b = b.begin(6).int8(int64(j.RunAt)).int8(j.Ref).int4(lanes[i]).int2(rank(j.Priority))
		return b.bytes([]byte(j.Kind)).unless(j.ExpiresAt == 0, int64(j.ExpiresAt))
	}})
	if err != nil {
		return err
	}
	for i := range rows {
		t.count(rows[i].Queue, accepted, rows[i].RunAt <= now)
	}
	return nil
}

// accepted counts one new job.
var accepted = daybook.Change{Move: daybook.MoveEnqueue, Now: daybook.Job{State: daybook.Waiting}}.Delta()

func jobRow(b copyRow, j *daybook.Job, lane int64) copyRow {
	b = b.begin(14).int8(j.Ref).int8(int64(j.EnqueuedAt)).bytes(j.ID[:]).int4(lane).int2(rank(j.Priority))
	b = b.bytes([]byte(j.Kind)).bytes(j.Args).unless(j.RunAt == j.EnqueuedAt, int64(j.RunAt))
	b = b.unless(j.ExpiresAt == 0, int64(j.ExpiresAt))
	if j.MaxFailures == daybook.MaxFailuresDefault {
		b = b.null()
	} else {
		b = b.int4(int64(j.MaxFailures))
	}
	if j.OnLost == daybook.LostSetAside {
		b = b.bytes([]byte{1})
	} else {
		b = b.null()
	}
	b = b.unless(j.Timeout == daybook.TimeoutDefault, j.Timeout.Microseconds())
	return b.text(j.Key).text(j.Trace().Column())
}

// nextSeqs takes numbers from the jobs' sequence, whose name it looks up once.
const nextSeqs = `SELECT nextval(s.name) FROM
	(SELECT pg_get_serial_sequence($1::text, 'seq')::regclass AS name OFFSET 0) s, generate_series(1, $2::int)`

// number gives each job its queue's number and one of its own, in order.
func (t *tx) number(jobs []daybook.NewJob) (lanes, seqs []int64, err error) {
	names, which := queuesOf(jobs)
	var numbers, clock []int64
	_, err = t.now(
		t.readInto(&clock, "SELECT daybook.clock()"),
		t.readInto(&numbers, "SELECT unnest(daybook.make_queues($1::text[]))", names),
		t.readInto(&seqs, nextSeqs, t.schema.quoted()+".job", int64(len(jobs))))
	if err != nil {
		return nil, nil, err
	}
	if t.at == 0 {
		t.at = daybook.Time(clock[0])
	}
	places, several := which.([]int64)
	lanes = make([]int64, len(jobs))
	for i := range lanes {
		if lanes[i] = numbers[0]; several {
			lanes[i] = numbers[places[i]-1]
		}
	}
	return lanes, seqs, nil
}

// readInto is a statement that reads a column of numbers.
func (t *tx) readInto(list *[]int64, query string, args ...any) statement {
	return statement{query: t.schema.in(query), args: args, want: anyCount, scan: func(row []any) error {
		*list = append(*list, num(row[0]))
		return nil
	}}
}
