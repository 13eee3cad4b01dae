package daybook

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// TestRepeated: the same owner saying the same again is answered from history;
// everything else of an attempt that ended is fenced.
func TestRepeated(t *testing.T) {
	kinds := []OutcomeKind{OutcomeSucceeded, OutcomeFailed, OutcomeReleased}
	for _, tt := range []struct {
		name string
		past Attempt
		yes  []OutcomeKind
	}{
		{"succeeded", Attempt{Outcome: OutcomeSucceeded}, []OutcomeKind{OutcomeSucceeded}},
		{"failed", Attempt{Outcome: OutcomeFailed}, []OutcomeKind{OutcomeFailed}},
		{"released", Attempt{Outcome: OutcomeReleased}, []OutcomeKind{OutcomeReleased}},
		{"asked", Attempt{Outcome: OutcomeAsked}, []OutcomeKind{OutcomeFailed, OutcomeReleased}},
		{"ended by its owner after a cancel", Attempt{Outcome: OutcomeCancelled}, []OutcomeKind{OutcomeFailed,
			OutcomeReleased}},
		{"revoked by a cancel", Attempt{Outcome: OutcomeCancelled, Through: 5}, nil},
		{"lost", Attempt{Outcome: OutcomeLost, Through: 5}, nil},
		{"of another session", Attempt{Outcome: OutcomeSucceeded, Session: otherOwner}, nil},
		{"folded away", Attempt{Outcome: OutcomeReleased, Generation: 9, Through: 9, First: 3, Count: 7}, nil},
	} {
		past := tt.past
		if past.Generation == 0 {
			past.Generation = 4
		}
		past.Through = max(past.Through, past.Generation)
		if past.Session.IsZero() {
			past.Session = testSession
		}
		for _, kind := range kinds {
			want := false
			for _, k := range tt.yes {
				want = want || k == kind
			}
			if got := (Outcome{Job: testJob, Owner: testOwner, Kind: kind}).Repeated(past); got != want {
				t.Errorf("%s, then %s: got already %v, want %v", tt.name, kind, got, want)
			}
		}
	}
}

// TestResultThatCanNotBeKept: it fails the attempt for good, since running
// again would make the same one.
func TestResultThatCanNotBeKept(t *testing.T) {
	for _, tt := range []struct {
		name, result, want string
	}{
		{"none", ``, ""}, {"a document", `{"a":1.0}`, ""},
		{"at the limit", `"` + strings.Repeat("x", ResultMax-2) + `"`, ""},
		{"past the limit", `"` + strings.Repeat("x", ResultMax-1) + `"`,
			"result: at most 1048576 bytes, got 1048577"},
		{"not JSON", `hello`, "result: is not JSON at byte 0"},
		{"NUL", `"\u0000"`, `result: has \u0000, which databases can't store as text`},
	} {
		o := Outcome{Job: testJob, Owner: testOwner, Kind: OutcomeSucceeded,
			Result: json.RawMessage(tt.result)}.Normal()
		c, err := o.move(runningJob(), testNow, 0.5)
		if err != nil {
			t.Fatal(err)
		}
		if tt.want == "" {
			if c.Now.State != Succeeded || string(c.Now.Result) != tt.result || string(c.Attempt.Result) != tt.result {
				t.Errorf("%s: got %s with %d bytes, want succeeded with %d", tt.name, c.Now.State, len(c.Now.Result),
					len(tt.result))
			}
			continue
		}
		if c.Now.State != SetAside || c.Now.Reason != ReasonPermanent || c.Attempt.Error.Text != tt.want {
			t.Errorf("%s: got %s %s with %+v, want set aside, permanent, %s", tt.name, c.Now.State, c.Now.Reason,
				c.Attempt.Error, tt.want)
		}
	}
}

