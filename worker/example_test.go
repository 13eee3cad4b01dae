package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"time"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/bell/local"
	"github.com/daybookdev/daybook/store/sqlite"
	"github.com/daybookdev/daybook/worker"
)

// Welcome is the input of the jobs below.
type Welcome struct {
	To string `json:"to"`
}

// openBook opens a book in memory; a program names a file.
func openBook(ctx context.Context) *daybook.Book {
	book, err := sqlite.Open(ctx, sqlite.Memory, sqlite.Options{
		Book: daybook.Options{Bell: local.New(), Log: slog.New(slog.NewTextHandler(io.Discard, nil))}})
	if err != nil {
		log.Fatal(err)
	}
	return book
}

// A worker with a typed handler. Drain returns when nothing is left to do; a
// service calls Run instead, which goes on until its context ends.
func Example() {
	ctx := context.Background()
	book := openBook(ctx)
	defer book.Close()

	w := worker.New(book, worker.Config{Queues: []string{"mail"}, Concurrency: 20})
	worker.Handle(w, "welcome", func(ctx context.Context, c *worker.Claim[Welcome]) error {
		fmt.Println("welcome,", c.Args.To)
		return c.SetResult(map[string]string{"sent": "yes"})
	}, worker.KindOptions{Timeout: time.Minute, MaxFailures: 5})

	receipt, err := w.Enqueue(ctx, daybook.Request{Queue: "mail", Kind: "welcome",
		Args: json.RawMessage(`{"to":"ada@example.org"}`), Key: "signup-4711"})
	if err != nil {
		log.Fatal(err)
	}
	if err := w.Drain(ctx); err != nil {
		log.Fatal(err)
	}
	job, err := book.Job(ctx, receipt.ID)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(job.State, string(job.Result))
	// Output:
	// welcome, ada@example.org
	// succeeded {"sent":"yes"}
}

// Whether trying again can help is for the handler to say.
func ExamplePermanent() {
	ctx := context.Background()
	book := openBook(ctx)
	defer book.Close()

	w := worker.New(book, worker.Config{Queues: []string{"mail"}})
	worker.Handle(w, "welcome", func(ctx context.Context, c *worker.Claim[Welcome]) error {
		if c.Args.To == "" {
			return worker.Permanent(errors.New("nobody to welcome"))
		}
		return nil
	})
	receipt, err := book.Enqueue(ctx, daybook.Request{Queue: "mail", Kind: "welcome"})
	if err != nil {
		log.Fatal(err)
	}
	if err := w.Drain(ctx); err != nil {
		log.Fatal(err)
	}
	job, err := book.Job(ctx, receipt.ID)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(job.State, job.Reason, "because", job.LastError.Text)
	// Output: set_aside permanent because nobody to welcome
}

// A job that comes too early gives itself back and costs no failure.
func ExampleSnooze() {
	ctx := context.Background()
	book := openBook(ctx)
	defer book.Close()

	w := worker.New(book, worker.Config{Queues: []string{"reports"}})
	worker.Handle(w, "monthly", func(context.Context, *worker.Claim[struct{}]) error {
		return worker.Snooze(time.Hour) // the figures aren't in yet
	})
	receipt, err := book.Enqueue(ctx, daybook.Request{Queue: "reports", Kind: "monthly"})
	if err != nil {
		log.Fatal(err)
	}
	if err := w.Drain(ctx); err != nil {
		log.Fatal(err)
	}
	job, err := book.Job(ctx, receipt.ID)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(job.State, job.Failures, "failures, later:", job.RunAt.Std().After(time.Now()))
	// Output: waiting 0 failures, later: true
}

// A raw handler takes every kind that has none of its own.
func ExampleWorker_HandleRaw() {
	ctx := context.Background()
	book := openBook(ctx)
	defer book.Close()

	w := worker.New(book, worker.Config{Queues: []string{"any"}})
	w.HandleRaw("", func(_ context.Context, job daybook.Job) daybook.Outcome {
		fmt.Printf("%s %s\n", job.Kind, job.Args)
		return daybook.Outcome{Kind: daybook.OutcomeSucceeded}
	})
	if _, err := book.Enqueue(ctx, daybook.Request{Queue: "any", Kind: "thing",
		Args: json.RawMessage(`{"n":1.0}`)}); err != nil {
		log.Fatal(err)
	}
	if err := w.Drain(ctx); err != nil {
		log.Fatal(err)
	}
	// Output: thing {"n":1.0}
}
