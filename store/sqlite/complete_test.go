package sqlite

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/daybookdev/daybook"
)

// someJobs is a session that has claimed n jobs, which follow one another.
func someJobs(t *testing.T, book *daybook.Book, n int) (daybook.Session, []daybook.Job) {
	t.Helper()
	s, err := book.StartSession(t.Context(), daybook.SessionRequest{Worker: "w"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := book.EnqueueMany(t.Context(), slices.Repeat([]daybook.Request{{Queue: "q", Kind: "k"}}, n)); err != nil {
		t.Fatal(err)
	}
	return s, claim(t, book, s, n)
}

func claim(t *testing.T, book *daybook.Book, s daybook.Session, n int) []daybook.Job {
	t.Helper()
	claimed, err := book.Claim(t.Context(), daybook.ClaimRequest{Session: s.ID, Queues: []string{"q"}, Limit: n})
	if err != nil {
		t.Fatal(err)
	}
	if len(claimed.Jobs) != n {
		t.Fatalf("%d jobs claimed, want %d", len(claimed.Jobs), n)
	}
	return claimed.Jobs
}

func successes(jobs []daybook.Job) []daybook.Outcome {
	outcomes := make([]daybook.Outcome, len(jobs))
	for i, j := range jobs {
		outcomes[i] = daybook.Outcome{Job: j.ID, Kind: daybook.OutcomeSucceeded,
			Owner: daybook.Owner{Session: j.Session, Generation: j.Generation}}
	}
	return outcomes
}

// asSet completes jobs as one set and expects it to be plain or not.
func asSet(t *testing.T, book *daybook.Book, what string, session daybook.ID, set []daybook.Outcome, want bool) {
	t.Helper()
	err := book.Store().Write(t.Context(), "completing", func(tx daybook.Tx) error {
		left, err := tx.(daybook.Completer).Complete(t.Context(), session, set)
		if (len(left) == 0) != want {
			t.Errorf("%s: left %v, want all completed: %t", what, left, want)
		}
		return err
	})
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

func state(t *testing.T, book *daybook.Book, id daybook.ID, want daybook.State) {
	t.Helper()
	j, err := book.Job(t.Context(), id)
	if err != nil || j.State != want {
		t.Fatalf("job %s is %q, %v, want %s", id, j.State, err, want)
	}
}

// TestCompleteRun: rows that follow one another are completed as a range, and
// whatever isn't plain about one of them still keeps all from completing.
func TestCompleteRun(t *testing.T) {
	book, err := Open(t.Context(), Memory, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer book.Close()
	s, jobs := someJobs(t, book, 3*rangeLeast)
	other, _ := someJobs(t, book, rangeLeast)
	set := successes(jobs)
	for _, by := range []int64{-1, 1} {
		wrong := slices.Clone(set)
		for i := range wrong {
			wrong[i].Owner.Generation += by
		}
		asSet(t, book, fmt.Sprintf("generation %+d", by), s.ID, wrong, false)
	}
	asSet(t, book, "another session", other.ID, set, false)
	seq := jobs[rangeLeast].Ref
	st := book.Store().(*Store)
	st.force(t, fmt.Sprintf(`INSERT INTO effect (seq, name, policy, key, begun_at, state, generation, doubled)
		VALUES (%d, 'charge', 'ask', 'k', {now}, 'open', 1, 0)`, seq))
	asSet(t, book, "an open effect", s.ID, set, false)
	st.force(t, "UPDATE effect SET state = 'done'")
	asSet(t, book, "one alone", s.ID, set[4:5], true)
	asSet(t, book, "one that has ended", s.ID, set, false)
	for _, j := range append(jobs[:4:4], jobs[5:]...) {
		state(t, book, j.ID, daybook.Running)
	}
	asSet(t, book, "the others", s.ID, append(set[:4:4], set[5:]...), true)
	for _, j := range jobs {
		state(t, book, j.ID, daybook.Succeeded)
	}
}

// TestCompleteUnknownRows: what was claimed before the process began is
// completed all the same, in a run, between runs and one by one.
func TestCompleteUnknownRows(t *testing.T) {
	book, err := Open(t.Context(), Memory, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer book.Close()
	s, jobs := someJobs(t, book, 3*rangeLeast)
	st := book.Store().(*Store)
	clear(st.refs.byID)
	var set []daybook.Outcome
	for i, o := range successes(jobs) {
		if i < rangeLeast || i%2 == 0 {
			o.Result = fmt.Appendf(nil, "%d", i)
			set = append(set, o)
		}
	}
	slices.Reverse(set)
	asSet(t, book, "all", s.ID, set, true)
	for i, j := range jobs {
		if i >= rangeLeast && i%2 != 0 {
			state(t, book, j.ID, daybook.Running)
			continue
		}
		got, err := book.Job(t.Context(), j.ID)
		if err != nil || got.State != daybook.Succeeded || string(got.Result) != fmt.Sprint(i) {
			t.Fatalf("job %d is %s with result %s, %v", i, got.State, got.Result, err)
		}
	}
}

// TestNumbersAreNotUsedAgain: a process that remembers a claim's row must not
// take another job for it, even one with the same session and generation that
// came after the first was removed.
func TestNumbersAreNotUsedAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "book.db")
	now := time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)
	var books [2]*daybook.Book // as in two processes
	for i := range books {
		var err error
		books[i], err = Open(t.Context(), path, Options{Now: func() time.Time { return now }})
		if err != nil {
			t.Fatal(err)
		}
		defer books[i].Close()
	}
	s, first := someJobs(t, books[0], 1)
	asSet(t, books[1], "the first", s.ID, successes(first), true)
	err := books[1].Store().Write(t.Context(), "removing", func(tx daybook.Tx) error {
		jobs, err := tx.Lock(t.Context(), []daybook.ID{first[0].ID})
		if err != nil {
			return err
		}
		return tx.Prune(t.Context(), jobs)
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := books[1].Enqueue(t.Context(), daybook.Request{Queue: "q", Kind: "k"}); err != nil {
		t.Fatal(err)
	}
	second := claim(t, books[1], s, 1)
	if second[0].Generation != first[0].Generation || second[0].Session != first[0].Session {
		t.Fatalf("the second job's claim differs: %+v, want it like %+v", second[0], first[0])
	}
	asSet(t, books[0], "the first, again", s.ID, successes(first), false)
	state(t, books[1], second[0].ID, daybook.Running)
	if second[0].Ref <= first[0].Ref {
		t.Errorf("the second job has number %d after %d", second[0].Ref, first[0].Ref)
	}
}

// TestUndoneClaimsAreForgotten: only what was committed is remembered.
func TestUndoneClaimsAreForgotten(t *testing.T) {
	book, err := Open(t.Context(), Memory, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer book.Close()
	s, _ := someJobs(t, book, 1)
	st := book.Store().(*Store)
	clear(st.refs.byID)
	if _, err := book.Enqueue(t.Context(), daybook.Request{Queue: "q", Kind: "k"}); err != nil {
		t.Fatal(err)
	}
	undo := daybook.Fail(daybook.CodeRefused, "undone")
	err = st.Write(t.Context(), "claiming", func(tx daybook.Tx) error {
		jobs, err := tx.Claim(t.Context(), daybook.Claiming{Session: s, Queues: []string{"q"}, Limit: 1})
		if err != nil || len(jobs) != 1 {
			t.Errorf("claimed %d jobs, %v, want 1", len(jobs), err)
		}
		return undo
	})
	if err != undo {
		t.Fatalf("the write answered %v, want %v", err, undo)
	}
	if len(st.refs.byID) != 0 {
		t.Errorf("%d rows of undone claims are remembered", len(st.refs.byID))
	}
	claim(t, book, s, 1)
	if len(st.refs.byID) != 1 {
		t.Errorf("%d rows are remembered, want 1", len(st.refs.byID))
	}
}

// TestRefsAreBounded: claims that end elsewhere don't pile up.
func TestRefsAreBounded(t *testing.T) {
	r := newRefs()
	for range 3 * refsMax / 1000 {
		batch := make([]claimedRef, 1000)
		for i := range batch {
			batch[i].id = daybook.NewID()
		}
		if r.learn(batch); len(r.byID) > refsMax {
			t.Fatalf("%d rows are remembered, want at most %d", len(r.byID), refsMax)
		}
	}
}
