package demo

import (
	"bufio"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/internal/procs"
)

// testGate is a gate whose reports arrive on a channel.
func testGate() (*gate, <-chan report) {
	r, w := io.Pipe()
	said := make(chan report, 10)
	go procs.ReadLines(bufio.NewReader(r), func(r report) { said <- r })
	return newGate(&procs.Lines{W: w}), said
}

func TestGateStopsTheArmedPassage(t *testing.T) {
	g, said := testGate()
	g.reached(daybook.GapStart, daybook.ID{1}) // nothing is armed
	g.arm(arming{Fault: 3, Gap: daybook.GapStart, Passage: 2})
	g.reached(daybook.GapClaim, daybook.ID{})
	g.reached(daybook.GapStart, daybook.ID{2})
	passed := make(chan struct{})
	go func() {
		g.reached(daybook.GapStart, daybook.ID{3})
		close(passed)
	}()
	got := <-said
	want := standing{Fault: 3, Gap: daybook.GapStart, Job: daybook.ID{3}}
	if got.At == nil || *got.At != want {
		t.Fatalf("got %+v, want %+v", got.At, want)
	}
	g.reached(daybook.GapStart, daybook.ID{4}) // it stops one passage only
	select {
	case <-passed:
		t.Fatal("the armed passage went on by itself")
	default:
	}
	g.goOn(2) // another fault's
	g.goOn(3)
	<-passed
}

// The gap claim knows no job yet: its report has none, and is read all the same.
func TestGateReportsTheGapClaim(t *testing.T) {
	g, said := testGate()
	g.arm(arming{Fault: 1, Gap: daybook.GapClaim, Passage: 1})
	go g.reached(daybook.GapClaim, daybook.ID{})
	if got := <-said; got.At == nil || got.At.Gap != daybook.GapClaim || !got.At.Job.IsZero() {
		t.Errorf("got %+v, want the gap claim without a job", got.At)
	}
	g.goOn(1)
}

func TestGateIsDisarmed(t *testing.T) {
	g, _ := testGate()
	g.arm(arming{Fault: 1, Gap: daybook.GapStart, Passage: 1})
	g.arm(arming{})
	g.reached(daybook.GapStart, daybook.ID{1}) // would wait for ever
	if fault, wait := g.stops(daybook.GapStart); fault != 0 || wait != nil {
		t.Errorf("got fault %d, want none", fault)
	}
}

// A process that is about to be stopped comes to rest in every gap, so that it
// holds no lock.
func TestGateRestsBeforeAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(&procs.Lines{W: io.Discard})
		g.arm(arming{Fault: 1, Gap: daybook.GapPause, Passage: 1})
		var passed atomic.Int32
		for _, gap := range []string{daybook.GapPause, daybook.GapClaim, daybook.GapComplete} {
			go func() {
				g.reached(gap, daybook.ID{1})
				passed.Add(1)
			}()
			synctest.Wait()
		}
		if passed.Load() != 0 {
			t.Errorf("%d went through while the process should rest", passed.Load())
		}
		g.goOn(1)
		synctest.Wait()
		if passed.Load() != 3 {
			t.Errorf("got %d that went on after the pause, want 3", passed.Load())
		}
		g.reached(daybook.GapClaim, daybook.ID{1}) // and nobody stops any more
	})
}

func TestReadLinesEndsAtACutLine(t *testing.T) {
	var got []order
	cut := bufio.NewReader(strings.NewReader(`{"Go":1}` + "\n" + `{"Go":2`))
	err := procs.ReadLines(cut, func(o order) { got = append(got, o) })
	if err != nil || len(got) != 1 || got[0].Go != 1 {
		t.Errorf("got %+v and %v, want the whole line alone", got, err)
	}
	err = procs.ReadLines(bufio.NewReader(strings.NewReader("panic: no\n")), func(order) {})
	if daybook.CodeOf(err) != daybook.CodeInvalid {
		t.Errorf("got %v, want a line that is no message refused", err)
	}
}
