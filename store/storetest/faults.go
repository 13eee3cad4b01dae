package storetest

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/daybookdev/daybook"
)

// operation is something that callers do with a book.
type operation struct {
	name string
	// once says that a caller can't repeat it without doing it twice: only the
	// book's own repeat is tried.
	once bool
	// prepare makes the rows it needs and returns the doing and its proof. Do
	// may be called again; held ends the test unless the operation took hold
	// exactly once.
	prepare func(w *world) (do func() error, held func())
}

// runFaults has the k-th call of the database fail, for every k, before and
// after it took hold: alone, with its connection, and with the whole database
// for as long as the caller waits. Afterwards the operation must have taken
// hold once, by the book's own repeat or by the caller's (L41).
func runFaults(t *testing.T, open opener) {
	all := slices.Concat(faultyRequests, faultyClaims, faultyOutcomes, faultyEffects, faultyPeople, faultyRepairs)
	for _, op := range all {
		t.Run(op.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			// In a bubble the book's pauses before it repeats take no time.
			synctest.Test(t, func(t *testing.T) { op.everyFault(t, open, dir) })
		})
	}
}

func (op operation) everyFault(t *testing.T, open opener, dir string) {
	for _, lasts := range []reach{justOnce, connection, outage} {
		if op.once && lasts == outage {
			continue
		}
		for _, after := range []bool{false, true} {
			f := &faulter{}
			w := newWorld(t, open, Options{Path: filepath.Join(dir, fmt.Sprint(lasts, after, ".db")), Wrap: f.wrap,
				Fault: f.call})
			calls := op.everyCall(w, f, fault{after: after, lasts: lasts})
			if calls == 0 {
				t.Fatal("the store took neither Options.Wrap nor Options.Fault, so nothing can fail")
			}
			t.Logf("%d calls failed, %s, after they took hold: %v", calls, lasts, after)
		}
	}
}

// everyCall runs the operation until no call is left that could fail.
func (op operation) everyCall(w *world, f *faulter, with fault) int {
	for k := 1; k <= 1000; k++ {
		do, held := op.prepare(w)
		with.number = k
		f.arm(with)
		err := do()
		fired := f.disarm()
		if err != nil {
			op.unanswered(w, with, err)
			if err = do(); err != nil {
				w.Fatalf("call %d failed (%s, after %v), and so did the repeat: %v", k, with.lasts, with.after, err)
			}
			if !fired {
				w.Fatalf("without a fault: %v", err)
			}
		}
		held()
		if !fired {
			return k - 1
		}
	}
	w.Fatal("a thousand calls, and no end")
	return 0
}

// unanswered wants an error that says the database is away, in words for
// people.
func (op operation) unanswered(w *world, with fault, err error) {
	w.Helper()
	if daybook.CodeOf(err) != daybook.CodeUnavailable {
		w.Fatalf("call %d failed (%s, after %v): got %v (code %s), want code unavailable", with.number, with.lasts,
			with.after, err, daybook.CodeOf(err))
	}
	if op.once {
		w.Fatalf("call %d failed (%s, after %v): the book gave up: %v", with.number, with.lasts, with.after, err)
	}
	if strings.Contains(err.Error(), errFault.Error()) {
		w.Fatalf("the driver's words reached the caller: %v", err)
	}
}

// fresh names a queue that no other run of the operation uses.
func (w *world) fresh() string { return fmt.Sprint("q", daybook.NewID()) }

// counted is how many jobs the book ever accepted in a queue, and where they
// stand.
func (w *world) counted(queue string) daybook.Counts {
	w.Helper()
	queues, err := w.book.Queues(w.ctx, true)
	w.ok(err)
	for _, q := range queues {
		if q.Name == queue {
			return q.Counts
		}
	}
	return daybook.Counts{}
}

// owned gives one new job in a fresh queue to a new session.
func (w *world) owned(r daybook.Request) daybook.Job {
	w.Helper()
	r.Queue = w.fresh()
	w.enqueue(r)
	got, err := w.book.Claim(w.ctx, daybook.ClaimRequest{Session: w.session("w").ID, Queues: []string{r.Queue}})
	w.ok(err)
	return got.Jobs[0]
}

// ended wants the job in a state, with so many attempts and its queue in
// balance.
func (w *world) ended(id daybook.ID, state daybook.State, attempts int) daybook.Job {
	w.Helper()
	j := w.stands(id, state)
	same(w, "attempts", len(w.attempts(id)), attempts)
	c := w.counted(j.Queue)
	same(w, "accepted", c.Accepted, 1)
	same(w, "balanced", c.Balanced(), true)
	return j
}
