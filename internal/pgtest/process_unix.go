//go:build unix && !linux

package pgtest

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
)

func supported() error { return nil }

// attributes of a server: its user, and a process group of its own, so that an
// interrupt from the keyboard reaches the test alone. That it dies with the test
// is the keeper's business here.
func attributes(as *account) *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Setpgid: true}
	if as != nil {
		a.Credential = &syscall.Credential{Uid: uint32(as.uid), Gid: uint32(as.gid)}
	}
	return a
}

// outlives are the attributes of the keeper.
func outlives() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// freeze stops a process.
func freeze(p *os.Process) error { return p.Signal(syscall.SIGSTOP) }

// children lists the processes that a process started.
func children(pid int) (pids []int, err error) {
	out, err := exec.Command("ps", "-axo", "pid=,ppid=").Output()
	if err != nil {
		return nil, fmt.Errorf("pgtest: ps: %w", err)
	}
	for _, line := range strings.Split(string(out), "\n") {
		var child, parent int
		if _, err := fmt.Sscan(line, &child, &parent); err == nil && parent == pid {
			pids = append(pids, child)
		}
	}
	return pids, nil
}

// gone reports whether a process has ended.
func gone(pid int) bool { return syscall.Kill(pid, 0) == syscall.ESRCH }
