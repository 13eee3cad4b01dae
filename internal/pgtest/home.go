package pgtest

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/daybookdev/daybook/internal/testserver"
)

// patience bounds every wait for a server. It is for machines that are far too
// busy, not for servers that are slow.
const patience = 3 * time.Minute

// home is the folder of one server, and what goes with it: the user that the
// server runs as, and the keeper, who clears up even if this process is killed.
type home struct {
	dir    string
	as     *account
	keeper *exec.Cmd
	tell   io.WriteCloser // the keeper's standard input
}

// keeperScript reads the id of the process that runs in the folder, or an empty
// line when none does. At the end of its input the one who started it is done,
// or dead: what still runs is killed (Linux has done so already), the segment of
// shared memory that a killed server leaves is removed, and then the folder. The
// server's own children may still be writing into it while they notice.
const keeperScript = `
pid=
while read -r line; do pid=$line; done
[ -z "$pid" ] || kill -KILL "$pid"
segment=$(sed -n '7s/.* //p' "$1/data/postmaster.pid") && [ -n "$segment" ] && ipcrm -m "$segment"
for try in 1 2 3 4 5 6 7 8 9 10; do rm -rf "$1" && break; sleep 1; done
`

// newHome makes a folder. The socket in it wants a short path, and a server a
// real disk, which /tmp often is not.
func newHome() (*home, error) {
	if err := supported(); err != nil {
		return nil, err
	}
	as, err := serverAccount()
	if err != nil {
		return nil, err
	}
	base := os.Getenv("TMPDIR")
	if _, err := os.Stat("/var/tmp"); base == "" && err == nil {
		base = "/var/tmp"
	}
	dir, err := os.MkdirTemp(base, "daybook-pg-")
	if err != nil {
		return nil, fmt.Errorf("pgtest: %w", err)
	}
	h := &home{dir: dir, as: as}
	if err := h.give(dir); err != nil {
		os.RemoveAll(dir)
		return nil, fmt.Errorf("pgtest: %w", err)
	}
	if err := h.hireKeeper(); err != nil {
		os.RemoveAll(dir)
		return nil, fmt.Errorf("pgtest: starting a shell: %w", err)
	}
	return h, nil
}

func (h *home) hireKeeper() (err error) {
	h.keeper = exec.Command("sh", "-c", keeperScript, "pgtest-keeper", h.dir)
	h.keeper.Dir = "/"
	h.keeper.SysProcAttr = outlives()
	if h.tell, err = h.keeper.StdinPipe(); err != nil {
		return err
	}
	return h.keeper.Start()
}

// remove lets the keeper clear up, and waits for it.
func (h *home) remove() error {
	h.tell.Close()
	h.keeper.Wait() // its exit code says less than the folder does
	if _, err := os.Stat(h.dir); !os.IsNotExist(err) {
		return fmt.Errorf("pgtest: %s could not be removed", h.dir)
	}
	return nil
}

// give hands a file or folder to the server's user.
func (h *home) give(path string) error {
	if h.as == nil {
		return nil
	}
	return os.Lchown(path, h.as.uid, h.as.gid)
}

// write makes a file of the server's.
func (h *home) write(name, text string) error {
	path := filepath.Join(h.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return err
	}
	return h.give(path)
}

// command is a program that runs as the server's user, in its folder.
func (h *home) command(program string, args ...string) *exec.Cmd {
	cmd := exec.Command(program, args...)
	cmd.Dir = h.dir
	cmd.Env = cleanEnvironment()
	cmd.SysProcAttr = attributes(h.as)
	return cmd
}

// cleanEnvironment is ours without what would lead a client to somebody's
// server, or have a server speak another language.
func cleanEnvironment() []string {
	env := []string{"LC_ALL=C", "PGCONNECT_TIMEOUT=60"}
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "PG") && !strings.HasPrefix(e, "LC_") && !strings.HasPrefix(e, "LANG") {
			env = append(env, e)
		}
	}
	return env
}

// process is one that runs in a home.
type process struct {
	cmd   *exec.Cmd
	since int           // the length of the log when it started
	done  chan struct{} // closed when it has ended and is reaped
}

// launch starts a process that dies with this one. Its output goes into the log.
func (h *home) launch(cmd *exec.Cmd) (*process, error) {
	log, err := os.OpenFile(h.logPath(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	size, err := log.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, err
	}
	cmd.Stdout, cmd.Stderr = log, log
	p := &process{cmd: cmd, since: int(size), done: make(chan struct{})}
	started := make(chan error)
	go p.attend(started)
	switch err := <-started; {
	case errors.Is(err, fs.ErrPermission) && h.as != nil:
		return nil, fmt.Errorf("%w (root runs servers as the user postgres, who must be able to look into %s and %s)",
			err, filepath.Dir(cmd.Path), h.dir)
	case err != nil:
		return nil, err
	}
	fmt.Fprintln(h.tell, cmd.Process.Pid)
	return p, nil
}

// attend starts the process and stays on its thread until the process has ended:
// Linux sends the death signal when the thread ends that started the child, not
// the whole process.
func (p *process) attend(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := p.cmd.Start()
	started <- err
	if err == nil {
		p.cmd.Wait() // how it ended is in its log
		close(p.done)
	}
}

func (p *process) hasEnded() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// run runs a program to its end, as launch does.
func (h *home) run(cmd *exec.Cmd) error {
	p, err := h.launch(cmd)
	if err != nil {
		return err
	}
	h.ended(p)
	if !cmd.ProcessState.Success() {
		return fmt.Errorf("%s: %v\n%s", filepath.Base(cmd.Path), cmd.ProcessState, h.logSince(p.since))
	}
	return nil
}

// ended waits for the process, and tells the keeper that none runs.
func (h *home) ended(p *process) {
	<-p.done
	fmt.Fprintln(h.tell)
}

// interrupt asks a process to end, and waits. One that doesn't is killed.
func (h *home) interrupt(p *process) error {
	p.cmd.Process.Signal(os.Interrupt) // fails only for one that has ended
	late := time.NewTimer(patience)
	defer late.Stop()
	var err error
	select {
	case <-p.done:
	case <-late.C:
		err = fmt.Errorf("pgtest: %s did not stop within %v and was killed:\n%s",
			filepath.Base(p.cmd.Path), patience, h.logSince(p.since))
		p.cmd.Process.Kill()
	}
	h.ended(p)
	return err
}

func (h *home) logPath() string { return filepath.Join(h.dir, "log") }

// logTail is the end of what the server said.
func (h *home) logTail() string { return h.logSince(0) }

// logSince is the end of what the server said since the log had that length.
func (h *home) logSince(length int) string {
	return testserver.LogTail(h.logPath(), length)
}

// until polls a condition, up to a generous deadline.
func until(what string, so func() bool) error {
	deadline := time.Now().Add(patience)
	for !so() {
		if time.Now().After(deadline) {
			return fmt.Errorf("pgtest: after %v still waiting until %s", patience, what)
		}
		time.Sleep(5 * time.Millisecond)
	}
	return nil
}
