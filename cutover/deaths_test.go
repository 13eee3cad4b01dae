package cutover

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/daybookdev/daybook"
)

// TestWatchGone: a worker that is missed died, unless what a dead one leaves would
// be there yet.
func TestWatchGone(t *testing.T) {
	const second = daybook.Time(1e6)
	last := &Watch{At: 105 * second, Workers: map[string]daybook.Time{"stays": 100 * second, "left": 105 * second,
		"died": 100 * second}}
	at := func(at daybook.Time, names ...string) (w Watch) {
		w.At, w.Workers = at*second, map[string]daybook.Time{}
		for _, name := range names {
			w.Workers[name] = w.At
		}
		return w
	}
	for _, tt := range []struct {
		next Watch
		died []string
	}{
		{at(110, "stays"), nil}, // both said farewell
		{at(159, "stays"), nil},
		{at(160, "stays", "new"), []string{"died"}},
		{at(165, "stays"), []string{"died", "left"}}, // nobody can tell
		{at(165, "stays", "left", "died"), nil},
	} {
		var died []string
		for _, d := range last.gone(tt.next, time.Minute) {
			if died = append(died, d.Worker); d.Seen != last.Workers[d.Worker] || d.Found != tt.next.At {
				t.Errorf("%+v", d)
			}
		}
		if !slices.Equal(died, tt.died) {
			t.Errorf("at %s with %v: %v died, want %v", tt.next.At, slices.Sorted(maps.Keys(tt.next.Workers)), died, tt.died)
		}
	}
	if died := (*Watch)(nil).gone(at(1000), time.Minute); died != nil {
		t.Errorf("nobody looked before, and %v died", died)
	}
}
