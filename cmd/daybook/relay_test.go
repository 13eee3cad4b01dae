//go:build unix

package main

import (
	"strings"
	"testing"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/relay"
)

func TestRelayWithoutABellOutside(t *testing.T) { onEach(t, testRelayWithoutABellOutside) }

func testRelayWithoutABellOutside(t *testing.T, c *cli) {
	c.enqueue(1)
	var report relay.Report
	c.json(statusDone, &report, "relay", "--once", "--bell", "none:")
	if report != (relay.Report{}) {
		t.Errorf("got %+v, want nothing published", report)
	}
	for _, wrong := range [][]string{{"relay", "--bell", "none:"}, {"relay", "--every", "0s"},
		{"relay", "--every", "2h"}, {"relay", "--once", "--deadline", "0s"}, {"relay", "--deadline", "1h"},
		{"relay", "now"}} {
		c.want(statusUsage, wrong...)
	}
	if s := c.want(statusUsage, "relay", "--bell", "local:"); !strings.Contains(s.err, "--bell") {
		t.Errorf("got %q, want to hear what to do", s.err)
	}
}

func TestInventory(t *testing.T) { everywhere(t, testInventory) }

func testInventory(t *testing.T, c *cli) {
	c.enqueue(1)
	c.enqueue(2)
	var inv daybook.Inventory
	look := []string{"inventory", "--bell", "none:"}
	if c.server != "" {
		look = look[:1] // a server has its own bell, which keeps no rings either
	}
	c.json(statusDone, &inv, look...)
	if len(inv.Queues) != 1 || inv.Queues[0].Queue != "mail" || inv.Queues[0].Eligible != 2 ||
		inv.Queues[0].Accepted != 2 || inv.Queues[0].Rings != nil || inv.Sentence != daybook.InventorySentence {
		t.Errorf("got %+v, want the queue with two jobs and no rings", inv)
	}
	s := c.want(statusDone, look...)
	if !strings.Contains(s.out, "RINGS IN THE BELL") || !strings.Contains(s.err, "Never add rings to jobs") {
		t.Errorf("got %+v, want the table and the sentence", s)
	}
}

func TestCheckBell(t *testing.T) { onEach(t, testCheckBell) }

func testCheckBell(t *testing.T, c *cli) {
	c.enqueue(1)
	var got checked
	c.json(statusDone, &got, "check", "--bell")
	if got.Violations != 0 || got.Bell == nil || got.Bell.Read != 0 {
		t.Errorf("got %+v, want a bell without rings", got)
	}
	c.json(statusDone, &got, "check", "--bell=none:")
	c.want(statusUsage, "check", "--bell=what")
	if out := c.ok("check", "--bell"); !strings.Contains(out, "rings were read from the bell") {
		t.Errorf("got %q, want notes about the bell", out)
	}
}
