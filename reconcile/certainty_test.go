package reconcile_test

import (
	"bytes"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/daybooktest"
	"github.com/daybookdev/daybook/reconcile"
	"github.com/daybookdev/daybook/store/sqlite"
)

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
		{"the process stood still", func(f *flaky, _ *atomic.Int64) {
			f.set(func(doing string) error {
				if doing == "taking the reconciler's pass" {
					f.set(nil)
					time.Sleep(time.Minute)
				}
				return nil
			})
			after(64 * time.Second)
		}},
		{"no pass could be taken", func(f *flaky, _ *atomic.Int64) {
			f.set(func(doing string) error {
				if doing == "taking the reconciler's pass" {
					return away(doing)
				}
				return nil
			})
			after(time.Minute)
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
				run(t, daybook.New(f, daybook.Options{}),
					reconcile.Options{Log: slog.New(slog.NewTextHandler(&log, nil))})

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
					t.Errorf("the session is ended at %q, marked at %q; want marked only; %s",
						s.EndedAt, s.MarkedAt, log.String())
				}
				if _, err := book.Renew(t.Context(), second, nil); err != nil { // it lives, and says so
					t.Errorf("Renew: %v", err)
				}
				third := start()
				after(lease + 12*time.Second)
				for _, id := range []daybook.ID{second, third} {
					if s := session(t, book, id); s.Live() {
						t.Errorf("session %s that lapsed after the doubt is alive, marked at %q; %s",
							id, s.MarkedAt, log.String())
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
