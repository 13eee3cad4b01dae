package main

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/bell/local"
	"github.com/daybookdev/daybook/store/postgres"
	"github.com/daybookdev/daybook/worker"
)

// bookHandlers is how many handlers run at once, as many as River's.
const bookHandlers = 1000

// bookPG is Daybook on PostgreSQL, with the bell of its own process.
type bookPG struct {
	remainder
	book     *daybook.Book
	handlers int
}

// openBookPG makes the schema, unless it is there, and opens the book.
var openBookPG = func(ctx context.Context, url string) (peer, error) {
	o := postgres.Options{Book: daybook.Options{Bell: local.New(), Log: quiet()}}
	if _, err := postgres.Up(ctx, url, o, nil); err != nil {
		return nil, err
	}
	book, err := postgres.Open(ctx, url, o)
	if err != nil {
		return nil, err
	}
	rest, err := newRemainder(ctx, url,
		"SELECT (SELECT count(*) FROM daybook.ready) + (SELECT count(*) FROM daybook.owned)")
	return &bookPG{rest, book, bookHandlers}, err
}

// openBookPG100 makes a worker that claims and completes exactly a hundred at once:
// so many sessions, each with the book's own calls. (A worker's claims grow with the
// speed of its handlers; of no-op ones it takes seven hundred at once.)
func openBookPG100(sessions int) func(ctx context.Context, url string) (peer, error) {
	return func(ctx context.Context, url string) (peer, error) {
		p, err := openBookPG(ctx, url)
		if err != nil {
			return nil, err
		}
		return &bookPG100{p.(*bookPG), sessions}, nil
	}
}

// bookPG100 works in batches of a fixed size.
type bookPG100 struct {
	*bookPG
	sessions int
}

func (b *bookPG100) run(ctx context.Context, handle func(args []byte)) error {
	errs := make([]error, b.sessions)
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() {
			var session daybook.ID
			for errs[i] == nil {
				session, errs[i] = b.round(ctx, session, handle)
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// round claims a batch, runs it, and says that it succeeded.
func (b *bookPG100) round(ctx context.Context, session daybook.ID, handle func(args []byte)) (daybook.ID, error) {
	got, err := b.book.Claim(ctx, daybook.ClaimRequest{Session: session, Queues: []string{queue},
		Limit: httpBatch, SessionRequest: daybook.SessionRequest{Worker: "bench", Lease: time.Minute}})
	if err != nil {
		return session, err
	}
	if len(got.Jobs) == 0 {
		select { // for more, or for the end
		case <-ctx.Done():
		case <-time.After(10 * time.Millisecond):
		}
	}
	ended := make([]daybook.Outcome, len(got.Jobs))
	for i, j := range got.Jobs {
		handle(j.Args)
		ended[i] = daybook.Outcome{Job: j.ID, Kind: daybook.OutcomeSucceeded,
			Owner: daybook.Owner{Session: got.Session.ID, Generation: j.Generation}}
	}
	if len(ended) > 0 {
		_, err = b.book.Finish(ctx, ended)
	}
	return got.Session.ID, err
}

// migrate has nothing left to do.
func (b *bookPG) migrate(context.Context) error { return nil }

func (b *bookPG) enqueue(ctx context.Context, args string) error {
	_, err := b.book.Enqueue(ctx, request(args))
	return err
}

func (b *bookPG) enqueueMany(ctx context.Context, n int) error { return fill(ctx, b.book, n, bulk) }

func (b *bookPG) run(ctx context.Context, handle func(args []byte)) error {
	w := worker.New(b.book, worker.Config{Queues: []string{queue}, Concurrency: b.handlers})
	worker.Handle(w, kind, func(_ context.Context, c *worker.Claim[json.RawMessage]) error {
		handle(c.Args)
		return nil
	})
	return errors.Join(w.Run(ctx), context.Cause(ctx))
}
