//go:build unix && !linux

package procs

import "syscall"

// Attributes of a child: a process group of its own, so that an interrupt from
// the keyboard reaches the parent alone. A child whose parent died sees the end
// of its orders; one that is stopped then is continued by the kernel, which
// does so for groups that nobody is left to continue.
func Attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
