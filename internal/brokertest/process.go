// Package brokertest starts private servers of the brokers that bells ring
// through, for tests: each on a free port of 127.0.0.1 and in a folder of its
// own. They die with the process that started them.
//
//	func TestMain(m *testing.M) { brokertest.Main(m) }
//
//	server := brokertest.StartRedis(t) // stopped when the test ends
//	server.Pause()                     // SIGSTOP: it takes bytes and answers nothing
//	server.Resume()
//	server.Kill()                      // SIGKILL
//	server.StartAgain()                // at the same port
//
// Set DAYBOOK_TEST_BELLS to run tests that want them. A program that is missing
// then fails the test with the line that installs it; nothing is skipped.
package brokertest

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/daybookdev/daybook/internal/testserver"
)

// Wanted reports whether this run asks for brokers: go test ./... passes with Go
// alone, and a run that asks for them fails without them.
func Wanted() bool { return os.Getenv("DAYBOOK_TEST_BELLS") != "" }

// Main runs a package's tests, if brokers are wanted, and ends the process. It
// is the body of TestMain.
func Main(m Tests) {
	if !Wanted() {
		fmt.Println("brokers are not asked for; DAYBOOK_TEST_BELLS=1 runs these tests")
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// Tests is what runs a package's tests, such as *testing.M.
type Tests interface{ Run() (code int) }

// patience bounds every wait for a server. It is for machines that are far too
// busy, not for servers that are slow.
const patience = 3 * time.Minute

// Program is what a server is started from.
type Program struct {
	Name    string // of the program, looked up along PATH and in Dirs
	Dirs    []string
	Install string // the command that installs it
	In      string // the folder that gets the server's own; "" is the system's for such
	// Args are its arguments, for a port and an empty folder.
	Args func(port int, dir string) []string
	Env  []string // besides ours
	// Ready reports whether it takes work, asked again and again; nil is when
	// it takes connections.
	Ready func(port int) bool
}

// Server is one that runs, or may run again. Its methods may be called by
// several goroutines.
type Server struct {
	program Program
	path    string
	dir     string
	port    int

	mu     sync.Mutex
	cmd    *exec.Cmd // nil while none runs
	ended  chan struct{}
	paused bool
}

// Start starts a server for a test, which stops it when it ends.
func Start(t testing.TB, p Program) *Server {
	t.Helper()
	s, err := Open(p)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// Open starts a server and waits until it takes work. Stop it in the end.
func Open(p Program) (*Server, error) {
	path, err := find(p)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(p.In, "daybook-"+p.Name+"-")
	if err != nil {
		return nil, fmt.Errorf("brokertest: %w", err)
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, fmt.Errorf("brokertest: %w", err)
	}
	s := &Server{program: p, path: path, dir: dir}
	for try := 1; ; try++ { // somebody may take the port before the server does
		if s.port, err = testserver.FreePort(); err == nil {
			err = s.StartAgain()
		}
		if err == nil {
			return s, nil
		}
		if try == 3 {
			return nil, errors.Join(err, s.Stop())
		}
	}
}

func find(p Program) (string, error) {
	if path, err := exec.LookPath(p.Name); err == nil {
		return path, nil
	}
	for _, dir := range p.Dirs {
		if path, err := exec.LookPath(filepath.Join(dir, p.Name)); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("brokertest: there is no %s: `%s`, or as your system has it", p.Name, p.Install)
}

// Port is the server's TCP port on 127.0.0.1. It stays the same when the server
// is started again.
func (s *Server) Port() int { return s.port }

// Addr is host and port.
func (s *Server) Addr() string { return "127.0.0.1:" + strconv.Itoa(s.port) }

// Dir is the server's folder.
func (s *Server) Dir() string { return s.dir }

// StartAgain starts a server that was killed, in the same folder and at the same
// port, and waits until it takes work. One that runs is left alone.
func (s *Server) StartAgain() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd != nil {
		return nil
	}
	log, err := os.OpenFile(s.logPath(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("brokertest: %w", err)
	}
	defer log.Close()
	cmd := exec.Command(s.path, s.program.Args(s.port, s.dir)...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.dir, log, log
	cmd.Env = append(os.Environ(), s.program.Env...)
	cmd.SysProcAttr = attributes()
	ended := make(chan struct{})
	started := make(chan error)
	go attend(cmd, started, ended)
	if err := <-started; err != nil {
		return fmt.Errorf("brokertest: starting %s: %w", s.program.Name, err)
	}
	if !s.waitReady(ended) {
		cmd.Process.Kill()
		<-ended
		return fmt.Errorf("brokertest: %s did not start; it said:\n%s", s.program.Name, s.Log())
	}
	s.cmd, s.ended, s.paused = cmd, ended, false
	return nil
}

// attend starts a process and stays on its thread until the process has ended:
// Linux sends the death signal when the thread ends that started the child.
func attend(cmd *exec.Cmd, started chan<- error, ended chan<- struct{}) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := cmd.Start()
	started <- err
	if err == nil {
		cmd.Wait() // how it ended is in its log
		close(ended)
	}
}

func (s *Server) waitReady(ended <-chan struct{}) bool {
	ready := s.program.Ready
	if ready == nil {
		ready = answers
	}
	deadline := time.After(patience)
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for !ready(s.port) {
		select {
		case <-ended:
			return false
		case <-deadline:
			return false
		case <-look.C:
		}
	}
	return true
}

// answers reports whether the port takes connections.
func answers(port int) bool {
	conn, err := net.Dial("tcp", "127.0.0.1:"+strconv.Itoa(port))
	if err != nil {
		return false
	}
	conn.Close()
	return true
}

// Kill kills the server at once (SIGKILL) and waits until it is gone. Its folder
// stays as it is.
func (s *Server) Kill() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd == nil {
		return nil
	}
	if err := killAll(s.cmd); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("brokertest: killing %s: %w", s.program.Name, err)
	}
	<-s.ended
	s.cmd = nil
	return nil
}

// End asks the server to end (SIGTERM) and waits until it has. Its folder stays as
// it is.
func (s *Server) End() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd == nil {
		return nil
	}
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("brokertest: ending %s: %w", s.program.Name, err)
	}
	<-s.ended
	s.cmd = nil
	return nil
}

