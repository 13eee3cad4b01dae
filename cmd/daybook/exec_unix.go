//go:build unix

package main

import (
	"os"
	"os/exec"
	"syscall"
)

// canExec reports whether commands can be run in process groups here.
const canExec = true

// quietSignal asks a worker to claim no more.
var quietSignal os.Signal = syscall.SIGUSR1

// ownGroup makes the command lead a process group of its own: a signal reaches
// all that it starts, and a Ctrl-C meant for the worker reaches none of it.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

func termGroup(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }

func killGroup(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
