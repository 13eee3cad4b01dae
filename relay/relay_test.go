package relay_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/daybooktest"
	"github.com/daybookdev/daybook/relay"
	"github.com/daybookdev/daybook/store/sqlite"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// wire is a bell outside that notes what it is told, and when.
type wire struct {
	daybook.NoBell
	mu    sync.Mutex
	away  error
	tries []time.Time
	rings []string
}

func (w *wire) Publish(_ context.Context, rings []daybook.Ring) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tries = append(w.tries, time.Now())
	if w.away != nil {
		return w.away
	}
	for _, r := range rings {
		w.rings = append(w.rings, r.Queue)
	}
	return nil
}

func (w *wire) Depth(context.Context) (map[string]int64, error)   { return nil, nil }
func (w *wire) Peek(context.Context, int) ([]daybook.Ring, error) { return nil, nil }
func (w *wire) Stats() daybook.BellStats                          { return daybook.BellStats{} }

func (w *wire) set(away error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.away, w.tries, w.rings = away, nil, nil
}

func (w *wire) seen() (tries []time.Time, rings []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.tries), slices.Clone(w.rings)
}

// bubble runs a test in virtual time, on a book in memory with a bell outside.
func bubble(t *testing.T, test func(t *testing.T, book *daybook.Book, bell *wire)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		bell := &wire{}
		book, err := sqlite.Open(t.Context(), sqlite.Memory, sqlite.Options{
			Book: daybook.Options{Bell: bell, Log: slog.New(slog.DiscardHandler)}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { book.Close() })
		test(t, book, bell)
	})
}

func enqueue(t *testing.T, book *daybook.Book, queue string) {
	t.Helper()
	if _, err := book.Enqueue(t.Context(), daybook.Request{Queue: queue, Kind: "k"}); err != nil {
		t.Fatal(err)
	}
}

// run runs a relay until the test ends.
func run(t *testing.T, book *daybook.Book, o relay.Options) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- relay.New(book, o).Run(ctx) }()
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

func TestOptionsOutOfRangeAreRefused(t *testing.T) {
	book := daybooktest.New(t)
	for _, o := range []relay.Options{{Every: -1}, {Every: time.Microsecond}, {Every: 2 * time.Hour},
		{Deadline: -1}, {Deadline: time.Microsecond}, {Deadline: time.Hour}} {
		r := relay.New(book.Book, o)
		if err := r.Run(t.Context()); !errors.Is(err, daybook.ErrInvalid) {
			t.Errorf("Run with %+v: %v, want invalid", o, err)
		}
		if _, err := r.Pass(t.Context()); !errors.Is(err, daybook.ErrInvalid) {
			t.Errorf("Pass with %+v: %v, want invalid", o, err)
		}
	}
}

// A bell that nobody else hears has nothing to publish: rows stay for the
// reconciler to fold.
func TestBellInsideTheProcess(t *testing.T) {
	book := daybooktest.New(t)
	enqueue(t, book.Book, "q")
	report, err := relay.New(book.Book, relay.Options{}).Pass(t.Context())
	if err != nil || report != (relay.Report{}) {
		t.Errorf("Pass: %+v, %v; want nothing", report, err)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := relay.New(book.Book, relay.Options{}).Run(ctx); err != nil {
		t.Errorf("Run: %v", err)
	}
}

func TestPassReports(t *testing.T) {
	bubble(t, func(t *testing.T, book *daybook.Book, bell *wire) {
		enqueue(t, book, "q")
		enqueue(t, book, "q")
		enqueue(t, book, "r")
		time.Sleep(2 * time.Second)
		got, err := relay.New(book, relay.Options{}).Pass(t.Context())
		want := relay.Report{Batches: 1, Rows: 3, Rung: 2, Removed: 3, Oldest: 2}
		if err != nil || got != want {
			t.Errorf("got %+v, %v; want %+v", got, err, want)
		}
		if _, rings := bell.seen(); fmt.Sprint(rings) != "[q r]" {
			t.Errorf("rung %v, want each queue once", rings)
		}
		if got, err := relay.New(book, relay.Options{}).Pass(t.Context()); err != nil || got != (relay.Report{}) {
			t.Errorf("a second pass: %+v, %v", got, err)
		}
	})
}

// More rows than a batch has are published one batch after the other, without a
// pause.
func TestFullBatchesFollowAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, book *daybook.Book, bell *wire) {
		for n := range 2*daybook.RingsMax + 10 {
			enqueue(t, book, fmt.Sprint("q", n%3))
		}
		run(t, book, relay.Options{Every: time.Hour})
		after(73 * time.Minute) // one pause, with its jitter
		tries, _ := bell.seen()
		if len(tries) != 3 {
			t.Errorf("published %d batches, want 3", len(tries))
		}
		if age, err := book.OutboxAge(t.Context()); err != nil || age != 0 {
			t.Errorf("age of the outbox: %s, %v", age, err)
		}
	})
}

