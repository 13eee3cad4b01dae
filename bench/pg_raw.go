package main

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/daybookdev/daybook/bench/raw"
)

// rowsSchema is the raw limit's: a row says where a job is, rows only move and
// are never updated. What every job system needs in the end is there: an id
// that callers choose, an order, generations, a history, a ring and counts.
const rowsSchema = `
CREATE TABLE job (id uuid PRIMARY KEY, queue int NOT NULL, rank smallint NOT NULL, kind text NOT NULL,
	args text NOT NULL, accepted_at timestamptz NOT NULL DEFAULT now());
CREATE TABLE ready (queue int NOT NULL, rank smallint NOT NULL, since timestamptz NOT NULL DEFAULT now(),
	id uuid NOT NULL, generation bigint NOT NULL DEFAULT 0, failures int NOT NULL DEFAULT 0,
	PRIMARY KEY (queue, rank, since, id));
CREATE TABLE owned (id uuid PRIMARY KEY, generation bigint NOT NULL, session bigint NOT NULL, queue int NOT NULL,
	rank smallint NOT NULL, failures int NOT NULL, claimed_at timestamptz NOT NULL);
CREATE TABLE ended (job uuid NOT NULL, generation bigint NOT NULL, session bigint NOT NULL, queue int NOT NULL,
	outcome smallint NOT NULL, claimed_at timestamptz NOT NULL, ended_at timestamptz NOT NULL);
CREATE INDEX ended_job ON ended (job, generation);
CREATE TABLE outbox (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, queue int NOT NULL, n int NOT NULL,
	at timestamptz NOT NULL DEFAULT now());
CREATE TABLE tally (queue int NOT NULL, outcome smallint NOT NULL, n bigint NOT NULL)`

const (
	insertRow = `
WITH j AS (INSERT INTO job (id, queue, rank, kind, args) VALUES ($1, 1, -1, '` + kind + `', $2)),
     r AS (INSERT INTO ready (queue, rank, id) VALUES (1, -1, $1))
INSERT INTO outbox (queue, n) VALUES (1, 1)`

	insertRows = `
WITH j AS (INSERT INTO job (id, queue, rank, kind, args)
           SELECT id, 1, -1, '` + kind + `', args FROM unnest($1::uuid[], $2::text[]) AS u (id, args)),
     r AS (INSERT INTO ready (queue, rank, id) SELECT 1, -1, id FROM unnest($1::uuid[]) AS id)
INSERT INTO outbox (queue, n) VALUES (1, cardinality($1::uuid[]))`

	// Claims look behind what their connection has claimed so far: the index
	// entries before it are mostly dead.
	claimRows = `
WITH d AS (DELETE FROM ready WHERE ctid = ANY (ARRAY(
             SELECT ctid FROM ready
             WHERE queue = 1 AND (rank, since, id) > (-1::smallint, $1::timestamptz, $2::uuid) AND rank <= -1
             ORDER BY rank, since, id LIMIT $3 FOR UPDATE SKIP LOCKED))
           RETURNING id, queue, rank, since, generation, failures),
     o AS (INSERT INTO owned (id, generation, session, queue, rank, failures, claimed_at)
           SELECT id, generation + 1, 1, queue, rank, failures, now() FROM d)
SELECT d.id, d.generation + 1, d.since, j.args
FROM d CROSS JOIN LATERAL (SELECT args FROM job WHERE job.id = d.id OFFSET 0) AS j`

	completeRows = `
WITH d AS (DELETE FROM owned WHERE ctid = ANY (ARRAY(
             SELECT x.c FROM unnest($1::uuid[], $2::bigint[]) AS u (id, generation)
             CROSS JOIN LATERAL (SELECT o.ctid AS c FROM owned AS o
                                 WHERE o.id = u.id AND o.generation = u.generation AND o.session = 1 OFFSET 0) AS x))
           RETURNING id, generation, queue, claimed_at),
     e AS (INSERT INTO ended SELECT id, generation, 1, queue, 1, claimed_at, now() FROM d)
INSERT INTO tally SELECT queue, 1, count(*) FROM d GROUP BY queue`
)

