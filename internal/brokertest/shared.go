package brokertest

import (
	"fmt"
	"os"
	"sync"
	"testing"
)

// Shared is a server that all tests of a process use, since it takes long to
// start: the first that asks for it starts it, and With stops it. Its zero value
// is ready for use.
type Shared[S interface{ Stop() error }] struct {
	mu      sync.Mutex
	started bool
	server  S
	err     error
}

// Get is the server.
func (s *Shared[S]) Get(t testing.TB, start func() (S, error)) S {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.started {
		s.server, s.err = start()
		s.started = true
	}
	if s.err != nil {
		t.Fatal(s.err)
	}
	return s.server
}

// Stop stops the server, if it was started.
func (s *Shared[S]) Stop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.started || s.err != nil {
		return nil
	}
	s.started = false
	return s.server.Stop()
}

// With is m with servers stopped at the end, for a TestMain that does more:
// goleak.VerifyTestMain(brokertest.With(m, &shared)).
func With(m Tests, servers ...interface{ Stop() error }) Tests { return with{m, servers} }

type with struct {
	tests   Tests
	servers []interface{ Stop() error }
}

func (w with) Run() int {
	code := w.tests.Run()
	for _, s := range w.servers {
		if err := s.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = max(code, 1)
		}
	}
	return code
}
