package pgtest

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/daybookdev/daybook/internal/testserver"
)

// Bouncer is a PgBouncer before a server, in transaction mode: between two
// transactions a client's connection may get another one to the server.
type Bouncer struct {
	home    *home
	port    int
	process *process
}

// NewBouncer is StartBouncer for a test, which stops it when it ends.
func NewBouncer(t testing.TB, s *Server, settings map[string]string) *Bouncer {
	t.Helper()
	b, err := StartBouncer(s, settings)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Stop(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// StartBouncer starts a PgBouncer and waits until it takes connections. What the
// settings don't say is that version's default: 1.18, as Debian 12 has it, knows
// no prepared statements; from 1.21 on, max_prepared_statements is a setting.
func StartBouncer(s *Server, settings map[string]string) (*Bouncer, error) {
	program, err := bouncerProgram()
	if err != nil {
		return nil, err
	}
	h, err := newHome()
	if err != nil {
		return nil, err
	}
	b := &Bouncer{home: h}
	for try := 1; ; try++ {
		err = b.start(program, s, settings)
		if err == nil || try == 10 || !strings.Contains(err.Error(), "in use") {
			break
		}
	}
	if err != nil {
		return nil, errors.Join(err, b.Stop())
	}
	return b, nil
}

// bouncerProgram finds PgBouncer. Debian has it where only root's PATH leads.
func bouncerProgram() (string, error) {
	if path, err := exec.LookPath("pgbouncer"); err == nil {
		return path, nil
	}
	if hasProgram("/usr/sbin", "pgbouncer") {
		return "/usr/sbin/pgbouncer", nil
	}
	return "", errors.New("pgtest: PgBouncer is not installed: `apt-get install -y pgbouncer`, or as your system has it")
}

func (b *Bouncer) start(program string, s *Server, settings map[string]string) error {
	var err error
	if b.port, err = testserver.FreePort(); err != nil {
		return err
	}
	if err := b.home.write("pgbouncer.ini", b.config(s, settings)); err != nil {
		return err
	}
	cmd := b.home.command(program, filepath.Join(b.home.dir, "pgbouncer.ini"))
	if b.process, err = b.home.launch(cmd); err != nil {
		return fmt.Errorf("pgtest: %w", err)
	}
	listening := fmt.Sprintf("listening on 127.0.0.1:%d\n", b.port)
	err = until("PgBouncer takes connections", func() bool {
		return b.process.hasEnded() || strings.Contains(b.home.logSince(b.process.since), listening)
	})
	if b.process.hasEnded() {
		err = errors.New("pgtest: PgBouncer did not start")
	}
	if err != nil {
		return fmt.Errorf("%w; it said:\n%s", err, b.home.logSince(b.process.since))
	}
	return nil
}

// config has every database of the server, for one user whatever the client says.
func (b *Bouncer) config(s *Server, more map[string]string) string {
	user, password, host := "postgres", "", "127.0.0.1"
	if u := s.elsewhere; u != nil {
		user, host = u.User.Username(), u.Hostname()
		password, _ = u.User.Password()
	}
	settings := map[string]string{
		"pool_mode":       "transaction",
		"listen_addr":     "127.0.0.1",
		"listen_port":     strconv.Itoa(b.port),
		"unix_socket_dir": "", // or it would go on without a port
		"auth_type":       "any",
		// A suite's thousand schemas would pile up in the server's few processes, and
		// each change of a table makes such a process look through all it remembers.
		"server_lifetime": "10",
	}
	maps.Copy(settings, more)
	var text strings.Builder
	fmt.Fprintf(&text, "[databases]\n* = host=%s port=%d user=%s", host, s.Port(), user)
	if password != "" { // an empty one is a syntax error
		fmt.Fprintf(&text, " password='%s'", strings.ReplaceAll(password, "'", "''"))
	}
	text.WriteString("\n[pgbouncer]\n")
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		fmt.Fprintf(&text, "%s = %s\n", name, settings[name])
	}
	return text.String()
}

// URL is where to connect to a database of the server through this PgBouncer.
func (b *Bouncer) URL(database string) string { return localURL(b.port, database) }

// Through leads a URL of the server's, such as Database's, through this PgBouncer.
func (b *Bouncer) Through(server string) (string, error) {
	u, err := url.Parse(server)
	if err != nil {
		return "", fmt.Errorf("pgtest: %w", err)
	}
	return b.URL(strings.TrimPrefix(u.Path, "/")), nil
}

// Log is the end of PgBouncer's log, at most 16 KB.
func (b *Bouncer) Log() string { return b.home.logTail() }

// Stop cuts the clients off and removes the folder. It may be called again.
func (b *Bouncer) Stop() error {
	if b.process != nil {
		b.process.cmd.Process.Kill() // it keeps nothing; asked to end, it would wait for its clients
		b.home.ended(b.process)
	}
	return b.home.remove()
}
