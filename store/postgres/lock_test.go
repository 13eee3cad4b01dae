package postgres

import (
	"reflect"
	"testing"
	"time"

	"github.com/daybookdev/daybook"
)

// TestLockOfASet: many jobs locked at once are what each is by itself, whether all of
// them are at rest, with effects or without, or some wait or run.
func TestLockOfASet(t *testing.T) {
	h := newHot(t, Options{})
	ids := enqueued(t, h.book, setFrom+10)
	s := session(t, h.book, time.Minute)
	jobs := h.claim(s, len(ids), "q")
	outcomes := make([]daybook.Outcome, len(jobs))
	for n, j := range jobs {
		if n%3 == 0 {
			_, err := h.book.BeginEffect(t.Context(), j.ID, ownerOf(j), daybook.Begin{Name: "charge", Policy: daybook.PolicyAsk})
			ok(t, err)
		}
		outcomes[n] = daybook.Outcome{Job: j.ID, Owner: ownerOf(j), Kind: daybook.OutcomeFailed, Permanent: true,
			Problem: daybook.NewProblem("boom", "", "")}
	}
	_, err := h.book.Finish(t.Context(), outcomes)
	ok(t, err)
	same := func() {
		t.Helper()
		h.write(func(x *tx) error {
			got, err := x.Lock(t.Context(), ids)
			for n, id := range ids {
				one, err := x.Lock(t.Context(), []daybook.ID{id})
				if err != nil {
					return err
				}
				if !reflect.DeepEqual(got[n], one[0]) {
					t.Fatalf("in a set %+v, by itself %+v", got[n], one[0])
				}
			}
			return err
		})
	}
	same()
	if j, err := h.book.Job(t.Context(), ids[0]); err != nil || j.State != daybook.SetAside || j.OpenEffect == "" {
		t.Fatalf("%+v, %v", j, err)
	}
	_, err = h.book.Revive(t.Context(), ids[1], daybook.By{Actor: "ada"})
	ok(t, err)
	same()
	h.claim(s, 1, "q")
	same()
}