func TestOutcomeMoves(t *testing.T) {
	ten := 10 * time.Second
	for _, tt := range []struct {
		name string
		o    Outcome
		want Time
	}{
		{"default curve, first failure", Outcome{Kind: OutcomeFailed}, testNow.Add(time.Second)},
		{"own delay", Outcome{Kind: OutcomeFailed, RetryIn: &ten}, testNow.Add(ten)},
		{"at once", Outcome{Kind: OutcomeFailed, RetryIn: new(time.Duration)}, testNow},
		{"snooze", Outcome{Kind: OutcomeReleased, In: ten}, testNow.Add(ten)},
	} {
		tt.o.Owner = testOwner
		c, err := tt.o.move(runningJob(), testNow, 0.5)
		if err != nil || c.Now.RunAt != tt.want || c.Now.State != Waiting {
			t.Errorf("%s: got %s at %s, %v, want waiting at %s", tt.name, c.Now.State, c.Now.RunAt, err, tt.want)
		}
	}
}

func TestOutcomeCheck(t *testing.T) {
	far, back := DelayMax+1, -time.Second
	for _, tt := range []struct {
		name string
		o    Outcome
		want string
	}{
		{"lost is not an owner's word", Outcome{Kind: OutcomeLost},
			`outcome: wants succeeded, failed or released, got "lost"`},
		{"none", Outcome{}, `outcome: wants succeeded, failed or released, got ""`},
		{"released back in time", Outcome{Kind: OutcomeReleased, In: back}, "in: wants 0s…876000h0m0s, got -1s"},
		{"retried too far", Outcome{Kind: OutcomeFailed, RetryIn: &far},
			"retry_in: wants 0s…876000h0m0s, got 876000h0m0.000000001s"},
		{"retried back in time", Outcome{Kind: OutcomeFailed, RetryIn: &back},
			"retry_in: wants 0s…876000h0m0s, got -1s"},
		{"fine", Outcome{Kind: OutcomeSucceeded}, ""},
	} {
		got := ""
		if err := tt.o.check(); err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}

// TestSaid: what a fenced owner said is kept, bounded and storable.
func TestSaid(t *testing.T) {
	for _, tt := range []struct {
		name string
		o    Outcome
		want Refusal
	}{
		{"complete", Outcome{Kind: OutcomeSucceeded, Result: json.RawMessage(`{"n":1}`)},
			Refusal{Operation: "complete", Said: `{"n":1}`}},
		{"fail", Outcome{Kind: OutcomeFailed, Problem: testProblem, Result: json.RawMessage(`1`)},
			Refusal{Operation: "fail", Said: "boom"}},
		{"fail without a word", Outcome{Kind: OutcomeFailed}, Refusal{Operation: "fail"}},
		{"release", Outcome{Kind: OutcomeReleased}, Refusal{Operation: "release"}},
	} {
		tt.o.Job, tt.o.Owner = testJob, testOwner
		tt.want.Job, tt.want.Session, tt.want.Generation = testJob, testSession, 4
		if got := tt.o.said(); got != tt.want {
			t.Errorf("%s: got %+v, want %+v", tt.name, got, tt.want)
		}
	}
	big := Outcome{Kind: OutcomeSucceeded, Result: json.RawMessage(strings.Repeat("\xff\x00", 1<<20))}
	checkStorable(t, "said", big.said().Said, ProgressMax)
}

// TestDistinct: a job named twice in one call goes into a later round, so that
// each outcome meets the state that the one before left.
func TestDistinct(t *testing.T) {
	outcomes := []Outcome{{Job: testJob}, {Job: testSession}, {Job: testJob}, {Job: testJob}}
	round, rest := distinct(outcomes, []int{0, 1, 2, 3})
	if len(round) != 2 || round[0] != 0 || round[1] != 1 || len(rest) != 2 || rest[0] != 2 || rest[1] != 3 {
		t.Errorf("got round %v and rest %v, want [0 1] and [2 3]", round, rest)
	}
	if round, rest = distinct(outcomes, rest); len(round) != 1 || round[0] != 2 || len(rest) != 1 {
		t.Errorf("then got round %v and rest %v, want [2] and [3]", round, rest)
	}
}
