package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/worker"
)

// benchFlags say how much is measured.
type benchFlags struct {
	jobs, batch, concurrency int
}

const (
	benchJobsMost  = 10_000_000
	benchQueue     = "bench"
	benchKind      = "noop"
	benchConcurred = 1000
)

// benchReport is what a bench measured: of this machine, at this moment.
type benchReport struct {
	Store       string  `json:"store"`
	Jobs        int     `json:"jobs"`
	Enqueue     float64 `json:"enqueue_per_second"` // in batches
	Work        float64 `json:"work_per_second"`    // no-op jobs, one process
	Concurrency int     `json:"concurrency"`
	Batch       int     `json:"batch"`
}

func (a *app) benchCommand() *cobra.Command {
	f := benchFlags{}
	cmd := &cobra.Command{
		Use: "bench", Short: "Measure how fast this book takes jobs in and works them off, on a book of its own",
		Example: example("daybook bench --jobs 2000", "daybook bench --jobs 2000 -o json"),
		Args:    cobra.NoArgs,
	}
	fs := cmd.Flags()
	fs.IntVar(&f.jobs, "jobs", 50_000, "how many jobs (1…10000000)")
	fs.IntVar(&f.batch, "batch", 1000, "jobs of one enqueue call (1…10000)")
	fs.IntVar(&f.concurrency, "concurrency", benchConcurred, "handlers at once (1…10000)")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := f.check(); err != nil {
			return err
		}
		r, err := a.bench(cmd.Context(), f)
		if err != nil {
			return err
		}
		return a.show(r, func(t *table) {
			t.row("store", r.Store)
			t.row("jobs", r.Jobs)
			t.row("enqueued a second", fmt.Sprintf("%.0f, %d in a call", r.Enqueue, r.Batch))
			t.row("worked a second", fmt.Sprintf("%.0f, one process, %d handlers that do nothing", r.Work, r.Concurrency))
		})
	}
	return cmd
}

func (f benchFlags) check() error {
	for _, n := range []struct {
		name        string
		given, most int
	}{{"jobs", f.jobs, benchJobsMost}, {"batch", f.batch, daybook.BatchMax},
		{"concurrency", f.concurrency, worker.ConcurrencyMax}} {
		if n.given < 1 || n.given > n.most {
			return daybook.Invalid(n.name, "wants 1…%d, got %d", n.most, n.given)
		}
	}
	return nil
}

// bench measures on a book beside the configured one, which it takes away again.
func (a *app) bench(ctx context.Context, f benchFlags) (r benchReport, err error) {
	db, err := a.database()
	if err != nil {
		return r, err
	}
	place, err := db.drill(ctx)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, place.clear()) }()
	where, err := json.Marshal(place)
	if err != nil {
		return r, err
	}
	book, err := a.drillOpener(false)(ctx, string(where), daybook.Options{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, book.Close()) }()
	r = benchReport{Store: book.Store().Describe(), Jobs: f.jobs, Concurrency: f.concurrency, Batch: f.batch}
	if r.Enqueue, err = a.benchEnqueue(ctx, book, f); err != nil {
		return r, err
	}
	r.Work, err = benchWork(ctx, book, f)
	return r, err
}

func (a *app) benchEnqueue(ctx context.Context, book *daybook.Book, f benchFlags) (float64, error) {
	bar := a.progress(int64(f.jobs), "enqueueing", false)
	if bar != nil {
		defer bar.Finish()
	}
	began := time.Now()
	for left := f.jobs; left > 0; left -= f.batch {
		requests := make([]daybook.Request, min(left, f.batch))
		for i := range requests {
			requests[i] = daybook.Request{Queue: benchQueue, Kind: benchKind}
		}
		if _, err := book.EnqueueMany(ctx, requests); err != nil {
			return 0, err
		}
		if bar != nil {
			bar.Add(len(requests))
		}
	}
	return float64(f.jobs) / time.Since(began).Seconds(), nil
}

func benchWork(ctx context.Context, book *daybook.Book, f benchFlags) (float64, error) {
	w := worker.New(book, worker.Config{Queues: []string{benchQueue}, Concurrency: f.concurrency, Drain: true})
	worker.Handle(w, benchKind, func(context.Context, *worker.Claim[struct{}]) error { return nil })
	began := time.Now()
	if err := w.Run(ctx); err != nil {
		return 0, err
	}
	took := time.Since(began)
	if s := w.Stats(); s.Succeeded != int64(f.jobs) {
		return 0, daybook.Fail(daybook.CodeInternal, "%d of %d jobs were worked", s.Succeeded, f.jobs)
	}
	return float64(f.jobs) / took.Seconds(), nil
}
