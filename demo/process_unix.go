//go:build unix

package demo

import (
	"os"
	"syscall"
)

// canStop refuses systems on which a process can't be stopped and continued.
func canStop() error { return nil }

// freeze stops a process where it is (SIGSTOP); thaw continues it.
func freeze(p *os.Process) error { return p.Signal(syscall.SIGSTOP) }

func thaw(p *os.Process) error { return p.Signal(syscall.SIGCONT) }
