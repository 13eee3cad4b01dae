package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/bell/local"
	"github.com/daybookdev/daybook/store/postgres"
	"github.com/daybookdev/daybook/worker"
)

const (
	asideJobs  = 10_000
	asideQueue = "aside"
	looks      = 15 // at one preview
)

// reviewed is a book with jobs set aside, a quarter of them with an open effect.
type reviewed struct {
	*daybook.Book
	place string
}

// measureReview measures the review of many set-aside jobs: the preview beside a
// count of the same rows, the bulk revival, and a worker beside it.
func measureReview(ctx context.Context, c config, dir string, out io.Writer) error {
	t := newTable(c, dir)
	server, err := startPostgres(ctx, c, dir)
	if err != nil {
		return err
	}
	defer server.Stop()
	t.Notes = append(t.Notes, server.about(), fmt.Sprintf("%d set-aside jobs, a quarter with an open effect", asideJobs))
	for round := range c.rounds {
		fmt.Fprintf(c.log, "round %d of %d\n", round+1, c.rounds)
		if err := reviewRound(ctx, c, server, t); err != nil {
			return err
		}
	}
	t.compare("preview", "count")
	t.compare("revival beside", "alone")
	return t.finish(c, out)
}

func reviewRound(ctx context.Context, c config, server *postgresServer, t *table) error {
	place, leave, err := server.room(ctx)
	if err != nil {
		return err
	}
	defer leave()
	options := postgres.Options{Book: daybook.Options{Bell: local.New(), Log: quiet()}}
	if _, err := postgres.Up(ctx, place, options, nil); err != nil {
		return err
	}
	opened, err := postgres.Open(ctx, place, options)
	if err != nil {
		return err
	}
	defer opened.Close()
	book := &reviewed{opened, place}
	if err := book.setAside(ctx, asideJobs); err != nil {
		return err
	}
	if err := book.preview(ctx, t); err != nil {
		return err
	}
	took, done, err := book.revive(ctx)
	if err != nil {
		return err
	}
	t.add("bulk revive", perSecond, "preview", float64(done)/took.Seconds())
	return book.beside(ctx, c.jobs, t)
}

// setAside makes n set-aside jobs, a quarter of which have an open effect.
func (b *reviewed) setAside(ctx context.Context, n int) error {
	requests := make([]daybook.Request, n)
	for i := range requests {
		requests[i] = daybook.Request{Queue: asideQueue, Kind: "bad", Args: []byte(`{"n":1}`)}
	}
	if _, err := b.EnqueueMany(ctx, requests); err != nil {
		return err
	}
	return b.fail(ctx, true)
}

// fail claims what waits and has it set aside, with or without open effects.
func (b *reviewed) fail(ctx context.Context, effects bool) error {
	for {
		got, err := b.Claim(ctx, daybook.ClaimRequest{Queues: []string{asideQueue}, Limit: 1000,
			SessionRequest: daybook.SessionRequest{Worker: "w", Lease: time.Hour}})
		if err != nil || len(got.Jobs) == 0 {
			return err
		}
		outcomes := make([]daybook.Outcome, len(got.Jobs))
		for i, j := range got.Jobs {
			o := daybook.Owner{Session: got.Session.ID, Generation: j.Generation}
			if effects && i%4 == 0 {
				if _, err := b.BeginEffect(ctx, j.ID, o, daybook.Begin{Name: "charge", Policy: daybook.PolicyAsk}); err != nil {
					return err
				}
			}
			outcomes[i] = daybook.Outcome{Job: j.ID, Owner: o, Kind: daybook.OutcomeFailed, Permanent: true,
				Problem: daybook.NewProblem("no such account", "", "")}
		}
		if _, err := b.Finish(ctx, outcomes); err != nil {
			return err
		}
	}
}

var asideFilter = daybook.Filter{Queue: asideQueue, State: daybook.SetAside}

// preview times the review beside a count of the rows that its filter matches,
// in turns.
func (b *reviewed) preview(ctx context.Context, t *table) error {
	return withConn(ctx, b.place, func(conn *pgx.Conn) error {
		var counts, reviews []float64
		for range looks {
			begun, n := time.Now(), 0
			err := conn.QueryRow(ctx, `SELECT count(*) FROM daybook.job j WHERE j.state = 4 AND j.queue =
				(SELECT q.n FROM daybook.queue q WHERE q.name = $1)`, asideQueue).Scan(&n)
			if err != nil {
				return err
			}
			counted := time.Now()
			r, err := b.Review(ctx, asideFilter)
			if err != nil {
				return err
			}
			if r.Matched != int64(n) || r.Safe != int64(n-n/4) {
				return fmt.Errorf("the review says %+v of %d jobs", r, n)
			}
			counts = append(counts, float64(counted.Sub(begun).Microseconds())/1000)
			reviews = append(reviews, float64(time.Since(counted).Microseconds())/1000)
		}
		t.add("preview", millis, "count", median(counts))
		t.add("preview", millis, "preview", median(reviews))
		return nil
	})
}

func (b *reviewed) revive(ctx context.Context) (time.Duration, int64, error) {
	begun := time.Now()
	answer, err := b.Decide(ctx, daybook.Bulk{Move: daybook.MoveRevive, Filter: asideFilter,
		By: daybook.By{Actor: "bench", Reason: "fixed"}})
	if err == nil && answer.Done < answer.Matched/2 {
		err = fmt.Errorf("revived %+v", answer)
	}
	return time.Since(begun), answer.Done, err
}

// beside measures a worker's rate strictly while the jobs that were set aside again
// are revived, from the first job of the revival to the last, and then alone, over the
// same part of as many jobs: a worker's rate isn't the same all the way.
func (b *reviewed) beside(ctx context.Context, jobs int, t *table) error {
	to := int64(0)
	for _, system := range []string{"revival beside", "alone"} {
		if err := fill(ctx, b.Book, jobs, 1000); err != nil {
			return err
		}
		if to == 0 {
			if err := b.fail(ctx, false); err != nil {
				return err
			}
		}
		rate, last, err := b.middle(ctx, jobs, to)
		if err != nil {
			return err
		}
		to = last
		t.add("work", perSecond, system, rate)
	}
	return nil
}

// middle is a worker's rate from a fifth of the jobs on, up to that one, or without
// one up to the end of a revival; and which it ended with.
func (b *reviewed) middle(ctx context.Context, jobs int, to int64) (rate float64, last int64, err error) {
	var handled atomic.Int64
	from := int64(jobs / 5)
	begin, end := make(chan struct{}), make(chan struct{})
	w := worker.New(b.Book, worker.Config{Queues: []string{queue}, Concurrency: bookHandlers, Log: quiet()})
	worker.Handle(w, kind, func(context.Context, *worker.Claim[json.RawMessage]) error {
		switch handled.Add(1) {
		case from:
			close(begin)
		case to:
			close(end)
		}
		return nil
	})
	drained := make(chan error, 1)
	go func() { drained <- w.Drain(ctx) }()
	<-begin
	first, begun := handled.Load(), time.Now()
	if to == 0 {
		if _, _, err := b.revive(ctx); err != nil {
			return 0, 0, err
		}
	} else {
		<-end
	}
	last = handled.Load()
	took := time.Since(begun)
	if to == 0 && last >= int64(jobs) {
		return 0, 0, fmt.Errorf("the worker ended before the revival did: give more -jobs than %d", jobs)
	}
	return float64(last-first) / took.Seconds(), last, <-drained
}
