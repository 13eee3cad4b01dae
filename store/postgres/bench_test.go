package postgres

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/internal/pgtest"
	"github.com/daybookdev/daybook/worker"
)

const benchArgs = `{"order": 4711, "to": "ada@example.org", "lines": [{"sku": "A-1", "n": 2}, {"sku": "B-2", "n": 1}]}`

func benchBook(b *testing.B) *daybook.Book {
	b.Helper()
	url, name := pgtest.SharedURL(b), bookName("")
	if _, err := Up(b.Context(), url, Options{Schema: name}, nil); err != nil {
		b.Fatal(err)
	}
	book, err := Open(b.Context(), url, Options{Schema: name, Book: daybook.Options{Log: quiet()}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { book.Close() })
	return book
}

func benchFill(b *testing.B, book *daybook.Book, n int) {
	b.Helper()
	requests := make([]daybook.Request, 1000)
	for i := range requests {
		requests[i] = daybook.Request{Queue: "q", Kind: "k", Args: json.RawMessage(benchArgs)}
	}
	for ; n > 0; n -= len(requests) {
		if _, err := book.EnqueueMany(b.Context(), requests[:min(n, len(requests))]); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkEnqueueMany is one job of calls of a thousand.
func BenchmarkEnqueueMany(b *testing.B) {
	book := benchBook(b)
	b.ResetTimer()
	benchFill(b, book, b.N)
}

// BenchmarkWork is one job through a worker with a thousand slots.
func BenchmarkWork(b *testing.B) {
	book := benchBook(b)
	benchFill(b, book, b.N)
	w := worker.New(book, worker.Config{Queues: []string{"q"}, Concurrency: 1000, Lease: time.Minute})
	worker.Handle(w, "k", func(context.Context, *worker.Claim[json.RawMessage]) error { return nil })
	b.ResetTimer()
	if err := w.Drain(b.Context()); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkClaim is one job of claims of a thousand, and BenchmarkComplete one
// of completions of a thousand.
func BenchmarkClaim(b *testing.B) { benchCalls(b, true) }

func BenchmarkComplete(b *testing.B) { benchCalls(b, false) }

func benchCalls(b *testing.B, claims bool) {
	book := benchBook(b)
	benchFill(b, book, b.N)
	s, err := book.StartSession(b.Context(), daybook.SessionRequest{Worker: "w", Lease: time.Hour})
	if err != nil {
		b.Fatal(err)
	}
	b.ResetTimer()
	timed := func(it bool, do func() error) {
		if !it {
			b.StopTimer()
			defer b.StartTimer()
		}
		if err := do(); err != nil {
			b.Fatal(err)
		}
	}
	for done := 0; done < b.N; {
		var got daybook.Claimed
		timed(claims, func() (err error) {
			got, err = book.Claim(b.Context(), daybook.ClaimRequest{Session: s.ID, Queues: []string{"q"}, Kinds: []string{"k"},
				Limit: min(1000, b.N-done)})
			return err
		})
		outcomes := make([]daybook.Outcome, len(got.Jobs))
		for i, j := range got.Jobs {
			outcomes[i] = daybook.Outcome{Job: j.ID, Owner: ownerOf(j), Kind: daybook.OutcomeSucceeded}
		}
		timed(!claims, func() error {
			_, err := book.Finish(b.Context(), outcomes)
			return err
		})
		done += len(got.Jobs)
	}
}

// BenchmarkOne is one job enqueued, claimed and completed, each alone.
func BenchmarkOne(b *testing.B) {
	book := benchBook(b)
	s, err := book.StartSession(b.Context(), daybook.SessionRequest{Worker: "w", Lease: time.Hour})
	if err != nil {
		b.Fatal(err)
	}
	r := daybook.Request{Queue: "q", Kind: "k", Args: json.RawMessage(benchArgs)}
	for b.Loop() {
		if _, err := book.Enqueue(b.Context(), r); err != nil {
			b.Fatal(err)
		}
		got, err := book.Claim(b.Context(), daybook.ClaimRequest{Session: s.ID, Queues: []string{"q"}, Limit: 10})
		if err != nil || len(got.Jobs) != 1 {
			b.Fatal(err)
		}
		j := got.Jobs[0]
		owner := daybook.Owner{Session: s.ID, Generation: j.Generation}
		if _, err := book.Complete(b.Context(), j.ID, owner, nil); err != nil {
			b.Fatal(err)
		}
	}
}
