package reconcile_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/bell/local"
	"github.com/daybookdev/daybook/daybooktest"
	"github.com/daybookdev/daybook/reconcile"
	"github.com/daybookdev/daybook/store/sqlite"
	"github.com/daybookdev/daybook/worker"
)

// wiped is a bell that loses what it is told while it is off.
type wiped struct {
	*local.Bell
	off atomic.Bool
}

func (w *wiped) Ring(ctx context.Context, queue string) {
	if !w.off.Load() {
		w.Bell.Ring(ctx, queue)
	}
}

// outside is such a bell that other processes hear: it takes over what is
// published, or not.
type outside struct{ wiped }

func (o *outside) Publish(ctx context.Context, rings []daybook.Ring) error {
	if o.off.Load() {
		return errors.New("off")
	}
	for _, r := range rings {
		o.Bell.Ring(ctx, r.Queue)
	}
	return nil
}

func (o *outside) Depth(context.Context) (map[string]int64, error)   { return nil, nil }
func (o *outside) Peek(context.Context, int) ([]daybook.Ring, error) { return nil, nil }
func (o *outside) Stats() daybook.BellStats                          { return daybook.BellStats{} }

// started notes when jobs start.
type started struct {
	mu sync.Mutex
	at map[string]time.Time
}

func (s *started) handle(_ context.Context, job daybook.Job) daybook.Outcome {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at[job.ID.String()] = time.Now()
	return daybook.Outcome{Kind: daybook.OutcomeSucceeded}
}

// With polling off, no relay, and every ring so far lost, the reconciler alone
// rings: each job starts within one pass, and one that is due later within one
// pass of that.
func TestReconcilerAloneRings(t *testing.T) {
	inside, out := &wiped{}, &outside{}
	for _, c := range []struct {
		name string
		bell daybook.Bell
		made *wiped
	}{{"a bell in the process", inside, inside}, {"a bell outside", out, &out.wiped}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c.made.Bell = local.New()
				book := openQuiet(t, c.bell)
				seen := &started{at: map[string]time.Time{}}
				work(t, book, seen)
				after(time.Second) // it listens
				c.made.off.Store(true)
				due := map[daybook.ID]time.Time{}
				for _, in := range []time.Duration{0, 0, 0, 12 * time.Second, time.Minute} {
					receipt, err := book.Enqueue(t.Context(), daybook.Request{Queue: "q", Kind: "job", In: in})
					if err != nil {
						t.Fatal(err)
					}
					due[receipt.ID] = time.Now().Add(in)
				}
				after(time.Second)
				if len(seen.at) != 0 {
					t.Fatalf("%d jobs started though nobody rang", len(seen.at))
				}
				c.made.off.Store(false)
				run(t, book, reconcile.Options{})
				after(2 * time.Minute)
				const pass = reconcile.EveryDefault * 12 / 10
				for id, at := range due {
					began, ran := seen.at[id.String()]
					if !ran || began.Before(at) || began.Sub(at) > time.Second+pass {
						t.Errorf("job due at %s began at %s (%t), want within a pass", at, began, ran)
					}
				}
			})
		})
	}
}

// A bell that takes nothing fails no pass: sessions of dead workers must be ended
// with certainty all the same.
func TestPassWithoutItsBell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bell := &outside{wiped{Bell: local.New()}}
		bell.off.Store(true)
		book := openQuiet(t, bell)
		if _, err := book.Enqueue(t.Context(), daybook.Request{Queue: "q", Kind: "job"}); err != nil {
			t.Fatal(err)
		}
		report := pass(t, book, daybook.Sure)
		if report.Rung != 0 {
			t.Errorf("rang %d queues by a bell that is off", report.Rung)
		}
		bell.off.Store(false)
		if report = pass(t, book, daybook.Sure); report.Rung != 1 {
			t.Errorf("rang %d queues, want one", report.Rung)
		}
	})
}

func openQuiet(t *testing.T, bell daybook.Bell) *daybook.Book {
	t.Helper()
	book, err := sqlite.Open(t.Context(), sqlite.Memory, sqlite.Options{
		Book: daybook.Options{Bell: bell, Log: slog.New(slog.DiscardHandler)}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		daybooktest.Check(t, book)
		bell.Close()
		book.Close()
	})
	return book
}

// work runs a worker that never polls, without any loop beside it, until the
// test ends.
func work(t *testing.T, book *daybook.Book, seen *started) {
	t.Helper()
	w := worker.New(book, worker.Config{Queues: []string{"q"}, Poll: -1, NoLoops: true})
	w.HandleRaw("", seen.handle)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- w.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("worker: %v", err)
		}
	})
}
