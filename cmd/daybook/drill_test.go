//go:build unix

package main

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/drill"
)

// heldDrill is one in which everything held.
func heldDrill() drill.Result {
	return drill.Result{Seed: 3, Injected: map[string]int{"begin": 2}, RecoverySeconds: 1.5,
		Effects: []drill.Row{{Policy: daybook.PolicyAsk, Gap: "begin", Fault: "kill", Runs: 2, Happened: 2}}}
}

// What was found decides the exit status, and how to do it again is said.
func TestDrillVerdictIsTheExitStatus(t *testing.T) {
	f := drillFlags{seed: 3, gaps: []string{"begin", "pause"}, times: 2, minutes: 0.5, effects: true}
	const again = "daybook drill --seed 3 --effects --gap begin --gap pause --minutes 0.5 --times 2"
	for _, tt := range []struct {
		name string
		edit func(*drill.Result)
		want int
		says string
	}{
		{"held", func(*drill.Result) {}, statusDone, "held: "},
		{"violated", func(r *drill.Result) { r.Violations, r.Void = 1, 1 }, statusViolation, again},
		{"void", func(r *drill.Result) { r.Void = 2 }, statusFailed, "VOID: "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := heldDrill()
			tt.edit(&r)
			for _, output := range []string{outputTable, outputJSON} {
				var out bytes.Buffer
				a := &app{stdout: &out, stderr: &out, flags: globals{output: output}}
				err := a.showDrill(r, f, nil)
				if got := statusOf(err); got != tt.want {
					t.Errorf("-o %s: got exit %d, want %d", output, got, tt.want)
				}
				said := out.String()
				if err != nil {
					said += err.Error()
				}
				if output == outputTable && !strings.Contains(said, tt.says) {
					t.Errorf("got %q, want it to say %q", said, tt.says)
				}
				if output == outputJSON {
					var got map[string]any
					oneJSONLine(t, out.String(), &got)
					if got["replay"] != again || got["recovery_seconds_max"] != 1.5 || got["void"] == nil {
						t.Errorf("got %v", got)
					}
				}
			}
		})
	}
}

// A drill runs on a book of its own beside the one that is named, and leaves
// nothing behind.
func TestDrillRuns(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	p := c.start("drill", "--effects", "--gap", "reply", "--seed", "4", "--lanes", "4", "-o", "json")
	p.ends(statusDone)
	var got drill.Result
	oneJSONLine(t, p.out.String(), &got)
	if got.Injected["reply"] != 8 || got.Violations+got.Void != 0 || got.Seed != 4 {
		t.Errorf("got %+v, want each of 8 faults", got)
	}
	left, err := os.ReadDir(c.dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range left {
		if strings.HasPrefix(f.Name(), "daybook-drill-") {
			t.Errorf("%s stayed", f.Name())
		}
	}
}

func TestDrillRefusesFlags(t *testing.T) {
	c := newCLI(t)
	for _, args := range [][]string{{"--gap", "nowhere"}, {"--times", "0"}, {"--times", "-1"}, {"--minutes", "0"},
		{"--minutes", "-1"}, {"--minutes", "NaN"}, {"--minutes", "1e9"}, {"--lanes", "0"}, {"--lanes", "1000"},
		{"--seed", "-1"}, {"extra"}, {"--process"}} {
		c.want(statusUsage, append([]string{"drill"}, args...)...)
	}
}

func TestDrillList(t *testing.T) {
	c := newCLI(t)
	var got struct {
		Gaps []struct{ Name, Between string }
	}
	oneJSONLine(t, c.ok("drill", "--list", "-o", "json"), &got)
	if len(got.Gaps) != len(drill.Gaps) || got.Gaps[0].Name != drill.Gaps[0] || got.Gaps[0].Between == "" {
		t.Errorf("got %+v", got)
	}
	if out := c.ok("drill", "--list"); !strings.Contains(out, "pause") {
		t.Errorf("got %q", out)
	}
}

func TestDrillTellsAFailedWrite(t *testing.T) {
	for _, output := range []string{outputTable, outputJSON} {
		a := &app{stdout: closedWriter{}, stderr: closedWriter{}, flags: globals{output: output}}
		if err := a.showDrill(heldDrill(), drillFlags{}, nil); !errors.Is(err, errClosed) {
			t.Errorf("-o %s: got %v, want %v", output, err, errClosed)
		}
	}
}
