package main

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/vgarvardt/gue/v5"
	"github.com/vgarvardt/gue/v5/adapter/pgxv5"
)

// The settings with which gue was fastest: 16 workers, each a transaction that
// stays open while its handler runs. Its default strategy sorts the backlog.
const (
	gueWorkers = 16
	guePoll    = 20 * time.Millisecond
)

// gueSchema is the one that gue ships as migrations/schema.sql.
const gueSchema = `
CREATE TABLE gue_jobs (
	job_id      TEXT        NOT NULL PRIMARY KEY,
	priority    SMALLINT    NOT NULL,
	run_at      TIMESTAMPTZ NOT NULL,
	job_type    TEXT        NOT NULL,
	args        BYTEA       NOT NULL,
	error_count INTEGER     NOT NULL DEFAULT 0,
	last_error  TEXT,
	queue       TEXT        NOT NULL,
	created_at  TIMESTAMPTZ NOT NULL,
	updated_at  TIMESTAMPTZ NOT NULL
);
CREATE INDEX idx_gue_jobs_selector ON gue_jobs (queue, run_at, priority)`

// guePeer is gue on PostgreSQL.
type guePeer struct {
	remainder
	pool   *pgxpool.Pool
	client *gue.Client
}

func openGue(ctx context.Context, url string) (peer, error) {
	rest, err := newRemainder(ctx, url, "SELECT count(*) FROM gue_jobs")
	if err != nil {
		return nil, err
	}
	pool, err := newPool(ctx, url, gueWorkers+clients, nil)
	if err != nil {
		return nil, err
	}
	client, err := gue.NewClient(pgxv5.NewConnPool(pool))
	return &guePeer{rest, pool, client}, err
}

func (g *guePeer) migrate(ctx context.Context) error {
	_, err := g.pool.Exec(ctx, gueSchema)
	return err
}

func gueJob(args []byte) *gue.Job { return &gue.Job{Queue: queue, Type: kind, Args: args} }

func (g *guePeer) enqueue(ctx context.Context, args string) error {
	return g.client.Enqueue(ctx, gueJob([]byte(args)))
}

func (g *guePeer) enqueueMany(ctx context.Context, n int) error {
	return inBulk(n, func(size int) error {
		jobs := make([]*gue.Job, size)
		for i := range jobs {
			jobs[i] = gueJob(sample())
		}
		return g.client.EnqueueBatch(ctx, jobs)
	})
}

func (g *guePeer) run(ctx context.Context, handle func(args []byte)) error {
	work := gue.WorkMap{kind: func(_ context.Context, j *gue.Job) error {
		handle(j.Args)
		return nil
	}}
	pool, err := gue.NewWorkerPool(g.client, work, gueWorkers, gue.WithPoolQueue(queue),
		gue.WithPoolPollStrategy(gue.RunAtPollStrategy), gue.WithPoolPollInterval(guePoll))
	if err != nil {
		return err
	}
	return pool.Run(ctx)
}
