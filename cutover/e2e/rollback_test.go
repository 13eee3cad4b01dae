package e2e

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/cutover"
)

// doneInOrder are the numbers in the order in which old workers did them.
func (w *world) doneInOrder() (numbers []string) {
	w.Helper()
	text, err := os.ReadFile(w.runs())
	if err != nil && !os.IsNotExist(err) {
		w.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if number, ok := strings.CutPrefix(strings.TrimSpace(line), "done "); ok {
			numbers = append(numbers, number)
		}
	}
	return numbers
}

// TestRollback: in the middle of a move everything goes back, by a mover that is
// killed too, and old workers finish it in its old order.
func TestRollback(t *testing.T) {
	eachSystem(t, func(w *world) {
		var list []order
		for n := range 200 {
			list = append(list, order{n, "ok", 0})
		}
		list = append(list, order{900, "ok", 3600})
		w.produce(list...)
		e := w.engine(cutover.Options{})
		w.plan(e)
		_, err := e.Gate(w.Context(), patience)
		w.ok(err)
		before := w.raw()
		w.carryTo("move", 25) // dies in the middle
		moved, err := w.book.ItemCounts(w.Context(), "mail")
		w.ok(err)
		if b := cutover.BalanceOf(moved); b.Moved == 0 || b.Moved >= 201 {
			w.Errorf("it wasn't in the middle: %+v", b)
		}
		w.carry("rollback", 10, 6)
		if after := w.raw(); strings.Join(after, "\n") != strings.Join(before, "\n") {
			w.Errorf("the old store isn't as it was: %d jobs, before %d", len(after), len(before))
		}
		c, err := w.book.Cutover(w.Context(), "mail")
		w.ok(err)
		if c.Phase != daybook.PhaseReturned {
			w.Errorf("phase %s", c.Phase)
		}
		w.work()
		if len(w.here) > 0 {
			w.Errorf("the book ran %v", w.here)
		}
		w.startWorker("-c", "1")
		w.soon("all are done by the old system", func() bool { return len(w.doneInOrder()) >= 200 })
		for n, number := range w.doneInOrder() {
			if number != fmt.Sprint(n) {
				w.Fatalf("at place %d ran job %s", n, number)
			}
		}
		w.healthy()
	})
}

// raw are the jobs of the old store in their order, as they are.
func (w *world) raw() (list []string) {
	w.Helper()
	_, err := w.old.Scan(w.Context(), 0, func(o daybook.OldJob) error {
		list = append(list, fmt.Sprintf("%s %s %s %s", o.State, o.ID, o.DueAt, o.Body))
		return nil
	})
	w.ok(err)
	return list
}

// TestKnownAgain: a message that comes twice, an id that is used again for other
// work, and a job that nobody knows: recognised, counted, one run each.
func TestKnownAgain(t *testing.T) {
	eachSystem(t, func(w *world) {
		w.produce(order{1, "ok", 0}, order{2, "ok", 0})
		e := w.engine(cutover.Options{})
		w.plan(e)
		var first []daybook.OldJob
		_, err := w.old.Scan(w.Context(), 0, func(o daybook.OldJob) error { first = append(first, o); return nil })
		w.ok(err)
		_, err = e.Gate(w.Context(), patience)
		w.ok(err)
		_, err = e.Move(w.Context())
		w.ok(err)
		_, err = e.Settle(w.Context())
		w.ok(err)
		_, err = e.Run(w.Context())
		w.ok(err)
		items, err := w.book.Items(w.Context(), daybook.ItemFilter{Cutover: "mail", Whole: true, Limit: 10})
		w.ok(err)
		for _, i := range items.Items { // the same messages once more, byte for byte
			back, err := w.old.Return(w.Context(), *i.Old)
			w.ok(err)
			if !back {
				w.Errorf("%s can't be put there again", i.ID)
			}
		}
		w.produce(order{3, "ok", 0})
		swept, err := e.Watch(w.Context(), 0)
		w.ok(err)
		if swept.Taken != 1 || swept.Known != 2 {
			w.Errorf("swept %+v", swept)
		}
		w.work()
		for _, number := range []string{"1", "2", "3"} {
			if w.here[number] != 1 {
				w.Errorf("job %s ran %d times", number, w.here[number])
			}
		}
		b, err := e.Reconcile(w.Context())
		w.ok(err)
		if !b.Balanced || b.Again != 2 || b.Arrived != 1 || b.Seen != int64(len(first)) {
			w.Errorf("balance %+v", b)
		}
		w.healthy()
	})
}
