package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/daybookdev/daybook"
)

// lookForPooler finds out whether a pooler stands between: it makes up the
// process number that it greets with. Behind one, the next transaction may meet
// another server process, which knows no statement prepared before.
func (s *Store) lookForPooler(ctx context.Context, conn *pgx.Conn) error {
	var pid uint32
	if err := conn.QueryRow(ctx, "SELECT pg_backend_pid()::bigint", pgx.QueryExecModeExec).Scan(&pid); err != nil {
		return err
	}
	if pid == conn.PgConn().PID() {
		return nil
	}
	s.pooled.Store(true)
	conn.Config().DefaultQueryExecMode = pgx.QueryExecModeExec
	return nil
}

// refuseReadOnly refuses a server that takes no writes: a standby, or a primary
// that was demoted. The next connection may find the new primary.
func refuseReadOnly(ctx context.Context, conn *pgconn.PgConn) error {
	result := conn.ExecParams(ctx, "SHOW transaction_read_only", nil, nil, nil, nil).Read()
	if result.Err != nil {
		return result.Err
	}
	if len(result.Rows) == 1 && string(result.Rows[0][0]) == "on" {
		return daybook.Fail(daybook.CodeUnavailable, "the server takes no writes (a standby?)")
	}
	return nil
}
