package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/demo"
)

// heldResult is a run in which everything held.
func heldResult() demo.Result {
	return demo.Result{Jobs: 10, Workers: 2, Seed: 3, Accepted: 10, EffectsHappened: 10, Fenced: 1, Kills: 7,
		Gaps: map[string]int{"accept": 1, "publish": 1, "claim": 1, "grant": 1, "start": 1, "complete": 1,
			"reply": 1, "pause": 1}}
}

// The verdict decides the exit status, and what didn't hold is named.
func TestDemoVerdictIsTheExitStatus(t *testing.T) {
	for _, tt := range []struct {
		name string
		edit func(*demo.Result)
		want int
		says string
	}{
		{"held", func(*demo.Result) {}, statusDone, ""},
		{"doubled", func(r *demo.Result) { r.Doubled = 1 }, statusViolation, "1 doubled"},
		{"missing", func(r *demo.Result) { r.Missing = 2 }, statusViolation, "2 missing"},
		{"void", func(r *demo.Result) { r.Gaps["reply"] = 0 }, statusViolation, "no fault in the gap reply"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := heldResult()
			tt.edit(&r)
			var out bytes.Buffer
			a := &app{stdout: &out, stderr: &out, flags: globals{output: outputTable}}
			err := a.showDemo(r)
			if got := statusOf(err); got != tt.want {
				t.Errorf("got exit %d, want %d", got, tt.want)
			}
			if err != nil && !strings.Contains(err.Error(), tt.says) || err == nil && tt.says != "" {
				t.Errorf("got %v, want it to say %q", err, tt.says)
			}
			if failed := strings.Contains(out.String(), "FAILED: "); failed != (tt.want != statusDone) {
				t.Errorf("got verdict %q", out.String())
			}
		})
	}
}

// A book that stays is named, with commands to look at it; JSON stays alone on
// standard output.
func TestDemoSaysWhereToLook(t *testing.T) {
	r := heldResult()
	r.Dir, r.FencedJob = "/somewhere", daybook.ID{1}
	for output, where := range map[string]func(out, err string) string{
		outputTable: func(out, _ string) string { return out },
		outputJSON:  func(_, err string) string { return err },
	} {
		var out, errs bytes.Buffer
		a := &app{stdout: &out, stderr: &errs, flags: globals{output: output}}
		if err := a.showDemo(r); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"daybook --db sqlite:/somewhere/book.db job list",
			"job timeline " + r.FencedJob.String(), "destination.jsonl"} {
			if got := where(out.String(), errs.String()); !strings.Contains(got, want) {
				t.Errorf("-o %s: got %q, want %q", output, got, want)
			}
		}
		if output == outputJSON {
			var got map[string]any
			oneJSONLine(t, out.String(), &got)
			if len(got) != 16 {
				t.Errorf("got %d fields, want the surface's 16: %v", len(got), got)
			}
		}
	}
}

func TestDemoRefusesFlags(t *testing.T) {
	c := newCLI(t)
	for _, args := range [][]string{{"--jobs", "0"}, {"--jobs", "3"}, {"--workers", "0"}, {"--workers", "1000"},
		{"--seed", "-1"}, {"extra"}, {"--process"}} {
		c.want(statusUsage, append([]string{"demo"}, args...)...)
	}
}

var errClosed = errors.New("closed")

type closedWriter struct{}

func (closedWriter) Write([]byte) (int, error) { return 0, errClosed }

func TestDemoTellsAFailedWrite(t *testing.T) {
	for _, output := range []string{outputTable, outputJSON} {
		a := &app{stdout: closedWriter{}, stderr: closedWriter{}, flags: globals{output: output}}
		if err := a.showDemo(heldResult()); !errors.Is(err, errClosed) {
			t.Errorf("-o %s: got %v, want %v", output, err, errClosed)
		}
	}
}
