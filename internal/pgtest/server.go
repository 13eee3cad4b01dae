package pgtest

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/daybookdev/daybook/internal/testserver"
)

// Options of a server. The zero value is the newest server there is, with
// settings for tests.
type Options struct {
	// Version is the major version, such as "15"; see Binaries.
	Version string
	// Durable leaves alone what tests turn off: then a commit survives the
	// machine. Without it, as with it, a commit survives the server's death.
	Durable bool
	// Settings go into postgresql.conf, after those of this package, which are
	// few. ALTER SYSTEM overrides both.
	Settings map[string]string
}

// Server is one PostgreSQL server of ours. Its methods may be called by several
// goroutines; those that stop and start it wait for each other.
type Server struct {
	home *home
	bin  string
	port int

	primary   *Server  // of a standby
	elsewhere *url.URL // instead of all else: a server that we didn't start

	mu      sync.Mutex
	process *process // nil while none runs
}

// Start makes a server in a folder of its own and waits until it takes
// connections. Stop it in the end.
func Start(o Options) (*Server, error) {
	bin, err := Binaries(o.Version)
	if err != nil {
		return nil, err
	}
	return create(bin, func(s *Server) error {
		initdb := s.home.command(filepath.Join(bin, "initdb"), "--pgdata", s.data(), "--username", "postgres",
			"--auth", "trust", "--encoding", "UTF8", "--locale", "C", "--no-sync", "--no-instructions")
		if err := s.home.run(initdb); err != nil {
			return err
		}
		return s.configure(o)
	})
}

// create makes a server whose folder is filled by fill, and starts it.
func create(bin string, fill func(*Server) error) (*Server, error) {
	h, err := newHome()
	if err != nil {
		return nil, err
	}
	s := &Server{home: h, bin: bin}
	if err := fill(s); err != nil {
		return nil, errors.Join(fmt.Errorf("pgtest: making a server: %w", err), h.remove())
	}
	if err := s.startSomewhere(); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

// startSomewhere starts the server at a free port, at another if somebody takes
// it first.
func (s *Server) startSomewhere() error {
	for try := 1; ; try++ {
		port, err := testserver.FreePort()
		if err != nil {
			return err
		}
		s.port = port
		err = s.StartAgain()
		if err == nil || try == 10 || !strings.Contains(err.Error(), "could not bind") {
			return err
		}
	}
}

const settingsFile = "pgtest.conf"

// configure writes the settings. What isn't said stays PostgreSQL's default.
func (s *Server) configure(o Options) error {
	settings := map[string]string{
		"listen_addresses":        "127.0.0.1",
		"unix_socket_directories": s.home.dir,
		"max_connections":         "200",
		"shared_buffers":          "128MB",
		"wal_keep_size":           "512MB", // so that a standby may be away
		"timezone":                "UTC",
		"log_timezone":            "UTC",
		"log_line_prefix":         "%m [%p] %q%u@%d %a ",
	}
	if !o.Durable {
		settings["fsync"] = "off"
		settings["full_page_writes"] = "off"
		settings["dynamic_shared_memory_type"] = "mmap" // in the folder, so that it goes with it
	}
	maps.Copy(settings, o.Settings)
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		fmt.Fprintf(&b, "%s = '%s'\n", name, strings.ReplaceAll(settings[name], "'", "''"))
	}
	if err := s.home.write(filepath.Join("data", settingsFile), b.String()); err != nil {
		return err
	}
	return s.home.write(filepath.Join("data", "postgresql.conf"), "include '"+settingsFile+"'\n")
}

// data is the data folder.
func (s *Server) data() string { return filepath.Join(s.home.dir, "data") }

// Port is the server's TCP port on 127.0.0.1. It stays the same when the server
// is started again.
func (s *Server) Port() int {
	if s.elsewhere == nil {
		return s.port
	}
	port, err := strconv.Atoi(s.elsewhere.Port())
	if err != nil {
		return 5432
	}
	return port
}

// Dir is the server's folder, with its socket, its log and the folder data. It
// is "" for a server that we didn't start.
func (s *Server) Dir() string {
	if s.elsewhere != nil {
		return ""
	}
	return s.home.dir
}

// URL is where to connect to a database of this server as its superuser.
func (s *Server) URL(database string) string {
	if s.elsewhere != nil {
		u := *s.elsewhere
		u.Path = "/" + database
		return u.String()
	}
	return localURL(s.port, database)
}

func localURL(port int, database string) string {
	return fmt.Sprintf("postgres://postgres@127.0.0.1:%d/%s?sslmode=disable", port, url.PathEscape(database))
}

// Log is the end of the server's log, at most 16 KB.
func (s *Server) Log() string {
	if s.elsewhere != nil {
		return ""
	}
	return s.home.logTail()
}

// ready reports whether the server that is this process takes connections. It
// says so in its lock file, which is also what pg_ctl reads.
func (s *Server) ready(pid int) bool {
	text, err := os.ReadFile(filepath.Join(s.data(), "postmaster.pid"))
	if err != nil {
		return false
	}
	lines := strings.Split(string(text), "\n")
	const status = 7 // the eighth line
	return len(lines) > status && lines[0] == strconv.Itoa(pid) && strings.TrimSpace(lines[status]) == "ready"
}
