package reconcile_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/daybooktest"
	"github.com/daybookdev/daybook/reconcile"
	"github.com/daybookdev/daybook/store/sqlite"
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

func TestPassRepairs(t *testing.T) {
	for _, c := range []struct {
		name  string
		setup func(t *testing.T, book *daybooktest.Book) daybook.ID
		want  reconcile.Report
		state daybook.State
	}{
		{"nothing", func(t *testing.T, book *daybooktest.Book) daybook.ID {
			return enqueue(t, book, daybook.Request{In: time.Hour})
		}, reconcile.Report{}, daybook.Waiting},
		{"lost claim", func(t *testing.T, book *daybooktest.Book) daybook.ID {
			id := enqueue(t, book, daybook.Request{})
			claim(t, book.Book, time.Second)
			return id
		}, reconcile.Report{Ended: 1, Lost: 1, Rung: 1}, daybook.Waiting},
		{"lost for good", func(t *testing.T, book *daybooktest.Book) daybook.ID {
			id := enqueue(t, book, daybook.Request{MaxFailures: 1})
			claim(t, book.Book, time.Second)
			return id
		}, reconcile.Report{Ended: 1, Lost: 1}, daybook.SetAside},
		{"past its run limit", func(t *testing.T, book *daybooktest.Book) daybook.ID {
			id := enqueue(t, book, daybook.Request{Timeout: time.Second})
			claim(t, book.Book, time.Hour)
			return id
		}, reconcile.Report{Overdue: 1, Rung: 1}, daybook.Waiting},
		{"expired", func(t *testing.T, book *daybooktest.Book) daybook.ID {
			return enqueue(t, book, daybook.Request{ExpiresAt: time.Now().Add(time.Second)})
		}, reconcile.Report{Expired: 1}, daybook.Expired},
		{"eligible", func(t *testing.T, book *daybooktest.Book) daybook.ID {
			return enqueue(t, book, daybook.Request{})
		}, reconcile.Report{Rung: 1}, daybook.Waiting},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, book *daybooktest.Book) {
				id := c.setup(t, book)
				time.Sleep(10 * time.Second)
				got := pass(t, book.Book, daybook.AtOnce)
				c.want.Certainty, c.want.Swept = daybook.AtOnce, got.Swept
				if got != c.want {
					t.Errorf("report %+v, want %+v", got, c.want)
				}
				book.RequireState(id, c.state)
				again := pass(t, book.Book, daybook.AtOnce)
				if again.Repaired() {
					t.Errorf("a second pass repairs again: %+v", again)
				}
			})
		})
	}
}

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

// One step that fails doesn't stop the others.
func TestFailedStepDoesNotStopTheOthers(t *testing.T) {
	steps := []string{"ending expired sessions", "revoking lost claims", "revoking overdue claims", "expiring jobs",
		"removing old jobs", "looking for eligible work"}
	for _, bad := range steps {
		t.Run(bad, func(t *testing.T) {
			inBubble(t, func(t *testing.T, book *daybooktest.Book) {
				own, f := flakyBook(book)
				broken := errors.New("broken")
				f.set(func(doing string) error {
					if doing == bad {
						return broken
					}
					return nil
				})
				_, err := reconcile.New(own, reconcile.Options{}).Pass(t.Context(), daybook.AtOnce)
				if !errors.Is(err, broken) {
					t.Errorf("Pass: %v, want the step's error", err)
				}
				for _, step := range steps {
					if f.count(step) == 0 {
						t.Errorf("step %q wasn't tried", step)
					}
				}
			})
		})
	}
}