// rowsSettings leave the planner no choice but the indexes: small busy tables
// look empty to it.
var rowsSettings = map[string]string{"enable_seqscan": "off", "enable_hashjoin": "off", "enable_mergejoin": "off",
	"enable_bitmapscan": "off", "enable_sort": "off", "jit": "off", "plan_cache_mode": "force_generic_plan"}

const rowsWorkers = 2 // connections, each completing a batch and claiming the next in one commit

// rows is the raw limit of PostgreSQL.
type rows struct {
	remainder
	pool  *pgxpool.Pool
	url   string
	batch int
}

func openRows(batch int) func(ctx context.Context, url string) (peer, error) {
	return func(ctx context.Context, url string) (peer, error) {
		rest, err := newRemainder(ctx, url, "SELECT (SELECT count(*) FROM ready) + (SELECT count(*) FROM owned)")
		if err != nil {
			return nil, err
		}
		pool, err := newPool(ctx, url, clients, nil)
		return &rows{rest, pool, url, batch}, err
	}
}

func (r *rows) migrate(ctx context.Context) error {
	_, err := r.pool.Exec(ctx, rowsSchema)
	return err
}

func (r *rows) enqueue(ctx context.Context, args string) error {
	_, err := r.pool.Exec(ctx, insertRow, newID(), args)
	return err
}

func (r *rows) enqueueMany(ctx context.Context, n int) error {
	return inBulk(n, func(size int) error {
		ids, args := make([][16]byte, size), make([]string, size)
		for i := range ids {
			ids[i], args[i] = newID(), raw.Args
		}
		_, err := r.pool.Exec(ctx, insertRows, ids, args)
		return err
	})
}

func (r *rows) run(ctx context.Context, handle func(args []byte)) error {
	pool, err := newPool(ctx, r.url, rowsWorkers, rowsSettings)
	if err != nil {
		return err
	}
	errs := make([]error, rowsWorkers)
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() { errs[i] = move(ctx, pool, r.batch, handle) })
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	<-ctx.Done()
	return context.Cause(ctx)
}

// claimed is what a connection holds, and how far it has looked.
type claimed struct {
	ids         [][16]byte
	generations []int64
	args        [][]byte
	since       time.Time
	last        [16]byte
}

// move is one connection's life until nothing is ready. Handlers run when the
// claim's commit is known.
func move(ctx context.Context, pool *pgxpool.Pool, batch int, handle func(args []byte)) error {
	var held claimed
	for {
		next := claimed{since: held.since, last: held.last}
		var b pgx.Batch
		if len(held.ids) > 0 {
			b.Queue(completeRows, held.ids, held.generations)
		}
		b.Queue(claimRows, held.since, held.last, batch).Query(next.read)
		if err := pool.SendBatch(ctx, &b).Close(); err != nil {
			return err
		}
		if len(next.ids) == 0 && len(held.ids) == 0 {
			return nil
		}
		for _, args := range next.args {
			handle(args)
		}
		held = next
	}
}

func (c *claimed) read(found pgx.Rows) error {
	for found.Next() {
		var id [16]byte
		var generation int64
		var since time.Time
		var args []byte
		if err := found.Scan(&id, &generation, &since, &args); err != nil {
			return err
		}
		c.ids, c.generations, c.args = append(c.ids, id), append(c.generations, generation), append(c.args, args)
		if order := since.Compare(c.since); order > 0 || order == 0 && string(id[:]) > string(c.last[:]) {
			c.since, c.last = since, id
		}
	}
	return found.Err()
}

// newID makes a UUID of version 7, as job ids usually are.
func newID() (id [16]byte) {
	binary.BigEndian.PutUint64(id[:], uint64(time.Now().UnixMilli())<<16)
	rand.Read(id[6:])
	id[6], id[8] = id[6]&0x0f|0x70, id[8]&0x3f|0x80
	return id
}
