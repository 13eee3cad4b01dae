package pgtest

import (
	"net"
	"os"
	"strings"
	"testing"
)

// TestBouncer: a client that is connected but in no transaction leaves the one
// connection to the server to another client.
func TestBouncer(t *testing.T) {
	b := NewBouncer(t, Shared(t), map[string]string{"default_pool_size": "1"})
	database := Database(t)
	url, err := b.Through(database)
	must(t, err)
	first, err := openSession(url)
	must(t, err)
	backend, err := first.ask("SELECT pg_backend_pid();")
	must(t, err)
	want(t, "the backend of another client", answer(t, url, "SELECT pg_backend_pid()"), backend)
	want(t, "the backend afterwards", ask(t, first, "SELECT pg_backend_pid();"), backend)
	want(t, "the database", answer(t, url, "SELECT current_database()"), answer(t, database, "SELECT current_database()"))
	_, err = first.close()
	must(t, err)

	must(t, b.Stop())
	if _, err := Psql(url, "SELECT 1"); err == nil {
		t.Error("it answers after the stop")
	}
	if _, err := os.Stat(b.home.dir); !os.IsNotExist(err) {
		t.Errorf("the folder after the stop: %v", err)
	}
	must(t, b.Stop())
}

func ask(t *testing.T, s *session, sql string) string {
	t.Helper()
	out, err := s.ask(sql)
	must(t, err)
	return out
}

// TestBouncerRefuses: a PgBouncer that doesn't start says why, and of a port that
// is taken in the words by which StartBouncer tries another.
func TestBouncerRefuses(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer taken.Close()
	_, port, err := net.SplitHostPort(taken.Addr().String())
	must(t, err)
	for _, c := range []struct{ setting, value, says string }{
		{"no_such_setting", "1", "no_such_setting"},
		{"listen_port", port, "in use"},
	} {
		b, err := StartBouncer(Shared(t), map[string]string{c.setting: c.value})
		if err == nil {
			b.Stop()
			t.Fatalf("it started with %s = %s", c.setting, c.value)
		}
		if !strings.Contains(err.Error(), c.says) {
			t.Errorf("with %s = %s: %v", c.setting, c.value, err)
		}
	}
}
