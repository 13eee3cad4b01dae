package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/internal/pgtest"
)

const oneDay = 24 * time.Hour

// dayBook is a book at a time of its own, far from the days that Up makes.
type dayBook struct {
	*testing.T
	*daybook.Book
	s   *Store
	now atomic.Int64
}

func newDayBook(t *testing.T) *dayBook {
	b := rawDayBook(t)
	t.Cleanup(func() { healthy(t, b.Book) })
	return b
}

// rawDayBook is for tests that write rows past the book; nothing checks it.
func rawDayBook(t *testing.T) *dayBook {
	b := &dayBook{T: t}
	b.now.Store(int64(daybook.At(time.Date(2200, 1, 1, 12, 0, 0, 0, time.UTC))))
	b.Book = openBook(t, pgtest.SharedURL(t), bookName(""), Options{Now: func() time.Time { return b.time().Std() }})
	b.s = b.Store().(*Store)
	return b
}

func (b *dayBook) time() daybook.Time   { return daybook.Time(b.now.Load()) }
func (b *dayBook) pass(d time.Duration) { b.now.Add(d.Microseconds()) }
func (b *dayBook) ok(err error)         { b.Helper(); b.fatal(err != nil, "unexpected error: %v", err) }
func (b *dayBook) upkeep()              { b.Helper(); b.ok(b.s.Upkeep(b.Context(), daybook.RetentionDefault)) }
func (b *dayBook) sql(query string) (all []string) {
	b.Helper()
	rows, err := b.s.pool.Query(b.Context(), b.s.schema.in(query), pgx.QueryExecModeSimpleProtocol)
	b.ok(err)
	all, err = pgx.CollectRows(rows, pgx.RowTo[string])
	b.ok(err)
	return all
}

func (b *dayBook) fatal(when bool, format string, args ...any) {
	b.Helper()
	if when {
		b.Fatalf(format, args...)
	}
}

// want compares what a query gives, row by row.
func (b *dayBook) want(what, query string, want ...string) {
	b.Helper()
	if got := b.sql(query); !slices.Equal(got, want) {
		b.Errorf("%s: got %q, want %q", what, got, want)
	}
}

// days wants just these partitions after the time at which the book began.
func (b *dayBook) days(want ...string) {
	b.Helper()
	b.want("days", "SELECT substr(name, 7) FROM daybook.history_day WHERE name > 'ended_2199' ORDER BY from_at", want...)
	b.want("partitions", `SELECT substr(c.relname, 7) FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
		WHERE i.inhparent = (SELECT parent FROM daybook.history_place()) AND c.relkind = 'r' AND c.relname > 'ended_2199'
			AND c.relname <> 'ended_rest' ORDER BY 1`, want...)
}

// filed tells in which partitions a job's attempts are.
func (b *dayBook) filed(id daybook.ID, want ...string) {
	b.Helper()
	b.want("where the attempts are", `SELECT substr(c.relname, 7) || ' ' || e.generation FROM daybook.ended e
		JOIN pg_class c ON c.oid = e.tableoid JOIN daybook.job j ON j.seq = e.seq WHERE j.id = '`+id.String()+`'
		ORDER BY e.generation`, want...)
}

// claimed gives a new job to a new session.
func (b *dayBook) claimed() daybook.Job {
	b.Helper()
	_, err := b.Enqueue(b.Context(), daybook.Request{Queue: "q", Kind: "k"})
	b.ok(err)
	got, err := b.Claim(b.Context(), daybook.ClaimRequest{Queues: []string{"q"}})
	b.ok(err)
	b.fatal(len(got.Jobs) != 1, "claimed %d jobs", len(got.Jobs))
	return got.Jobs[0]
}

func (b *dayBook) done() daybook.ID {
	b.Helper()
	j := b.claimed()
	_, err := b.Complete(b.Context(), j.ID, daybook.Owner{Session: j.Session, Generation: j.Generation}, []byte(`"yes"`))
	b.ok(err)
	return j.ID
}

