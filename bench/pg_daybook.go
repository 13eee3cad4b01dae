package main

import (
	"context"
	"encoding/json"
	"errors"

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

// openBookPG100 is the same with so few handlers that it claims and completes
// about a hundred at once.
func openBookPG100(ctx context.Context, url string) (peer, error) {
	p, err := openBookPG(ctx, url)
	if err != nil {
		return nil, err
	}
	p.(*bookPG).handlers = httpBatch
	return p, nil
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
