package main

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"time"

	"github.com/daybookdev/daybook"
)

// drillPrefix begins the names of what a drill makes for itself, in a database or
// at a bell: a person who finds some of it should know where it came from.
const drillPrefix = "daybook_drill_"

// dropping is the command that removes a schema by hand.
func dropping(schema string) string { return "psql -c 'DROP SCHEMA " + schema + " CASCADE'" }

// leftQuery finds the schemas of drills that nobody is connected for any more.
// Behind a pooler names can be of others than who is connected now, which is why
// nothing is dropped that a person hasn't looked at.
const leftQuery = `SELECT nspname FROM pg_namespace
	WHERE nspname ~ ('^' || $1 || '[0-9a-f]{12}$') AND NOT EXISTS (SELECT FROM pg_stat_activity
		WHERE application_name LIKE 'daybook-drill%' AND right(application_name, length(nspname)) = nspname)
	ORDER BY nspname`

// oldDrills tells of what earlier drills left: one that was killed, or that didn't
// hold.
func (d postgresDatabase) oldDrills(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, connectMax)
	defer cancel()
	db, err := postgresServer{url: d.url}.connect(ctx, "daybook-drill-looks")
	if err != nil {
		return d.unreachable(err)
	}
	schemas, err := leftBehind(ctx, db)
	if err := errors.Join(err, db.Close()); err != nil {
		return err
	}
	for _, schema := range schemas {
		d.app.note("an earlier drill left its schema %s; if you don't need it any more: %s", schema, dropping(schema))
	}
	return nil
}

func leftBehind(ctx context.Context, db *sql.DB) (schemas []string, err error) {
	rows, err := db.QueryContext(ctx, leftQuery, drillPrefix)
	if err != nil {
		return nil, daybook.Unavailable("looking for earlier drills", err)
	}
	defer rows.Close()
	for rows.Next() {
		var schema string
		if err := rows.Scan(&schema); err != nil {
			return nil, daybook.Unavailable("looking for earlier drills", err)
		}
		schemas = append(schemas, schema)
	}
	return schemas, rows.Err()
}

// bellMost is how long a bell gets until it takes a ring.
const bellMost = 5 * time.Second

// bellAnswers refuses a bell that takes no rings before a drill is begun: with it
// every fault of rings would be void. It rings under a name of its own.
func (a *app) bellAnswers(ctx context.Context) error {
	its := &app{base: a.base, stdin: a.stdin, stdout: a.stdout, stderr: a.stderr, flags: a.flags}
	its.flags.schema, its.flags.server, its.flags.logLevel = ownName(drillPrefix), "", "error"
	db, err := its.database()
	if err != nil {
		return err
	}
	bell, err := its.bell(db)
	if err != nil {
		return err
	}
	if outside, ok := bell.(daybook.Outside); ok {
		err = takesRings(ctx, outside)
	}
	return errors.Join(err, bell.Close())
}

// takesRings waits until a bell took a ring, which takes some a moment.
func takesRings(ctx context.Context, bell daybook.Outside) error {
	ctx, stop := context.WithTimeout(ctx, bellMost)
	defer stop()
	for {
		err := bell.Publish(ctx, []daybook.Ring{{Queue: "drill"}})
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return &daybook.Error{Code: daybook.CodeUnavailable, Err: err, Text: "the bell takes no rings: " +
				strings.TrimSuffix(err.Error(), ".") + "; start it, correct --bell, or leave it out (--bell none:)"}
		case <-time.After(100 * time.Millisecond):
		}
	}
}