// Restart kills the server and starts it again.
func (s *Server) Restart() error {
	if err := s.Kill(); err != nil {
		return err
	}
	return s.StartAgain()
}

// Pause stops the server's process (SIGSTOP): it takes connections and bytes,
// as far as the system's buffers go, and answers nothing.
func (s *Server) Pause() error { return s.pause(true) }

// Resume lets a paused server go on.
func (s *Server) Resume() error { return s.pause(false) }

func (s *Server) pause(paused bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd == nil || s.paused == paused {
		return nil
	}
	if err := stopOrGo(s.cmd, paused); err != nil {
		return fmt.Errorf("brokertest: pausing %s: %w", s.program.Name, err)
	}
	s.paused = paused
	return nil
}

// Stop kills the server and removes its folder. It may be called again.
func (s *Server) Stop() error {
	return errors.Join(s.Kill(), os.RemoveAll(s.dir))
}

func (s *Server) logPath() string { return filepath.Join(s.dir, "log") }

// Log is the end of what the server said, at most 16 KB.
func (s *Server) Log() string {
	return testserver.LogTail(s.logPath(), 0)
}

// ask sends one line to a port and returns what comes back first.
func ask(port int, line string) (string, error) {
	conn, err := net.DialTimeout("tcp", "127.0.0.1:"+strconv.Itoa(port), 10*time.Second)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := io.WriteString(conn, line+"\r\n"); err != nil {
		return "", err
	}
	answer := make([]byte, 64<<10)
	n, err := conn.Read(answer)
	return strings.TrimSpace(string(answer[:n])), err
}
