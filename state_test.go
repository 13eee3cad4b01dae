package daybook

import (
	"reflect"
	"strings"
	"testing"
)

func TestStates(t *testing.T) {
	final := map[State]bool{Waiting: false, Running: false, Succeeded: true, SetAside: false,
		Cancelled: true, Expired: true, Moved: true}
	if got, want := len(States), len(final); got != want {
		t.Fatalf("got %d states, want %d", got, want)
	}
	for _, s := range States {
		want, known := final[s]
		if !known || s.Final() != want || !s.Valid() {
			t.Errorf("%s: known %v, final %v want %v, valid %v", s, known, s.Final(), want, s.Valid())
		}
	}
	for _, s := range []State{"", "scheduled", "Waiting", "dead"} {
		if s.Valid() || s.Final() {
			t.Errorf("%q counts as a state", s)
		}
	}
}

func TestTransitionsAreSound(t *testing.T) {
	seen := map[Transition]bool{}
	for _, a := range Transitions {
		if a.By == "" {
			t.Errorf("%s from %s to %s: nobody makes it", a.Move, a.From, a.To)
		}
		if a.By = ""; seen[a] {
			t.Errorf("%s from %s to %s stands twice", a.Move, a.From, a.To)
		}
		seen[a] = true
		if a.From != "" && !a.From.Valid() || a.To != "" && !a.To.Valid() {
			t.Errorf("%s leads from %q to %q", a.Move, a.From, a.To)
		}
		byMachine := a.Move != MoveRevive && a.Move != MovePrune && a.Move != MoveSettle
		if a.From != "" && a.From.Final() && byMachine {
			t.Errorf("%s leaves the final state %s", a.Move, a.From)
		}
		if a.Move != MoveClaim && a.To == Running && a.From != Running {
			t.Errorf("%s makes an owner; only a claim may", a.Move)
		}
	}
	if Allowed(MoveClaim, Cancelled, Running) || !Allowed(MoveClaim, Waiting, Running) {
		t.Error("Allowed doesn't follow the table")
	}
}

// A move that breaks the lifecycle is an error of this package: it must never
// reach a database.
func TestBecomesPanics(t *testing.T) {
	for _, tt := range []struct {
		name string
		move Move
		was  Job
		next Job
		want string
	}{
		{"an arrow outside the table", MoveClaim, endedJob(Cancelled, ""), runningJob(),
			"claim moved a job from cancelled to running"},
		{"a lower generation", MoveClaim, waitingJob(), with(runningJob(), func(j *Job) { j.Generation = 3 }),
			"lowered generation 4 to 3"},
		{"running without a session", MoveClaim, waitingJob(),
			with(runningJob(), func(j *Job) { j.Session = ID{} }), "left a running job"},
		{"owned though it ended", MoveComplete, runningJob(),
			with(runningJob(), func(j *Job) { j.State = Succeeded }), "left a succeeded job"},
		{"set aside without a reason", MoveFail, runningJob(), endedJob(SetAside, ""),
			`left a set_aside job with reason ""`},
		{"a reason though it waits", MoveFail, runningJob(),
			with(waitingJob(), func(j *Job) { j.Reason = ReasonLost }), `left a waiting job with reason "lost"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			defer func() {
				got, _ := recover().(string)
				if !strings.Contains(got, tt.want) {
					t.Errorf("got panic %q, want %q", got, tt.want)
				}
			}()
			tt.was.becomes(tt.move, tt.next, Change{})
		})
	}
}

func TestGaps(t *testing.T) {
	want := []string{"accept", "publish", "mark", "deliver", "claim", "grant", "start", "begin", "record",
		"complete", "reply", "ack", "pause"}
	var got []string
	for _, g := range Gaps {
		got = append(got, g.Name)
		if !strings.Contains(g.Between, " and ") || g.Left == "" || g.Found == "" || g.Repaired == "" {
			t.Errorf("gap %s doesn't say everything: %+v", g.Name, g)
		}
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got gaps %v, want %v", got, want)
	}
}

func TestInvariants(t *testing.T) {
	seen := map[string]bool{}
	for _, i := range Invariants {
		if CheckName("invariant", i.Name) != nil || seen[i.Name] {
			t.Errorf("invariant %q: bad name, or twice", i.Name)
		}
		seen[i.Name] = true
		if !strings.HasSuffix(i.Sentence, ".") || strings.Contains(i.Sentence, "\n") {
			t.Errorf("invariant %s: %q is not a sentence", i.Name, i.Sentence)
		}
		switch i.Over {
		case OverJobs, OverKeys, OverSessions, OverQueues, OverRings:
		default:
			t.Errorf("invariant %s walks %q", i.Name, i.Over)
		}
	}
	if len(seen) < 25 {
		t.Errorf("got %d invariants, want what design promises", len(seen))
	}
}
