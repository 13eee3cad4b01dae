package pgtest

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

func supported() error { return nil }

// attributes of a server: its user, a process group of its own, so that an
// interrupt from the keyboard reaches the test alone, and death with the thread
// that starts it.
func attributes(as *account) *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if as != nil {
		a.Credential = &syscall.Credential{Uid: uint32(as.uid), Gid: uint32(as.gid)}
	}
	return a
}

// outlives are the attributes of the keeper.
func outlives() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// freeze stops a process, and returns when it has stopped.
func freeze(p *os.Process) error {
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	return until("a process has stopped", func() bool {
		state, _, err := status(p.Pid)
		return err != nil || state == 'T' || state == 'Z'
	})
}

// children lists the processes that a process started.
func children(pid int) (pids []int, err error) {
	for _, path := range glob("/proc/[0-9]*") {
		child, err := strconv.Atoi(filepath.Base(path))
		if err != nil {
			continue
		}
		if _, parent, err := status(child); err == nil && parent == pid {
			pids = append(pids, child)
		}
	}
	return pids, nil
}

// gone reports whether a process has ended. One that its new parent has yet to
// reap holds nothing any more.
func gone(pid int) bool {
	state, _, err := status(pid)
	return err != nil || state == 'Z'
}

// status reads a process's state and parent, which stand behind its name, which
// may hold anything.
func status(pid int) (state byte, parent int, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, 0, err
	}
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(fields) < 2 {
		return 0, 0, fmt.Errorf("pgtest: /proc/%d/stat is %q", pid, text)
	}
	parent, err = strconv.Atoi(string(fields[1]))
	return fields[0][0], parent, err
}
