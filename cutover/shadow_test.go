package cutover

import (
	"maps"
	"testing"

	"github.com/daybookdev/daybook"
)

// TestCompare: what the old system did with what came in, each in one place.
func TestCompare(t *testing.T) {
	const waits, owned, retrying, dead, done = daybook.OldWaiting, daybook.OldOwned, daybook.OldRetrying, daybook.OldDead,
		daybook.OldDone
	item := func(first, last daybook.OldState, missed bool, n int64) daybook.ItemCount {
		return daybook.ItemCount{First: first, Last: last, Term: daybook.TermStill, Missed: missed, Items: n}
	}
	s := compare([]daybook.ItemCount{
		item(waits, waits, false, 1), item(waits, owned, false, 2), // nothing to compare yet
		item(waits, waits, true, 10), item(waits, owned, true, 20), item(owned, daybook.OldOwnerLost, false, 40),
		item(retrying, retrying, true, 80), // missing
		item(waits, done, false, 100), item(waits, done, true, 200),
		item(waits, retrying, false, 1000), item(waits, retrying, true, 2000), item(waits, dead, false, 4000),
	})
	how := map[string]int64{"failed and is to be tried again": 3000, "failed for good": 4000}
	if s.Seen != 7453 || s.Waits != 3 || s.Missing != 150 || s.Agreed != 300 ||
		s.Differ != 7000 || !maps.Equal(s.How, how) {
		t.Errorf("compared: %+v", s)
	}
}