// aside leaves a job set aside, with its error.
func (b *dayBook) aside() daybook.ID {
	b.Helper()
	j := b.claimed()
	_, err := b.Fail(b.Context(), j.ID, daybook.Owner{Session: j.Session, Generation: j.Generation},
		daybook.Failure{Permanent: true, Problem: daybook.NewProblem("boom", "panic", "")}, nil)
	b.ok(err)
	return j.ID
}

func (b *dayBook) prune(want int) {
	b.Helper()
	n, err := b.Prune(b.Context(), daybook.PruneOptions{})
	b.ok(err)
	if n != want {
		b.Errorf("pruned %d jobs, want %d", n, want)
	}
}

func TestDaysAhead(t *testing.T) {
	b := newDayBook(t)
	b.want("days that Up made", "SELECT count(*)::text FROM daybook.history_day", "4")
	b.upkeep()
	b.days("22000101", "22000102", "22000103", "22000104")
	b.upkeep()
	b.filed(b.done(), "22000101 1")
	b.pass(12*time.Hour - time.Microsecond)
	b.filed(b.done(), "22000101 1")
	b.pass(time.Microsecond)
	b.filed(b.done(), "22000102 1")
	b.upkeep()
	b.days("22000101", "22000102", "22000103", "22000104", "22000105")
	b.pass(10 * oneDay)
	b.filed(b.done(), "rest 1") // nobody was there to make the day
	b.upkeep()
	b.days("22000101", "22000102", "22000103", "22000104", "22000105", "22000113", "22000114", "22000115")
	b.filed(b.done(), "rest 1") // the day stays where it began
	b.pass(oneDay)
	b.filed(b.done(), "22000113 1")
}

// TestOldDaysGo: a day goes when retention is through with it, and what jobs
// that are still there did on it stays.
func TestOldDaysGo(t *testing.T) {
	b := newDayBook(t)
	b.upkeep()
	b.done()
	aside := b.aside()
	_, before, err := historyOf(b, aside)
	b.ok(err)
	b.pass(oneDay)
	late := b.done()
	b.pass(daybook.RetentionDefault - oneDay)
	b.upkeep()
	b.prune(1) // just now past retention
	b.want("walked days", "SELECT name FROM daybook.history_day WHERE walked AND name > 'ended_2199'")
	b.pass(12 * time.Hour) // the whole day is
	b.upkeep()
	b.days("22000101", "22000102", "22000103", "22000104", "22000108", "22000109", "22000110", "22000111", "22000112")
	b.prune(0)
	b.want("walked days", "SELECT name FROM daybook.history_day WHERE walked AND name > 'ended_2199'", "ended_22000101")
	b.filed(aside, "22000101 1")
	b.upkeep()
	b.days("22000102", "22000103", "22000104", "22000108", "22000109", "22000110", "22000111", "22000112")
	b.filed(aside, "22000109 1")
	b.filed(late, "22000102 1")
	j, after, err := historyOf(b, aside)
	b.ok(err)
	b.fatal(len(after.Attempts) != 1, "%d attempts are left", len(after.Attempts))
	a, was := after.Attempts[0], before.Attempts[0]
	if a.EndedAt != was.EndedAt || *a.Error != *was.Error || a.Worker != was.Worker {
		t.Errorf("the attempt is %+v, was %+v", a, was)
	}
	if j.State != daybook.SetAside || j.LastError == nil {
		t.Errorf("the job is %s with error %v", j.State, j.LastError)
	}
	b.pass(10 * oneDay) // and again, until a person is through with it
	b.upkeep()
	b.prune(1)
	b.prune(0)
	b.upkeep()
	b.days("22000112", "22000119", "22000120", "22000121", "22000122")
	b.filed(aside, "22000119 1")
	_, err = b.Cancel(b.Context(), aside, daybook.By{Actor: "ada", Reason: "a test"}, false)
	b.ok(err)
	b.pass(daybook.RetentionDefault)
	b.prune(1)
}

