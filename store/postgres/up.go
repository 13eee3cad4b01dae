package postgres

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/daybookdev/daybook"
)

// The schema's scripts. Each numbered one takes the schema one version forward;
// there is no way back. The functions are replaced as a whole at every upgrade.
//
//go:embed sql
var scripts embed.FS

// ladder is the scripts and the version that they lead to.
type ladder struct {
	files fs.FS
	top   int
}

var steps = ladder{scripts, Version}

// Version is the schema's version that this program writes, and OldestVersion
// the oldest that it can work on. A newer schema says itself which programs may
// stay (SettingOldest), so that workers can be replaced one by one.
const (
	Version       = 1
	OldestVersion = 1
	settingOldest = "schema_oldest" // the oldest Version of a program that the schema serves
)

// lockPatience bounds how long an upgrade waits for a table, since everybody
// who comes later waits behind it. It tries again until the context ends.
const lockPatience = "500ms"

// Status is what a database has of the book's schema.
type Status struct {
	Schema  string `json:"schema"`
	Version int    `json:"version"` // 0 is no schema
	Wanted  int    `json:"wanted"`
}

// Up makes the schema or takes it forward, under a lock, each version in a
// transaction of its own. Calling it twice, or from many processes, is
// harmless. tell, which may be nil, hears what is done.
func Up(ctx context.Context, url string, o Options, tell func(string)) (Status, error) {
	s, err := newStore(url, o)
	if err != nil {
		return Status{}, err
	}
	defer s.Close()
	return s.up(ctx, tell)
}

func (s *Store) up(ctx context.Context, tell func(string)) (Status, error) {
	if tell == nil {
		tell = func(string) {}
	}
	for n := 1; ; n++ {
		err := s.upgrade(ctx, tell)
		if stateOf(err) == stateLockTimeout && ctx.Err() == nil {
			tell("a table is in use; trying again")
			if pause(ctx, min(n*50, 1000)) {
				continue
			}
		}
		if err != nil {
			return Status{}, s.schema.friendly("making the schema", err)
		}
		return s.status(ctx)
	}
}

// StatusOf tells which schema a database has.
func StatusOf(ctx context.Context, url string, o Options) (Status, error) {
	s, err := newStore(url, o)
	if err != nil {
		return Status{}, err
	}
	defer s.Close()
	return s.status(ctx)
}

func (s *Store) upgrade(ctx context.Context, tell func(string)) error {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return errors.Join(errBroken, err)
	}
	defer conn.Release()
	for {
		done, err := s.upgradeOnce(ctx, conn.Conn(), tell)
		if err != nil || done {
			return err
		}
	}
}

// upgradeOnce takes the schema one version forward.
func (s *Store) upgradeOnce(ctx context.Context, conn *pgx.Conn, tell func(string)) (done bool, err error) {
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
	if err != nil {
		return false, err
	}
	defer tx.Rollback(context.WithoutCancel(ctx))
	setup := "SET LOCAL lock_timeout = '" + lockPatience + "'; SET LOCAL client_min_messages = warning; " +
		"SET LOCAL check_function_bodies = off; " +
		"SELECT pg_advisory_xact_lock(hashtext('daybook schema'), hashtext('" + escapeText(string(s.schema)) + "'))"
	if _, err := tx.Exec(ctx, setup, pgx.QueryExecModeSimpleProtocol); err != nil {
		return false, err
	}
	have, err := s.version(ctx, tx)
	if err != nil || have >= s.ladder.top {
		return true, err
	}
	script, err := s.script(have + 1)
	if err != nil {
		return false, err
	}
	tell(fmt.Sprintf("schema %s: version %d to %d", s.schema.quoted(), have, have+1))
	if _, err := tx.Exec(ctx, script, pgx.QueryExecModeSimpleProtocol); err != nil {
		return false, err
	}
	return have+1 == s.ladder.top, tx.Commit(ctx)
}

