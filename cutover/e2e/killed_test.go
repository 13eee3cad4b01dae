package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/cutover"
)

// TestKilledInShadow: a worker that is killed in the middle of a job during the
// shadow, on a queue of which many are done before, around and after its death,
// leaves that job open, and of the others at most those that were done around its
// death, where the old system keeps no trace of what it had.
func TestKilledInShadow(t *testing.T) {
	eachSystem(t, func(w *world) {
		e := w.engine(cutover.Options{})
		w.plan(e, 0)
		ctx, end := context.WithCancel(w.Context())
		shadow := make(chan error, 1)
		go func() {
			_, err := e.Shadow(ctx, time.Hour)
			shadow <- err
		}()
		doomed := w.startWorker(w.sys.alone...)
		w.produce(order{9000, "slow", 0})
		w.soon("the slow job runs and is seen in its worker's hand", func() bool {
			page, err := w.book.Items(w.Context(), daybook.ItemFilter{Cutover: "mail", Last: daybook.OldOwned, Limit: 2})
			w.ok(err)
			return w.inOld("start")["9000"] == 1 && len(page.Items) == 1
		})
		w.startWorker()
		const each, around = 60, 6
		w.wave(0, each)
		// Those that are done now had gone for two looks before the worker's last sign.
		w.soon("they have gone for sure", func() bool { return w.unsure() == 1 })
		from := w.clock()
		w.soon("the doomed one speaks once more", func() bool { return w.spokeAll(from) })
		doomed.kill()
		w.wave(each, around)
		if w.sys.age != nil {
			w.ok(w.sys.age(w.Context(), w.redis))
		}
		w.soon("its death is found", func() bool { return len(w.deaths()) > 0 })
		w.wave(each+around, each)
		end()
		w.ok(<-shadow)
		w.openAfter(e, 2*each+around+1, around)
	})
}

// wave produces that many jobs, and waits until each is done.
func (w *world) wave(from, n int) {
	w.Helper()
	list := make([]order, n)
	for k := range list {
		list[k] = order{from + k, "ok", 0}
	}
	w.produce(list...)
	w.soon(fmt.Sprint(from+n, " are done"), func() bool { return len(w.inOld("done")) >= from+n })
}

func (w *world) clock() daybook.Time {
	w.Helper()
	now, err := w.book.Clock(w.Context())
	w.ok(err)
	return now
}

// unsure counts items that neither are known to be done nor have gone for sure.
func (w *world) unsure() (n int) {
	w.Helper()
	f := daybook.ItemFilter{Cutover: "mail", Term: daybook.TermStill, NotGone: true, Limit: daybook.ListMax}
	page, err := w.book.Items(w.Context(), f)
	w.ok(err)
	for _, i := range page.Items {
		if i.Last != daybook.OldDone {
			n++
		}
	}
	return n
}

// spokeAll reports whether every worker gave a sign of life after from, where a
// system tells signs from jobs.
func (w *world) spokeAll(from daybook.Time) bool {
	w.Helper()
	g, err := w.old.GateState(w.Context())
	w.ok(err)
	for _, c := range g.Claimants {
		if w.old.Fades() > 0 && c.Seen < from.Add(w.old.Slip()) {
			return false
		}
	}
	return true
}

func (w *world) deaths() []daybook.Death {
	w.Helper()
	c, err := w.book.Cutover(w.Context(), "mail")
	w.ok(err)
	n, err := cutover.NotesOf(c)
	w.ok(err)
	return n.Deaths
}

// openAfter carries the cutover to its end. The killed job is open, with at most
// so many others.
func (w *world) openAfter(e *cutover.Engine, jobs, most int) {
	w.Helper()
	_, err := e.Gate(w.Context(), patience)
	w.ok(err)
	settled := w.toRun(e)
	w.Logf("deaths %+v; settled %+v", w.deaths(), settled)
	page, err := w.book.Jobs(w.Context(), daybook.Filter{Queue: "mail", State: daybook.SetAside, Limit: daybook.ListMax})
	w.ok(err)
	if w.old.Slip() == 0 {
		most = 0
	}
	killed := 0
	for _, j := range page.Items {
		var args []any
		w.ok(json.Unmarshal(j.Args, &args))
		if fmt.Sprint(args[0]) == "9000" {
			killed++
		}
	}
	if killed != 1 || len(page.Items) > 1+most {
		w.Errorf("%d jobs are open, %d of them the killed one; want it and at most %d others", len(page.Items), killed, most)
	}
	b, err := e.Reconcile(w.Context())
	w.ok(err)
	w.Logf("balance: %+v", b)
	if !b.Balanced || b.Seen+b.Arrived > int64(jobs) || b.Open != int64(len(page.Items)) {
		w.Errorf("it doesn't balance: %+v", b)
	}
	w.healthy()
}
