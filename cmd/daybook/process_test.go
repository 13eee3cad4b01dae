//go:build unix

package main

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// programs is a folder with this test's binary under the program's name.
var programs = sync.OnceValues(func() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp("", "daybook-test-")
	if err != nil {
		return "", err
	}
	programFolder.Store(&dir)
	return dir, os.Symlink(self, filepath.Join(dir, "daybook"))
})

// process is a real process of the program.
type process struct {
	t    *testing.T
	cmd  *exec.Cmd
	err  lineList // standard error, by line
	out  bytes.Buffer
	done chan struct{}
}

// lineList hands out what was written, a line at a time.
type lineList struct {
	mu   sync.Mutex
	all  []string
	more chan struct{} // closed and replaced when there is another
	end  bool
}

func (l *lineList) add(line string, end bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !end {
		l.all = append(l.all, line)
	}
	l.end = l.end || end
	close(l.more)
	l.more = make(chan struct{})
}

// environ is the environment of a real process of the program.
func (c *cli) environ(args []string, more ...string) []string {
	dir, err := programs()
	if err != nil {
		c.t.Fatal(err)
	}
	return append(os.Environ(), append([]string{asProgram + "=1",
		"PATH=" + dir + string(os.PathListSeparator) + os.Getenv("PATH")}, append(c.environPlace(args), more...)...)...)
}

// environPlace names the test's book to a process.
func (c *cli) environPlace(args []string) []string {
	if c.server == "" || needsBook(args) {
		return []string{"DAYBOOK_DB=" + c.db}
	}
	return []string{"DAYBOOK_SERVER=" + c.server, "DAYBOOK_TOKEN=" + c.token}
}

// start starts the program in a process of its own.
func (c *cli) start(args ...string) *process {
	c.t.Helper()
	dir, err := programs()
	if err != nil {
		c.t.Fatal(err)
	}
	p := &process{t: c.t, cmd: exec.Command(filepath.Join(dir, "daybook"), args...), done: make(chan struct{})}
	p.err.more = make(chan struct{})
	p.cmd.Env, p.cmd.Dir, p.cmd.Stdout = c.environ(args), c.dir, &p.out
	p.cmd.Stdin = strings.NewReader(c.stdin)
	pipe, err := p.cmd.StderrPipe()
	if err != nil {
		c.t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	go func() {
		defer close(p.done)
		read := bufio.NewScanner(pipe)
		for read.Scan() {
			p.err.add(read.Text(), false)
		}
		_, _ = io.Copy(io.Discard, pipe)
		_ = p.cmd.Wait() // its status is looked at by who waits for it
		p.err.add("", true)
	}()
	c.t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.done
	})
	return p
}

// says waits for n lines of standard error that hold the text.
func (p *process) says(text string, n int) []string {
	p.t.Helper()
	for {
		p.err.mu.Lock()
		found := slices.DeleteFunc(slices.Clone(p.err.all),
			func(line string) bool { return !strings.Contains(line, text) })
		more, end, all := p.err.more, p.err.end, slices.Clone(p.err.all)
		p.err.mu.Unlock()
		if len(found) >= n {
			return found
		}
		if end {
			p.t.Fatalf("the process ended and said %q %d times, want %d:\n%s", text, len(found), n,
				strings.Join(all, "\n"))
		}
		<-more
	}
}

// said tells whether a line of standard error so far holds the text.
func (p *process) said(text string) bool {
	p.err.mu.Lock()
	defer p.err.mu.Unlock()
	return slices.ContainsFunc(p.err.all, func(line string) bool { return strings.Contains(line, text) })
}

// ends waits for the process to end, and holds it to an exit status.
func (p *process) ends(want int) {
	p.t.Helper()
	<-p.done
	if got := p.cmd.ProcessState.ExitCode(); got != want {
		p.err.mu.Lock()
		defer p.err.mu.Unlock()
		p.t.Fatalf("the process: got %s, want exit %d\n%s", p.cmd.ProcessState, want, strings.Join(p.err.all, "\n"))
	}
}

func (p *process) signal(s os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// kill ends the process as a power cut would, and waits until it is gone.
func (p *process) kill() {
	p.t.Helper()
	p.signal(syscall.SIGKILL)
	<-p.done
}

// timed runs fn and says how long it took.
func timed(fn func()) time.Duration {
	begun := time.Now()
	fn()
	return time.Since(begun)
}
