package main

import (
	"os/exec"
	"syscall"
)

// diesWithUs has the system kill the command when this process dies without
// being able to: what a killed worker leaves behind must not run on beside the
// next attempt. It reaches the shell itself, not what the shell started; of
// that the book's own guard is the generation. The system counts the death of
// the thread that started the command as ours, so the caller must keep that
// thread until the command has ended.
func diesWithUs(cmd *exec.Cmd) { cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL }
