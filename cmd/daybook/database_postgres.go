package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/hex"
	"errors"
	"net"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver pgx, to drop what a selftest made

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/store/postgres"
)

// postgresDatabase is a schema in a PostgreSQL database.
type postgresDatabase struct {
	app    *app
	url    string // may hold a password: never shown
	schema string
	conns  int // 0 is the store's default
}

// connectMax bounds how long a command looks for its server.
const connectMax = 15 * time.Second

func (a *app) postgresDatabase() (database, error) {
	if a.flags.schema == "" {
		return nil, daybook.Invalid("schema", "is empty; leave it out for %s", postgres.SchemaDefault)
	}
	return postgresDatabase{app: a, url: a.flags.db, schema: a.flags.schema}, nil
}

func (d postgresDatabase) options(o daybook.Options) postgres.Options {
	return postgres.Options{Book: o, Schema: d.schema, Conns: d.conns, Now: d.app.now}
}

func (d postgresDatabase) open(ctx context.Context, o daybook.Options) (*daybook.Book, error) {
	ctx, cancel := context.WithTimeout(ctx, connectMax)
	defer cancel()
	book, err := postgres.Open(ctx, d.url, d.options(o))
	return book, d.unreachable(err)
}

// name is the schema's, with its database and server.
func (d postgresDatabase) name() string {
	c, err := pgconn.ParseConfig(d.url)
	if err != nil {
		return d.schema
	}
	at := c.Host
	if c.Port != 5432 {
		at = net.JoinHostPort(at, strconv.Itoa(int(c.Port)))
	}
	return cmp.Or(c.Database, c.User) + "." + d.schema + " at " + at // without a name it is the user's database
}

func (d postgresDatabase) environ() ([]string, error) {
	return []string{environment["db"] + "=" + d.url, environment["schema"] + "=" + d.schema}, nil
}

// up asks first, so that a server that isn't there is told soon: the upgrade
// itself may take as long as it needs.
func (d postgresDatabase) up(ctx context.Context) (schemaState, error) {
	if state, err := d.status(ctx); err != nil {
		return state, err
	}
	status, err := postgres.Up(ctx, d.url, d.options(daybook.Options{}), func(done string) { d.app.note("%s", done) })
	return stateOf(status), d.unreachable(err)
}

func (d postgresDatabase) status(ctx context.Context) (schemaState, error) {
	ctx, cancel := context.WithTimeout(ctx, connectMax)
	defer cancel()
	status, err := postgres.StatusOf(ctx, d.url, d.options(daybook.Options{}))
	return stateOf(status), d.unreachable(err)
}

func stateOf(s postgres.Status) schemaState {
	return schemaState{Schema: s.Schema, Version: s.Version, Want: s.Wanted, Current: s.Version == s.Wanted}
}

func (d postgresDatabase) script() (string, error) {
	return postgres.Script(d.options(daybook.Options{}))
}

// state also asks, of tables that a newer program made, which programs may
// stay: workers are replaced one by one, and the old ones are ready meanwhile.
// So are new ones on tables of a version before, as far as they know it.
func (d postgresDatabase) state(ctx context.Context, book *daybook.Book) (schemaState, error) {
	have, err := settingNumber(ctx, book, daybook.SettingSchema)
	if err != nil {
		return schemaState{}, err
	}
	state := stateOf(postgres.Status{Schema: d.schema, Version: have, Wanted: postgres.Version})
	if state.serves = have >= postgres.OldestVersion && have <= postgres.Version; have > postgres.Version {
		oldest, err := settingNumber(ctx, book, "schema_oldest")
		if err != nil {
			return schemaState{}, err
		}
		state.serves = oldest <= postgres.Version
	}
	return state, nil
}

func settingNumber(ctx context.Context, book *daybook.Book, name string) (int, error) {
	text, err := book.Setting(ctx, name)
	if err != nil {
		return 0, err
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, daybook.Fail(daybook.CodeInternal, "setting %s of the book is not a number", name)
	}
	return n, nil
}

func (d postgresDatabase) doctor(ctx context.Context, book *daybook.Book) ([]finding, error) {
	found, err := postgres.Doctor(ctx, book)
	list := make([]finding, len(found))
	for i, f := range found {
		list[i] = finding{f.Name, f.OK, string(f.Level), f.Value, f.Advice}
	}
	return list, err
}

// scratch makes its books in a schema of their own, one after the other.
func (d postgresDatabase) scratch(ctx context.Context) scratch {
	d.schema = ownName(postgres.ScratchPrefix)
	return scratch{
		open: func() (*daybook.Book, error) {
			if err := d.drop(ctx); err != nil {
				return nil, err
			}
			o := d.options(quietBook)
			o.Now = nil
			if _, err := postgres.Up(ctx, d.url, o, nil); err != nil {
				return nil, err
			}
			return postgres.Open(ctx, d.url, o)
		},
		spoil: postgres.Break,
		clear: func() error {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), connectMax)
			defer cancel()
			return d.drop(ctx)
		},
	}
}

// drill makes a schema.
func (d postgresDatabase) drill(ctx context.Context) (drillBook, error) {
	if err := d.oldDrills(ctx); err != nil {
		return drillBook{}, err
	}
	d.schema = ownName(drillPrefix)
	clear := func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), connectMax)
		defer cancel()
		return d.drop(ctx)
	}
	if _, err := postgres.Up(ctx, d.url, d.options(daybook.Options{}), nil); err != nil {
		return drillBook{}, errors.Join(err, clear())
	}
	return drillBook{DB: d.url, Schema: d.schema, shown: "--schema " + d.schema, remove: dropping(d.schema),
		clear: clear}, nil
}

// ownName is a name that nobody else has, and that needs no quotes.
func ownName(prefix string) string {
	random := make([]byte, 6)
	rand.Read(random) // never fails
	return prefix + hex.EncodeToString(random)
}

// drop removes the schema and all that is in it.
func (d postgresDatabase) drop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, connectMax)
	defer cancel()
	db, err := sql.Open("pgx", d.url)
	if err != nil {
		return daybook.Invalid("db", "is not a PostgreSQL URL like postgres://user@host/database")
	}
	if err := db.PingContext(ctx); err != nil {
		return errors.Join(d.unreachable(daybook.Unavailable("connecting", err)), db.Close())
	}
	if _, err = db.ExecContext(ctx, "DROP SCHEMA IF EXISTS "+d.schema+" CASCADE"); err != nil {
		err = &daybook.Error{Code: daybook.CodeUnavailable, Err: err,
			Text: "the scratch schema " + d.schema + " could not be dropped; remove it by " + dropping(d.schema)}
	}
	return errors.Join(err, db.Close())
}

// watch has nothing to listen to yet: other processes' jobs are found by the
// poll.
func (d postgresDatabase) watch(context.Context, *daybook.Book) error { return nil }

// gone is never so: a server's connections end with it.
func (d postgresDatabase) gone(ctx context.Context) error {
	<-ctx.Done()
	return nil
}
