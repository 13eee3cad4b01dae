// Package testserver has what the private servers of tests have in common, be
// they databases or brokers: a free port, and the end of what one said.
package testserver

import (
	"fmt"
	"net"
	"os"
	"sync/atomic"
)

// Ports are taken from below those that systems hand out to outgoing
// connections. There, a client that dials a killed server again and again is one
// day given the server's own port as its end, and is connected to itself.
const (
	firstPort = 10100
	portCount = 19900
)

// portsTried makes each try another port. Processes begin at different places.
var portsTried atomic.Uint32

// FreePort is a port of 127.0.0.1 that nobody has now. Somebody may take it
// before the server does: start it again at another.
func FreePort() (int, error) {
	for range portCount {
		n := os.Getpid()*37 + int(portsTried.Add(1))
		port := firstPort + n%portCount
		listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			listener.Close()
			return port, nil
		}
	}
	return 0, fmt.Errorf("no port of 127.0.0.1 from %d to %d is free", firstPort, firstPort+portCount-1)
}

// LogTail is the end of a file, at most 16 KB, from where it had a length on. A
// file that isn't there is empty.
func LogTail(path string, since int) string {
	const most = 16 << 10
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return string(text[max(0, min(since, len(text)), len(text)-most):])
}
