package pgtest

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Standby makes an asynchronous streaming standby of this server: the same
// version and the same data, with the settings of o. It returns when the standby
// takes connections, which may be before it has all commits; see CatchUp.
//
// The copy is made with pg_backup_start, as the manual has it for backups without
// pg_basebackup: the npm packages have none, and that of another version refuses
// the server.
func (s *Server) Standby(o Options) (*Server, error) {
	if s.elsewhere != nil {
		return nil, errElsewhere
	}
	return create(s.bin, func(standby *Server) error {
		standby.primary = s
		if err := s.copyTo(standby.home); err != nil {
			return err
		}
		if err := standby.configure(o); err != nil {
			return err
		}
		return standby.follow(s.port)
	})
}

// follow makes a copy a standby. Where it streams from is said where Detach can
// take it back, after what the primary may have said there about itself.
func (s *Server) follow(port int) error {
	auto, err := os.OpenFile(filepath.Join(s.data(), "postgresql.auto.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(auto, "primary_conninfo = 'host=127.0.0.1 port=%d user=postgres'\n", port)
	return errors.Join(err, auto.Close(), s.home.write("data/standby.signal", ""))
}

// copyTo copies the data folder while the server runs. The backup's session has
// to stay open meanwhile.
func (s *Server) copyTo(h *home) error {
	backup, err := openSession(s.URL("postgres"))
	if err != nil {
		return err
	}
	if _, err := backup.ask("SELECT pg_backup_start('standby', true);"); err != nil {
		return err
	}
	if err := copyData(s.data(), filepath.Join(h.dir, "data"), h); err != nil {
		_, failed := backup.close()
		return errors.Join(err, failed)
	}
	fmt.Fprintln(backup.in, "SELECT labelfile FROM pg_backup_stop(false);")
	label, err := backup.close()
	if err != nil {
		return err
	}
	return h.write("data/backup_label", strings.TrimRight(label, "\n")+"\n")
}

// emptied are the folders whose files a backup leaves out: a server makes them
// anew, and a standby is sent the WAL.
var emptied = []string{"pg_dynshmem", "pg_notify", "pg_replslot", "pg_serial", "pg_snapshots", "pg_stat_tmp",
	"pg_subtrans", "pg_wal"}

// copyData copies a data folder. Files may grow, shrink and vanish under it: the
// WAL since the backup's start puts that right.
func copyData(from, to string, h *home) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		name, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		top, _, below := strings.Cut(filepath.ToSlash(name), "/")
		switch {
		case d.IsDir():
			if err := os.Mkdir(filepath.Join(to, name), 0o700); err != nil {
				return err
			}
			return h.give(filepath.Join(to, name))
		case below && slices.Contains(emptied, top), strings.HasPrefix(name, "postmaster."):
			return nil
		}
		err = copyFile(path, filepath.Join(to, name))
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return errors.Join(err, h.give(filepath.Join(to, name)))
	})
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

var errNoStandby = errors.New("pgtest: this server was not made by Standby")

// CatchUp waits until this standby has all that its primary has committed when
// CatchUp is called.
func (s *Server) CatchUp() error {
	if s.primary == nil {
		return errNoStandby
	}
	end, err := s.primary.Psql("postgres", "SELECT pg_current_wal_flush_lsn()")
	if err != nil {
		return err
	}
	return s.untilTrue("the standby has caught up",
		fmt.Sprintf("SELECT coalesce(pg_last_wal_replay_lsn() >= '%s', false)", end))
}

// Detach cuts this standby off from its primary: of what the primary commits
// from here on, it gets nothing, and after Promote those commits are lost.
func (s *Server) Detach() error {
	if s.primary == nil {
		return errNoStandby
	}
	_, err := s.Psql("postgres", "ALTER SYSTEM SET primary_conninfo = ''; SELECT pg_reload_conf()")
	if err != nil {
		return err
	}
	return s.untilTrue("the standby is cut off",
		"SELECT current_setting('primary_conninfo') = '' AND NOT EXISTS (SELECT FROM pg_stat_wal_receiver)")
}

// Promote makes this standby a primary, on a new timeline, and waits until it
// takes writes.
func (s *Server) Promote() error {
	if s.primary == nil {
		return errNoStandby
	}
	if _, err := s.Psql("postgres", "SELECT pg_promote(false)"); err != nil {
		return err
	}
	return s.untilTrue("the standby is promoted", "SELECT NOT pg_is_in_recovery()")
}

// untilTrue polls a condition in SQL.
func (s *Server) untilTrue(what, sql string) error {
	var failed error
	err := until(what, func() bool {
		answer, err := s.Psql("postgres", sql)
		failed = err
		return err != nil || answer == "t"
	})
	return errors.Join(err, failed)
}
