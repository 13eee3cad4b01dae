package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/internal/nocancel"
)

// tune chooses how a connection is to talk, before it is made. Behind a pooler
// the next transaction may meet another server process, which knows no statement
// prepared before and no setting; the first connection finds out. chosen says
// that the user decided how statements travel.
func (s *Store) tune(ctx context.Context, c *pgx.ConnConfig, chosen bool, settings map[string]string) error {
	s.looking.Lock()
	defer s.looking.Unlock()
	if !s.looked {
		pooled, err := isPooled(ctx, c.Copy())
		if err != nil {
			return err
		}
		s.looked, s.pooled = true, pooled
	}
	if s.pooled {
		c.DialFunc = nocancel.Dial(c.DialFunc)
		if !chosen {
			c.DefaultQueryExecMode = pgx.QueryExecModeExec
		}
		return nil
	}
	for name, value := range settings {
		if _, own := c.RuntimeParams[name]; !own || name == isolation {
			c.RuntimeParams[name] = value
		}
	}
	return nil
}

// isPooled reports whether a pooler stands between: it makes up the process
// number that it greets with.
func isPooled(ctx context.Context, c *pgx.ConnConfig) (bool, error) {
	c.DefaultQueryExecMode = pgx.QueryExecModeExec
	conn, err := pgx.ConnectConfig(ctx, c)
	if err != nil {
		return false, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	var pid uint32
	err = conn.QueryRow(ctx, "SELECT pg_backend_pid()::bigint").Scan(&pid)
	return pid != conn.PgConn().PID(), err
}

// Pooled reports whether the book is reached through a pooler, as far as a
// connection has told.
func (s *Store) Pooled() bool {
	s.looking.Lock()
	defer s.looking.Unlock()
	return s.pooled
}

// ErrReadOnly is why the server that the URL leads to isn't used: it takes no
// writes, as a standby.
var ErrReadOnly error = &daybook.Error{Code: daybook.CodeUnavailable,
	Text: "the server takes no writes (a standby, or read-only by default); name the primary"}

// refuseReadOnly refuses a server that takes no writes: a standby, or a primary
// that was demoted. The next connection may find the new primary.
func refuseReadOnly(ctx context.Context, conn *pgconn.PgConn) error {
	result := conn.ExecParams(ctx, "SHOW transaction_read_only", nil, nil, nil, nil).Read()
	if result.Err != nil {
		return result.Err
	}
	if len(result.Rows) == 1 && string(result.Rows[0][0]) == "on" {
		return ErrReadOnly
	}
	return nil
}
