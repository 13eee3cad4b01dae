package sqlite

import (
	"context"
	_ "embed"
	"strconv"

	"github.com/daybookdev/daybook"
)

//go:embed schema.sql
var schema string

// SchemaVersion is the version that this program makes and works with.
const schemaVersion = 1

// upgrades lead from each older version to the next, forward only. Entry i
// leads from version i+1 to i+2.
var upgrades = []string{}

// Schema is the whole schema as SQL.
func Schema() string { return schema }

// SchemaVersion tells which version the book has and which this program wants.
func SchemaVersion(ctx context.Context, book *daybook.Book) (have, want int, err error) {
	text, err := book.Setting(ctx, daybook.SettingSchema)
	if err != nil {
		return 0, schemaVersion, err
	}
	have, err = strconv.Atoi(text)
	return have, schemaVersion, err
}

// upgrade makes the schema or brings it up, in one transaction that holds the
// write lock, so that of many processes that start at once one does it and the
// others find it done.
func upgrade(c *conn, now daybook.Time) error {
	version, err := one(c, "PRAGMA user_version")
	if err != nil {
		return err
	}
	if num(version) == schemaVersion {
		return nil
	}
	if _, err := c.exec("BEGIN IMMEDIATE"); err != nil {
		return err
	}
	if err := upgradeLocked(c, now); err != nil {
		c.exec("ROLLBACK")
		return err
	}
	_, err = c.exec("COMMIT")
	if err != nil {
		c.exec("ROLLBACK")
	}
	return err
}

func upgradeLocked(c *conn, now daybook.Time) error {
	value, err := one(c, "PRAGMA user_version")
	if err != nil {
		return err
	}
	version := int(num(value))
	switch {
	case version == schemaVersion:
		return nil
	case version > schemaVersion:
		return daybook.Fail(daybook.CodeInvalid, "the book's schema is version %d and this program knows %d; use a newer daybook", version, schemaVersion)
	case version == 0:
		if err := refuseForeign(c); err != nil {
			return err
		}
		if err := script(c, schema); err != nil {
			return err
		}
		if _, err := c.exec("INSERT INTO setting VALUES (?, ?)", daybook.SettingCreated, now.String()); err != nil {
			return err
		}
	default:
		for _, step := range upgrades[version-1:] {
			if err := script(c, step); err != nil {
				return err
			}
		}
	}
	want := strconv.Itoa(schemaVersion)
	if _, err := c.exec("INSERT INTO setting VALUES (?, ?) ON CONFLICT DO UPDATE SET value = excluded.value",
		daybook.SettingSchema, want); err != nil {
		return err
	}
	_, err = c.exec("PRAGMA user_version = " + want)
	return err
}

// refuseForeign keeps the book out of a file whose tables have its names. A
// file with tables of other names is welcome: a user's data and its jobs then
// share their transactions.
func refuseForeign(c *conn) error {
	name, err := one(c, `SELECT name FROM sqlite_schema WHERE name IN ('job', 'ready', 'owned', 'ended', 'session', 'setting',
		'queue', 'request', 'call', 'effect', 'effect_call', 'event', 'refusal', 'outbox', 'sums', 'progress') LIMIT 1`)
	if err == nil && name != nil {
		return daybook.Fail(daybook.CodeInvalid, "the file has a table %s that is not the book's; choose another file", text(name))
	}
	return err
}
