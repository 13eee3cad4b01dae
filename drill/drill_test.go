package drill

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/store/sqlite"
)

// asChild makes the test binary a worker of the drill.
const asChild = "DAYBOOK_DRILL_TEST_CHILD"

func openFile(ctx context.Context, where string, o daybook.Options) (*daybook.Book, error) {
	return sqlite.Open(ctx, where, sqlite.Options{Book: o})
}

func TestMain(m *testing.M) {
	if os.Getenv(asChild) != "" {
		if err := Child(os.Stdin, os.Stdout, os.Stderr, openFile); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Setenv(asChild, "1") // for the children: they are this binary again
	os.Exit(m.Run())
}

// testRun makes a drill in a folder of the test's.
func testRun(t *testing.T, o Options) Result {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	o.Dir = t.TempDir()
	o.Where, o.Open, o.Command = filepath.Join(o.Dir, "book.db"), openFile, []string{self}
	r, err := Run(t.Context(), o)
	if err != nil {
		dumpLogs(t, o.Dir)
		t.Fatal(err)
	}
	return r
}

func dumpLogs(t *testing.T, dir string) {
	logs, _ := filepath.Glob(filepath.Join(dir, "*.log"))
	for _, name := range logs {
		text, err := os.ReadFile(name)
		if err == nil {
			t.Logf("%s:\n%s", filepath.Base(name), text)
		}
	}
}

// Every policy meets every fault in every gap, once. The lease is longer than
// usual, for machines that are busy with other tests.
func TestEveryPolicyHolds(t *testing.T) {
	r := testRun(t, Options{Seed: 5, lease: 2500 * time.Millisecond})
	var table strings.Builder
	if err := r.Table(&table); err != nil {
		t.Fatal(err)
	}
	t.Log("\n" + table.String())
	if r.Violations > 0 || r.Void > 0 || len(r.Effects) != 40 {
		t.Errorf("got %d violations and %d void in %d rows: %s", r.Violations, r.Void, len(r.Effects), r.Verdict())
	}
}

func only(p daybook.Policy) map[daybook.Policy]bool { return map[daybook.Policy]bool{p: true} }

// A drill that finds nothing where something is wrong is worth nothing. Here a
// destination breaks its promise, and a handler goes around the ledger.
func TestFindsWhatIsPlanted(t *testing.T) {
	for _, tt := range []struct {
		name string
		o    Options
		want string
	}{
		{"a destination that forgets keys", Options{Gaps: []string{daybook.GapRecord}, forget: -1},
			"it happened 2 times"},
		{"a handler without ledger", Options{Gaps: []string{daybook.GapComplete}, fault: forgetful},
			"the book has 0 effects of it"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.o.only, tt.o.Lanes = only(daybook.PolicyKeyed), 2
			r := testRun(t, tt.o)
			if r.Violations == 0 || !strings.Contains(strings.Join(r.Found, "\n"), tt.want) {
				t.Errorf("got %d violations, %q; want %q", r.Violations, r.Found, tt.want)
			}
			doubled := 0
			for _, row := range r.Effects {
				doubled += row.Doubled
			}
			if doubled != 2 || !strings.HasPrefix(r.Verdict(), "FAILED: ") {
				t.Errorf("got %d doubled, %s; want both runs", doubled, r.Verdict())
			}
		})
	}
}

// A fault that doesn't happen proves nothing: the drill is void.
func TestVoid(t *testing.T) {
	t.Parallel()
	r := testRun(t, Options{Gaps: []string{daybook.GapBegin}, only: only(daybook.PolicyAsk), fault: deaf, Lanes: 2,
		patience: 3 * time.Second})
	if r.Void != 2 || r.Violations != 0 || r.Injected[daybook.GapBegin] != 0 || !strings.HasPrefix(r.Verdict(), "VOID: ") {
		t.Errorf("got %+v, %s; want both runs void", r, r.Verdict())
	}
}

// A round that was begun is finished, and no other is begun when the time is over.
func TestTimeIsOver(t *testing.T) {
	t.Parallel()
	r := testRun(t, Options{Gaps: []string{daybook.GapReply}, only: only(daybook.PolicyKeyed), For: 1, Lanes: 2})
	for _, row := range r.Effects {
		if row.Runs != 1 {
			t.Errorf("%s %s was made %d times, want once", row.Gap, row.Fault, row.Runs)
		}
	}
	if r.Void+r.Violations > 0 || len(r.Effects) != 2 {
		t.Errorf("got %+v", r)
	}
}

func TestOptionsRefused(t *testing.T) {
	good := Options{Command: []string{"x"}}
	if err := good.Check(); err != nil || good.Times != 1 || good.Lanes != LanesDefault || good.Rows() != 40 {
		t.Errorf("got %+v, %v", good, err)
	}
	command := []string{"x"}
	for _, bad := range []Options{{}, {Command: command, Gaps: []string{"nowhere"}}, {Command: command, Times: -1},
		{Command: command, Times: TimesMax + 1}, {Command: command, For: -1}, {Command: command, Lanes: -1},
		{Command: command, For: MinutesMax*time.Minute + 1}, {Command: command, Lanes: LanesMax + 1}} {
		if err := bad.Check(); !errors.Is(err, daybook.ErrInvalid) {
			t.Errorf("%+v: got %v, want it refused", bad, err)
		}
	}
}

// The seed decides the plan, and every round has each combination once.
func TestPlan(t *testing.T) {
	all := combinations(Gaps, nil)
	draw := func(seed uint64) (rounds [2][]planned) {
		p := newPlanner(all, seed)
		for round := range rounds {
			for range all {
				rounds[round] = append(rounds[round], p.next())
			}
			if !p.between() {
				t.Errorf("round %d didn't end", round)
			}
		}
		return rounds
	}
	one := draw(1)
	if !reflect.DeepEqual(one, draw(1)) || reflect.DeepEqual(one, draw(2)) {
		t.Error("the seed doesn't decide the plan")
	}
	for _, round := range one {
		seen := map[int]bool{}
		for _, r := range round {
			seen[r.row] = true
		}
		if len(seen) != len(all) {
			t.Errorf("a round has %d combinations, want %d", len(seen), len(all))
		}
	}
}
