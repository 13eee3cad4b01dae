package e2e

import (
	"context"
	"strings"
	"testing"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/cutover"
)

// standing is an old store of which the first return stands still until another
// process has ended the rollback.
type standing struct {
	cutover.Old
	meanwhile func()
}

func (s *standing) Return(ctx context.Context, job daybook.OldJob) (bool, error) {
	if fn := s.meanwhile; fn != nil {
		s.meanwhile = nil
		fn()
	}
	return s.Old.Return(ctx, job)
}

// TestStaleRollback: a mover that stands still between its look at the phase and the
// return of a job, while another ends the rollback and an old worker does all of it,
// puts nothing back any more.
func TestStaleRollback(t *testing.T) {
	eachSystem(t, func(w *world) {
		w.produce(order{1, "ok", 0}, order{2, "ok", 0})
		e := w.engine(cutover.Options{})
		w.plan(e, 0)
		_, err := e.Gate(w.Context(), patience)
		w.ok(err)
		_, err = e.Move(w.Context())
		w.ok(err)
		another, err := w.sys.open(w.url)
		w.ok(err)
		defer another.Close()
		stale := &standing{Old: another, meanwhile: func() {
			_, err := e.Rollback(w.Context())
			w.ok(err)
			w.startWorker()
			w.soon("an old worker has done both", func() bool { return len(w.inOld("done")) == 2 })
			w.soon("and they are gone or done", func() bool { return len(w.raw()) == w.doneThere() })
		}}
		_, err = cutover.New(w.book, stale, "mail", cutover.Options{}).Rollback(w.Context())
		if daybook.CodeOf(err) != daybook.CodeFenced || !strings.Contains(err.Error(), "ended by another process") {
			w.Errorf("the stale mover: %v", err)
		}
		if left, err := w.old.Left(w.Context()); err != nil || len(left) > 0 {
			w.Errorf("left are %v, %v", left, err)
		}
		for number, times := range w.inOld("done") {
			if times != 1 {
				w.Errorf("job %s was done %d times", number, times)
			}
		}
	})
}

// late is an old store of which the first take stands still until another process
// has rolled the cutover back.
type late struct {
	cutover.Old
	meanwhile func()
}

func (l *late) Take(ctx context.Context, n int) ([]daybook.OldJob, error) {
	if fn := l.meanwhile; fn != nil {
		l.meanwhile = nil
		fn()
	}
	return l.Old.Take(ctx, n)
}

// TestStaleMover: a mover that stands still between its look at the phase and the take
// of jobs, while another rolls the cutover back, takes nothing any more: nobody would
// give it back. Nor does it close the gate. Old workers do all of it.
func TestStaleMover(t *testing.T) {
	eachSystem(t, func(w *world) {
		w.produce(order{1, "ok", 0}, order{2, "ok", 0})
		e := w.engine(cutover.Options{})
		w.plan(e, 0)
		_, err := e.Gate(w.Context(), patience)
		w.ok(err)
		another, err := w.sys.open(w.url)
		w.ok(err)
		defer another.Close()
		stale := &late{Old: another, meanwhile: func() {
			_, err := e.Rollback(w.Context())
			w.ok(err)
		}}
		mover := cutover.New(w.book, stale, "mail", cutover.Options{})
		if _, err = mover.Move(w.Context()); daybook.CodeOf(err) != daybook.CodeFenced {
			w.Errorf("the stale mover: %v", err)
		}
		if err := another.CloseGate(w.Context()); daybook.CodeOf(err) != daybook.CodeFenced {
			w.Errorf("it closes the gate: %v", err)
		}
		w.startWorker()
		w.soon("an old worker has done both", func() bool { return len(w.inOld("done")) == 2 })
		w.soon("and they are gone or done", func() bool { return len(w.raw()) == w.doneThere() })
		if left, err := w.old.Left(w.Context()); err != nil || len(left) > 0 {
			w.Errorf("left are %v, %v", left, err)
		}
	})
}

// doneThere counts the jobs that the old store keeps as done.
func (w *world) doneThere() (n int) {
	w.Helper()
	for _, job := range w.raw() {
		if strings.HasPrefix(job, string(daybook.OldDone)+" ") {
			n++
		}
	}
	return n
}
