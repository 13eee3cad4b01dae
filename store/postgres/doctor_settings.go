package postgres

import (
	"fmt"
	"time"
)

// wanted are settings that lose data, or stop vacuum, when they aren't so.
var wanted = []struct{ name, want, advice string }{
	{"fsync", "on", "a crash of the machine destroys the database: set fsync = on"},
	{"full_page_writes", "on", "a crash of the machine can tear pages: set full_page_writes = on"},
	{"synchronous_commit", "on", "a crash loses jobs that were accepted: set synchronous_commit = on"},
	{"data_sync_retry", "off", "a failed write may be taken for a good one: set data_sync_retry = off"},
	{"zero_damaged_pages", "off", "damaged pages are emptied silently: set zero_damaged_pages = off and restore a backup"},
	{"autovacuum", "on", "dead rows stay, and claims get slower by the hour: set autovacuum = on"},
	{"track_counts", "on", "autovacuum works by these counts: set track_counts = on"},
}

// settings are those that the book's own sessions have.
func (e *exam) settings() error {
	names := []string{"synchronous_standby_names"}
	for _, w := range wanted {
		names = append(names, w.name)
	}
	have := map[string]string{}
	err := e.rows("SELECT name, setting FROM pg_settings WHERE name = ANY ($1::text[])", []any{names},
		func(row []any) error {
			have[text(row[0])] = text(row[1])
			return nil
		})
	if err != nil {
		return err
	}
	for _, w := range wanted {
		level := LevelBad.unless(have[w.name] == w.want)
		advice := w.advice
		if w.name == "synchronous_commit" && level != LevelOK {
			level, advice = commitLevel(have[w.name], have["synchronous_standby_names"] != "", advice)
		}
		e.note(w.name, level, have[w.name], advice)
	}
	return nil
}

// commitLevel judges what a commit waits for, when it isn't the plain on.
func commitLevel(setting string, standby bool, advice string) (Level, string) {
	switch {
	case setting == "off":
		return LevelBad, advice
	case setting == "remote_apply" || !standby: // then the others wait for the local disk
		return LevelOK, ""
	}
	return LevelWarn, "a failover to the synchronous standby may lose jobs that were accepted: set synchronous_commit = on"
}

// roles looks for roles and databases whose commits are lost in a crash: jobs
// are enqueued in other programs' transactions, with their settings.
func (e *exam) roles() error {
	var list []string
	err := e.rows(`SELECT coalesce(r.rolname, 'every role') FROM pg_db_role_setting s
		LEFT JOIN pg_roles r ON r.oid = s.setrole CROSS JOIN LATERAL unnest(s.setconfig) c
		WHERE s.setdatabase IN (0, (SELECT oid FROM pg_database WHERE datname = current_database()))
			AND c ~* '^synchronous_commit=(off|false|no|0)$' ORDER BY 1`, nil, func(row []any) error {
		list = append(list, text(row[0]))
		return nil
	})
	if err == nil && len(list) > 0 {
		e.note("synchronous_commit of roles", LevelBad, "off for "+join(list),
			"a crash loses jobs that they enqueued: ALTER ROLE … RESET synchronous_commit, IN DATABASE where it was set so")
	}
	return err
}

// clock compares the database's clock with this process's, which nothing
// depends on.
func (e *exam) clock() error {
	before := time.Now()
	v, err := e.one("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint")
	if err != nil {
		return err
	}
	trip := time.Since(before)
	ahead := at(v).Std().Sub(before.Add(trip / 2))
	e.note("clock", LevelOK, fmt.Sprintf("the database is %v ahead of this process, give or take %v",
		ahead.Round(100*time.Microsecond), (trip/2).Round(100*time.Microsecond)), "")
	return nil
}

// connections holds the server's room against what the book may open: its two
// pools, and one to listen with.
func (e *exam) connections() error {
	most := int64(e.s.opts.Conns + e.s.opts.TxConns + 1)
	return e.rows(`SELECT least(current_setting('max_connections')::int
				- current_setting('superuser_reserved_connections')::int
				- coalesce(current_setting('reserved_connections', true)::int, 0),
			nullif(d.datconnlimit, -1), nullif(r.rolconnlimit, -1)),
			(SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend')
		FROM pg_database d CROSS JOIN pg_roles r WHERE d.datname = current_database() AND r.rolname = current_user`, nil,
		func(row []any) error {
			room, used := num(row[0]), num(row[1])
			ours := int64(e.s.pool.Stat().TotalConns() + e.s.txs.Stat().TotalConns())
			level := LevelOK
			switch {
			case e.pooled: // the pooler's are shared
			case room < most:
				level = LevelBad
			case room-used < most-ours:
				level = LevelWarn
			}
			e.note("connections", level, fmt.Sprintf("%d of %d in use; a process of the book opens up to %d", used, room, most),
				"raise max_connections (or the role's or database's limit), give the book fewer with Conns and TxConns, "+
					"or put PgBouncer before the server")
			return nil
		})
}
