package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/daybookdev/daybook/internal/pgtest"
)

// postgresServer is a PostgreSQL of the bench's own. Each trial gets a fresh
// database in it.
type postgresServer struct {
	*pgtest.Server
	version   string
	settings  map[string]string // that differ from the defaults
	databases int
}

// startPostgres makes a server and waits until it takes connections; more are
// names and values of settings.
func startPostgres(ctx context.Context, c config, dir string, more ...string) (*postgresServer, error) {
	if c.dir != "" { // the server's folder too
		if err := os.Setenv("TMPDIR", filepath.Dir(dir)); err != nil {
			return nil, err
		}
	}
	settings := map[string]string{"shared_buffers": sharedBuffers(), "max_wal_size": "4GB", "fsync": "on",
		"synchronous_commit": "on", "max_connections": "100", "wal_keep_size": "0"}
	for i := 0; i+1 < len(more); i += 2 {
		settings[more[i]] = more[i+1]
	}
	s, err := pgtest.Start(pgtest.Options{Version: c.pg, Durable: true, Settings: settings})
	if err != nil {
		return nil, err
	}
	p := &postgresServer{Server: s, settings: settings}
	if err := p.value(ctx, "SHOW server_version", &p.version); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return p, nil
}

// sharedBuffers is 2 GB, or a quarter of a small memory.
func sharedBuffers() string {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return "1GB"
	}
	var kilobytes int
	if _, err := fmt.Sscanf(string(text), "MemTotal: %d kB", &kilobytes); err != nil {
		return "1GB"
	}
	return fmt.Sprintf("%dMB", min(2048, kilobytes/1024/4))
}

// room is a fresh database, behind a checkpoint, so that no trial pays for the
// pages that an earlier one wrote.
func (p *postgresServer) room(ctx context.Context) (string, func(), error) {
	p.databases++
	name := fmt.Sprintf("bench%d", p.databases)
	if err := p.exec(ctx, "postgres", "CREATE DATABASE "+name, "CHECKPOINT"); err != nil {
		return "", nil, err
	}
	drop := func() { p.exec(context.WithoutCancel(ctx), "postgres", "DROP DATABASE "+name+" WITH (FORCE)") }
	return p.URL(name), drop, nil
}

// exec runs statements through a connection of their own.
func (p *postgresServer) exec(ctx context.Context, database string, statements ...string) error {
	return withConn(ctx, p.URL(database), func(conn *pgx.Conn) error {
		for _, s := range statements {
			if _, err := conn.Exec(ctx, s); err != nil {
				return fmt.Errorf("%s: %w", s, err)
			}
		}
		return nil
	})
}

// value reads one value.
func (p *postgresServer) value(ctx context.Context, query string, into any) error {
	return withConn(ctx, p.URL("postgres"), func(conn *pgx.Conn) error {
		return conn.QueryRow(ctx, query).Scan(into)
	})
}

// analyze tells the planner what has been loaded.
func analyze(ctx context.Context, url string) error {
	return withConn(ctx, url, func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, "ANALYZE")
		return err
	})
}

func withConn(ctx context.Context, url string, fn func(*pgx.Conn) error) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	return errors.Join(fn(conn), conn.Close(ctx))
}

// written is how many bytes of write-ahead log there are so far.
func (p *postgresServer) written(ctx context.Context) (bytes float64, err error) {
	err = p.value(ctx, "SELECT (pg_current_wal_insert_lsn() - '0/0')::float8", &bytes)
	return bytes, err
}

// about is the line for the table's notes.
func (p *postgresServer) about() string {
	var said []string
	for _, name := range slices.Sorted(maps.Keys(p.settings)) {
		if name != "wal_keep_size" && name != "max_connections" { // those are PostgreSQL's own defaults
			said = append(said, name+"="+p.settings[name])
		}
	}
	return "PostgreSQL " + p.version + " over TCP: " + strings.Join(said, ", ") + ", else its defaults"
}