// Losing a race to somebody's newer write is logged, and no failure.
func TestLostRaceIsLogged(t *testing.T) {
	inBubble(t, func(t *testing.T, book *daybooktest.Book) {
		own, f := flakyBook(book)
		f.set(func(doing string) error {
			if doing == "revoking lost claims" {
				return daybook.Fail(daybook.CodeFenced, "job moved meanwhile")
			}
			return nil
		})
		var log bytes.Buffer
		r := reconcile.New(own, reconcile.Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
		if _, err := r.Pass(t.Context(), daybook.Sure); err != nil {
			t.Errorf("Pass: %v", err)
		}
		if !strings.Contains(log.String(), "lost race") {
			t.Errorf("the log says %q", log.String())
		}
	})
}

func TestOptionsOutOfRangeAreRefused(t *testing.T) {
	book := daybooktest.New(t)
	for _, o := range []reconcile.Options{{Every: -1}, {Every: time.Microsecond}, {Keep: time.Hour}} {
		r := reconcile.New(book.Book, o)
		if err := r.Run(t.Context()); !errors.Is(err, daybook.ErrInvalid) {
			t.Errorf("Run with %+v: %v, want invalid", o, err)
		}
		if _, err := r.Pass(t.Context(), daybook.Sure); !errors.Is(err, daybook.ErrInvalid) {
			t.Errorf("Pass with %+v: %v, want invalid", o, err)
		}
	}
}

// Finished jobs go after their retention, set-aside ones never.
func TestRetention(t *testing.T) {
	inBubble(t, func(t *testing.T, book *daybooktest.Book) {
		done, aside := enqueue(t, book, daybook.Request{Priority: 1}), enqueue(t, book, daybook.Request{})
		first := claim(t, book.Book, time.Minute)
		second := claim(t, book.Book, time.Minute)
		if _, err := book.Complete(t.Context(), done, daybook.Owner{Session: first.Session.ID, Generation: 1}, nil); err != nil {
			t.Fatal(err)
		}
		if _, err := book.Fail(t.Context(), aside, daybook.Owner{Session: second.Session.ID, Generation: 1},
			daybook.Failure{Permanent: true}, nil); err != nil {
			t.Fatal(err)
		}
		r := reconcile.New(book.Book, reconcile.Options{Keep: 72 * time.Hour})
		for _, c := range []struct {
			wait time.Duration
			want int
		}{{71 * time.Hour, 0}, {time.Hour, 1}, {time.Hour, 0}} {
			time.Sleep(c.wait)
			report, err := r.Pass(t.Context(), daybook.Sure)
			if err != nil || report.Pruned != c.want {
				t.Errorf("pruned %d, %v; want %d", report.Pruned, err, c.want)
			}
		}
		book.RequireState(aside, daybook.SetAside)
		if _, err := book.Job(t.Context(), done); !errors.Is(err, daybook.ErrNotFound) {
			t.Errorf("the finished job: %v, want not found", err)
		}
	})
}

// How far a pass trusts an old lease. The first session lapses while all is
// well and must be ended; what makes a pass unsure must only mark the second.
func TestUnsurePassesOnlyMark(t *testing.T) {
	for _, c := range []struct {
		name  string
		doubt func(f *flaky, clock *atomic.Int64)
	}{
		{"the database was away", func(f *flaky, _ *atomic.Int64) {
			f.set(away)
			after(time.Minute)
			f.set(nil)
		}},
		{"the clock jumped ahead", func(_ *flaky, clock *atomic.Int64) { clock.Store(int64(time.Hour)) }},
		{"the database was slow", func(f *flaky, _ *atomic.Int64) {
			f.set(func(doing string) error {
				if doing == "reading the clock" {
					time.Sleep(3 * time.Second)
				}
				return nil
			})
			after(36 * time.Second)
			f.set(nil)
		}},
		{"a step failed", func(f *flaky, _ *atomic.Int64) {
			f.set(func(doing string) error {
				if doing == "ending expired sessions" {
					return away(doing)
				}
				return nil
			})
			after(time.Minute)
			f.set(nil)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var clock atomic.Int64
				book, err := sqlite.Open(t.Context(), sqlite.Memory, sqlite.Options{
					Book: daybook.Options{Log: slog.New(slog.DiscardHandler)},
					Now:  func() time.Time { return time.Now().Add(time.Duration(clock.Load())) }})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { book.Close() })
				f := &flaky{Store: book.Store()}
				var log bytes.Buffer
				run(t, daybook.New(f, daybook.Options{}), reconcile.Options{Log: slog.New(slog.NewTextHandler(&log, nil))})

				lease := 30 * time.Second
				start := func() daybook.ID {
					s, err := book.StartSession(t.Context(), daybook.SessionRequest{Lease: lease})
					if err != nil {
						t.Fatal(err)
					}
					return s.ID
				}
				first := start()
				after(lease + 6*time.Second)
				if s := session(t, book, first); s.Live() {
					t.Errorf("the session that lapsed in good times is alive; %s", log.String())
				}
				second := start()
				c.doubt(f, &clock)
				after(6 * time.Second)
				if s := session(t, book, second); !s.Live() || s.MarkedAt == 0 {
					t.Errorf("the session is ended at %s, marked at %s; want marked only; %s", s.EndedAt, s.MarkedAt, log.String())
				}
				if _, err := book.Renew(t.Context(), second, nil); err != nil { // it lives, and says so
					t.Errorf("Renew: %v", err)
				}
				third := start()
				after(lease + 12*time.Second)
				for _, id := range []daybook.ID{second, third} {
					if s := session(t, book, id); s.Live() {
						t.Errorf("session %s that lapsed after the doubt is alive, marked at %s; %s", id, s.MarkedAt, log.String())
					}
				}
			})
		})
	}
}

func session(t *testing.T, book *daybook.Book, id daybook.ID) daybook.Session {
	t.Helper()
	found, err := book.Sessions(t.Context(), daybook.SessionFilter{ID: id})
	if err != nil || len(found) != 1 {
		t.Fatalf("session %s: %v, %v", id, found, err)
	}
	return found[0]
}

// The first pass of a process only marks: it can't know how long the database
// was away.
func TestFirstPassOnlyMarks(t *testing.T) {
	inBubble(t, func(t *testing.T, book *daybooktest.Book) {
		id := enqueue(t, book, daybook.Request{})
		s := claim(t, book.Book, time.Second).Session.ID
		after(time.Hour)
		run(t, book.Book, reconcile.Options{})
		after(7 * time.Second)
		if got := session(t, book.Book, s); got.MarkedAt == 0 || !got.Live() {
			t.Errorf("marked at %q, ended at %q by the first pass; want marked only", got.MarkedAt, got.EndedAt)
		}
		after(6 * time.Second) // a mark as old as the lease
		book.RequireState(id, daybook.Waiting)
	})
}
