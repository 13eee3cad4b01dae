package belldrill

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/check"
	"github.com/daybookdev/daybook/internal/pgtest"
	"github.com/daybookdev/daybook/reconcile"
	"github.com/daybookdev/daybook/relay"
	"github.com/daybookdev/daybook/store/postgres"
	"github.com/daybookdev/daybook/worker"
)

// jobs is how many each fault is drilled with.
func jobs(t *testing.T) int {
	text := os.Getenv("DAYBOOK_DRILL_JOBS")
	if text == "" {
		return 300
	}
	n, err := strconv.Atoi(text)
	must(t, err)
	return n
}

// long reports whether the drill may take its time.
func long() bool { return os.Getenv("DAYBOOK_DRILL_JOBS") != "" }

var queues = []string{"mail", "video", "audit.log"}

const (
	workers = 2
	slots   = 20
	batch   = 10 // jobs of one transaction
)

// drill is one bell, one fault, one book. Enqueuer and workers have books and
// ends of the bell of their own, as processes have.
type drill struct {
	*testing.T
	place
	n    int
	url  string
	book *daybook.Book // the enqueuer's
	db   *pgx.Conn     // the enqueuer's own transactions
	hurt *hurt         // the bell that the enqueuer rings; nil is none
	poll time.Duration
	hook daybook.Hook // of the workers' books
	pass relay.Options

	mu       sync.Mutex
	runs     map[daybook.ID]int
	accepted []daybook.ID
	awaited  int
	started  chan struct{} // one for each run
	late     []time.Duration
	stats    []func() worker.Stats
	ends     []daybook.Outside
}

// schema is the book's in each drill's own database.
const schema = "daybook"

// newDrill opens the enqueuer's side. A bell that is none has no place.
func newDrill(t *testing.T, bell string, poll time.Duration) *drill {
	t.Helper()
	d := &drill{T: t, n: jobs(t), url: pgtest.Database(t), poll: poll, runs: map[daybook.ID]int{}}
	d.started = make(chan struct{}, 4*d.n)
	_, err := postgres.Up(t.Context(), d.url, postgres.Options{}, nil)
	must(t, err)
	if bell != "none" {
		d.place = placesOf[bell](t, fmt.Sprintf("drill%d", time.Now().UnixNano()), d.url)
		d.hurt = &hurt{Outside: d.end()}
	}
	d.book = d.openBook(d.hurt, nil)
	d.db, err = pgx.Connect(t.Context(), d.url)
	must(t, err)
	t.Cleanup(func() { d.db.Close(context.Background()) })
	return d
}

// end opens one more end of the bell.
func (d *drill) end() daybook.Outside {
	d.Helper()
	b, err := d.open()
	must(d, err)
	d.Cleanup(func() { b.Close() })
	d.ends = append(d.ends, b)
	return b
}

func (d *drill) openBook(bell daybook.Outside, hook daybook.Hook) *daybook.Book {
	d.Helper()
	o := postgres.Options{Book: daybook.Options{Log: quiet(), Hook: hook, Bell: daybook.NoBell{}}}
	if h, none := bell.(*hurt); bell != nil && !(none && h == nil) {
		o.Book.Bell = bell
	}
	book, err := postgres.Open(d.Context(), d.url, o)
	must(d, err)
	d.Cleanup(func() { book.Close() })
	return book
}

// work runs the workers until the test ends.
func (d *drill) work() {
	for i := range workers {
		var end daybook.Outside
		if d.hurt != nil {
			end = &hurt{Outside: d.end(), mode: d.hurt.mode}
		}
		w := worker.New(d.openBook(end, d.hook), worker.Config{Queues: queues, Concurrency: slots, Poll: d.poll,
			Name: fmt.Sprint("drill", i), Reconcile: reconcile.Options{Every: time.Second}, Relay: d.pass,
			Log: quiet()})
		worker.Handle(w, "drill", func(_ context.Context, c *worker.Claim[json.RawMessage]) error {
			d.ran(c.Job())
			return nil
		})
		ctx, stop := context.WithCancel(context.Background())
		var over sync.WaitGroup
		over.Go(func() {
			if err := w.Run(ctx); err != nil {
				d.Errorf("the worker: %v", err)
			}
		})
		d.Cleanup(func() { stop(); over.Wait() })
		d.stats = append(d.stats, w.Stats)
	}
}

