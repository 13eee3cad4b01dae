package postgres

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/internal/pgtest"
	"github.com/daybookdev/daybook/worker"
)

// TestServerKilled kills the server ten times under load, as a crash does:
// nothing that was accepted is lost, everything ends, the checker finds nothing.
func TestServerKilled(t *testing.T) {
	t.Parallel() // it waits more than it works
	server := ownServer(t, pgtest.Options{Durable: true})
	book := openBook(t, server.URL("postgres"), "crash", Options{Patience: 5 * time.Second})
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var all sync.WaitGroup
	for range 2 {
		w := worker.New(book, worker.Config{Queues: []string{"q"}, Concurrency: 50, Lease: 3 * time.Second,
			Poll: 50 * time.Millisecond})
		worker.Handle(w, "k", func(context.Context, *worker.Claim[json.RawMessage]) error { return nil })
		all.Go(func() {
			if err := w.Run(ctx); err != nil && ctx.Err() == nil {
				t.Errorf("the worker gave up: %v", err)
			}
		})
	}
	a := &acceptor{book: book}
	enqueueing, enough := context.WithCancel(ctx)
	for range 2 {
		all.Go(func() { a.run(enqueueing) })
	}
	for range 10 {
		seen := a.count()
		until(t, "more jobs were accepted", func() bool { return a.count() > seen+50 })
		ok(t, server.Kill())
		ok(t, server.StartAgain())
	}
	enough()
	until(t, "all ended", func() bool {
		_, backlog, err := book.Backlog(ctx)
		return err == nil && len(backlog) == 1 && backlog[0].Waiting+backlog[0].Running == 0
	})
	stop()
	all.Wait()
	known, err := book.Store().(daybook.Inspector).Known(t.Context(), a.ids)
	ok(t, err)
	for i, there := range known {
		if !there {
			t.Errorf("accepted and lost: %s", a.ids[i])
		}
	}
	healthy(t, book)
	t.Logf("%d jobs accepted over 10 kills", len(a.ids))
}

// acceptor enqueues and remembers what was answered.
type acceptor struct {
	book *daybook.Book
	mu   sync.Mutex
	ids  []daybook.ID
}

func (a *acceptor) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.ids)
}

func (a *acceptor) run(ctx context.Context) {
	for ctx.Err() == nil {
		requests := make([]daybook.Request, 1+rand.IntN(20))
		for i := range requests {
			requests[i] = daybook.Request{Queue: "q", Kind: "k"}
		}
		receipts, err := a.book.EnqueueMany(ctx, requests)
		if err != nil {
			continue
		}
		a.mu.Lock()
		for _, r := range receipts {
			a.ids = append(a.ids, r.ID)
		}
		a.mu.Unlock()
	}
}

// TestLossyFailover promotes a standby that lacks the last commits: the book
// notices by itself, lifts every later generation, says so, and an owner from
// before is fenced although its row looks untouched.
func TestLossyFailover(t *testing.T) {
	t.Parallel() // it waits more than it works
	primary := ownServer(t, pgtest.Options{})
	book := openBook(t, primary.URL("postgres"), "daybook", Options{})
	enqueued(t, book, 2)
	s := session(t, book, time.Minute)
	first := claimed(t, book, s, 1)[0]
	standby, err := primary.Standby(pgtest.Options{})
	ok(t, err)
	t.Cleanup(func() { standby.Stop() })
	ok(t, standby.CatchUp())
	ok(t, standby.Detach())
	lost := claimed(t, book, s, 1)[0] // a commit that the standby never sees
	ok(t, primary.Kill())
	ok(t, standby.Promote())

	after := reopened(t, standby.URL("postgres"))
	again := claimed(t, after, s, 2) // the same session, still alive
	if len(again) != 1 || again[0].ID != lost.ID || again[0].Generation != daybook.GenerationStep {
		t.Fatalf("claimed %v, want job %s at generation %d", again, lost.ID, daybook.GenerationStep)
	}
	_, err = after.Complete(t.Context(), lost.ID, ownerOf(lost), nil)
	if daybook.CodeOf(err) != daybook.CodeFenced {
		t.Errorf("the handler of the lost claim: got %v, want fenced", err)
	}
	complete(t, after, first)
	complete(t, after, again[0])
	ok(t, after.Store().Read(t.Context(), "reading settings", func(v daybook.View) error {
		note, err := v.Setting(t.Context(), daybook.SettingRestored)
		if note == "" {
			t.Error("the book doesn't say that it may have lost commits")
		}
		return err
	}))
	healthy(t, after)
}

// reopened opens the default book once more, as another process.
func reopened(t *testing.T, url string) *daybook.Book {
	t.Helper()
	book, err := Open(t.Context(), url, Options{Book: daybook.Options{Log: quiet()}})
	ok(t, err)
	t.Cleanup(func() { book.Close() })
	return book
}

// TestLoadedElsewhere loads a dump of the book into another cluster: the book
// notices that when it is opened, once.
func TestLoadedElsewhere(t *testing.T) {
	url := pgtest.Database(t)
	book := openBook(t, url, "daybook", Options{})
	enqueued(t, book, 1)
	psql(t, url, "UPDATE daybook.setting SET value = '1' WHERE name = 'cluster'")
	reopened(t, url)
	reopened(t, url)
	got := claimed(t, book, session(t, book, time.Minute), 1)
	if len(got) != 1 || got[0].Generation != daybook.GenerationStep {
		t.Errorf("claimed %v, want generation %d", got, daybook.GenerationStep)
	}
	healthy(t, book)
}
