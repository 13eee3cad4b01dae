package main

import (
	"context"
	"encoding/json"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

// The settings of River's own benchmark. Its defaults, 100 ms and 1 s, take
// two thirds of the rate and sixty times the delay.
const (
	riverPGCooldown = 2 * time.Millisecond
	riverPGPoll     = 20 * time.Millisecond
	riverPGConns    = 20
)

// riverPG is River on PostgreSQL.
type riverPG struct {
	remainder
	pool    *pgxpool.Pool
	client  *river.Client[pgx.Tx] // that enqueues
	workers int
}

// rawJob has the args that Daybook's jobs carry, byte by byte.
type rawJob struct{ args json.RawMessage }

func (rawJob) Kind() string                    { return kind }
func (j rawJob) MarshalJSON() ([]byte, error)  { return j.args, nil }
func (j *rawJob) UnmarshalJSON(b []byte) error { j.args = append(j.args[:0], b...); return nil }

type rawJobWorker struct {
	river.WorkerDefaults[rawJob]
	handle func(args []byte)
}

func (w *rawJobWorker) Work(_ context.Context, job *river.Job[rawJob]) error {
	w.handle(job.Args.args)
	return nil
}

// riverPGConfig is for those who only enqueue too: they notify no more often
// than a cooldown allows.
func riverPGConfig() *river.Config {
	return &river.Config{Logger: quiet(), FetchCooldown: riverPGCooldown, FetchPollInterval: riverPGPoll}
}

func openRiverPG(workers int) func(ctx context.Context, url string) (peer, error) {
	return func(ctx context.Context, url string) (peer, error) {
		rest, err := newRemainder(ctx, url, `SELECT count(*) FROM river_job
			WHERE state IN ('available', 'pending', 'retryable', 'running', 'scheduled')`)
		if err != nil {
			return nil, err
		}
		pool, err := newPool(ctx, url, riverPGConns, nil)
		if err != nil {
			return nil, err
		}
		client, err := river.NewClient(riverpgxv5.New(pool), riverPGConfig())
		return &riverPG{rest, pool, client, workers}, err
	}
}

func (r *riverPG) migrate(ctx context.Context) error {
	m, err := rivermigrate.New(riverpgxv5.New(r.pool), &rivermigrate.Config{Logger: quiet()})
	if err == nil {
		_, err = m.Migrate(ctx, rivermigrate.DirectionUp, nil)
	}
	return err
}

func (r *riverPG) enqueue(ctx context.Context, args string) error {
	_, err := r.client.Insert(ctx, rawJob{json.RawMessage(args)}, nil)
	return err
}

func (r *riverPG) enqueueMany(ctx context.Context, n int) error {
	jobs := make([]river.InsertManyParams, bulk)
	for i := range jobs {
		jobs[i].Args = rawJob{sample()}
	}
	return inBulk(n, func(size int) error {
		_, err := r.client.InsertManyFast(ctx, jobs[:size])
		return err
	})
}

func (r *riverPG) run(ctx context.Context, handle func(args []byte)) error {
	workers := river.NewWorkers()
	river.AddWorker(workers, &rawJobWorker{handle: handle})
	c := riverPGConfig()
	c.Workers, c.Queues = workers, map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: r.workers}}
	client, err := river.NewClient(riverpgxv5.New(r.pool), c)
	if err != nil {
		return err
	}
	if err := client.Start(ctx); err != nil {
		return err
	}
	<-client.Stopped()
	return context.Cause(ctx)
}
