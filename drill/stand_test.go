package drill

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/daybookdev/daybook"
)

// testFaults makes a drill of everything on a SQLite file, with plant beforehand.
func testFaults(t *testing.T, plant func(dir string, o *FaultOptions), only ...string) Report {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	where := filepath.Join(dir, "book.db")
	o := FaultOptions{Seed: 11, Only: only, Lanes: 4, Open: openFile, Command: []string{self}, Dir: dir, Note: t.Logf,
		Site: Site{Store: "sqlite", Bell: "local", Where: func(Route) (string, error) { return where, nil },
			NoOld: "there is no redis-server"}}
	if plant != nil {
		plant(dir, &o)
	}
	r, err := RunFaults(t.Context(), o)
	if err != nil {
		dumpLogs(t, dir)
		t.Fatal(err)
	}
	return r
}

// Faults of every sort, a few each: all are made, and all holds.
func TestFaultsHold(t *testing.T) {
	only := []string{daybook.GapAccept, daybook.GapPublish, daybook.GapMark, daybook.GapDeliver, daybook.GapClaim,
		daybook.GapGrant, daybook.GapStart, daybook.GapRecord, daybook.GapAck, "ring-never", "ring-twice", "ring-elsewhere",
		"late-owner", "cancel-complete", "revive-claim", "pause-queue-claim", "expire-claim", "settle-fail", "prune-lose",
		"sigterm", "server-killed"}
	r := testFaults(t, nil, only...)
	var table strings.Builder
	if err := r.Table(&table); err != nil {
		t.Fatal(err)
	}
	t.Log("\n" + table.String())
	if err := r.Err(); err != nil {
		t.Error(err)
	}
	for _, name := range only {
		if r.Injected[name] == 0 {
			t.Errorf("%s was not made", name)
		}
	}
	if r.Accepted == 0 || r.Happened == 0 || r.RecoverySeconds == 0 || len(r.events) == 0 {
		t.Errorf("got %+v", r)
	}
}

// A drill whose workers forget the ledger, and one whose enqueuer was told of a
// job that nobody knows, find that.
func TestFaultsAreFound(t *testing.T) {
	r := testFaults(t, func(_ string, o *FaultOptions) { o.fault = forgetful }, daybook.GapStart)
	if !errors.Is(r.Err(), ErrViolated) {
		t.Errorf("calls outside of the ledger: got %v", r.Err())
	}
	r = testFaults(t, func(dir string, _ *FaultOptions) {
		line := daybook.NewID().String() + "\n"
		if err := os.WriteFile(filepath.Join(dir, "accepted-lane-1"), []byte(line), 0o600); err != nil {
			t.Fatal(err)
		}
	}, "late-owner")
	if !errors.Is(r.Err(), ErrViolated) || r.Missing != 1 {
		t.Errorf("an accepted job is missing: got %v, %d missing", r.Err(), r.Missing)
	}
}

// What can't be made somewhere is told and no reason to fail, unless it is all
// that was wanted.
func TestFaultsThatCantBeMade(t *testing.T) {
	r := testFaults(t, nil, "connections-killed", "prune-claim")
	if r.Err() != nil || len(r.Faults) != 2 || r.Faults[1].Left == "" || r.Faults[1].Runs != 0 {
		t.Errorf("got %v, %+v", r.Err(), r.Faults)
	}
	r = testFaults(t, nil, "prune-claim", "cutover-taken", "cutover-closed")
	var table, picture strings.Builder
	if err := errors.Join(r.Table(&table), r.SVG(&picture)); err != nil {
		t.Fatal(err)
	}
	const line = "Left out: cutover-closed, cutover-taken: there is no redis-server\n"
	if r.Err() != nil || len(r.LeftOut) != 1 || !strings.Contains(table.String(), line) ||
		!strings.Contains(picture.String(), strings.TrimSpace(line)) {
		t.Errorf("got %v, %+v, %s", r.Err(), r.LeftOut, table.String())
	}
	o := FaultOptions{Only: []string{"nothing"}, Command: []string{"x"}}
	if err := o.Check(); !errors.Is(err, daybook.ErrInvalid) {
		t.Errorf("an unknown fault: got %v", err)
	}
}

// The list has every gap, killed and stopped, and every pair.
func TestList(t *testing.T) {
	names := Names()
	for _, g := range daybook.Gaps {
		if !slices.Contains(names, g.Name) {
			t.Errorf("no fault in the gap %s", g.Name)
		}
	}
	pairs := 0
	for _, decision := range []string{"cancel", "revive", "pause-queue", "expire", "settle", "prune"} {
		for _, move := range []string{"claim", "renew", "complete", "fail", "lose"} {
			if slices.Contains(names, decision+"-"+move) {
				pairs++
			}
		}
	}
	if pairs != 30 {
		t.Errorf("%d of 30 pairs are listed", pairs)
	}
	for _, l := range List() {
		if l.What == "" || slices.ContainsFunc(daybook.Gaps, func(g daybook.Gap) bool { return g.Name == l.Name }) !=
			(l.How == "kill, stop" && !strings.HasPrefix(l.Name, "cutover-")) {
			t.Errorf("got %+v", l)
		}
	}
}

// The same seed makes the same faults in the same order.
func TestSheetReplays(t *testing.T) {
	var rows []FaultRow
	for _, name := range Names() {
		rows = append(rows, FaultRow{Name: name, Left: map[bool]string{true: "not here"}[name == "sigterm"]})
	}
	one, two, other := newSheet(rows, 5), newSheet(rows, 5), newSheet(rows, 6)
	same := 0
	for range 3 * one.size() {
		a, b, c := one.next(), two.next(), other.next()
		if a != b {
			t.Fatalf("got %+v and %+v", a, b)
		}
		if a.gap == "sigterm" {
			t.Error("a fault that can't be made was handed out")
		}
		if a.gap == c.gap {
			same++
		}
	}
	if same == 3*one.size() || one.rounds != 3 {
		t.Errorf("another seed gave the same order, or %d rounds", one.rounds)
	}
}

// The picture is SVG, whatever the report.
func TestPicture(t *testing.T) {
	for _, r := range []Report{{}, {Seconds: 3, Faults: []FaultRow{{Name: "a<b", Runs: 1}}, Replay: "x & y",
		events: []event{{name: "a<b", wrong: 1}}, load: []int{0, 3}}} {
		var b bytes.Buffer
		if err := r.SVG(&b); err != nil {
			t.Fatal(err)
		}
		for d := xml.NewDecoder(&b); ; {
			if _, err := d.Token(); err == io.EOF {
				break
			} else if err != nil {
				t.Fatal(err)
			}
		}
	}
}
