package demo

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/internal/procs"
)

// process is one child, seen from the parent. Its fields belong to the
// director's goroutine.
type process struct {
	setup
	slot   int // among those of its role; the replacement gets the same
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	orders *procs.Lines

	paused bool // stopped, or on its way back: takes no fault
	doomed bool // its end is wanted
}

// said is a report with its sender; the zero report says that it ended.
type said struct {
	by     *process
	report report
	ended  bool
}

// start starts a child. Everything it says, and in the end that it ended, goes
// into the channel.
func start(command []string, dir string, s setup, slot int, tell chan<- said) (*process, error) {
	p := &process{setup: s, slot: slot, cmd: exec.Command(command[0], command[1:]...)}
	fail := func(err error) (*process, error) {
		return nil, &daybook.Error{Code: daybook.CodeInternal, Err: err,
			Text: "the demo can't start a process of its own (" + command[0] + "): " + err.Error()}
	}
	logs, err := os.OpenFile(filepath.Join(dir, s.Name+".log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fail(err)
	}
	defer logs.Close()
	p.cmd.Stderr = logs
	p.cmd.SysProcAttr = procs.Attributes()
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return fail(err)
	}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return fail(err)
	}
	if err := p.cmd.Start(); err != nil {
		return fail(err)
	}
	p.orders = &procs.Lines{W: p.stdin}
	go func() {
		err := procs.ReadLines(bufio.NewReader(stdout), func(r report) { tell <- said{by: p, report: r} })
		if err != nil {
			tell <- said{by: p, report: report{Error: err.Error()}}
		}
		io.Copy(io.Discard, stdout) // what isn't a report must not block the child
		p.cmd.Wait()
		tell <- said{by: p, ended: true}
	}()
	p.order(s)
	return p, nil
}

// order sends one line. A child that died meanwhile doesn't get it: its end is
// told on the channel.
func (p *process) order(o any) { _ = p.orders.Write(o) }

// kill ends the process for real (SIGKILL), also when it is stopped.
func (p *process) kill() {
	p.doomed = true
	_ = p.cmd.Process.Kill()
}

// end lets the process end by itself.
func (p *process) end() {
	p.doomed = true
	p.stdin.Close()
}
