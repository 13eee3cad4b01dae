package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/daybookdev/daybook/cutover"
)

// TestCutoverDeaths: the board names each old worker that died, when it was last
// seen, and what it leaves to decide.
func TestCutoverDeaths(t *testing.T) {
	var out bytes.Buffer
	tb := &table{}
	deathRows(tb, cutover.Board{Deaths: []cutover.Toll{{Worker: "host-1:\x1b[2J", Seen: 1e15, Found: 1e15 + 2e7, Open: 1},
		{Worker: "host-2:8", Found: 1e15}}})
	if err := tb.write(&out); err != nil {
		t.Fatal(err)
	}
	said := strings.Join(strings.Fields(strings.ReplaceAll(out.String(), "old worker died", "")), " ")
	for _, want := range []string{"last seen at 2001-09-09T01:46:40", "found dead at 2001-09-09T01:47:00",
		"1 open job because of it", "host-2:8, not known when it was last seen", "0 open jobs because of it"} {
		if !strings.Contains(said, want) {
			t.Errorf("no %q in %q", want, said)
		}
	}
	if strings.Contains(said, "\x1b") {
		t.Errorf("a worker's name steers the terminal: %q", said)
	}
}
