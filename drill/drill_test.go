package drill

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

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

// Every policy meets every fault in every gap, once.
func TestEveryPolicyHolds(t *testing.T) {
	r := testRun(t, Options{Seed: 5})
	var table strings.Builder
	if err := r.Table(&table); err != nil {
		t.Fatal(err)
	}
	t.Log("\n" + table.String())
	if r.Violations > 0 || r.Void > 0 || len(r.Effects) != 40 {
		t.Errorf("got %d violations and %d void in %d rows: %s", r.Violations, r.Void, len(r.Effects), r.Verdict())
	}
}
