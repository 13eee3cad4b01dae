package postgres

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/daybookdev/daybook"
)

// resting enqueues two jobs each that look the same and brings them to rest: with
// effects that ended, held, cancelled before anybody claimed it, and plain.
func (h *hot) resting(at time.Time) (one, two []daybook.ID) {
	h.Helper()
	s := session(h.T, h.book, time.Minute)
	for i := range 5 {
		for _, ids := range []*[]daybook.ID{&one, &two} {
			r := daybook.Request{Queue: fmt.Sprint("q", i%2), Kind: fmt.Sprint("k", i), Priority: 3 - i,
				ExpiresAt: at.Add(time.Hour)}
			receipt, err := h.book.Enqueue(h.Context(), r)
			ok(h.T, err)
			*ids = append(*ids, receipt.ID)
			if i == 4 {
				_, err := h.book.Cancel(h.Context(), receipt.ID, daybook.By{Actor: "ada"}, false)
				ok(h.T, err)
				continue
			}
			j := h.claim(s, 1, r.Queue)[0]
			if i == 1 {
				_, err = h.book.BeginEffect(h.Context(), j.ID, ownerOf(j), daybook.Begin{Name: "charge", Policy: daybook.PolicyAsk})
				ok(h.T, err)
				_, err = h.book.FinishEffect(h.Context(), j.ID, ownerOf(j), daybook.EffectEnd{Name: "charge",
					Outcome: daybook.OutcomeDone})
				ok(h.T, err)
			}
			_, err = h.book.Fail(h.Context(), j.ID, ownerOf(j), daybook.Failure{Permanent: true}, nil)
			ok(h.T, err)
			if i == 2 {
				h.sql("UPDATE daybook.job SET held_by = 'x', crashes = 2 WHERE id = '" + receipt.ID.String() + "'")
			}
		}
	}
	return one, two
}

// rows are the rows of jobs in every table that a revival writes, without what is
// each job's own.
func (h *hot) rows(ids []daybook.ID) (all []string) {
	h.Helper()
	for _, id := range ids {
		all = append(all, fmt.Sprint(h.one(`SELECT (to_jsonb(j) - 'seq' - 'id')::text || coalesce((SELECT
				(to_jsonb(r) - 'seq')::text FROM daybook.ready r WHERE r.seq = j.seq), '') || coalesce((SELECT
				(to_jsonb(e) - 'seq' - 'n')::text FROM daybook.event e WHERE e.seq = j.seq AND e.what = 'revived'), '')
			FROM daybook.job j WHERE j.id = $1`, id.String())))
	}
	return all
}

// TestReviveSetWrites: a set of revivals writes the very rows that the revivals of
// one job after the other do.
func TestReviveSetWrites(t *testing.T) {
	now := time.Now().Truncate(time.Microsecond)
	h := newHot(t, Options{Now: func() time.Time { return now }})
	one, two := h.resting(now)
	same(t, "at rest", fmt.Sprint(h.rows(one)), fmt.Sprint(h.rows(two)))
	same(t, "jobs", len(two), 5)
	by := daybook.By{Actor: "ada", Reason: "a \"test\""}
	begun := h.outboxRows()
	for _, id := range one {
		_, err := h.book.Revive(t.Context(), id, by)
		ok(t, err)
	}
	single := h.outboxRows()
	for state, want := range map[daybook.State]string{daybook.SetAside: "4 [q0 q1]", daybook.Cancelled: "1 [q0]"} {
		h.write(func(x *tx) error {
			set, plain, err := x.ReviveSet(t.Context(), daybook.Finding{What: daybook.FindMatching, Limit: 10,
				Filter: daybook.Filter{State: state}}, by)
			slices.Sort(set.Ring)
			same(t, "plain", plain, true)
			same(t, "moved, and rings", fmt.Sprint(set.Moved, set.Ring), want)
			same(t, "the time", x.Now(), daybook.At(now))
			return err
		})
	}
	got, each := h.rows(two), h.rows(one)
	for i := range each {
		same(t, "revived", got[i], each[i])
	}
	same(t, "counts", h.outboxRows()-single, single-begun)
	same(t, "rows of many", h.one("SELECT count(*) FROM daybook.outbox WHERE revived = 2 AND ring"), any(int64(2)))
}

// outboxRows sums what was counted, in a way that tells the numbers apart.
func (h *hot) outboxRows() int64 {
	h.Helper()
	return num(fmt.Sprint(h.one(`SELECT (sum((queue + 1) * (coalesce(waiting, 0) + 100 * coalesce(set_aside, 0)
		+ 10000 * coalesce(revived, 0) + 1000000 * coalesce(accepted, 0))))::bigint FROM daybook.outbox`)))
}

