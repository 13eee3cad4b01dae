package postgres

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/daybookdev/daybook"
)

// TestQueuesAhead wants the look at a few queues to tell what the look at all of
// them tells.
func TestQueuesAhead(t *testing.T) {
	h := newHot(t, Options{})
	defer h.empty()
	for i, r := range []daybook.Request{
		{Queue: "due"}, {Queue: "due", In: time.Hour}, {Queue: "later", In: time.Hour}, {Queue: "later", In: time.Minute,
			Priority: -3}, {Queue: "gone", ExpiresAt: time.Unix(1, 0)}, {Queue: "gone", Priority: 2, In: time.Hour},
		{Queue: "never", In: 2 * time.Hour, ExpiresAt: time.Now().Add(time.Hour)}, {Queue: "paused"},
		{Queue: "ranks", Priority: 5, In: time.Hour}, {Queue: "ranks"}, {Queue: "ranks", Priority: -1, In: time.Second},
		{Queue: "held"}, {Queue: "empty"},
	} {
		r.Kind = fmt.Sprint("k", i)
		_, err := h.book.Enqueue(t.Context(), r)
		ok(t, err)
	}
	ok(t, h.book.Pause(t.Context(), "paused", someone))
	h.sql("UPDATE daybook.ready SET lane = -lane WHERE lane = (SELECT n FROM daybook.queue WHERE name = 'held')",
		"DELETE FROM daybook.ready WHERE lane = (SELECT n FROM daybook.queue WHERE name = 'empty')")
	for _, names := range [][]string{{"due", "later", "gone", "never", "paused", "ranks", "held", "empty"}, {"nobody"},
		{"later", "nobody"}, {"ranks"}} {
		var got, want []daybook.Queue
		ok(t, h.store.Read(t.Context(), "a test", func(v daybook.View) (err error) {
			var known bool
			var now daybook.Time
			got, now, known, err = v.(*view).QueuesAhead(t.Context(), names)
			if !known || now == 0 {
				t.Errorf("%v: known %v at %s", names, known, now)
			}
			return err
		}))
		ok(t, h.store.Read(t.Context(), "a test", func(v daybook.View) (err error) {
			want, err = v.Queues(t.Context(), false)
			return err
		}))
		want = slices.DeleteFunc(want, func(q daybook.Queue) bool { return !slices.Contains(names, q.Name) })
		slices.SortFunc(got, func(a, b daybook.Queue) int { return cmp.Compare(a.Name, b.Name) })
		show := func(list []daybook.Queue) (s string) {
			for _, q := range list {
				s += fmt.Sprintln(q.Name, q.Paused, q.Ready, q.Next, q.NextLater)
			}
			return s
		}
		same(t, fmt.Sprint(names), show(got), show(want))
	}
}
