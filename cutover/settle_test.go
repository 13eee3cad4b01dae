package cutover_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/cutover"
	"github.com/daybookdev/daybook/store/sqlite"
)

// forgetful is an old system that keeps no trace of what its one worker took. Its
// clock, which is the book's too, goes on by a second with each look at the workers.
type forgetful struct {
	cutover.Old // nothing else is asked
	now         time.Time
	dies        bool
	fenced      bool
	spoke       time.Time
}

func (f *forgetful) Place() cutover.Place {
	return cutover.Place{System: "sidekiq", Store: "redis://old", Queue: "mail"}
}
func (f *forgetful) Patience() time.Duration { return 15 * time.Second }
func (f *forgetful) Slip() time.Duration     { return 10 * time.Second }
func (f *forgetful) Fades() time.Duration    { return time.Minute }

func (f *forgetful) Now(context.Context) (daybook.Time, error) { return daybook.At(f.now), nil }

func (f *forgetful) Owned(context.Context) ([]daybook.OldJob, error)     { return nil, nil }
func (f *forgetful) Take(context.Context, int) ([]daybook.OldJob, error) { return nil, nil }
func (f *forgetful) Held(context.Context, int) ([]daybook.OldJob, error) { return nil, nil }

func (f *forgetful) BeginTake(context.Context, string) error {
	if f.fenced {
		return daybook.Fail(daybook.CodeFenced, "rolled back")
	}
	return nil
}

func (f *forgetful) Find(context.Context, []string) (map[string]daybook.OldJob, error) {
	return nil, nil
}

func (f *forgetful) GateState(context.Context) (cutover.GateState, error) {
	f.now = f.now.Add(time.Second)
	if !f.dies {
		f.spoke = f.now
	}
	g := cutover.GateState{Closed: true}
	if f.now.Sub(f.spoke) < f.Fades() {
		g.Claimants = []cutover.Claimant{{Name: "w", Seen: daybook.At(f.spoke)}}
	}
	return g, nil
}

// TestDeathInSettle: a worker that is found dead while settle waits may have had
// what nobody saw in a hand, and the board says so; while it lives, that has ended.
func TestDeathInSettle(t *testing.T) {
	for _, dies := range []bool{false, true} {
		f := &forgetful{now: time.Unix(1e9, 0), spoke: time.Unix(1e9, 0), dies: dies}
		book, err := sqlite.Open(t.Context(), ":memory:", sqlite.Options{Now: func() time.Time { return f.now }})
		must(t, err)
		defer book.Close()
		toSettle(t, book)
		settled, err := cutover.New(book, f, "mail", cutover.Options{Sample: time.Millisecond}).Settle(t.Context())
		must(t, err)
		c, err := book.Cutover(t.Context(), "mail")
		must(t, err)
		b, err := cutover.BoardOf(t.Context(), book, c, nil)
		must(t, err)
		switch {
		case !dies && (settled.Finished != 1 || settled.Lost != 0 || len(b.Deaths) != 0):
			t.Errorf("the worker lives: %+v, deaths %+v", settled, b.Deaths)
		case dies && (settled.Lost != 1 || settled.Finished != 0 || len(b.Deaths) != 1):
			t.Errorf("the worker died: %+v, deaths %+v", settled, b.Deaths)
		case dies && (b.Deaths[0].Worker != "w" || b.Deaths[0].Open != 1 ||
			b.Deaths[0].Seen > daybook.At(f.spoke) || b.Deaths[0].Found <= b.Deaths[0].Seen):
			t.Errorf("the board: %+v", b.Deaths)
		}
	}
}

// TestFencedMover: who looked at the phase, and finds in the old store that another
// process has rolled the cutover back since, asks it for nothing else.
func TestFencedMover(t *testing.T) {
	phases := []daybook.Phase{daybook.PhaseMove, daybook.PhaseSettle, daybook.PhaseRun, daybook.PhaseReconcile}
	for n, phase := range phases {
		f := &forgetful{now: time.Unix(1e9, 0), spoke: time.Unix(1e9, 0), fenced: true}
		book, err := sqlite.Open(t.Context(), ":memory:", sqlite.Options{Now: func() time.Time { return f.now }})
		must(t, err)
		defer book.Close()
		toSettle(t, book)
		for _, next := range phases[1 : n+1] {
			_, err = book.AdvanceCutover(t.Context(), "mail", next, daybook.By{})
			must(t, err)
		}
		e := cutover.New(book, f, "mail", cutover.Options{Sample: time.Millisecond})
		calls := map[string]func() error{
			"move":   func() error { _, err := e.Move(t.Context()); return err },
			"settle": func() error { _, err := e.Settle(t.Context()); return err },
			"watch":  func() error { _, err := e.Watch(t.Context(), 0); return err },
			"retire": func() error { _, err := e.Retire(t.Context(), 0); return err },
		}
		fenced := 0
		for name, call := range calls {
			switch err := call(); daybook.CodeOf(err) {
			case daybook.CodeFenced:
				fenced++
			case daybook.CodeRefused: // of another phase
			default:
				t.Errorf("%s in phase %s: %v", name, phase, err)
			}
		}
		if fenced == 0 {
			t.Errorf("nothing is fenced in phase %s", phase)
		}
	}
}

// toSettle has a job that lay in the old queue, and a cutover whose gate is proved.
func toSettle(t *testing.T, book *daybook.Book) {
	t.Helper()
	plan, err := json.Marshal(cutover.Plan{Intake: cutover.IntakeDeploy, Owners: cutover.OwnersAsk,
		Wait: cutover.Seconds(time.Hour), NoRollback: true})
	must(t, err)
	by := daybook.By{Actor: "test", Reason: "a test"}
	_, err = book.PlanCutover(t.Context(), daybook.Cutover{Name: "mail", System: "sidekiq", Store: "redis://old",
		OldQueue: "mail", Queue: "mail", Plan: plan}, by)
	must(t, err)
	_, err = book.SeeOld(t.Context(), "mail", []daybook.OldJob{{ID: "1", State: daybook.OldWaiting, Class: "MailJob",
		Body: []byte("x"), Args: json.RawMessage("[1]")}}, 0, false)
	must(t, err)
	for _, p := range []daybook.Phase{daybook.PhaseShadow, daybook.PhaseGate, daybook.PhaseMove} {
		_, err = book.AdvanceCutover(t.Context(), "mail", p, by)
		must(t, err)
	}
	_, err = book.NoteCutover(t.Context(), "mail", func(c *daybook.Cutover) error {
		c.Notes, err = json.Marshal(cutover.Notes{Gate: &cutover.GateProof{Closed: 1, Proved: 2}})
		return err
	})
	must(t, err)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
