//go:build unix

package raw

import (
	"syscall"
	"time"
)

// ProcessorTime is what this process used of the processors so far. A busy
// neighbour changes it far less than it changes the time on the wall.
func ProcessorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