// ran notes a run: how often, and how long after its job was accepted.
func (d *drill) ran(j daybook.Job) {
	d.mu.Lock()
	d.runs[j.ID]++
	d.late = append(d.late, j.ClaimedAt.Sub(j.EnqueuedAt))
	d.mu.Unlock()
	d.started <- struct{}{}
}

// enqueue accepts n jobs, in transactions of ten: every other one is the
// caller's own, of which only the outbox tells.
func (d *drill) enqueue(n int) {
	d.Helper()
	for i := 0; i < n; i += batch {
		requests := make([]daybook.Request, batch)
		for k := range requests {
			requests[k] = daybook.Request{Queue: queues[(i/batch+k%2)%len(queues)], Kind: "drill"}
		}
		var receipts []daybook.Receipt
		var err error
		if i/batch%2 == 0 {
			receipts, err = d.book.EnqueueMany(d.Context(), requests)
		} else {
			err = pgx.BeginFunc(d.Context(), d.db, func(tx pgx.Tx) error {
				receipts, err = postgres.EnqueueTx(d.Context(), tx, requests...)
				return err
			})
		}
		must(d, err)
		for _, r := range receipts {
			d.accepted = append(d.accepted, r.ID)
		}
	}
}

// await waits until as many runs have begun as jobs were accepted.
func (d *drill) await() {
	d.Helper()
	limit := time.NewTimer(standMost)
	defer limit.Stop()
	for ; d.awaited < len(d.accepted); d.awaited++ {
		select {
		case <-d.started:
			limit.Reset(standMost)
		case <-limit.C:
			d.stands()
		}
	}
}

// verdict waits for the ends and looks whether every job ran once, and whether
// the book is as it should be.
func (d *drill) verdict() {
	d.Helper()
	for _, id := range d.accepted {
		d.ended(id)
		if n := d.runs[id]; n != 1 {
			d.Errorf("job %s ran %d times", id, n)
		}
	}
	if len(d.runs) != len(d.accepted) {
		d.Errorf("%d jobs ran, %d were accepted", len(d.runs), len(d.accepted))
	}
	report, err := check.Run(d.Context(), d.book, check.Options{Full: true})
	must(d, err)
	for _, i := range report.Invariants {
		if i.Rows > 0 {
			d.Errorf("%d rows: %s", i.Rows, i.Sentence)
		}
	}
	d.table()
}

// ended waits for the record of a run that was seen.
func (d *drill) ended(id daybook.ID) {
	d.Helper()
	end := time.After(time.Minute)
	for {
		j, err := d.book.Job(d.Context(), id)
		must(d, err)
		if j.State == daybook.Succeeded {
			return
		}
		select {
		case <-end:
			d.Fatalf("job %s is %s", id, j.State)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// table prints one line for the drill's table.
func (d *drill) table() {
	var s worker.Stats
	for _, of := range d.stats {
		one := of()
		s.Rings += one.Rings
		s.Again += one.Again
		s.Stale += one.Stale
		s.Polled += one.Polled
	}
	slices.Sort(d.late)
	at := func(q float64) time.Duration {
		return d.late[int(q*float64(len(d.late)-1))].Round(time.Millisecond / 10)
	}
	d.Logf("drill: %-42s jobs %d, rings %d, again %d, stale %d, found by poll %d; started after p50 %s, p99 %s, most %s",
		d.Name(), len(d.accepted), s.Rings, s.Again, s.Stale, s.Polled, at(0.5), at(0.99), at(1))
}
