package drill

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/internal/procs"
)

// process is one worker, seen from the parent.
type process struct {
	setup
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	orders *procs.Lines
	armed  chan int      // runs whose arming is in force
	at     chan standing // where it stands
	on     chan int      // runs it went on from
	sent   chan sent     // answers of an enqueuer
	told   chan told     // what it counted
	moved  chan moved    // how its steps of a cutover ended
	ready  chan struct{} // closed when it does its work
	rings  chan string   // to be brought to it
	hub    *hub          // carries its rings; may be nil
	gone   chan struct{} // closed when it has ended

	mu    sync.Mutex
	fault string // why it couldn't go on
	away  bool   // because the database was away
}

// patience bounds each step of a run: what takes longer makes it void, or wrong.
const patience = 90 * time.Second

// start starts a worker.
func start(command []string, dir string, s setup, h *hub) (*process, error) {
	p := &process{setup: s, cmd: exec.Command(command[0], command[1:]...), armed: make(chan int, 8),
		at: make(chan standing, 8), on: make(chan int, 8), sent: make(chan sent, 8), told: make(chan told, 8),
		moved: make(chan moved, 8),
		ready: make(chan struct{}), rings: make(chan string, 64), hub: h, gone: make(chan struct{})}
	fail := func(err error) (*process, error) {
		return nil, &daybook.Error{Code: daybook.CodeInternal, Err: err,
			Text: "the drill can't start a process of its own (" + command[0] + "): " + err.Error()}
	}
	logs, err := os.OpenFile(filepath.Join(dir, s.Queue+".log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
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
		defer close(p.gone)
		if err := procs.ReadLines(bufio.NewReader(stdout), p.hear); err != nil {
			p.hear(report{Error: err.Error()})
			_ = p.cmd.Process.Kill() // it may have gone
		}
		_, _ = io.Copy(io.Discard, stdout) // what isn't a report must not block the child
		_ = p.cmd.Wait()                   // how it ended is in its ProcessState
	}()
	p.order(s)
	go p.bring()
	return p, nil
}

// bring brings rings to the process. One that is stopped holds nobody up here.
func (p *process) bring() {
	for {
		select {
		case queue := <-p.rings:
			p.order(order{Ring: queue})
		case <-p.gone:
			return
		}
	}
}

// hear takes one report in. Nobody waits for those of a run that is over, and
// what doesn't fit is dropped.
func (p *process) hear(r report) {
	switch {
	case r.Error != "":
		p.mu.Lock()
		p.fault, p.away = r.Error, r.Away
		p.mu.Unlock()
	case r.At != nil:
		push(p.at, *r.At)
	case r.On != 0:
		push(p.on, r.On)
	case r.Armed != 0:
		push(p.armed, r.Armed)
	case r.Ready:
		close(p.ready)
	case r.Sent != nil:
		push(p.sent, *r.Sent)
	case r.Told != nil:
		push(p.told, *r.Told)
	case r.Moved != nil:
		push(p.moved, *r.Moved)
	case p.hub == nil:
	case r.Listen != nil:
		p.hub.listens(p)
	default:
		p.hub.carry(r.Rings)
	}
}

func push[T any](c chan T, v T) {
	select {
	case c <- v:
	default:
	}
}

// order sends one line. A child that died meanwhile doesn't get it: its end is
// seen.
func (p *process) order(o any) { _ = p.orders.Write(o) }

// arm arms the worker for a gap of a run, and returns when that is in force.
func (p *process) arm(ctx context.Context, run int, gap string) error {
	p.order(order{Arm: &arming{Run: run, Gap: gap}})
	return p.await(ctx, p.armed, run)
}

// await waits until the worker said so of a run.
func (p *process) await(ctx context.Context, said <-chan int, run int) error {
	late := time.NewTimer(patience)
	defer late.Stop()
	for {
		select {
		case got := <-said:
			if got == run {
				return nil
			}
		case <-p.gone:
			return p.ended()
		case <-late.C:
			return daybook.Fail(daybook.CodeInternal, "%s of the drill doesn't answer", p.Name)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// begun waits until the process does its work.
func (p *process) begun(ctx context.Context) error {
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case <-p.ready:
		return nil
	case <-p.gone:
		return p.ended()
	case <-late.C:
		return daybook.Fail(daybook.CodeInternal, "%s of the drill doesn't begin", p.Name)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// tell asks the process what it counted. Asked twice at once, each gets one of
// the answers.
func (p *process) tell(ctx context.Context) (told, error) {
	p.order(order{Tell: 1})
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case t := <-p.told:
		return t, nil
	case <-p.gone:
		return told{}, p.ended()
	case <-late.C:
		return told{}, daybook.Fail(daybook.CodeInternal, "%s of the drill doesn't answer", p.Name)
	case <-ctx.Done():
		return told{}, ctx.Err()
	}
}

// ended is the error of a worker that ended though nobody asked it to.
func (p *process) ended() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fault != "" {
		code := daybook.CodeInternal
		if p.away {
			code = daybook.CodeUnavailable
		}
		return daybook.Fail(code, "%s of the drill failed: %s", p.Name, p.fault)
	}
	return daybook.Fail(daybook.CodeInternal, "%s of the drill ended by itself (%s)", p.Name, p.cmd.ProcessState)
}

// running reports whether the process is there.
func (p *process) running() bool {
	select {
	case <-p.gone:
		return false
	default:
		return true
	}
}

// kill ends the process for real (SIGKILL), also when it is stopped, and waits
// until it is gone. It reports whether it was this that ended it.
func (p *process) kill() bool {
	err := p.cmd.Process.Kill()
	<-p.gone
	return !errors.Is(err, os.ErrProcessDone) && p.cmd.ProcessState.ExitCode() == -1
}

// end lets the process end by itself, and kills it when it takes too long.
func (p *process) end() {
	p.stdin.Close()
	late := time.NewTimer(parting)
	defer late.Stop()
	select {
	case <-p.gone:
	case <-late.C:
		p.kill()
	}
}
