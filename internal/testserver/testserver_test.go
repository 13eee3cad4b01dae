package testserver

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFreePortIsFreeAndAnotherEachTime(t *testing.T) {
	seen := map[int]bool{}
	for range 20 {
		port, err := FreePort()
		if err != nil {
			t.Fatal(err)
		}
		listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil || seen[port] {
			t.Fatalf("port %d: %v; given before: %v", port, err, seen[port])
		}
		defer listener.Close()
		seen[port] = true
	}
}

func TestLogTail(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	if got := LogTail(path, 0); got != "" {
		t.Errorf("no file has %q", got)
	}
	if err := os.WriteFile(path, []byte(strings.Repeat("x", 20_000)+"end"), 0o600); err != nil {
		t.Fatal(err)
	}
	for since, want := range map[int]int{0: 16 << 10, 20_000: 3, 30_000: 0} {
		if got := LogTail(path, since); len(got) != want {
			t.Errorf("from %d on: %d bytes, want %d", since, len(got), want)
		}
	}
}
