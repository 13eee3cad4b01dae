package postgres

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/internal/pgtest"
)

// useMarks makes looking from the start so dear that claims use their marks,
// and never forget one.
func (h *hot) useMarks() {
	m := &h.store.marks
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.sets {
		s.cost, s.gaps = time.Hour, 0 // and a slow machine looks for unknown ranks all the same
		for _, lane := range s.lanes {
			lane.cost = time.Hour / time.Duration(len(s.lanes))
		}
	}
}

// forget makes every mark old enough to be forgotten.
func (h *hot) forget() {
	m := &h.store.marks
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.sets {
		for _, lane := range s.lanes {
			for i := range lane.marks {
				lane.marks[i].since = time.Now().Add(-lookShare*s.cost - lookRest)
			}
		}
	}
}

// drain claims and completes all that there is, in calls of limit.
func (h *hot) drain(s daybook.Session, limit int, queues ...string) (n int) {
	h.Helper()
	for {
		jobs := h.claim(s, limit, queues...)
		h.finish(jobs, "")
		if n += len(jobs); len(jobs) < limit {
			return n
		}
	}
}

// TestMarksHideNothingForGood commits a job late, behind the marks: they pass it
// over until they are forgotten, and not longer.
func TestMarksHideNothingForGood(t *testing.T) {
	h := newHot(t, Options{})
	s := session(t, h.book, time.Hour)
	enqueued(t, h.book, 1) // makes the queue: who is the first holds up the others
	late := dial(t, pgtest.SharedURL(t))
	open, err := late.Begin(t.Context())
	ok(t, err)
	for range 3 {
		enqueue(t, h, open, "late")
	}
	enqueued(t, h.book, 2*markTrail)
	if n := h.drain(s, 500, "q"); n != 2*markTrail+1 {
		t.Fatalf("claimed %d", n)
	}
	h.useMarks()
	ok(t, open.Commit(t.Context()))
	if jobs := h.claim(s, 10, "q"); len(jobs) != 0 {
		t.Fatalf("the marks hide nothing: %d jobs", len(jobs))
	}
	enqueued(t, h.book, 1)
	if jobs := h.claim(s, 10, "q"); len(jobs) != 1 || jobs[0].Kind != "k" {
		t.Fatalf("behind the marks: %d jobs", len(jobs))
	}
	h.forget()
	for _, limit := range []int{1, 10} { // what the first leaves, the next finds at once
		if jobs := h.claim(s, limit, "q"); len(jobs) != min(limit, 2) || jobs[0].Kind != "late" {
			t.Fatalf("up to %d when the marks are forgotten: %d jobs", limit, len(jobs))
		}
	}
}

// enqueue adds a job of a kind in somebody's transaction.
func enqueue(t *testing.T, h *hot, open pgx.Tx, kind string) {
	t.Helper()
	_, err := In(h.store.Schema()).EnqueueTx(t.Context(), open, daybook.Request{Queue: "q", Kind: kind})
	ok(t, err)
}

// TestMarksSeeCommitsOutOfOrder commits a job a little late: by fewer than what
// the marks stay behind.
func TestMarksSeeCommitsOutOfOrder(t *testing.T) {
	h := newHot(t, Options{})
	s := session(t, h.book, time.Hour)
	enqueued(t, h.book, 3*markTrail)
	h.drain(s, 500, "q")
	late := dial(t, pgtest.SharedURL(t))
	open, err := late.Begin(t.Context())
	ok(t, err)
	enqueue(t, h, open, "late")
	enqueued(t, h.book, markTrail/2)
	h.drain(s, 500, "q")
	h.useMarks()
	ok(t, open.Commit(t.Context()))
	if jobs := h.claim(s, 10, "q"); len(jobs) != 1 || jobs[0].Kind != "late" {
		t.Fatalf("a little late: %d jobs", len(jobs))
	}
}

// TestMarksSeeRanks: with marks in use, jobs of other priorities than those that
// were claimed are seen at once, and in their order.
func TestMarksSeeRanks(t *testing.T) {
	h := newHot(t, Options{})
	s := session(t, h.book, time.Hour)
	for i := range 10 {
		_, err := h.book.Enqueue(t.Context(), daybook.Request{Queue: "q", Kind: "k", Priority: i % 2 * 10})
		ok(t, err)
	}
	h.drain(s, 3, "q")
	h.useMarks()
	for _, priority := range []int{5, -5, 20, 0, 10, daybook.PriorityMin, daybook.PriorityMax, 0, 5} {
		_, err := h.book.Enqueue(t.Context(), daybook.Request{Queue: "q", Kind: "k", Priority: priority})
		ok(t, err)
	}
	var got []int
	for range 5 { // of two, the last of one
		h.useMarks()
		for _, j := range h.claim(s, 2, "q") {
			got = append(got, j.Priority)
		}
	}
	want := []int{daybook.PriorityMax, 20, 10, 5, 5, 0, 0, -5, daybook.PriorityMin}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("priorities: got %v, want %v", got, want)
	}
}