func historyOf(b *dayBook, id daybook.ID) (j daybook.Job, h daybook.History, err error) {
	err = b.s.Read(b.Context(), "a test", func(v daybook.View) (err error) {
		if j, _, err = v.Job(b.Context(), id); err == nil {
			h, err = v.History(b.Context(), j)
		}
		return err
	})
	return j, h, err
}

// TestRetentionWalksOnce: what was removed isn't looked at again.
func TestRetentionWalksOnce(t *testing.T) {
	b := rawDayBook(t)
	b.upkeep()
	b.done()
	b.sql(fmt.Sprintf(`INSERT INTO daybook.job (enqueued_at, id, queue, rank, kind, args)
		SELECT %d, gen_random_uuid(), 1, -1, 'k', '{}' FROM generate_series(1, 3000)`, b.time()))
	b.sql(fmt.Sprintf(`INSERT INTO daybook.ended (filed_at, seq, generation, session, claimed_at, outcome)
		SELECT %d, seq, g, 1, %[1]d, CASE g WHEN 2 THEN 1 ELSE 2 END FROM daybook.job, generate_series(1, 2) g
		WHERE seq > 1`, b.time()))
	young := b.done()
	b.sql("UPDATE daybook.ended_22000101 SET filed_at = filed_at + 3600000000 WHERE seq = 3002")
	place := `SELECT walked_seq || ' ' || walked_generation || ' ' || walked FROM daybook.history_day
		WHERE name = 'ended_22000101'`
	b.pass(daybook.RetentionDefault)
	b.upkeep()
	b.prune(3001)
	b.prune(0)
	b.ok(b.s.Read(t.Context(), "a test", func(v daybook.View) error {
		ids, err := v.Find(t.Context(), daybook.Finding{What: daybook.FindPastRetention, Limit: 10,
			Cutoff: v.Now().Add(-daybook.RetentionDefault)})
		b.fatal(len(ids) != 0, "found %d jobs that aren't old enough", len(ids))
		return err
	}))
	b.want("how far the day is walked", place, "3002 0 false") // up to the one that isn't old enough
	b.pass(time.Hour)
	b.prune(1)
	b.want("how far the day is walked", place, "3002 0 false")
	b.prune(0)
	b.want("how far the day is walked", place, "3002 1 true")
	if _, err := b.Job(b.Context(), young); daybook.CodeOf(err) != daybook.CodeNotFound {
		t.Errorf("the job is there: %v", err)
	}
}

// TestDropWaitsForReaders: who reads the history is waited for shortly, keeps
// nobody else out, and the day goes when it is through.
func TestDropWaitsForReaders(t *testing.T) {
	b := newDayBook(t)
	b.upkeep()
	b.done()
	aside := b.aside()
	b.pass(9 * oneDay)
	b.upkeep()
	b.prune(1)
	b.prune(0)
	reader, err := b.s.txs.Begin(t.Context())
	b.ok(err)
	defer reader.Rollback(context.WithoutCancel(t.Context()))
	_, err = reader.Exec(t.Context(), b.s.schema.in("SELECT count(*) FROM daybook.ended"))
	b.ok(err)
	b.upkeep() // gives up and says nothing
	b.filed(aside, "22000101 1")
	b.ok(reader.Rollback(t.Context()))
	b.upkeep()
	b.filed(aside, "22000110 1")
}

