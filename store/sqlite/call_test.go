package sqlite

import (
	"slices"
	"testing"

	"github.com/daybookdev/daybook"
)

// TestRepeatedCall: a call's record holds runs of rows; its repeat gets each
// claim that is still the session's, in order, and none that stood between.
func TestRepeatedCall(t *testing.T) {
	book, err := Open(t.Context(), Memory, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer book.Close()
	var requests []daybook.Request
	for i := range 60 {
		queue := "q"
		if i >= 20 && i%3 == 0 || i == 7 {
			queue = "other"
		}
		requests = append(requests, daybook.Request{Queue: queue, Kind: "k", Priority: i % 50 / 40})
	}
	if _, err := book.EnqueueMany(t.Context(), requests); err != nil {
		t.Fatal(err)
	}
	s, err := book.StartSession(t.Context(), daybook.SessionRequest{})
	if err != nil {
		t.Fatal(err)
	}
	call := daybook.ClaimRequest{Session: s.ID, Queues: []string{"other"}, Limit: 3, Call: daybook.NewID()}
	if _, err := book.Claim(t.Context(), call); err != nil {
		t.Fatal(err)
	}
	call.Queues, call.Limit, call.Call = []string{"q"}, 100, daybook.NewID()
	first, err := book.Claim(t.Context(), call)
	if err != nil {
		t.Fatal(err)
	}
	gone := map[daybook.ID]bool{}
	for _, i := range []int{0, 9, 10, len(first.Jobs) - 1} {
		gone[first.Jobs[i].ID] = true
		asSet(t, book, "one", s.ID, successes(first.Jobs[i:i+1]), true)
	}
	again, err := book.Claim(t.Context(), call)
	if err != nil {
		t.Fatal(err)
	}
	ids := func(jobs []daybook.Job) (ids []daybook.ID) {
		for _, j := range jobs {
			if !gone[j.ID] {
				ids = append(ids, j.ID)
			}
		}
		return ids
	}
	if want := ids(first.Jobs); !slices.Equal(ids(again.Jobs), want) || len(again.Jobs) != len(want) {
		t.Errorf("the repeat got %d jobs, want the %d that are left", len(again.Jobs), len(want))
	}
}
