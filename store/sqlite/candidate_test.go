package sqlite

import (
	"testing"
	"time"

	"github.com/daybookdev/daybook"
)

// TestCandidateTerms: the terms that share a column come out as they went in,
// at their limits too.
func TestCandidateTerms(t *testing.T) {
	book, err := Open(t.Context(), Memory, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer book.Close()
	s, err := book.StartSession(t.Context(), daybook.SessionRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []daybook.Request{
		{MaxFailures: 1, Timeout: time.Millisecond, OnLost: daybook.LostRetry},
		{MaxFailures: 1, Timeout: time.Millisecond, OnLost: daybook.LostSetAside},
		{MaxFailures: daybook.MaxFailuresMax, Timeout: daybook.TimeoutMax, OnLost: daybook.LostRetry},
		{MaxFailures: daybook.MaxFailuresMax, Timeout: daybook.TimeoutMax, OnLost: daybook.LostSetAside},
		{MaxFailures: daybook.MaxFailuresMax, Timeout: time.Millisecond, Key: "a key", Args: []byte(`{"a b": " c d "}`)},
		{MaxFailures: 3, Timeout: time.Hour, Priority: -7, RunAt: time.Now().Add(-time.Hour), Args: []byte(`" "`)},
	} {
		want.Queue, want.Kind = "q", "a:kind"
		receipt, err := book.Enqueue(t.Context(), want)
		if err != nil {
			t.Fatal(err)
		}
		got := claim(t, book, s, 1)[0]
		whole, err := book.Job(t.Context(), receipt.ID)
		if err != nil {
			t.Fatal(err)
		}
		if got.MaxFailures != want.MaxFailures || got.Timeout != want.Timeout ||
			want.OnLost != "" && got.OnLost != want.OnLost {
			t.Errorf("claimed with %d, %s, %s, want %d, %s, %s", got.MaxFailures, got.Timeout, got.OnLost,
				want.MaxFailures, want.Timeout, want.OnLost)
		}
		if got.Kind != whole.Kind || string(got.Args) != string(whole.Args) || got.Key != whole.Key ||
			got.RunAt != whole.RunAt || got.EnqueuedAt != whole.EnqueuedAt || got.Priority != whole.Priority {
			t.Errorf("claimed as %+v, want %+v", got, whole)
		}
	}
}