// TestReviveSetOfAChangedJob: a set waits for who holds a job, leaves it when it is
// another than it was when it was found, and revives the others.
func TestReviveSetOfAChangedJob(t *testing.T) {
	h := newHot(t, Options{Patience: time.Minute})
	ids := enqueued(t, h.book, 3)
	for _, j := range h.claim(session(t, h.book, time.Minute), 3, "q") {
		_, err := h.book.Fail(t.Context(), j.ID, ownerOf(j), daybook.Failure{Permanent: true}, nil)
		ok(t, err)
	}
	open := h.holds("UPDATE daybook.job SET failures = 7 WHERE id = $1", ids[1].String())
	answer := inBackground(func() error {
		return h.store.Write(t.Context(), "a test", func(x daybook.Tx) error {
			set, _, err := x.(*tx).ReviveSet(t.Context(), daybook.Finding{What: daybook.FindMatching, Limit: 10,
				Filter: daybook.Filter{State: daybook.SetAside}}, daybook.By{Actor: "ada"})
			if err == nil && (set.Found != 3 || set.Moved != 2 || fmt.Sprint(set.Left) != fmt.Sprint(ids[1:2])) {
				err = fmt.Errorf("%+v", set)
			}
			return err
		})
	})
	waits(h, "a set", open.Conn(), answer)
	ok(t, open.Commit(t.Context()))
	ok(t, <-answer)
	for i, want := range []daybook.State{daybook.Waiting, daybook.SetAside, daybook.Waiting} {
		j, err := h.book.Job(t.Context(), ids[i])
		ok(t, err)
		same(t, "state", j.State, want)
	}
}

// TestDecideBesideAHeldJob: a decision about many decides about the others, and names
// the job that somebody holds; where many are held it ends and says how far it came.
func TestDecideBesideAHeldJob(t *testing.T) {
	for _, move := range []daybook.Move{daybook.MoveRevive, daybook.MoveCancel} {
		t.Run(string(move), func(t *testing.T) {
			h := newHot(t, Options{Patience: time.Minute})
			ids := enqueued(t, h.book, 1200)
			decide := func(move daybook.Move) (daybook.BulkAnswer, error) {
				f := daybook.Filter{State: daybook.Cancelled}
				if move == daybook.MoveCancel {
					f.State = daybook.Waiting
				}
				return h.book.Decide(t.Context(), daybook.Bulk{Move: move, By: daybook.By{Actor: "ada"}, Filter: f})
			}
			if move == daybook.MoveRevive {
				_, err := decide(daybook.MoveCancel)
				ok(t, err)
			}
			open := h.holds("SELECT FROM daybook.job WHERE id = $1 FOR UPDATE", ids[700].String())
			answer, err := decide(move)
			ok(t, err)
			same(t, "done", answer.Done, 1199)
			same(t, "refused", fmt.Sprint(answer.Refused), "map[busy:1]")
			if !strings.Contains(answer.First, ids[700].String()) {
				t.Errorf("the refusal %q doesn't name the job", answer.First)
			}
			ok(t, open.Rollback(t.Context()))
			answer, err = decide(move)
			ok(t, err)
			same(t, "done of the rest", answer.Done, 1)
		})
	}
}

// TestReviveSetOfALargeBook: a set reads no more than it takes, whether it was
// planned while the tables were empty or later.
func TestReviveSetOfALargeBook(t *testing.T) {
	b := rawDayBook(t)
	b.upkeep()
	big := []string{"job", "ready", "effect", "event"}
	for _, table := range big {
		b.sql("ALTER TABLE daybook." + table + " SET (autovacuum_enabled = false)")
	}
	b.sql("VACUUM ANALYZE daybook.job, daybook.ready, daybook.effect")
	revive := func(want int) {
		t.Helper()
		ok(t, b.s.Write(t.Context(), "a test", func(x daybook.Tx) error {
			set, _, err := x.(*tx).ReviveSet(t.Context(), daybook.Finding{What: daybook.FindMatching, Limit: 100,
				Filter: daybook.Filter{State: daybook.SetAside, Kind: "k"}}, daybook.By{Actor: "ada"})
			same(t, "moved", set.Moved, want)
			return err
		}))
	}
	for range 10 {
		revive(0)
	}
	b.sql(replaceNow(large, b.time()))
	b.upkeep()
	b.sql("DELETE FROM daybook.effect WHERE state = 'open'")
	before := b.rowsRead(big)
	revive(100)
	for i, n := range b.rowsRead(big) {
		if n -= before[i]; n > 500 {
			t.Errorf("read %d rows of %s", n, big[i])
		}
	}
}
