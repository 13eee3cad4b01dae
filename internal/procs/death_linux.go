package procs

import "syscall"

// Attributes of a child: a process group of its own, so that an interrupt from
// the keyboard reaches the parent alone, and death when the parent dies, also
// while it is stopped. The kernel sends that when the thread that started the
// child ends; Go ends no thread here, since nothing locks one and returns.
func Attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
