package main

import (
	"context"
	"os/exec"
	"time"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/drill"
	"github.com/daybookdev/daybook/internal/pgtest"
)

// drillPower is the power over a server that the flags give to a drill, or none.
func (a *app) drillPower(f drillFlags) (power drill.Power, stop func() error, err error) {
	stop = func() error { return nil }
	switch {
	case f.ownServer:
		server, err := pgtest.Start(pgtest.Options{Settings: map[string]string{"max_connections": "500"}})
		if err != nil {
			return nil, stop, exitError{statusFailed, "the drill can't start a PostgreSQL of its own: " + err.Error()}
		}
		a.flags.db = server.URL("postgres")
		return ownServer{server}, server.Stop, nil
	case f.restart != "":
		return restartCommand{a, f.restart}, stop, nil
	}
	return nil, stop, nil
}

// ownServer is a PostgreSQL that the drill started.
type ownServer struct{ *pgtest.Server }

// Restart restarts it.
func (s ownServer) Restart(context.Context) error { return s.Server.Restart() }

// CanReadOnly says yes: nobody else is on it.
func (s ownServer) CanReadOnly() bool { return true }

// ReadOnly makes it read only for every transaction that begins, or lets it be
// written again.
func (s ownServer) ReadOnly(_ context.Context, on bool) error {
	set := "ALTER SYSTEM RESET default_transaction_read_only"
	if on {
		set = "ALTER SYSTEM SET default_transaction_read_only = on"
	}
	for _, statement := range []string{set, "SELECT pg_reload_conf()"} {
		if _, err := s.Psql("postgres", statement); err != nil {
			return daybook.Unavailable("making the server read only, or not", err)
		}
	}
	return nil
}

// restartCommand is a server that a command of the user's restarts.
type restartCommand struct {
	app     *app
	command string
}

// restartMost bounds a restart.
const restartMost = 5 * time.Minute

// Restart runs the command and waits until the server takes connections.
func (r restartCommand) Restart(ctx context.Context) error {
	ctx, stop := context.WithTimeout(ctx, restartMost)
	defer stop()
	cmd := exec.CommandContext(ctx, "sh", "-c", r.command)
	cmd.Stdout, cmd.Stderr = r.app.stderr, r.app.stderr
	if err := cmd.Run(); err != nil {
		return exitError{statusFailed, "--restart-cmd failed: " + err.Error()}
	}
	for {
		db, err := postgresServer{url: r.app.flags.db}.connect(ctx, "daybook-drill-waits")
		if err == nil {
			return db.Close()
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// CanReadOnly says no: the server may be others' too.
func (restartCommand) CanReadOnly() bool { return false }

// ReadOnly does nothing.
func (restartCommand) ReadOnly(context.Context, bool) error { return nil }
