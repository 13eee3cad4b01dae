package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/daybookdev/daybook"
)

// Snapshot is the oldest one that somebody holds: no row that was deleted since
// can be vacuumed, in any table of the database.
type Snapshot struct {
	PID         int64
	Application string
	User        string
	State       string        // as pg_stat_activity has it, such as "idle in transaction"
	Age         time.Duration // since its transaction began
	XIDs        int64         // transactions that wrote since
}

// OldestSnapshot tells who holds the oldest snapshot of the book's database;
// false is nobody. It is for alarms: claims get slower while it is held.
func OldestSnapshot(ctx context.Context, book *daybook.Book) (held Snapshot, found bool, err error) {
	s, err := of(book)
	if err != nil {
		return held, false, err
	}
	err = s.transact(ctx, beginLook, func(u *unit) error {
		held, found, err = (&exam{unit: u, s: s}).oldest()
		return err
	})
	return held, found, s.schema.friendly("looking for old snapshots", err)
}

// oldest asks for who holds most back: of the same transactions, the longest.
// Vacuum's own snapshots hold nothing back, and other databases' don't reach
// here, but a standby's feedback, which has no database, does.
func (e *exam) oldest() (held Snapshot, found bool, err error) {
	err = e.rows(`SELECT a.pid, a.application_name, coalesce(a.usename, ''), coalesce(a.state, a.backend_type),
			coalesce(extract(epoch FROM clock_timestamp() - coalesce(a.xact_start, a.backend_start)), 0)::bigint,
			greatest(age(a.backend_xmin), age(a.backend_xid))
		FROM pg_stat_activity a WHERE (a.backend_xmin IS NOT NULL OR a.backend_xid IS NOT NULL)
			AND (a.datname = current_database() OR a.datname IS NULL) AND a.pid <> pg_backend_pid()
			AND NOT EXISTS (SELECT FROM pg_stat_progress_vacuum v WHERE v.pid = a.pid)
		ORDER BY 6 DESC, 5 DESC LIMIT 1`, nil, func(row []any) error {
		held, found = Snapshot{PID: num(row[0]), Application: text(row[1]), User: text(row[2]), State: text(row[3]),
			Age: elapsed(row[4]), XIDs: num(row[5])}, true
		return nil
	})
	return held, found, err
}

// String names the process and how long it has held the snapshot.
func (s Snapshot) String() string {
	return fmt.Sprintf("pid %d (application %s, user %s), %s, for %v and %d transactions",
		s.PID, orNone(s.Application), orNone(s.User), s.State, s.Age, s.XIDs)
}

// blames is what to do about who holds a snapshot longer than that; nobody
// does is "".
func (s Snapshot) blames(old time.Duration) string {
	if s.PID == 0 || s.Age < old {
		return ""
	}
	return fmt.Sprintf("pid %d holds a snapshot from before they died: end it with SELECT pg_terminate_backend(%d)",
		s.PID, s.PID)
}

// ageLevel judges how long something holds a snapshot.
func (e *exam) ageLevel(age time.Duration) Level {
	switch {
	case age >= 10*e.old:
		return LevelBad
	case age >= e.old:
		return LevelWarn
	}
	return LevelOK
}

// sessions looks for processes that keep vacuum from its work.
func (e *exam) sessions() error {
	held, found, err := e.oldest()
	if err != nil {
		return err
	}
	if found {
		e.note("oldest snapshot", e.ageLevel(held.Age), held.String(), fmt.Sprintf("no row that was deleted since is "+
			"vacuumed, and claims get slower: end it with SELECT pg_terminate_backend(%d), and find out why its "+
			"transaction is so long", held.PID))
	} else {
		e.note("oldest snapshot", LevelOK, "none held now", "")
	}
	if err := e.idle(); err != nil {
		return err
	}
	hidden, err := e.one(`SELECT count(*) FROM pg_stat_activity
		WHERE backend_type IS NULL AND datname = current_database()`)
	if err == nil && num(hidden) > 0 {
		e.note("hidden sessions", LevelWarn, fmt.Sprint(num(hidden)),
			"this role doesn't see what other roles' sessions hold: GRANT pg_read_all_stats TO it")
	}
	return err
}

// idle looks for transactions that nobody goes on with.
func (e *exam) idle() error {
	return e.rows(`SELECT count(*) OVER (), pid, application_name,
			coalesce(extract(epoch FROM clock_timestamp() - state_change), 0)::bigint AS idle
		FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
			AND state LIKE 'idle in transaction%'
		UNION ALL SELECT 0, 0, '', -1 ORDER BY idle DESC LIMIT 1`, nil, func(row []any) error {
		if num(row[0]) == 0 {
			e.note("idle in transaction", LevelOK, "nobody", "")
			return nil
		}
		idle := elapsed(row[3])
		who := fmt.Sprintf("%d; the longest is pid %d (application %s), for %v",
			num(row[0]), num(row[1]), orNone(text(row[2])), idle)
		e.note("idle in transaction", e.ageLevel(idle), who, fmt.Sprintf("it keeps its locks: SELECT "+
			"pg_terminate_backend(%d), and set idle_in_transaction_session_timeout for its role", num(row[1])))
		return nil
	})
}

// prepared looks for transactions that were prepared and never decided.
func (e *exam) prepared() error {
	return e.rows(`SELECT count(*) OVER (), gid, owner,
			coalesce(extract(epoch FROM clock_timestamp() - prepared), 0)::bigint AS held, quote_literal(gid)
		FROM pg_prepared_xacts WHERE database = current_database()
		UNION ALL SELECT 0, '', '', -1, '' ORDER BY held DESC LIMIT 1`, nil, func(row []any) error {
		if num(row[0]) == 0 {
			e.note("prepared transactions", LevelOK, "none", "")
			return nil
		}
		held := elapsed(row[3])
		which := fmt.Sprintf("%d; the oldest is %s of %s, for %v", num(row[0]), text(row[1]), text(row[2]), held)
		e.note("prepared transactions", e.ageLevel(held), which, "it holds back vacuum and keeps its locks, even over "+
			"a restart: COMMIT PREPARED or ROLLBACK PREPARED "+text(row[4]))
		return nil
	})
}

// Transactions that a slot may be behind.
const slotBehind, slotFarBehind = 100_000, 2_000_000

// slots looks for replication slots that hold back vacuum.
func (e *exam) slots() error {
	return e.rows(`SELECT slot_name::text, active, age(xmin)::bigint AS behind, quote_literal(slot_name)
		FROM pg_replication_slots WHERE xmin IS NOT NULL
		UNION ALL SELECT '', false, -1, '' ORDER BY behind DESC LIMIT 1`, nil, func(row []any) error {
		name, behind := text(row[0]), num(row[2])
		if behind < 0 {
			e.note("replication slots", LevelOK, "none holds back vacuum", "")
			return nil
		}
		level, state := LevelOK, "in use"
		if !truth(row[1]) {
			state = "nobody uses it"
		}
		switch {
		case behind >= slotFarBehind:
			level = LevelBad
		case behind >= slotBehind:
			level = LevelWarn
		}
		e.note("replication slots", level, fmt.Sprintf("%s holds back vacuum by %d transactions; %s", name, behind, state),
			fmt.Sprintf("end the standby's long query, or, when its standby is gone for good, "+
				"SELECT pg_drop_replication_slot(%s)", text(row[3])))
		return nil
	})
}
