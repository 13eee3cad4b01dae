package pgtest

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

// A test that wants a process which dies runs this binary again, with the role
// in the environment.
const roleVariable = "PGTEST_ROLE"

func TestMain(m *testing.M) {
	if os.Getenv(roleVariable) == "holder" {
		holdServer()
	}
	Main(m)
}

// start is a server of the test's own.
func start(t *testing.T, o Options) *Server {
	t.Helper()
	s, err := Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { must(t, s.Stop()) })
	return s
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// answer runs SQL that must succeed.
func answer(t *testing.T, url, sql string) string {
	t.Helper()
	out, err := Psql(url, sql)
	must(t, err)
	return out
}

func want(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %q, want %q", what, got, want)
	}
}

func TestStartStop(t *testing.T) {
	s := start(t, Options{Settings: map[string]string{"work_mem": "5MB", "application_name": "it's"}})
	url := s.URL("postgres")
	want(t, "the user", answer(t, url, "SELECT current_user"), "postgres")
	want(t, "the encoding", answer(t, url, "SHOW server_encoding"), "UTF8")
	want(t, "the order", answer(t, url, "SELECT 'a' < 'B'"), "f")
	want(t, "durability", answer(t, url, "SHOW synchronous_commit; SHOW fsync; SHOW full_page_writes; SHOW autovacuum"),
		"on\noff\noff\non")
	want(t, "a setting", answer(t, url, "SHOW work_mem"), "5MB")
	if info, err := os.Stat(s.Dir()); err != nil || !info.IsDir() {
		t.Errorf("the folder: %v", err)
	}
	if !strings.Contains(s.Log(), "ready to accept connections") {
		t.Errorf("the log is %q", s.Log())
	}
	if _, err := s.Psql("postgres", "SELECT nonsense"); err == nil || !strings.Contains(err.Error(), `"nonsense"`) {
		t.Errorf("wrong SQL: %v", err)
	}
	must(t, s.Stop())
	if _, err := os.Stat(s.Dir()); !os.IsNotExist(err) {
		t.Errorf("the folder after the stop: %v", err)
	}
	if c, err := net.Dial("tcp", "127.0.0.1:"+strconv.Itoa(s.Port())); err == nil {
		c.Close()
		t.Error("the port is still open")
	}
	must(t, s.Stop())
}

// TestKill: what was committed is there after a crash, what was not is gone, and
// so is each process of the server.
func TestKill(t *testing.T) {
	s := start(t, Options{})
	url, port := s.URL("postgres"), s.Port()
	answer(t, url, "CREATE TABLE kept (n int); INSERT INTO kept VALUES (1)")
	busy, err := openSession(url)
	must(t, err)
	backend, err := busy.ask("BEGIN; INSERT INTO kept VALUES (2); SELECT pg_backend_pid();")
	must(t, err)
	pid, err := strconv.Atoi(backend)
	must(t, err)
	postmaster := s.process.cmd.Process.Pid
	family, err := children(postmaster)
	must(t, err)

	must(t, s.Kill())
	must(t, s.Kill()) // nothing is left to kill
	for _, p := range append(family, pid, postmaster) {
		if !gone(p) {
			t.Errorf("process %d is left", p)
		}
	}
	if _, err := busy.ask("SELECT 1;"); err == nil {
		t.Error("the client's connection outlived the server")
	}
	must(t, s.StartAgain())
	must(t, s.StartAgain()) // it runs
	want(t, "the rows", answer(t, url, "SELECT n FROM kept"), "1")
	if s.Port() != port {
		t.Errorf("the port was %d and is %d", port, s.Port())
	}
	if !strings.Contains(s.Log(), "was not properly shut down") {
		t.Errorf("no crash in the log: %s", s.Log())
	}
	must(t, s.Kill())
	must(t, s.Stop())
	if _, err := os.Stat(s.Dir()); !os.IsNotExist(err) {
		t.Errorf("the folder after the stop: %v", err)
	}
}

// TestDied: a server that somebody else killed is started again like any.
func TestDied(t *testing.T) {
	s := start(t, Options{})
	must(t, s.process.cmd.Process.Kill())
	<-s.process.done
	must(t, s.StartAgain())
	want(t, "the server", answer(t, s.URL("postgres"), "SELECT 1"), "1")
}

// TestPortTaken: a server says so in the words by which Start tries another port.
func TestPortTaken(t *testing.T) {
	s := start(t, Options{Durable: true})
	must(t, s.Kill())
	taken, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(s.Port()))
	must(t, err)
	if err := s.StartAgain(); err == nil || !strings.Contains(err.Error(), "could not bind") {
		t.Errorf("at a port that is taken: %v", err)
	}
	must(t, taken.Close())
	must(t, s.StartAgain())
	want(t, "durability", answer(t, s.URL("postgres"), "SHOW synchronous_commit; SHOW fsync; SHOW full_page_writes"),
		"on\non\non")
}