// script is all that takes the schema to a version.
func (s *Store) script(version int) (string, error) {
	names, err := fs.Glob(s.ladder.files, fmt.Sprintf("sql/%03d_*.sql", version))
	if err != nil {
		return "", err
	}
	if version == s.ladder.top {
		functions, err := fs.Glob(s.ladder.files, "sql/functions_*.sql")
		if err != nil {
			return "", err
		}
		names = append(names, functions...)
	}
	var b strings.Builder
	if version == 1 {
		fmt.Fprintf(&b, "CREATE SCHEMA IF NOT EXISTS %s;\n", s.schema.quoted())
	}
	for _, name := range names {
		text, err := fs.ReadFile(s.ladder.files, name)
		if err != nil {
			return "", err
		}
		b.WriteString(s.schema.in(string(text)))
		b.WriteString("\n")
	}
	if s.opts.Now != nil {
		b.WriteString(s.schema.in(shiftedClock))
	}
	put := "INSERT INTO daybook.setting (name, value) VALUES ('%s', '%v') " +
		"ON CONFLICT (name) DO UPDATE SET value = excluded.value;\n"
	b.WriteString(s.schema.in(fmt.Sprintf(put+put, daybook.SettingSchema, version, settingOldest, OldestVersion)))
	if version == 1 {
		b.WriteString(s.schema.in(fmt.Sprintf(
			"INSERT INTO daybook.setting (name, value) VALUES ('%s', '%s') ON CONFLICT DO NOTHING;\n",
			daybook.SettingCreated, daybook.At(time.Now()))))
	}
	return b.String(), nil
}

// shiftedClock is the clock of a book that is opened with Options.Now.
const shiftedClock = `CREATE OR REPLACE FUNCTION daybook.clock() RETURNS bigint LANGUAGE sql VOLATILE PARALLEL SAFE
	AS $$ SELECT coalesce(nullif(current_setting('daybook_test.now', true), '')::bigint,
		(extract(epoch FROM clock_timestamp()) * 1000000)::bigint) $$;
`

// Script prints what Up would run on an empty database.
func Script(o Options) (string, error) {
	if o.Schema == "" {
		o.Schema = SchemaDefault
	}
	if err := checkSchema(o.Schema); err != nil {
		return "", err
	}
	s := &Store{schema: schema(o.Schema), opts: o, ladder: steps}
	var all []string
	for v := 1; v <= Version; v++ {
		text, err := s.script(v)
		if err != nil {
			return "", err
		}
		all = append(all, text)
	}
	return strings.Join(all, "\n"), nil
}

// version reads the schema's version; no schema is 0.
func (s *Store) version(ctx context.Context, q interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}) (int, error) {
	var there bool
	err := q.QueryRow(ctx, "SELECT to_regclass($1::text) IS NOT NULL", s.schema.quoted()+".setting").Scan(&there)
	if err != nil || !there {
		return 0, err
	}
	var text string
	err = q.QueryRow(ctx, s.schema.in("SELECT value FROM daybook.setting WHERE name = 'schema'")).Scan(&text)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(text)
}

func (s *Store) status(ctx context.Context) (Status, error) {
	have, err := s.version(ctx, s.pool)
	return Status{Schema: string(s.schema), Version: have, Wanted: Version},
		s.schema.friendly("looking for the schema", err)
}

// checkVersion refuses a schema that this program can't work on.
func (s *Store) checkVersion(ctx context.Context) error {
	status, err := s.status(ctx)
	if err != nil {
		return err
	}
	switch {
	case status.Version == 0:
		return daybook.Invalid("db", "%s has no book in schema %s; run daybook schema up", s.where, s.schema.quoted())
	case status.Version < OldestVersion:
		return daybook.Invalid("db", "the book's schema is version %d and this program needs %d; run daybook schema up",
			status.Version, OldestVersion)
	case status.Version <= Version:
		return nil
	}
	var oldest int
	err = s.pool.QueryRow(ctx, s.schema.in("SELECT value::int FROM daybook.setting WHERE name = $1"),
		settingOldest).Scan(&oldest)
	if err != nil {
		return s.schema.friendly("looking for the schema", err)
	}
	if oldest > Version {
		return daybook.Invalid("db",
			"the book's schema is version %d, too new for this program, which knows %d; use a newer one",
			status.Version, Version)
	}
	return nil
}

func escapeText(s string) string { return strings.ReplaceAll(s, "'", "''") }

// versions lists the numbered scripts, for tests.
func versions() (list []string) {
	list, _ = fs.Glob(scripts, "sql/0*.sql")
	slices.Sort(list)
	return list
}
