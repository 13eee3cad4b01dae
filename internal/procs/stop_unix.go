//go:build unix

package procs

import (
	"os"
	"syscall"
)

// CanStop refuses systems on which a process can't be stopped and continued.
func CanStop() error { return nil }

// Stop stops a process where it is (SIGSTOP); Continue continues it.
func Stop(p *os.Process) error { return p.Signal(syscall.SIGSTOP) }

func Continue(p *os.Process) error { return p.Signal(syscall.SIGCONT) }
