package main

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riversqlite"
	"github.com/riverqueue/river/rivermigrate"
	_ "modernc.org/sqlite" // the driver that River's own tests use

	"github.com/daybookdev/daybook/bench/raw"
)

// The settings with which River was fastest on SQLite. From 100 workers to
// 2,000, and with cooldowns up to 20 ms, its rates differ by less than rounds.
const (
	riverWorkers  = 1000
	riverCooldown = time.Millisecond
	riverPoll     = 2 * time.Millisecond
)

// riverArgs are the same bytes that Daybook's jobs carry.
type riverArgs struct {
	numbered
	To       string `json:"to,omitempty"`
	Template string `json:"template,omitempty"`
	Plan     string `json:"plan,omitempty"`
}

func (riverArgs) Kind() string { return kind }

var riverJob = riverArgs{To: "ada@example.org", Template: "welcome, en-GB, 14 trial days", Plan: "team-small"}

type riverWorker struct {
	river.WorkerDefaults[riverArgs]
	began func(n int)
}

func (w *riverWorker) Work(_ context.Context, job *river.Job[riverArgs]) error {
	w.began(job.Args.N)
	return nil
}

// openRiver makes River's schema in a new file. One connection is what River's
// SQLite driver asks for.
func openRiver(ctx context.Context, file string) (*sql.DB, error) {
	q := url.Values{"_txlock": {"immediate"}}
	for _, p := range append(raw.Pragmas("FULL"), "busy_timeout=60000") {
		q.Add("_pragma", p)
	}
	db, err := sql.Open("sqlite", "file:"+file+"?"+q.Encode())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	migrator, err := rivermigrate.New(riversqlite.New(db), &rivermigrate.Config{Logger: quiet()})
	if err == nil {
		_, err = migrator.Migrate(ctx, rivermigrate.DirectionUp, nil)
	}
	if err != nil {
		db.Close()
	}
	return db, err
}

// riverClient is a client that works too, when began is given.
func riverClient(db *sql.DB, began func(n int)) (*river.Client[*sql.Tx], error) {
	c := &river.Config{Logger: quiet()}
	if began != nil {
		c.Workers = river.NewWorkers()
		river.AddWorker(c.Workers, &riverWorker{began: began})
		c.FetchCooldown, c.FetchPollInterval = riverCooldown, riverPoll
		c.Queues = map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: riverWorkers}}
	}
	return river.NewClient(riversqlite.New(db), c)
}

func riverFill(ctx context.Context, client *river.Client[*sql.Tx], n, batch int) error {
	jobs := make([]river.InsertManyParams, batch)
	for i := range jobs {
		jobs[i] = river.InsertManyParams{Args: riverJob}
	}
	for left := n; left > 0; left -= batch {
		if _, err := client.InsertMany(ctx, jobs[:min(batch, left)]); err != nil {
			return err
		}
	}
	return nil
}

func riverEnqueue(n, batch int) func(context.Context, *stopwatch, string) error {
	return func(ctx context.Context, s *stopwatch, file string) error {
		db, err := openRiver(ctx, file)
		if err != nil {
			return err
		}
		defer db.Close()
		client, err := riverClient(db, nil)
		if err != nil {
			return err
		}
		return s.time(n, func() error { return riverFill(ctx, client, n, batch) })
	}
}

// riverHandle runs preloaded jobs until River has recorded them all as
// completed, which its events tell.
func riverHandle(n int) func(context.Context, *stopwatch, string) error {
	return func(ctx context.Context, s *stopwatch, file string) error {
		db, err := openRiver(ctx, file)
		if err != nil {
			return err
		}
		defer db.Close()
		client, err := riverClient(db, func(int) {})
		if err != nil {
			return err
		}
		if err := riverFill(ctx, client, n, 100); err != nil {
			return err
		}
		events, cancel := client.SubscribeConfig(&river.SubscribeConfig{ChanSize: n,
			Kinds: []river.EventKind{river.EventKindJobCompleted}})
		defer cancel()
		err = s.time(n, func() error {
			if err := client.Start(ctx); err != nil {
				return err
			}
			for got := range n {
				select {
				case <-events:
				case <-time.After(time.Minute):
					return fmt.Errorf("no more than %d of %d jobs were completed", got, n)
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		return client.Stop(ctx)
	}
}

func riverLatency(samples int) func(context.Context, *stopwatch, string) error {
	return func(ctx context.Context, s *stopwatch, file string) error {
		db, err := openRiver(ctx, file)
		if err != nil {
			return err
		}
		defer db.Close()
		m := newMeter(samples)
		client, err := riverClient(db, m.began)
		if err != nil {
			return err
		}
		if err := client.Start(ctx); err != nil {
			return err
		}
		err = m.drive(ctx, func(n int) error {
			_, err := client.Insert(ctx, riverArgs{numbered: numbered{n, raw.Args[:60]}}, nil)
			return err
		})
		if err != nil {
			return err
		}
		s.latencies(s.row, m.since(m.asked))
		return client.Stop(ctx)
	}
}
