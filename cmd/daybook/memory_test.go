//go:build linux && !race

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
)

// A file of two hundred thousand lines takes about the memory of one of two
// thousand.
func TestEnqueueFromMemory(t *testing.T) { onEach(t, testEnqueueFromMemory) }

func testEnqueueFromMemory(t *testing.T, each *cli) {
	few, many := 2_000, 200_000
	small, large := peakOf(each.another(t), few), peakOf(each.another(t), many)
	t.Logf("peak with %d lines: %d KiB; with %d lines: %d KiB", few, small, many, large)
	if large*10 > small*12 {
		t.Errorf("got %d KiB for %d lines and %d KiB for %d, want at most 1.2 times as much", large, many,
			small, few)
	}
}

// peakOf is the peak resident memory of a process that enqueues n lines, in KiB.
func peakOf(c *cli, n int) int {
	t := c.t
	t.Helper()
	file, peak := filepath.Join(c.dir, "lines.jsonl"), filepath.Join(c.dir, "peak")
	if err := os.WriteFile(file, []byte(requestLines(n, func(int) bool { return false })), 0o600); err != nil {
		t.Fatal(err)
	}
	dir, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(filepath.Join(dir, "daybook"), "enqueue", "--from", file, "-o", "json")
	cmd.Env, cmd.Stderr = c.environ(nil, peakFile+"="+peak), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var got fromAnswer
	if oneJSONLine(t, string(out), &got); got.Accepted != int64(n) {
		t.Fatalf("got %d accepted, want %d", got.Accepted, n)
	}
	status, err := os.ReadFile(peak)
	if err != nil {
		t.Fatal(err)
	}
	kib := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(status)
	if kib == nil {
		t.Fatalf("got %s, want the peak in it", status)
	}
	peakKiB, err := strconv.Atoi(string(kib[1]))
	if err != nil {
		t.Fatal(err)
	}
	return peakKiB
}
