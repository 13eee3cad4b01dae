package pgtest

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
)

// Shared is the one server of this test process. The first test that asks for
// it starts it; Main stops it. Tests don't kill or restart it and don't change
// its settings. With a URL in DAYBOOK_TEST_PG it is that server.
func Shared(t testing.TB) *Server {
	t.Helper()
	s, err := theShared.get()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// SharedURL is the URL of the database postgres on the shared server.
func SharedURL(t testing.TB) string {
	t.Helper()
	return Shared(t).URL("postgres")
}

// Database makes a fresh, empty database on the shared server and returns its
// URL. It is dropped when the test ends, whoever is still connected. That takes
// some 20 to 60 ms in all.
func Database(t testing.TB) (url string) {
	t.Helper()
	s := Shared(t)
	name := theShared.name()
	// With fsync off, copying files takes less than logging each page of them.
	if err := theShared.do("CREATE DATABASE " + name + " STRATEGY file_copy;"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := theShared.do("DROP DATABASE " + name + " WITH (FORCE);"); err != nil {
			t.Error(err)
		}
	})
	return s.URL(name)
}

// Schema is a name for a schema that no other test uses, in the database postgres
// on the shared server (SharedURL). The test makes it, which costs less than a
// database; it is dropped when the test ends. Connections that still use it by
// then are an error.
func Schema(t testing.TB) (name string) {
	t.Helper()
	Shared(t)
	name = theShared.name()
	t.Cleanup(func() {
		if err := theShared.do("SET lock_timeout = '1min'; DROP SCHEMA IF EXISTS " + name + " CASCADE;"); err != nil {
			t.Error(err)
		}
	})
	return name
}

// sharing is what the tests of a process share. Tests have nobody who could hand
// it to them, so it is the package's one variable of state beside portsTried.
type sharing struct {
	mu     sync.Mutex
	asked  bool
	server *Server
	err    error
	names  int
	admin  *session // makes and drops databases: a psql for each would take as long again
}

var theShared sharing

func (s *sharing) get() (*Server, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.asked {
		s.asked = true
		s.server, s.err = sharedServer()
	}
	return s.server, s.err
}

// sharedServer starts the shared server, unless the environment names one.
func sharedServer() (*Server, error) {
	named := os.Getenv("DAYBOOK_TEST_PG")
	if named == "" {
		return Start(Options{})
	}
	u, err := url.Parse(named)
	if err != nil || !strings.HasPrefix(u.Scheme, "postgres") || u.Hostname() == "" {
		return nil, fmt.Errorf("pgtest: DAYBOOK_TEST_PG must be a URL such as postgres://user@host:5432/postgres")
	}
	s := &Server{elsewhere: u}
	if _, err := s.Psql("postgres", "SELECT 1"); err != nil {
		return nil, fmt.Errorf("pgtest: the server in DAYBOOK_TEST_PG doesn't answer: %w", err)
	}
	return s, nil
}

// do runs a statement on the shared server, which has been started. A session
// that a statement failed in has ended, and the next one gets another.
func (s *sharing) do(sql string) (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.admin == nil {
		if s.admin, err = openSession(s.server.URL("postgres")); err != nil {
			s.admin = nil
			return err
		}
	}
	if err = s.admin.do(sql); err != nil {
		s.admin = nil
	}
	return err
}

// name is one that no other test uses, of this process or of another on the
// same server.
func (s *sharing) name() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.names++
	host, _ := os.Hostname() // without one, processes of this machine still differ
	clean := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, strings.ToLower(host))
	return fmt.Sprintf("daybook_%.20s_%d_%d", clean, os.Getpid(), s.names)
}

func (s *sharing) stop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var err error
	if s.admin != nil {
		_, err = s.admin.close()
	}
	if s.server != nil {
		err = errors.Join(err, s.server.Stop())
	}
	s.asked, s.server, s.err, s.admin = false, nil, nil, nil
	return err
}

// Wanted reports whether this run asks for PostgreSQL: go test ./... passes with
// Go alone, and a run that asks for PostgreSQL fails without it.
func Wanted() bool { return os.Getenv("DAYBOOK_TEST_POSTGRES") != "" }

// Main runs a package's tests, if PostgreSQL is wanted, stops the shared server
// and ends the process. It is the body of TestMain. Without it the server is
// killed when the process ends.
func Main(m *testing.M) {
	if !Wanted() {
		fmt.Println("PostgreSQL is not asked for; DAYBOOK_TEST_POSTGRES=1 runs these tests")
		os.Exit(0)
	}
	os.Exit(Around(m).Run())
}

// Tests is what runs a package's tests, such as *testing.M.
type Tests interface{ Run() (code int) }

// Around is m with the shared server stopped at the end, for a TestMain that
// does more than Main: goleak.VerifyTestMain(pgtest.Around(m)).
func Around(m Tests) Tests { return around{m} }

type around struct{ tests Tests }

func (a around) Run() int {
	code := a.tests.Run()
	if err := theShared.stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	return code
}
