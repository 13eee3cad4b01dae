package postgres

import (
	"context"
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/daybookdev/daybook"
)

// Level is how much a finding matters.
type Level string

// The levels: nothing to do, something that will hurt, something that hurts or
// loses jobs.
const (
	LevelOK   Level = "ok"
	LevelWarn Level = "warn"
	LevelBad  Level = "bad"
)

// Finding is one thing that doctor looked at.
type Finding struct {
	Name   string `json:"name"`
	Value  string `json:"value"`
	OK     bool   `json:"ok"` // the level is ok
	Level  Level  `json:"level"`
	Advice string `json:"advice,omitempty"` // what to do when it isn't
}

// exam is one visit of the doctor.
type exam struct {
	*unit
	s      *Store
	now    daybook.Time
	old    time.Duration // a snapshot that is held so long is a warning, ten times as long is bad
	pooled bool
	list   []Finding
}

// oldSnapshot is when a snapshot begins to hurt: at a thousand jobs a second
// there are then some hundred thousand rows that vacuum may not take.
const oldSnapshot = time.Minute

// Doctor reads the settings and states that lose data or slow the book down.
// It changes nothing.
func Doctor(ctx context.Context, book *daybook.Book) ([]Finding, error) {
	s, err := of(book)
	if err != nil {
		return nil, err
	}
	return s.examine(ctx, oldSnapshot)
}

func (s *Store) examine(ctx context.Context, old time.Duration) (list []Finding, err error) {
	err = s.transact(ctx, beginLook, func(u *unit) error {
		e := &exam{unit: u, s: s, old: old}
		for _, part := range []func(*exam) error{(*exam).server, (*exam).settings, (*exam).roles, (*exam).clock,
			(*exam).connections, (*exam).indexes, (*exam).tables, (*exam).sessions, (*exam).prepared, (*exam).slots,
			(*exam).book} {
			if err := part(e); err != nil {
				return err
			}
		}
		list = e.list
		return nil
	})
	return list, s.schema.friendly("examining the book", err)
}

func (e *exam) note(name string, level Level, value, advice string) {
	if level == LevelOK {
		advice = ""
	}
	e.list = append(e.list, Finding{Name: name, Value: plainLine(value), OK: level == LevelOK, Level: level,
		Advice: plainLine(advice)})
}

// unless is the level of what is right or wrong.
func (l Level) unless(right bool) Level {
	if right {
		return LevelOK
	}
	return l
}

// server looks at what the database is.
func (e *exam) server() error {
	return e.rows(`SELECT current_setting('server_version'), current_setting('server_version_num')::int,
		pg_is_in_recovery(), current_setting('default_transaction_read_only'), current_setting('server_encoding'),
		daybook.clock(), pg_backend_pid()`, nil,
		func(row []any) error {
			e.now = at(row[5])
			e.note("PostgreSQL", LevelBad.unless(num(row[1]) >= 150000), text(row[0]), "needs 15 or newer")
			role, level := "primary", LevelOK
			switch {
			case truth(row[2]):
				role, level = "standby", LevelBad
			case text(row[3]) != "off":
				role, level = "primary, read-only by default", LevelBad
			}
			e.note("role", level, role, "the book writes: name the primary in the URL, or several hosts with "+
				"target_session_attrs=read-write; ALTER DATABASE … RESET default_transaction_read_only")
			e.note("encoding", LevelBad.unless(text(row[4]) == "UTF8"), text(row[4]),
				"args can't be kept as given: make a database with ENCODING 'UTF8' and move the book there")
			e.pooler(num(row[6]))
			return nil
		})
}

// pooler looks whether one stands between, as lookForPooler does, whatever the
// URL says of how queries are sent.
func (e *exam) pooler(pid int64) {
	l, ok := e.sender.(*line)
	if e.pooled = ok && pid != int64(l.conn.Conn().PgConn().PID()); e.pooled {
		e.note("pooler", LevelOK, "one in transaction mode: statements aren't prepared, "+
			"and a postgres: bell needs the server's own address", "")
		return
	}
	e.note("pooler", LevelOK, "none, or one in session mode", "")
}

// book looks at what the book says of itself.
func (e *exam) book() error {
	settings := map[string]string{}
	err := e.rows("SELECT name, value FROM daybook.setting", nil, func(row []any) error {
		settings[text(row[0])] = text(row[1])
		return nil
	})
	if err != nil {
		return err
	}
	version := settings[daybook.SettingSchema]
	e.note("schema version", LevelWarn.unless(version == fmt.Sprint(Version)), version,
		fmt.Sprintf("this program knows version %d: run daybook schema up, or replace the program", Version))
	unfolded, err := e.one("SELECT count(*) FROM daybook.outbox WHERE at < $1::bigint", int64(e.now.Add(-time.Hour)))
	if err != nil {
		return err
	}
	const nobody = "no reconciler runs: start daybook work or daybook reconcile"
	e.note("counting rows older than an hour", LevelWarn.unless(num(unfolded) == 0), fmt.Sprint(num(unfolded)), nobody)
	if err := e.history(nobody); err != nil {
		return err
	}
	behind := settings[daybook.SettingBookBehind]
	e.note("lost commits", LevelBad.unless(behind == ""), orNone(behind),
		"an owner held a generation that the book never gave: commits were lost; run daybook schema restored --since TIME")
	lifted := settings[daybook.SettingIncarnation]
	if lifted != "" && lifted != "0" {
		lifted += ": commits may have been lost as often, in a failover or a restore; generations were lifted each time"
	}
	e.note("incarnation", LevelOK, orNone(lifted), "")
	pass := settings[daybook.SettingPass]
	last, err := daybook.ParseTime("pass", pass)
	recent := err == nil && e.now.Sub(last) < 10*time.Minute
	e.note("last reconciler's pass", LevelWarn.unless(recent), orNone(pass), nobody)
	return nil
}

// The rest of the history, which has no day of its own, must stay small: else
// make_day makes no more days.
const restLarge, restTooLarge = 64 << 20, 256 << 20

// history looks whether there is a day for tomorrow, and what has none.
func (e *exam) history(nobody string) error {
	return e.rows(`SELECT coalesce((SELECT max(to_at) FROM daybook.history_day), 0),
		coalesce((SELECT pg_total_relation_size(x.tableoid) FROM daybook.ended_rest x LIMIT 1), 0)`, nil,
		func(row []any) error {
			until, rest := at(row[0]), num(row[1])
			level, advice := LevelOK, nobody
			switch {
			case rest > restTooLarge:
				level, advice = LevelBad, "so much of it has no day that no day can be made: prune what is in ended_rest"
			case until < e.now.Add(24*time.Hour), rest > restLarge:
				level = LevelWarn
			}
			e.note("history", level, fmt.Sprintf("days up to %.10s, %d MiB without a day", until, rest>>20), advice)
			return nil
		})
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

// elapsed reads a number of seconds.
func elapsed(v any) time.Duration { return time.Duration(num(v)) * time.Second }

// plainLine takes out what would steer a terminal: names are anybody's.
func plainLine(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return '?'
		}
		return r
	}, s)
}

func join(list []string) string { return strings.Join(list, ", ") }
