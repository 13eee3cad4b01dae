package drill

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/check"
	"github.com/daybookdev/daybook/examples/effects/outside"
)

// held is what a run leaves when all is well.
func held(p policy, gap, fault string) evidence {
	e := evidence{planned: planned{combination: combination{p, gap, fault}}, injected: true, effects: 1, asked: 1,
		job:    daybook.Job{State: daybook.Succeeded, Result: json.RawMessage(`{"receipt":7}`)},
		effect: daybook.Effect{Name: p.kind, Policy: p.name, State: daybook.EffectDone},
		acts:   []outside.Act{{Receipt: 7}}}
	if gap != daybook.GapReply {
		e.job.Crashes = 1
	}
	if p.nobody && leavesOpen(gap) {
		e.aside = 1
	}
	if p.late && gap == daybook.GapPause && fault == faultStop {
		e.acts = append(e.acts, outside.Act{Receipt: 8})
		e.effect.Doubled = true
	}
	return e
}

func TestJudgeOfGoodRuns(t *testing.T) {
	for _, c := range combinations(Gaps, nil) {
		if wrong := held(c.policy, c.gap, c.fault).judge(); len(wrong) > 0 {
			t.Errorf("%s %s %s: %v", c.policy.name, c.gap, c.fault, wrong)
		}
	}
}

// A lease that was lost on the way is no fault of the book's.
func TestJudgeOfAnUnplannedLoss(t *testing.T) {
	e := held(policies[3], daybook.GapBegin, faultKill)
	e.job.Crashes, e.aside = 2, 2
	if wrong := e.judge(); len(wrong) > 0 {
		t.Errorf("got %v", wrong)
	}
}

// A person is asked where the destination says no to what a late word says yes to;
// without such a word nobody had a reason to.
func TestJudgeOfADoubt(t *testing.T) {
	e := held(policies[1], daybook.GapPause, faultStop)
	e.acts, e.effect.Doubled, e.early, e.aside = e.acts[:1], false, true, 1
	if wrong := e.judge(); len(wrong) != 1 {
		t.Errorf("asked without a doubt: got %v", wrong)
	}
	e.effect.Late = []daybook.Late{{Outcome: daybook.OutcomeDone}}
	if wrong := e.judge(); len(wrong) > 0 {
		t.Errorf("got %v", wrong)
	}
}

// Each of these must be found, and said.
func TestJudgeFinds(t *testing.T) {
	keyed, checked, ask := policies[0], policies[1], policies[3]
	for _, tt := range []struct {
		name string
		e    evidence
		edit func(e *evidence)
		want string
	}{
		{"a job that was set aside", held(keyed, "record", faultKill), func(e *evidence) {
			e.job.State, e.job.Reason = daybook.SetAside, daybook.ReasonCrashes
		}, "ended set_aside crashes"},
		{"nothing happened", held(keyed, "record", faultKill), func(e *evidence) { e.acts = nil }, "nothing happened"},
		{"a result from nowhere", held(keyed, "record", faultKill), func(e *evidence) {
			e.job.Result = json.RawMessage(`{"receipt":9}`)
		}, "no receipt"},
		{"no effect in the book", held(keyed, "record", faultKill), func(e *evidence) { e.effects = 0 }, "0 effects"},
		{"an effect still open", held(keyed, "record", faultKill), func(e *evidence) {
			e.effect.State = daybook.EffectIsOpen
		}, "charge open"},
		{"twice where it must not", held(keyed, "pause", faultStop), func(e *evidence) {
			e.acts = append(e.acts, outside.Act{Receipt: 8})
			e.effect.Doubled = true
		}, "it happened 2 times"},
		{"twice with a person", held(ask, "pause", faultStop), func(e *evidence) {
			e.acts = append(e.acts, outside.Act{Receipt: 8})
		}, "it happened 2 times"},
		{"twice behind the book's back", held(checked, "pause", faultStop), func(e *evidence) {
			e.effect.Doubled = false
		}, "the book doesn't say so"},
		{"doubled in the book alone", held(checked, "record", faultKill), func(e *evidence) {
			e.effect.Doubled = true
		}, "the book says doubled"},
		{"a late call that didn't land", held(checked, "pause", faultStop), func(e *evidence) {
			e.acts, e.effect.Doubled = e.acts[:1], false
		}, "want 2"},
		{"nobody asked a person", held(ask, "begin", faultKill), func(e *evidence) { e.aside = 0 }, "asked 0 times"},
		{"a person asked for nothing", held(ask, "reply", faultKill), func(e *evidence) { e.aside = 1 }, "asked 1 times"},
		{"a step that never came", held(ask, "reply", faultKill), func(e *evidence) {
			e.stuck = []string{"waited"}
		}, "waited"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.edit(&tt.e)
			if wrong := strings.Join(tt.e.judge(), "; "); !strings.Contains(wrong, tt.want) {
				t.Errorf("got %q, want %q", wrong, tt.want)
			}
		})
	}
}

// What the checker finds counts, and a doubled effect only where no run explains it.
func TestVerdictTakesTheCheckerIn(t *testing.T) {
	for _, tt := range []struct {
		name               string
		doubled, rows, sum int // by the runs, by the checker, violations
		of                 string
	}{
		{"explained", 2, 2, 0, doubledInvariant},
		{"one more", 2, 3, 1, doubledInvariant},
		{"one missed", 2, 1, 1, doubledInvariant},
		{"another", 0, 1, 1, "one-outcome"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := &drill{doubled: map[daybook.ID]bool{}}
			for n := range tt.doubled {
				d.doubled[daybook.ID{byte(n + 1)}] = true
			}
			r := d.verdict(check.Report{Invariants: []check.Result{{Name: tt.of, Rows: tt.rows}}}, 0)
			if r.Violations != tt.sum {
				t.Errorf("got %d violations, want %d: %v", r.Violations, tt.sum, r.Found)
			}
		})
	}
}
