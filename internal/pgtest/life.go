package pgtest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// errElsewhere: the shared server may be somebody's own.
var errElsewhere = errors.New("pgtest: the server in DAYBOOK_TEST_PG is not ours to stop, kill or start; " +
	"a test that does takes a server from pgtest.Start")

// Stop shuts the server down and removes its folder. It may be called again.
// Clients are cut off, as in each of these methods.
func (s *Server) Stop() error {
	if s.elsewhere != nil {
		return nil
	}
	return errors.Join(s.shutdown(), s.home.remove())
}

// shutdown is a fast shutdown: open transactions are rolled back.
func (s *Server) shutdown() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process == nil {
		return nil
	}
	err := s.home.interrupt(s.process)
	s.process = nil
	return err
}

// Kill kills the server and all its processes at once (SIGKILL) and waits until
// they are gone. Its folder stays as it is; see StartAgain.
func (s *Server) Kill() error {
	if s.elsewhere != nil {
		return errElsewhere
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process == nil {
		return nil
	}
	server := s.process.cmd.Process
	var family []int
	err := freeze(server) // or it could start another while they are counted
	if err == nil {
		family, err = children(server.Pid)
	}
	if errors.Is(err, os.ErrProcessDone) {
		err = nil
	}
	server.Kill()
	for _, pid := range family {
		if p, err := os.FindProcess(pid); err == nil {
			p.Kill()
		}
	}
	s.home.ended(s.process)
	s.process = nil
	return errors.Join(err, until("the server's processes are gone", func() bool {
		return !slices.ContainsFunc(family, func(pid int) bool { return !gone(pid) })
	}))
}

// StartAgain starts a server that was killed or died, in the same folder and at
// the same port, and waits until it takes connections. One that runs is left
// alone.
func (s *Server) StartAgain() error {
	if s.elsewhere != nil {
		return errElsewhere
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process != nil && !s.process.hasEnded() {
		return nil
	}
	var err error
	waited := until("the dead server's processes have noticed", func() bool {
		err = s.launch()
		return err == nil || !strings.Contains(err.Error(), "pre-existing shared memory block")
	})
	return errors.Join(waited, err)
}

// launch starts the server and waits until it takes connections or has ended.
func (s *Server) launch() error {
	p, err := s.home.launch(s.home.command(filepath.Join(s.bin, "postgres"),
		"-D", s.data(), "-p", strconv.Itoa(s.port)))
	if err != nil {
		return fmt.Errorf("pgtest: %w", err)
	}
	s.process = p
	err = until("the server takes connections", func() bool { return p.hasEnded() || s.ready(p.cmd.Process.Pid) })
	if p.hasEnded() {
		s.home.ended(p)
		s.process = nil
		err = errors.New("pgtest: the server did not start")
	}
	if err != nil {
		return fmt.Errorf("%w; it said:\n%s", err, s.home.logSince(p.since))
	}
	return nil
}

// Restart shuts the server down in order and starts it again.
func (s *Server) Restart() error {
	if s.elsewhere != nil {
		return errElsewhere
	}
	if err := s.shutdown(); err != nil {
		return err
	}
	return s.StartAgain()
}
