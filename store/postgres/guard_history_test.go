package postgres

import (
	"fmt"
	"testing"
	"time"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/internal/pgtest"
)

// oldDay leaves a book of which the day 22000101 is past retention and walked,
// and a job that outlived it.
func oldDay(t *testing.T) (b *dayBook, aside daybook.ID) {
	b = newDayBook(t)
	b.upkeep()
	b.done()
	aside = b.aside()
	b.pass(9 * oneDay)
	b.upkeep()
	b.prune(1)
	b.prune(0)
	b.want("walked", "SELECT walked::text FROM daybook.history_day WHERE name = 'ended_22000101'", "true")
	return b, aside
}

const dropIt = "SELECT daybook.drop_day('ended_22000101', {now})::text"

// TestDropDay: a day that retention isn't through with stays, and what is filed
// into it while it is carried over isn't lost.
func TestDropDay(t *testing.T) {
	b, aside := oldDay(t)
	b.sql("UPDATE daybook.history_day SET walked = false WHERE name = 'ended_22000101'")
	carried := b.sql(replaceNow(dropIt, b.time()))[0]
	b.fatal(carried != "0", "carried %s rows over from a day that isn't walked", carried)
	b.filed(aside, "22000101 1")
	b.sql("UPDATE daybook.history_day SET walked = true WHERE name = 'ended_22000101'")

	b.sql("ALTER FUNCTION daybook.drop_day SET lock_timeout = '1min'")
	late, drops := dial(t, pgtest.SharedURL(t)), dial(t, pgtest.SharedURL(t))
	open, err := late.Begin(t.Context())
	b.ok(err)
	_, err = open.Exec(t.Context(), b.s.schema.in(`UPDATE daybook.ended_22000101 SET error = 'late'
		WHERE seq = (SELECT seq FROM daybook.job WHERE id = $1)`), aside.String())
	b.ok(err)
	dropped := inBackground(func() error {
		_, err := drops.Exec(t.Context(), b.s.schema.in(replaceNow(dropIt, b.time())))
		return err
	})
	until(t, "the drop waits", func() bool {
		if len(dropped) > 0 {
			t.Fatal("the drop did not wait for who writes to the day")
		}
		return b.sql(fmt.Sprintf("SELECT (%d = ANY (pg_blocking_pids(%d)))::text", late.PgConn().PID(),
			drops.PgConn().PID()))[0] == "true"
	})
	b.ok(open.Commit(t.Context()))
	b.ok(<-dropped)
	b.filed(aside, "22000110 1")
	b.want("what was written last", "SELECT error FROM daybook.ended WHERE outcome = 2", "late")
}

// TestDayIsHeld: a day isn't dropped between a walk's look at the list of days
// and its look at this one.
func TestDayIsHeld(t *testing.T) {
	b, aside := oldDay(t)
	b.sql("UPDATE daybook.history_day SET walked = false WHERE name = 'ended_22000101'")
	tried := 0
	fault := func(_ string, did bool) error {
		if !did || tried > 0 || b.sql(`SELECT count(*)::text FROM pg_locks
				WHERE relation = 'daybook.history_day'::regclass AND mode = 'RowShareLock'`)[0] == "0" {
			return nil // it didn't come to the days yet
		}
		tried++
		b.sql(`UPDATE daybook.history_day SET walked = true WHERE name IN
			(SELECT name FROM daybook.history_day WHERE name = 'ended_22000101' FOR NO KEY UPDATE SKIP LOCKED)`)
		_, err := b.s.pool.Exec(t.Context(), b.s.schema.in(replaceNow(dropIt, b.time())))
		if stateOf(err) != stateLockTimeout {
			t.Errorf("dropping it: got %v, want that it is held", err)
		}
		return nil
	}
	o := b.s.opts
	o.Fault = fault
	other := openBook(t, pgtest.SharedURL(t), b.s.Schema(), o)
	if _, err := other.Prune(t.Context(), daybook.PruneOptions{}); err != nil {
		t.Errorf("the walk: %v", err)
	}
	same(t, "walks that came between", tried, 1)
	b.filed(aside, "22000101 1")
}

// TestWalkKeepsItsPlace: a walk that is behind another doesn't set it back.
func TestWalkKeepsItsPlace(t *testing.T) {
	b := newDayBook(t)
	b.upkeep()
	b.pass(3 * oneDay)
	for _, seq := range []int64{7, 5} {
		b.ok(b.s.Write(t.Context(), "a test", func(x daybook.Tx) error {
			x.(*tx).saveWalk(dayWalk{name: "ended_22000101", seq: seq})
			return nil
		}))
	}
	b.want("how far the day is walked",
		"SELECT walked_seq || ' ' || walked FROM daybook.history_day WHERE name = 'ended_22000101'", "7 false")
}

// TestPruneKey: a key that was bound to another job since is that job's.
func TestPruneKey(t *testing.T) {
	h := newHot(t, Options{})
	first, err := h.book.Enqueue(t.Context(), daybook.Request{Queue: "q", Kind: "k", Key: "k1"})
	ok(t, err)
	second, err := h.book.Enqueue(t.Context(), daybook.Request{Queue: "q", Kind: "k", Key: "k2"})
	ok(t, err)
	h.sql("UPDATE daybook.job SET key = 'k2' WHERE key = 'k1'") // past every guard
	_, err = h.book.Cancel(t.Context(), first.ID, someone, false)
	ok(t, err)
	h.write(func(x *tx) error {
		jobs, err := x.Lock(t.Context(), []daybook.ID{first.ID})
		ok(t, err)
		return x.Prune(t.Context(), jobs)
	})
	record, err := h.book.Key(t.Context(), "k2")
	ok(t, err)
	same(t, "the key's job", record.Job, second.ID)
	same(t, "its end", record.EndedAt, 0)
	h.sql("DELETE FROM daybook.request WHERE key = 'k1'")
}

// TestSweepCalls: a claim call of a live session goes when it is old and its jobs
// have ended; until then its repeat is answered.
func TestSweepCalls(t *testing.T) {
	b := newDayBook(t)
	s := session(t, b.Book, oneDay)
	claim := func(call daybook.ID) []daybook.Job {
		got, err := b.Claim(t.Context(), daybook.ClaimRequest{Session: s.ID, Queues: []string{"q"}, Call: call, Limit: 2})
		b.ok(err)
		return got.Jobs
	}
	enqueued(t, b.Book, 4)
	done, running := daybook.NewID(), daybook.NewID()
	for _, j := range claim(done) {
		complete(t, b.Book, j)
	}
	jobs := claim(running)
	complete(t, b.Book, jobs[0])
	sweep := func(want string) {
		t.Helper()
		_, err := b.Sweep(t.Context())
		b.ok(err)
		b.want("calls", "SELECT count(*)::text FROM daybook.call", want)
	}
	b.pass(daybook.CallKept - time.Microsecond)
	sweep("2")
	b.pass(time.Microsecond)
	sweep("1")
	if again := claim(running); len(again) != 1 || again[0].ID != jobs[1].ID {
		t.Errorf("the repeat got %v, want %v", idsOf(again), jobs[1].ID)
	}
	complete(t, b.Book, jobs[1])
	sweep("0")
}