func TestRestart(t *testing.T) {
	s := start(t, Options{})
	url := s.URL("postgres")
	answer(t, url, "CREATE TABLE kept (n int); ALTER SYSTEM SET max_connections = 50")
	must(t, s.Restart())
	want(t, "a setting after the restart", answer(t, url, "SHOW max_connections"), "50")
	want(t, "the rows", answer(t, url, "SELECT count(*) FROM kept"), "0")
	if strings.Contains(s.Log(), "was not properly shut down") {
		t.Errorf("a crash in the log: %s", s.Log())
	}
}

// TestWrongSetting: a server that doesn't start says why, and leaves nothing.
func TestWrongSetting(t *testing.T) {
	s, err := Start(Options{Settings: map[string]string{"shared_buffers": "plenty"}})
	if err == nil {
		s.Stop()
		t.Fatal("it started")
	}
	if !strings.Contains(err.Error(), `"shared_buffers"`) {
		t.Errorf("the error is %v", err)
	}
}

// TestDatabase: databases are separate, and go with their test.
func TestDatabase(t *testing.T) {
	var name string
	t.Run("one", func(t *testing.T) {
		first, second := Database(t), Database(t)
		answer(t, first, "CREATE TABLE t (n int)")
		answer(t, second, "CREATE TABLE t (n int)")
		name = answer(t, first, "SELECT current_database()")
		left, err := openSession(first) // a client that the test forgot
		must(t, err)
		t.Cleanup(func() { left.close() })
		_, err = left.ask("SELECT 1;")
		must(t, err)
	})
	want(t, "databases of that name left", answer(t, SharedURL(t),
		fmt.Sprintf("SELECT count(*) FROM pg_database WHERE datname = '%s'", name)), "0")
}

// TestSchema: a schema goes with its test, and so does what is in it.
func TestSchema(t *testing.T) {
	var name string
	t.Run("one", func(t *testing.T) {
		name = Schema(t)
		if other := Schema(t); other == name { // which is not made, and need not be
			t.Errorf("twice %s", name)
		}
		answer(t, SharedURL(t), fmt.Sprintf("CREATE SCHEMA %[1]s; CREATE TABLE %[1]s.t (n int)", name))
	})
	want(t, "schemas of that name left", answer(t, SharedURL(t),
		fmt.Sprintf("SELECT count(*) FROM pg_namespace WHERE nspname = '%s'", name)), "0")
}

// TestElsewhere: a server that DAYBOOK_TEST_PG names is used, and left running.
func TestElsewhere(t *testing.T) {
	s := start(t, Options{Settings: map[string]string{"log_statement": "ddl"}})
	before := answer(t, s.URL("postgres"), "SELECT count(*) FROM pg_database")
	out, err := again("^(TestDatabase|TestNotOurs)$", "DAYBOOK_TEST_PG="+s.URL("template1"))
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	want(t, "databases", answer(t, s.URL("postgres"), "SELECT count(*) FROM pg_database"), before)
	if !strings.Contains(s.Log(), "CREATE DATABASE daybook_") {
		t.Errorf("no database was made here: %s", s.Log())
	}
}

// TestNotOurs runs with a server of ours in CI, and in TestElsewhere with one
// that is not.
func TestNotOurs(t *testing.T) {
	s := Shared(t)
	if s.elsewhere == nil {
		return
	}
	for name, do := range map[string]func() error{"Kill": s.Kill, "StartAgain": s.StartAgain, "Restart": s.Restart} {
		if err := do(); err != errElsewhere {
			t.Errorf("%s: %v", name, err)
		}
	}
	through, err := NewBouncer(t, s, nil).Through(Database(t))
	must(t, err)
	want(t, "through PgBouncer", answer(t, through, "SELECT 1"), "1")
}

// TestMissing: binaries that are missing fail a test, with a line that helps.
func TestMissing(t *testing.T) {
	out, err := again("^TestDatabase$", "DAYBOOK_PG_BIN="+t.TempDir(), "DAYBOOK_TEST_PG=")
	if err == nil || !bytes.Contains(out, []byte("--- FAIL")) || bytes.Contains(out, []byte("SKIP")) ||
		!bytes.Contains(out, []byte("which has no postgres and initdb")) {
		t.Errorf("%v\n%s", err, out)
	}
}

// again runs tests of this binary in another process.
func again(run string, environment ...string) ([]byte, error) {
	cmd := exec.Command(os.Args[0], "-test.run", run, "-test.v")
	cmd.Env = append(os.Environ(), environment...)
	return cmd.CombinedOutput()
}

func BenchmarkDatabase(b *testing.B) {
	Shared(b)
	for b.Loop() {
		Database(b)
	}
}
