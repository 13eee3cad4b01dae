package drill

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/daybookdev/daybook/cutover"
	"github.com/daybookdev/daybook/cutover/sourcetest"
	"github.com/daybookdev/daybook/internal/brokertest"
)

// moveNames are the faults of a cutover.
func moveNames() (names []string) {
	for _, f := range moveFaults {
		names = append(names, f.name)
	}
	return names
}

// withOld gives a drill a Redis for its old queues; false where nobody asked for
// old systems.
func withOld(t *testing.T, fault planted) (plant func(string, *FaultOptions), wanted bool) {
	if !sourcetest.Wanted() {
		t.Log("DAYBOOK_TEST_OLD=1 runs this")
		return nil, false
	}
	return func(_ string, o *FaultOptions) {
		o.fault = fault
		o.Site.Old = func() (string, func() error, error) {
			server, err := brokertest.Open(brokertest.RedisProgram())
			if err != nil {
				return "", nil, err
			}
			return (&brokertest.Redis{Server: server}).URL() + "/0", server.Stop, nil
		}
	}, true
}

// A mover is killed, and one is stopped, in every hand-over: all are made, and the
// balance holds.
func TestCutoverFaultsHold(t *testing.T) {
	plant, wanted := withOld(t, "")
	if !wanted {
		return
	}
	r := testFaults(t, plant, moveNames()...)
	var table strings.Builder
	if err := r.Table(&table); err != nil {
		t.Fatal(err)
	}
	t.Log("\n" + table.String())
	if err := r.Err(); err != nil {
		t.Error(err)
	}
	for _, name := range moveNames() {
		if r.Injected[name] != len(faultKinds) {
			t.Errorf("%s was made %d times, want killed and stopped", name, r.Injected[name])
		}
	}
}

// What a dead mover held is lost where others forget it: the drill finds that.
func TestCutoverFaultsAreFound(t *testing.T) {
	plant, wanted := withOld(t, careless)
	if !wanted {
		return
	}
	r := testFaults(t, plant, "cutover-taken")
	if !errors.Is(r.Err(), ErrViolated) || !slices.ContainsFunc(r.Found, func(s string) bool {
		return strings.Contains(s, "waiting-0 of the old queue is lost")
	}) {
		t.Errorf("got %v, %q", r.Err(), r.Found)
	}
}

// A mover that no fault reaches is no evidence.
func TestCutoverFaultsVoid(t *testing.T) {
	plant, wanted := withOld(t, deaf)
	if !wanted {
		return
	}
	if r := testFaults(t, plant, "cutover-taken"); !errors.Is(r.Err(), ErrVoid) || r.Void != 2 || r.Violations != 0 {
		t.Errorf("got %v, %d void, found %q", r.Err(), r.Void, r.Found)
	}
}

// Every hand-over of the engine has its faults.
func TestCutoverGapsAreFaults(t *testing.T) {
	for _, gap := range cutover.Gaps {
		if !slices.ContainsFunc(moveFaults, func(f moveFault) bool { return f.gap == gap }) {
			t.Errorf("no fault in the hand-over %s", gap)
		}
	}
}