// TestUpkeepUnderLoad: two processes keep the history while others complete and
// fail jobs, read, and remove what is old. Nobody gets an error that isn't
// about another one's lock, and nothing is lost.
func TestUpkeepUnderLoad(t *testing.T) {
	b := newDayBook(t)
	b.upkeep()
	other := openBook(t, pgtest.SharedURL(t), b.s.Schema(), b.s.opts)
	ctx := t.Context()
	var together parties
	var asides [4][]daybook.ID
	for i := range asides {
		together.start(func() error {
			for n := range 40 {
				id, err := b.attempt(ctx, n%4 == 0)
				if n%4 == 0 {
					asides[i] = append(asides[i], id)
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
	}
	for _, book := range []*daybook.Book{b.Book, other} {
		together.start(func() error {
			for range 30 {
				b.pass(oneDay / 2)
				err := book.Store().(*Store).Upkeep(ctx, daybook.RetentionDefault)
				if err != nil && !errors.Is(err, daybook.ErrBusy) {
					return err
				}
				if _, err := book.Prune(ctx, daybook.PruneOptions{}); err != nil {
					return err
				}
				if _, err := book.Jobs(ctx, daybook.Filter{State: daybook.Succeeded}); err != nil {
					return err
				}
			}
			return nil
		})
	}
	b.ok(together.wait())
	for _, id := range slices.Concat(asides[:]...) {
		j, h, err := historyOf(b, id)
		if err != nil || j.State != daybook.SetAside || j.LastError == nil || len(h.Attempts) != 1 {
			t.Errorf("job %s: %v, %s with %d attempts, want it set aside after 1", id, err, j.State, len(h.Attempts))
		}
	}
}

// parties run at once; the first error is theirs.
type parties struct {
	group sync.WaitGroup
	mu    sync.Mutex
	err   error
}

func (p *parties) start(do func() error) {
	p.group.Go(func() {
		err := do()
		p.mu.Lock()
		defer p.mu.Unlock()
		p.err = cmp.Or(p.err, err)
	})
}

func (p *parties) wait() error {
	p.group.Wait()
	return p.err
}

// attempt makes a job and ends it: it succeeds, or is set aside.
func (b *dayBook) attempt(ctx context.Context, fails bool) (daybook.ID, error) {
	r, err := b.Enqueue(ctx, daybook.Request{Queue: "q", Kind: "k"})
	if err != nil {
		return r.ID, err
	}
	got, err := b.Claim(ctx, daybook.ClaimRequest{Job: r.ID})
	if err != nil || len(got.Jobs) == 0 {
		return r.ID, cmp.Or(err, fmt.Errorf("job %s is not to be had", r.ID))
	}
	owner := daybook.Owner{Session: got.Jobs[0].Session, Generation: got.Jobs[0].Generation}
	if fails {
		_, err = b.Fail(ctx, r.ID, owner, daybook.Failure{Permanent: true, Problem: daybook.NewProblem("boom", "", "")}, nil)
	} else {
		_, err = b.Complete(ctx, r.ID, owner, nil)
	}
	return r.ID, err
}

// TestFoldsMeet: several folds at once carry every row over once.
func TestFoldsMeet(t *testing.T) {
	b := newDayBook(t)
	for i := range 200 {
		_, err := b.Enqueue(t.Context(), daybook.Request{Queue: fmt.Sprint("q", i%7), Kind: "k"})
		b.ok(err)
	}
	b.pass(2 * daybook.FoldAge)
	var together parties
	var folded atomic.Int64
	for range 4 {
		together.start(func() error {
			for {
				n := 0
				err := b.s.Write(t.Context(), "a test", func(tx daybook.Tx) (err error) {
					n, err = tx.Sweep(t.Context(), daybook.Cutoffs{Counting: b.time()}, 10)
					return err
				})
				if folded.Add(int64(n)); n == 0 || err != nil {
					return err
				}
			}
		})
	}
	b.ok(together.wait())
	b.want("rows left, jobs counted", `SELECT (SELECT count(*) FROM daybook.outbox) || ' ' || sum(waiting) || ' ' ||
		sum(accepted) FROM daybook.sums`, "0 200 200")
	if folded.Load() != 200 {
		t.Errorf("folded %d rows, want 200", folded.Load())
	}
}