// A fleet asks about as often as one relay does.
func TestPauseGoesByTheFleet(t *testing.T) {
	for _, c := range []struct {
		name     string
		sessions int
		every    time.Duration
		least    int64 // rings of an hour, from one process
		most     int64
	}{
		{"alone", 0, 0, 30_000, 45_000},
		{"ten processes", 10, 0, 3_000, 4_500},
		{"a thousand", 1000, 0, 45, 75},
		{"told how often", 1000, time.Second, 3_000, 4_500},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, book *daybook.Book, bell *wire) {
				for range c.sessions {
					if _, err := book.StartSession(t.Context(), daybook.SessionRequest{Lease: time.Hour}); err != nil {
						t.Fatal(err)
					}
				}
				var passes atomic.Int64
				own := daybook.New(looked{book.Store(), &passes}, daybook.Options{Bell: bell})
				run(t, own, relay.Options{Every: c.every})
				after(time.Hour)
				if n := passes.Load(); n < c.least || n > c.most {
					t.Errorf("%d passes in an hour, want %d…%d", n, c.least, c.most)
				}
			})
		})
	}
}

// In a large fleet whose other processes have no relay, the one that has finds
// rows late, and passes as often as workers poll; when others do it, it goes back.
func TestRelayWithoutOthersPassesMoreOften(t *testing.T) {
	bubble(t, func(t *testing.T, book *daybook.Book, bell *wire) {
		for range 1000 {
			if _, err := book.StartSession(t.Context(), daybook.SessionRequest{Lease: 24 * time.Hour}); err != nil {
				t.Fatal(err)
			}
		}
		var passes atomic.Int64
		own := daybook.New(looked{book.Store(), &passes}, daybook.Options{Bell: bell})
		run(t, own, relay.Options{})
		for range 600 {
			enqueue(t, book, "q")
			after(3 * time.Second)
		}
		if n := passes.Load(); n < 300 || n > 500 {
			t.Errorf("%d passes in half an hour in which nobody else rings, want one in about 5 s", n)
		}
		after(10 * time.Minute)
		passes.Store(0)
		after(time.Hour)
		if n := passes.Load(); n > 75 {
			t.Errorf("%d passes in an hour without late rows", n)
		}
	})
}

// looked counts looks at the outbox.
type looked struct {
	daybook.Store
	passes *atomic.Int64
}

func (l looked) Read(ctx context.Context, doing string, fn func(daybook.View) error) error {
	if doing == "reading the outbox" {
		l.passes.Add(1)
	}
	return l.Store.Read(ctx, doing, fn)
}

// A bell that is away is tried less and less often, logged once, and told
// everything when it is back.
func TestBellAway(t *testing.T) {
	bubble(t, func(t *testing.T, book *daybook.Book, bell *wire) {
		bell.set(errors.New("dial amqp://user:secret@host: refused"))
		enqueue(t, book, "q")
		var log bytes.Buffer
		run(t, book, relay.Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
		after(10 * time.Minute)
		tries, _ := bell.seen()
		if len(tries) < 100 || len(tries) > 170 {
			t.Errorf("tried %d times in ten minutes, want about 120", len(tries))
		}
		if n := strings.Count(log.String(), "can't reach the bell"); n != 1 || strings.Contains(log.String(), "secret") {
			t.Errorf("logged %d times: %s", n, log.String())
		}
		if _, err := relay.New(book, relay.Options{}).Pass(t.Context()); !errors.Is(err, daybook.ErrUnavailable) ||
			strings.Contains(err.Error(), "secret") {
			t.Errorf("Pass: %v", err)
		}
		enqueue(t, book, "r")
		bell.set(nil)
		after(7 * time.Second)
		if _, rings := bell.seen(); !slices.Contains(rings, "q") || !slices.Contains(rings, "r") {
			t.Errorf("rung %v after the bell came back", rings)
		}
		if !strings.Contains(log.String(), "reaches the bell again") {
			t.Errorf("the log says %s", log.String())
		}
	})
}

// A database that is away is waited for.
func TestDatabaseAway(t *testing.T) {
	bubble(t, func(t *testing.T, book *daybook.Book, bell *wire) {
		away := &broken{Store: book.Store()}
		own := daybook.New(away, daybook.Options{Bell: bell})
		enqueue(t, book, "q")
		away.set("clearing the outbox")
		var log bytes.Buffer
		run(t, own, relay.Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
		after(10 * time.Second)
		if tries, _ := bell.seen(); len(tries) == 0 {
			t.Error("nothing was published though the outbox can be read")
		}
		away.set("reading the outbox")
		bell.set(nil)
		after(10 * time.Second)
		away.set("")
		after(7 * time.Second)
		if _, rings := bell.seen(); len(rings) != 1 {
			t.Errorf("rung %v, want q once more and then no more", rings)
		}
		if !strings.Contains(log.String(), "can't reach the database") {
			t.Errorf("the log says %s", log.String())
		}
	})
}

// broken is a store of which one kind of call fails.
type broken struct {
	daybook.Store
	mu    sync.Mutex
	doing string
}

func (b *broken) set(doing string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.doing = doing
}

func (b *broken) fails(doing string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if doing == b.doing {
		return daybook.Unavailable(doing, errors.New("away"))
	}
	return nil
}

func (b *broken) Read(ctx context.Context, doing string, fn func(daybook.View) error) error {
	if err := b.fails(doing); err != nil {
		return err
	}
	return b.Store.Read(ctx, doing, fn)
}

func (b *broken) Write(ctx context.Context, doing string, fn func(daybook.Tx) error) error {
	if err := b.fails(doing); err != nil {
		return err
	}
	return b.Store.Write(ctx, doing, fn)
}
