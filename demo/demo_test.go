package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/daybookdev/daybook"
)

// asChild makes the test binary a process of the demo.
const asChild = "DAYBOOK_DEMO_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(asChild) == "broken" {
		os.Exit(3)
	}
	if os.Getenv(asChild) != "" {
		if err := Child(os.Stdin, os.Stdout, os.Stderr); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Setenv(asChild, "1") // for the children: they are this binary again
	os.Exit(m.Run())
}

// testRun makes a run whose folder the test owns.
func testRun(t *testing.T, o Options) Result {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", t.TempDir())
	o.Command = []string{self}
	r, err := Run(t.Context(), o)
	if err != nil {
		dumpLogs(t, r.Dir)
		t.Fatal(err)
	}
	if wrong := r.Wrong(); len(wrong) > 0 {
		dumpLogs(t, r.Dir)
		t.Fatalf("seed %d: %s\n%s", r.Seed, strings.Join(wrong, "; "), strings.Join(r.Found, "\n"))
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

// The main job on real input, with every fault at least once.
func TestRunHoldsUnderFaults(t *testing.T) {
	r := testRun(t, Options{Jobs: 60, Workers: 3, Seed: 7})
	if got, want := r.Accepted, 60; got != want {
		t.Errorf("accepted: got %d, want %d", got, want)
	}
	if got, want := r.Replayed, 60; got < want {
		t.Errorf("replayed: got %d, want at least %d, since every delivery is sent twice", got, want)
	}
	if got, want := r.EffectsHappened, 60; got != want {
		t.Errorf("effects that happened: got %d, want %d", got, want)
	}
	if r.Attempts <= 60 || r.Kills == 0 || r.EffectsAsked < r.EffectsHappened {
		t.Errorf("got %d attempts, %d kills, %d effects asked for; want faults to show",
			r.Attempts, r.Kills, r.EffectsAsked)
	}
	if r.Dir != "" {
		t.Errorf("the folder %s stayed without --stay", r.Dir)
	}
	left, err := os.ReadDir(os.TempDir())
	if err != nil || len(left) > 0 {
		t.Errorf("left behind in the folder for temporary files: %v (%v)", left, err)
	}
}

// An interrupt ends every process and leaves nothing behind. Run returns when
// the last child is gone.
func TestRunEndsWithItsContext(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	stop := func(p Progress) {
		if p.Ended > 0 || p.Faults > 0 {
			cancel()
		}
	}
	_, err = Run(ctx, Options{Jobs: 60, Workers: 2, Seed: 1, Command: []string{self}, Progress: stop})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
	if left, err := os.ReadDir(os.TempDir()); err != nil || len(left) > 0 {
		t.Errorf("left behind in the folder for temporary files: %v (%v)", left, err)
	}
}

// A run that can't be made says why, and where to look.
func TestRunKeepsTheFolderOfAFailure(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	t.Setenv(asChild, "broken")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r, err := Run(t.Context(), Options{Command: []string{self}})
	if err == nil || !strings.Contains(err.Error(), "of the demo ended by itself") {
		t.Errorf("got %v, want the process named that ended", err)
	}
	if _, err := os.Stat(filepath.Join(r.Dir, "demo.log")); err != nil {
		t.Errorf("got folder %q without a log: %v", r.Dir, err)
	}
}

func TestRunRefusesOptions(t *testing.T) {
	for name, o := range map[string]Options{
		"jobs":    {Jobs: JobsMin - 1, Command: []string{"x"}},
		"workers": {Workers: WorkersMax + 1, Command: []string{"x"}},
		"command": {},
	} {
		_, err := Run(t.Context(), o)
		if e, ok := errors.AsType[*daybook.Error](err); !ok || e.Code != daybook.CodeInvalid || e.Field != name {
			t.Errorf("got %v, want %s refused", err, name)
		}
	}
}

func TestChildRefusesPeople(t *testing.T) {
	for _, in := range []string{"", "hello\n"} {
		if err := Child(strings.NewReader(in), io.Discard, io.Discard); daybook.CodeOf(err) != daybook.CodeInvalid {
			t.Errorf("input %q: got %v, want it refused", in, err)
		}
	}
}

// The surface fixes the answer's fields and their order.
func TestResultJSON(t *testing.T) {
	got, err := json.Marshal(Result{Gaps: map[string]int{"start": 1}, Found: []string{"x"}, Dir: "y"})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"jobs":0,"workers":0,"seed":0,"accepted":0,"replayed":0,"attempts":0,"kills":0,` +
		`"gaps":{"start":1},"lost":0,"fenced":0,"effects_asked":0,"effects_happened":0,` +
		`"doubled":0,"missing":0,"violations":0,"jobs_per_second":0}`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
