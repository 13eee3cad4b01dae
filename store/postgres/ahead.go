package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// ahead is an index that a version of the schema adds to a table that may be
// large by then. Its script makes the index where it isn't there; on a large
// table it is built before, while everybody goes on writing, which no
// transaction can do.
type ahead struct {
	index, table, on string
}

// aheadOf are such indexes, by the version that adds them.
var aheadOf = map[int]ahead{2: {"outbox_ring", "outbox", "(at) WHERE ring"}}

// aheadFrom is the size from which on a table counts as large: less is indexed
// in a fraction of a second.
const aheadFrom = 32 << 20

// buildAhead builds what the next version wants, if its table is large. Calling
// it twice is harmless, and so is a process that dies in it.
func (s *Store) buildAhead(ctx context.Context, conn *pgx.Conn, tell func(string)) error {
	have, err := s.version(ctx, conn)
	if err != nil {
		return err
	}
	a, wanted := aheadOf[have+1]
	if !wanted || have == 0 || have >= s.ladder.top {
		return nil
	}
	for n := 1; ; n++ {
		var large, there, valid, building bool
		err := conn.QueryRow(ctx, s.schema.in(`SELECT coalesce(pg_relation_size(to_regclass($1)), 0) >= $3::bigint,
				x.indexrelid IS NOT NULL, coalesce(x.indisvalid, false),
				EXISTS (SELECT FROM pg_stat_progress_create_index p WHERE p.relid = to_regclass($1)::oid)
			FROM (SELECT to_regclass($2)::oid AS index) i LEFT JOIN pg_index x ON x.indexrelid = i.index`),
			s.schema.quoted()+"."+a.table, s.schema.quoted()+"."+a.index, s.ladder.large).
			Scan(&large, &there, &valid, &building)
		switch {
		case err != nil:
			return err
		case valid || !large && !there:
			return nil
		case building: // by another process
			tell("another process builds index " + a.index + "; waiting for it")
			if !pause(ctx, min(n*50, 1000)) {
				return ctx.Err()
			}
		case there:
			tell("removing what is left of index " + a.index + " of a process that died while it built it")
			_, err = conn.Exec(ctx, s.schema.in("DROP INDEX CONCURRENTLY IF EXISTS daybook."+a.index),
				pgx.QueryExecModeSimpleProtocol)
		default:
			tell(fmt.Sprintf("schema %s: building index %s while others go on", s.schema.quoted(), a.index))
			_, err = conn.Exec(ctx, s.schema.in("CREATE INDEX CONCURRENTLY IF NOT EXISTS "+a.index+
				" ON daybook."+a.table+" "+a.on), pgx.QueryExecModeSimpleProtocol)
		}
		if err != nil {
			return err
		}
	}
}
