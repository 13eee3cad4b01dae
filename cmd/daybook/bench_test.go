//go:build unix

package main

import (
	"encoding/json"
	"os"
	"testing"
)

// A bench measures on a book of its own, and leaves the configured one, and the
// folder, as they were.
func TestBench(t *testing.T) {
	onEach(t, func(t *testing.T, c *cli) {
		c.enqueue(1)
		before, err := os.ReadDir(c.dir)
		if err != nil {
			t.Fatal(err)
		}
		var r benchReport
		if err := json.Unmarshal([]byte(c.ok("bench", "--jobs", "250", "--batch", "100", "-o", "json")), &r); err != nil {
			t.Fatal(err)
		}
		if r.Jobs != 250 || r.Enqueue <= 0 || r.Work <= 0 || r.Store == "" {
			t.Errorf("got %+v", r)
		}
		if after, err := os.ReadDir(c.dir); err != nil || len(after) != len(before) {
			t.Errorf("%d entries in the folder, before %d; %v", len(after), len(before), err)
		}
		c.want(statusUsage, "bench", "--jobs", "0")
		c.want(statusUsage, "bench", "--batch", "10001")
	})
}
