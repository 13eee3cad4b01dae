package brokertest

import (
	"os/exec"
	"syscall"
)

// attributes of a server: a process group of its own, so that an interrupt from
// the keyboard reaches the test alone and its children can be reached with it,
// and death with the thread that starts it.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// killAll kills a server and the processes that it started.
func killAll(cmd *exec.Cmd) error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }

// stopOrGo stops a server and the processes that it started, or lets them go on.
func stopOrGo(cmd *exec.Cmd, stop bool) error {
	if stop {
		return syscall.Kill(-cmd.Process.Pid, syscall.SIGSTOP)
	}
	return syscall.Kill(-cmd.Process.Pid, syscall.SIGCONT)
}
