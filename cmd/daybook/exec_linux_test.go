package main

import (
	"os"
	"syscall"
	"testing"
)

// A command doesn't outlive its worker: killed with it, it can't work on beside
// the attempt that takes its place.
func TestCommandDiesWithItsWorker(t *testing.T) {
	t.Parallel()
	everywhere(t, testCommandDiesWithItsWorker)
}

func testCommandDiesWithItsWorker(t *testing.T, c *cli) {
	c.enqueue(1)
	held := c.dir + "/held"
	if err := syscall.Mkfifo(held, 0o600); err != nil {
		t.Fatal(err)
	}
	p := c.start("work", "--queue", "mail", "--no-loops", "--exec",
		"exec 3>"+held+"; trap '' TERM PIPE; i=0; while [ $i -lt 100 ]; do sleep 0.05; i=$((i+1)); done; echo outlived >&3")
	end, err := os.Open(held) // once the command holds the other end
	if err != nil {
		t.Fatal(err)
	}
	defer end.Close()
	p.kill()
	buf := make([]byte, 64)
	if n, _ := end.Read(buf); n != 0 {
		t.Errorf("after its worker was killed the command said %q, want it gone", buf[:n])
	}
}
