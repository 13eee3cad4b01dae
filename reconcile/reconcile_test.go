package reconcile_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/daybooktest"
	"github.com/daybookdev/daybook/reconcile"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// inBubble runs a test in virtual time, with a book in memory.
func inBubble(t *testing.T, test func(t *testing.T, book *daybooktest.Book)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, daybooktest.New(t)) })
}

func enqueue(t *testing.T, book *daybooktest.Book, r daybook.Request) daybook.ID {
	t.Helper()
	r.Queue, r.Kind = "q", "job"
	receipt, err := book.Enqueue(t.Context(), r)
	if err != nil {
		t.Fatalf("Enqueue: %v", err)
	}
	return receipt.ID
}

// claim gives the next job to a session of its own, which nobody renews.
func claim(t *testing.T, book *daybook.Book, lease time.Duration) daybook.Claimed {
	t.Helper()
	claimed, err := book.Claim(t.Context(), daybook.ClaimRequest{Queues: []string{"q"},
		SessionRequest: daybook.SessionRequest{Worker: "w", Lease: lease}})
	if err != nil || len(claimed.Jobs) != 1 {
		t.Fatalf("Claim: %d jobs, %v", len(claimed.Jobs), err)
	}
	return claimed
}

func pass(t *testing.T, book *daybook.Book, c daybook.Certainty) reconcile.Report {
	t.Helper()
	report, err := reconcile.New(book, reconcile.Options{}).Pass(t.Context(), c)
	if err != nil {
		t.Fatalf("Pass: %v", err)
	}
	report.Upkeep = 0
	return report
}

func run(t *testing.T, book *daybook.Book, o reconcile.Options) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- reconcile.New(book, o).Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

func after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// flaky is a store whose calls a test counts and fails.
type flaky struct {
	daybook.Store
	mu     sync.Mutex
	calls  map[string]int
	before func(doing string) error
}

func (f *flaky) see(doing string) error {
	f.mu.Lock()
	if f.calls == nil {
		f.calls = map[string]int{}
	}
	f.calls[doing]++
	before := f.before
	f.mu.Unlock()
	if before != nil {
		return before(doing)
	}
	return nil
}

func (f *flaky) set(before func(string) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.before = before
}

func (f *flaky) count(doing string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[doing]
}

func (f *flaky) Write(ctx context.Context, doing string, fn func(daybook.Tx) error) error {
	if err := f.see(doing); err != nil {
		return err
	}
	return f.Store.Write(ctx, doing, fn)
}

func (f *flaky) Read(ctx context.Context, doing string, fn func(daybook.View) error) error {
	if err := f.see(doing); err != nil {
		return err
	}
	return f.Store.Read(ctx, doing, fn)
}

func flakyBook(book *daybooktest.Book) (*daybook.Book, *flaky) {
	f := &flaky{Store: book.Store()}
	return daybook.New(f, daybook.Options{Bell: book.Bell(), Log: slog.New(slog.DiscardHandler)}), f
}

func away(doing string) error { return daybook.Unavailable(doing, errors.New("away")) }

// A running reconciler recovers a lost job within its lease and about a pass,
// and leaves live ones alone.
func TestRunRecoversLostJobs(t *testing.T) {
	inBubble(t, func(t *testing.T, book *daybooktest.Book) {
		run(t, book.Book, reconcile.Options{})
		after(time.Minute)
		dead := enqueue(t, book, daybook.Request{Priority: 1})
		live := enqueue(t, book, daybook.Request{})
		claim(t, book.Book, 30*time.Second)
		session := claim(t, book.Book, 30*time.Second).Session.ID
		for range 6 {
			after(5 * time.Second)
			if _, err := book.Renew(t.Context(), session, nil); err != nil {
				t.Fatal(err)
			}
		}
		book.RequireState(dead, daybook.Running)
		after(6 * time.Second)
		book.RequireState(dead, daybook.Waiting)
		book.RequireState(live, daybook.Running)
	})
}

// Many processes cost about one pass.
func TestManyProcessesCostOnePass(t *testing.T) {
	inBubble(t, func(t *testing.T, book *daybooktest.Book) {
		flaky := make([]*flaky, 50)
		for i := range flaky {
			var own *daybook.Book
			own, flaky[i] = flakyBook(book)
			run(t, own, reconcile.Options{})
		}
		after(5 * time.Minute)
		passes, upkeeps := 0, 0
		for _, f := range flaky {
			passes += f.count("expiring jobs")
			upkeeps += f.count("sweeping")
		}
		if passes < 50 || passes > 80 {
			t.Errorf("%d passes of 50 processes in 5 minutes, want one every 4 to 6s", passes)
		}
		if upkeeps < 4 || upkeeps > 6 {
			t.Errorf("%d upkeeps in 5 minutes, want one a minute", upkeeps)
		}
	})
}

// A book that can be read and not written isn't reached again: the log says so
// once, and says that all is well only after a whole pass.
func TestLogSaysReachedOnlyAfterAWholePass(t *testing.T) {
	inBubble(t, func(t *testing.T, book *daybooktest.Book) {
		own, f := flakyBook(book)
		var log bytes.Buffer
		run(t, own, reconcile.Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
		said := func() (away, again int) {
			synctest.Wait()
			return strings.Count(log.String(), "can't reach the database"),
				strings.Count(log.String(), "reaches the database again")
		}
		for _, c := range []struct {
			name        string
			broken      func(doing string) bool
			away, again int
		}{
			{"no pass can be taken", func(doing string) bool { return doing == "taking the reconciler's pass" }, 1, 0},
			{"a step fails", func(doing string) bool { return doing == "expiring jobs" }, 1, 0},
			{"well", func(string) bool { return false }, 1, 1},
			{"away", func(string) bool { return true }, 2, 1},
			{"well again", func(string) bool { return false }, 2, 2},
		} {
			f.set(func(doing string) error {
				if c.broken(doing) {
					return away(doing)
				}
				return nil
			})
			after(time.Minute)
			if away, again := said(); away != c.away || again != c.again {
				t.Errorf("%s: the log says %d times that it is away and %d times that it is back, want %d and %d:\n%s",
					c.name, away, again, c.away, c.again, log.String())
			}
		}
	})
}
