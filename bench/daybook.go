package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/bell/local"
	"github.com/daybookdev/daybook/bench/raw"
	"github.com/daybookdev/daybook/store/sqlite"
	"github.com/daybookdev/daybook/worker"
)

const queue, kind = "mail", "welcome"

// quiet drops what the systems log.
func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func openBook(ctx context.Context, file string) (*daybook.Book, error) {
	return sqlite.Open(ctx, file, sqlite.Options{Book: daybook.Options{Bell: local.New(), Log: quiet()}})
}

func request(args string) daybook.Request {
	return daybook.Request{Queue: queue, Kind: kind, Args: json.RawMessage(args)}
}

// fill enqueues n jobs, batch of them a call.
func fill(ctx context.Context, book *daybook.Book, n, batch int) error {
	requests := make([]daybook.Request, batch)
	for i := range requests {
		requests[i] = request(raw.Args)
	}
	for left := n; left > 0; left -= batch {
		if _, err := book.EnqueueMany(ctx, requests[:min(batch, left)]); err != nil {
			return err
		}
	}
	return nil
}

func bookEnqueue(n, batch int) func(context.Context, *stopwatch, string) error {
	return func(ctx context.Context, s *stopwatch, file string) error {
		book, err := openBook(ctx, file)
		if err != nil {
			return err
		}
		defer book.Close()
		return s.time(n, func() error { return fill(ctx, book, n, batch) })
	}
}

// bookWork claims and completes through the book's own calls, a hundred at a
// time, from so many sessions at once. With two, the completion of one and the
// claim of the other share a commit.
func bookWork(n, sessions int) func(context.Context, *stopwatch, string) error {
	return func(ctx context.Context, s *stopwatch, file string) error {
		book, err := openBook(ctx, file)
		if err != nil {
			return err
		}
		defer book.Close()
		if err := fill(ctx, book, n, 1000); err != nil {
			return err
		}
		var done atomic.Int64
		err = s.time(n, func() error {
			errs := make([]error, sessions)
			var all sync.WaitGroup
			for i := range errs {
				all.Go(func() { errs[i] = claimAndFinish(ctx, book, &done) })
			}
			all.Wait()
			return errors.Join(errs...)
		})
		if err == nil && done.Load() != int64(n) {
			err = fmt.Errorf("%d of %d jobs were completed", done.Load(), n)
		}
		return err
	}
}

// claimAndFinish is one session's life until nothing is eligible.
func claimAndFinish(ctx context.Context, book *daybook.Book, done *atomic.Int64) error {
	session, err := book.StartSession(ctx, daybook.SessionRequest{Worker: "bench"})
	if err != nil {
		return err
	}
	ask := daybook.ClaimRequest{Session: session.ID, Queues: []string{queue}, Limit: 100}
	for {
		claimed, err := book.Claim(ctx, ask)
		if err != nil || len(claimed.Jobs) == 0 {
			return err
		}
		outcomes := make([]daybook.Outcome, len(claimed.Jobs))
		for i, j := range claimed.Jobs {
			outcomes[i] = daybook.Outcome{Job: j.ID, Kind: daybook.OutcomeSucceeded,
				Owner: daybook.Owner{Session: session.ID, Generation: j.Generation}}
		}
		answers, err := book.Finish(ctx, outcomes)
		if err != nil {
			return err
		}
		for _, a := range answers {
			if a.Err != nil {
				return a.Err
			}
		}
		done.Add(int64(len(answers)))
	}
}

// bookHandle runs preloaded jobs through a worker until the book has them all
// as succeeded.
func bookHandle(n int) func(context.Context, *stopwatch, string) error {
	return func(ctx context.Context, s *stopwatch, file string) error {
		book, err := openBook(ctx, file)
		if err != nil {
			return err
		}
		defer book.Close()
		if err := fill(ctx, book, n, 1000); err != nil {
			return err
		}
		var ran atomic.Int64
		w := worker.New(book, worker.Config{Queues: []string{queue}, Concurrency: 200})
		worker.Handle(w, kind, func(context.Context, *worker.Claim[json.RawMessage]) error {
			ran.Add(1)
			return nil
		})
		if err := s.time(n, func() error { return w.Drain(ctx) }); err != nil {
			return err
		}
		if ran.Load() != int64(n) {
			return fmt.Errorf("%d handlers ran for %d jobs", ran.Load(), n)
		}
		return nil
	}
}

// bookLatency measures how soon a handler begins when the worker is idle and
// hears the bell of its own process.
func bookLatency(samples int) func(context.Context, *stopwatch, string) error {
	return func(ctx context.Context, s *stopwatch, file string) error {
		book, err := openBook(ctx, file)
		if err != nil {
			return err
		}
		defer book.Close()
		m := newMeter(samples)
		w := worker.New(book, worker.Config{Queues: []string{queue}, Concurrency: 100})
		worker.Handle(w, kind, func(_ context.Context, c *worker.Claim[numbered]) error {
			m.began(c.Args.N)
			return nil
		})
		ctx, stop := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() { ended <- w.Run(ctx) }()
		err = m.drive(ctx, func(n int) error {
			args, err := json.Marshal(numbered{n, raw.Args[:60]})
			if err == nil {
				_, err = book.Enqueue(ctx, request(string(args)))
			}
			return err
		})
		stop()
		if err := errors.Join(err, <-ended); err != nil {
			return err
		}
		s.latencies(s.row, m.since(m.asked))
		return nil
	}
}
