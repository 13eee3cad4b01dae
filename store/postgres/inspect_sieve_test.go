package postgres

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/daybookdev/daybook"
)

// gathered walks for all invariants of the sieve at once, and answers the rows
// that are against each.
func (s *Store) gathered(t *testing.T, since daybook.Time, size int64) map[string][]string {
	t.Helper()
	in := daybook.Inspection{Invariant: daybook.Invariant{Name: sieved[0].invariant}, Since: since, Chunk: size,
		Together: true}
	all := map[string][]daybook.Violation{}
	for {
		out, err := s.Inspect(t.Context(), in)
		ok(t, err)
		for _, v := range out.Violations {
			all[v.Invariant] = append(all[v.Invariant], v)
		}
		if in.After = out.Next; out.Done {
			break
		}
	}
	rows := map[string][]string{}
	for name, found := range all {
		rows[name] = distinctRows(found)
	}
	return rows
}

// TestSieve: whatever is wrong with a book, a walk for many invariants at once
// finds the rows that a walk for each alone does.
func TestSieve(t *testing.T) {
	s := scratchStore(t)
	restore := s.keepRows(t)
	ways := map[string]string{"nothing": "SELECT 1"}
	for name, sql := range breaks {
		ways[name] = sql
	}
	delete(ways, "origin-once") // it drops an index, after the others
	for _, way := range everyWay {
		ways[way.invariant+", "+way.what] = way.sql
	}
	broken := map[string]bool{}
	for _, way := range append(slices.Sorted(maps.Keys(ways)), "origin-once") {
		restore()
		s.breakBy(t, ways[way]+breaks[map[bool]string{true: way}[ways[way] == ""]])
		for _, since := range []daybook.Time{0, 1} {
			got := s.gathered(t, since, 7)
			for _, alone := range sieved {
				if since > 0 && !strings.HasPrefix(way, alone.invariant) {
					continue // it takes long: a call for each sort of live rows
				}
				found, _ := s.violations(t, alone.invariant, since, 1000)
				if len(found) > 0 {
					broken[alone.invariant] = true
				}
				if want := distinctRows(found); !slices.Equal(got[alone.invariant], want) {
					t.Errorf("%s, since %d: %s: got %v together, %v alone", way, since, alone.invariant,
						got[alone.invariant], want)
				}
			}
		}
	}
	for _, alone := range sieved {
		if !broken[alone.invariant] {
			t.Errorf("%s was never broken", alone.invariant)
		}
		if r := rules[alone.invariant]; r.query == "" {
			t.Errorf("%s is no rule", alone.invariant)
		}
	}
}
