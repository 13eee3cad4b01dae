package daybook

import (
	"reflect"
	"testing"
	"time"
)

// TestCountsFields: names, fields and JSON agree, since stores name their
// columns by them.
func TestCountsFields(t *testing.T) {
	var c Counts
	fields := c.Fields()
	typ := reflect.TypeFor[Counts]()
	if len(fields) != typ.NumField() || len(CountNames) != typ.NumField() {
		t.Fatalf("got %d fields and %d names, want %d", len(fields), len(CountNames), typ.NumField())
	}
	for i := range fields {
		if got := typ.Field(i).Tag.Get("json"); got != CountNames[i] {
			t.Errorf("field %d is %q in JSON and %q in stores", i, got, CountNames[i])
		}
		*fields[i] = int64(i + 1)
		if got := reflect.ValueOf(c).Field(i).Int(); got != int64(i+1) {
			t.Errorf("Fields()[%d] is another field than %s", i, typ.Field(i).Name)
		}
	}
	sum := c
	sum.Add(c)
	for i, n := range sum.Fields() {
		if *n != 2*int64(i+1) {
			t.Errorf("adding %s: got %d, want %d", CountNames[i], *n, 2*(i+1))
		}
	}
}

func TestDelta(t *testing.T) {
	for _, tt := range []struct {
		name string
		c    Change
		want Counts
	}{
		{"enqueue", Change{Move: MoveEnqueue, Now: waitingJob()}, Counts{Accepted: 1, Waiting: 1}},
		{"import", Change{Move: MoveImport, Now: waitingJob()}, Counts{MovedIn: 1, Waiting: 1}},
		{"import, set aside", Change{Move: MoveImport, Now: endedJob(SetAside, ReasonLost)},
			Counts{MovedIn: 1, SetAside: 1, EverSetAside: 1}},
		{"claim", Change{Move: MoveClaim, Was: waitingJob(), Now: runningJob()}, Counts{Waiting: -1, Running: 1,
			Attempts: 1}},
		{"complete", Change{Move: MoveComplete, Was: runningJob(), Now: endedJob(Succeeded, "")},
			Counts{Running: -1, Succeeded: 1}},
		{"fail for good", Change{Move: MoveFail, Was: runningJob(), Now: endedJob(SetAside, ReasonFailures)},
			Counts{Running: -1, SetAside: 1, EverSetAside: 1}},
		{"ask to cancel", Change{Move: MoveCancel, Was: runningJob(), Now: with(runningJob(), asked)}, Counts{}},
		{"cancel", Change{Move: MoveCancel, Was: endedJob(SetAside, ReasonLost), Now: endedJob(Cancelled, "")},
			Counts{SetAside: -1, Cancelled: 1, EverCancelled: 1}},
		{"expire", Change{Move: MoveExpire, Was: waitingJob(), Now: endedJob(Expired, "")},
			Counts{Waiting: -1, Expired: 1, EverExpired: 1}},
		{"settle in place",
			Change{Move: MoveSettle, Was: endedJob(SetAside, ReasonLost), Now: endedJob(SetAside, ReasonLost)},
			Counts{}},
		{"revive", Change{Move: MoveRevive, Was: endedJob(Expired, ""), Now: waitingJob()},
			Counts{Expired: -1, Waiting: 1, Revived: 1}},
		{"move out", Change{Move: MoveOut, Was: waitingJob(), Now: endedJob(Moved, "")},
			Counts{Waiting: -1, MovedOut: 1}},
		{"prune", Change{Move: MovePrune, Was: endedJob(Succeeded, "")}, Counts{}},
	} {
		if got := tt.c.Delta(); got != tt.want {
			t.Errorf("%s: got %+v, want %+v", tt.name, got, tt.want)
		}
		if d := tt.c.Delta(); !d.Balanced() {
			t.Errorf("%s: the delta itself doesn't balance", tt.name)
		}
	}
}

func TestBalanced(t *testing.T) {
	for _, tt := range []struct {
		c    Counts
		want bool
	}{
		{Counts{}, true},
		{Counts{Accepted: 3, MovedIn: 4, Waiting: 1, Running: 1, SetAside: 1, Succeeded: 1, Cancelled: 1,
			Expired: 1, MovedOut: 1}, true},
		{Counts{Accepted: 1}, false},
		{Counts{MovedOut: 1}, false},
		{Counts{Accepted: 1, Waiting: 1, Attempts: 9, EverSetAside: 9, Revived: 9}, true},
	} {
		if got := tt.c.Balanced(); got != tt.want {
			t.Errorf("%+v: got %v, want %v", tt.c, got, tt.want)
		}
	}
}

func TestEligible(t *testing.T) {
	for _, tt := range []struct {
		name string
		job  Job
		want bool
	}{
		{"waiting", waitingJob(), true},
		{"due now", with(waitingJob(), due(0)), true},
		{"due later", with(waitingJob(), due(time.Microsecond)), false},
		{"held", with(waitingJob(), held), false},
		{"running", runningJob(), false},
		{"set aside", endedJob(SetAside, ReasonLost), false},
	} {
		if got := (Change{Now: tt.job}).Eligible(testNow); got != tt.want {
			t.Errorf("%s: got %v, want %v", tt.name, got, tt.want)
		}
	}
}
