package e2e

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/cutover"
)

// toRun takes a cutover to the phase in which the book may claim.
func (w *world) toRun(e *cutover.Engine) cutover.Settled {
	w.Helper()
	_, err := e.Move(w.Context())
	w.ok(err)
	settled, err := e.Settle(w.Context())
	w.ok(err)
	_, err = e.Run(w.Context())
	w.ok(err)
	return settled
}

func (w *world) ranHere(number string, times int) {
	w.Helper()
	if w.here[number] != times {
		w.Errorf("job %s ran %d times here, want %d", number, w.here[number], times)
	}
}

// TestKnownAgain: a message that comes twice, an id that is used again for other
// work, and a job that nobody knows: recognised, counted, one run each.
func TestKnownAgain(t *testing.T) {
	eachSystem(t, func(w *world) {
		w.produce(order{1, "ok", 0}, order{2, "ok", 0})
		e := w.engine(cutover.Options{})
		w.plan(e, 0)
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

// TestIDAgain: a producer that never learned of the move uses a moved job's id for
// other work: it is held and asked, and one run each after a person let it go.
func TestIDAgain(t *testing.T) {
	eachSystem(t, func(w *world) {
		w.produce(order{1, "id=same", 0})
		e := w.engine(cutover.Options{})
		w.plan(e, 0)
		_, err := e.Gate(w.Context(), patience)
		w.ok(err)
		w.toRun(e)
		w.work()
		w.ranHere("1", 1)
		err = w.tryProduce(order{2, "id=same", 0})
		if w.sys.refusesIDs {
			if err == nil || !strings.Contains(err.Error(), "conflict") {
				w.Errorf("the old system took the id again: %v", err)
			}
			return
		}
		w.ok(err)
		swept, err := e.Watch(w.Context(), 0)
		w.ok(err)
		if swept.Taken != 1 || swept.Asked != 1 {
			w.Errorf("swept %+v, want one that is asked about", swept)
		}
		w.work()
		w.ranHere("2", 0)
		asked, err := w.book.Jobs(w.Context(), daybook.Filter{Queue: "mail", HeldBy: "cutover:mail:asked", Limit: 10})
		w.ok(err)
		if len(asked.Items) != 1 {
			w.Fatalf("asked are %+v", asked.Items)
		}
		_, err = w.book.Unhold(w.Context(), asked.Items[0].ID, daybook.By{Actor: "ada", Reason: "it is other work"})
		w.ok(err)
		w.work()
		w.ranHere("1", 1)
		w.ranHere("2", 1)
		b, err := e.Reconcile(w.Context())
		w.ok(err)
		if !b.Balanced || b.Arrived != 1 || b.Open != 1 {
			w.Errorf("balance %+v", b)
		}
		w.healthy()
	})
}

// TestLateReport: a worker is stopped in the middle of a job, the job is declared
// lost and a person is asked; then the worker goes on and reports. Nothing runs
// twice, and where the old system keeps its report the cutover shows it.
func TestLateReport(t *testing.T) {
	eachSystem(t, func(w *world) {
		if w.sys.age == nil && !whole() {
			w.Log("only the long form waits until this system's worker counts as lost")
			return
		}
		w.produce(order{9000, "late", 0})
		old := w.startWorker(w.sys.alone...)
		w.soon("the job runs", func() bool { return w.inOld("start")["9000"] == 1 })
		e := w.engine(cutover.Options{})
		w.plan(e, 0)
		_, err := e.Gate(w.Context(), patience)
		w.ok(err)
		w.ok(old.cmd.Process.Signal(syscall.SIGSTOP))
		w.age()
		if settled := w.toRun(e); settled.Lost != 1 {
			w.Errorf("settled %+v, want one lost", settled)
		}
		w.work()
		w.ok(os.WriteFile(w.runs()+".go", nil, 0o600))
		w.ok(old.cmd.Process.Signal(syscall.SIGCONT))
		w.soon("the old worker ends the job", func() bool { return w.inOld("done")["9000"] == 1 })
		old.stop()
		swept, err := e.Watch(w.Context(), 0)
		w.ok(err)
		w.work()
		w.ranHere("9000", 0)
		b, err := e.Reconcile(w.Context())
		w.ok(err)
		if !b.Balanced || b.Open != 1 || swept.Taken != 0 {
			w.Errorf("swept %+v, balance %+v", swept, b)
		}
		items, err := w.book.Items(w.Context(), daybook.ItemFilter{Cutover: "mail", Limit: 10})
		w.ok(err)
		w.Logf("the item: %+v; swept %+v", items.Items[0], swept)
		if told := strings.Contains(items.Items[0].Note, "done"); told != (w.sys.name == "rq") {
			w.Errorf("the item says %q", items.Items[0].Note)
		}
		w.healthy()
	})
}
