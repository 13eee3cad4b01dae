package sqlite

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/daybookdev/daybook"
)

// Finding is one thing that doctor looked at.
type Finding struct {
	Name   string `json:"name"`
	Value  string `json:"value"`
	OK     bool   `json:"ok"`
	Advice string `json:"advice,omitempty"` // what to do when it isn't
}

// Doctor reads the settings and states that lose data or slow the book down.
// It changes nothing.
func Doctor(ctx context.Context, book *daybook.Book) ([]Finding, error) {
	s, err := of(book)
	if err != nil {
		return nil, err
	}
	var list []Finding
	note := func(name, value string, ok bool, advice string) {
		if ok {
			advice = ""
		}
		list = append(list, Finding{name, value, ok, advice})
	}
	s.doctorFile(note)
	err = s.alone(ctx, "examining the book", func() error {
		c, err := s.connection()
		if err != nil {
			return err
		}
		return doctorSettings(c, s.clock(), note)
	})
	return list, s.friendly("examining the book", err)
}

type noter func(name, value string, ok bool, advice string)

// doctorFile looks at the file from outside.
func (s *Store) doctorFile(note noter) {
	if s.path == Memory {
		note("file", "in memory", false, "this book ends with its process; name a file with --db sqlite:PATH")
		return
	}
	network, err := networkOf(dirOf(s.path))
	note("file system", orLocal(network), err == nil && network == "", "move the file to a local disk: SQLite can't trust a network's locks")
	if free, err := freeSpace(dirOf(s.path)); err == nil {
		note("free space", strconv.FormatUint(free>>20, 10)+" MiB", free > 256<<20, "free disk space; a full disk stops every write")
	}
	if wal, err := os.Stat(s.path + "-wal"); err == nil {
		note("write-ahead log", strconv.FormatInt(wal.Size()>>20, 10)+" MiB", wal.Size() < 256<<20,
			"some process holds an old snapshot open; find and end it")
	}
}

func orLocal(network string) string {
	if network == "" {
		return "local"
	}
	return network
}

func doctorSettings(c *conn, now daybook.Time, note noter) error {
	for _, p := range []struct {
		name, query, want, advice string
	}{
		{"journal mode", "PRAGMA journal_mode", "wal", "the book sets it on a local disk; is the file somewhere special?"},
		{"synchronous", "PRAGMA synchronous", "2", "open the book without the fast option: a power loss may take accepted jobs"},
		{"integrity", "PRAGMA quick_check(1)", "ok", "the file is damaged; restore a backup, then daybook schema restored --since TIME"},
		{"schema version", "PRAGMA user_version", strconv.Itoa(schemaVersion), "open the book once with this daybook to upgrade it"},
	} {
		v, err := one(c, p.query)
		if err != nil {
			return err
		}
		value := text(v)
		if n, ok := v.(int64); ok {
			value = strconv.FormatInt(n, 10)
		}
		note(p.name, value, value == p.want || p.name == "journal mode" && value == "memory", p.advice)
	}
	version, err := one(c, "SELECT sqlite_version()")
	if err != nil {
		return err
	}
	note("SQLite", text(version), !older(text(version), MinVersion), "needs "+MinVersion+" or newer")
	return doctorBook(c, now, note)
}

// doctorBook looks at what the book says of itself.
func doctorBook(c *conn, now daybook.Time, note noter) error {
	unfolded, err := one(c, "SELECT count(*) FROM outbox WHERE at < ?", int64(now.Add(-time.Hour)))
	if err != nil {
		return err
	}
	note("counting rows older than an hour", fmt.Sprint(num(unfolded)), num(unfolded) == 0,
		"no reconciler runs: start daybook work or daybook reconcile")
	const setting = "SELECT value FROM setting WHERE name = ?"
	behind, err := one(c, setting, daybook.SettingBookBehind)
	if err != nil {
		return err
	}
	note("lost commits", orNone(text(behind)), behind == nil,
		"an owner held a generation that the book never gave: commits were lost; run daybook schema restored --since TIME")
	pass, err := one(c, setting, daybook.SettingPass)
	if err != nil {
		return err
	}
	last, err := daybook.ParseTime("pass", text(pass))
	note("last reconciler's pass", orNone(text(pass)), err == nil && now.Sub(last) < 10*time.Minute,
		"no reconciler runs: start daybook work or daybook reconcile")
	return nil
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}