// TestMarksOfKinds: who takes one kind passes over the others, and leaves them to
// who takes them.
func TestMarksOfKinds(t *testing.T) {
	h := newHot(t, Options{})
	s := session(t, h.book, time.Hour)
	var requests []daybook.Request
	for i := range 3 * markTrail {
		requests = append(requests, daybook.Request{Queue: "q", Kind: []string{"a", "b"}[i%2]})
	}
	_, err := h.book.EnqueueMany(t.Context(), requests)
	ok(t, err)
	claim := func(kind ...string) int {
		n := 0
		for {
			got, err := h.book.Claim(t.Context(), daybook.ClaimRequest{Session: s.ID, Queues: []string{"q"}, Kinds: kind,
				Limit: 300})
			ok(t, err)
			h.finish(got.Jobs, "")
			h.useMarks()
			if n += len(got.Jobs); len(got.Jobs) == 0 {
				return n
			}
		}
	}
	for _, kind := range []string{"a", "b"} {
		if n := claim(kind); n != len(requests)/2 {
			t.Errorf("%d jobs of kind %s", n, kind)
		}
	}
}

// TestMarksAndTime: jobs that become due, are given back or are retried later
// than the marks are seen when they are.
func TestMarksAndTime(t *testing.T) {
	h := newHot(t, Options{})
	s := session(t, h.book, time.Hour)
	enqueued(t, h.book, 3*markTrail)
	h.drain(s, 1000, "q")
	enqueued(t, h.book, 1)
	h.useMarks()
	back := h.claim(s, 1, "q")[0]
	_, err := h.book.Release(t.Context(), back.ID, ownerOf(back), 0)
	ok(t, err)
	if again := h.claim(s, 1, "q"); len(again) != 1 || again[0].ID != back.ID {
		t.Errorf("given back: %d jobs", len(again))
	}
	_, err = h.book.Enqueue(t.Context(), daybook.Request{Queue: "q", Kind: "later", In: 50 * time.Millisecond})
	ok(t, err)
	h.waitFor("the later job is due", func() bool {
		jobs := h.claim(s, 10, "q")
		return len(jobs) == 1 && jobs[0].Kind == "later"
	})
}

// TestMarksFailedCommit: a claim that is undone leaves marks behind that are too
// far; its jobs are found when those are forgotten.
func TestMarksFailedCommit(t *testing.T) {
	h := newHot(t, Options{})
	s := session(t, h.book, time.Hour)
	enqueued(t, h.book, 3*markTrail)
	undone := daybook.Fail(daybook.CodeRefused, "undone")
	err := h.store.Write(t.Context(), "a test", func(x daybook.Tx) error {
		for range 3 {
			got, err := x.Claim(t.Context(), daybook.Claiming{Session: s, Queues: []string{"q"}, Limit: markTrail})
			if err != nil || len(got) != markTrail {
				t.Fatalf("claimed %d: %v", len(got), err)
			}
		}
		return undone
	})
	if daybook.CodeOf(err) != daybook.CodeRefused {
		t.Fatal(err)
	}
	h.useMarks()
	h.forget()
	if n := h.drain(s, 1000, "q"); n != 3*markTrail {
		t.Errorf("%d jobs", n)
	}
}

// TestMarksUnderSnapshot: while somebody holds an old snapshot, claims don't walk
// over what was claimed since, not even those of a queue that ran empty.
func TestMarksUnderSnapshot(t *testing.T) {
	const rounds = 10
	h := newHot(t, Options{})
	holder := dial(t, pgtest.SharedURL(t))
	held, err := holder.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	ok(t, err)
	_, err = held.Exec(t.Context(), "SELECT pg_current_xact_id()")
	ok(t, err)
	s := session(t, h.book, time.Hour)
	for range rounds {
		enqueued(t, h.book, 1000)
		h.drain(s, 1000, "q")
	}
	h.useMarks()
	enqueued(t, h.book, 1)
	walked := h.walked(s, 1)
	if walked > 3*markTrail {
		t.Errorf("a claim walked over %d rows", walked)
	}
	if walked = h.walked(s, 0); walked > 3*markTrail {
		t.Errorf("a claim of an empty queue walked over %d rows", walked)
	}
	h.forget()
	if walked = h.walked(s, 0); walked < rounds*1000 {
		t.Errorf("a look from the start walked over %d rows; the snapshot isn't held", walked)
	}
	ok(t, held.Rollback(t.Context()))
}

// walked claims, and tells how many entries of the index of waiting jobs it
// looked at.
func (h *hot) walked(s daybook.Session, want int) (rows int64) {
	h.Helper()
	h.write(func(t *tx) error {
		before, err := t.one(entriesRead, h.store.schema.quoted()+".ready_pkey")
		if err != nil {
			return err
		}
		got, _, err := t.ClaimSet(h.Context(), daybook.ClaimRequest{Session: s.ID, Call: daybook.NewID(),
			Queues: []string{"q"},
			Limit:  10})
		if err != nil || len(got.Jobs) != want {
			h.Fatalf("%d jobs, want %d: %v", len(got.Jobs), want, err)
		}
		after, err := t.one(entriesRead, h.store.schema.quoted()+".ready_pkey")
		rows = num(after) - num(before)
		return err
	})
	return rows
}

const entriesRead = "SELECT pg_stat_get_xact_tuples_returned($1::text::regclass)"
