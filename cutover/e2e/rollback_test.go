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
		w.plan(e, 0)
		_, err := e.Gate(w.Context(), patience)
		w.ok(err)
		before := w.raw()
		w.carryTo("move", 25) // dies in the middle
		moved, err := w.book.ItemCounts(w.Context(), "mail")
		w.ok(err)
		if b := cutover.BalanceOf(moved); b.Moved == 0 || b.Moved >= 201 {
			w.Errorf("it wasn't in the middle: %+v", b)
		}
		w.carryTo("rollback", 1)
		w.carryTo("rollback", 2)
		w.carry("rollback", 10, 6)
		w.diedIn(cutover.GapMarked, cutover.GapReturned)
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
		w.startWorker(w.sys.alone...)
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
