//go:build !linux

package brokertest

import (
	"errors"
	"os/exec"
	"syscall"
)

func attributes() *syscall.SysProcAttr { return nil }

func killAll(cmd *exec.Cmd) error { return cmd.Process.Kill() }

func stopOrGo(*exec.Cmd, bool) error { return errors.New("servers are paused on Linux only") }
