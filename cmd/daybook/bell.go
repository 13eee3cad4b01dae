package main

import (
	"errors"
	"net/url"
	"slices"
	"strings"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/bell/local"
	"github.com/daybookdev/daybook/bell/nats"
	bellpg "github.com/daybookdev/daybook/bell/postgres"
	"github.com/daybookdev/daybook/bell/rabbitmq"
	"github.com/daybookdev/daybook/bell/redis"
)

// bellForms are the URLs that --bell takes.
const bellForms = "local:, none:, postgres:, redis://HOST, nats://HOST or amqp://HOST"

// bellSchemes begin the URLs that --bell takes.
var bellSchemes = []string{"local:", "none:", "postgres:", "redis://", "rediss://", "nats://", "amqp://", "amqps://"}

// bell opens the bell that --bell names, or else the database's own. It doesn't
// wait for a server: a bell that is away is no reason not to work.
func (a *app) bell(db database) (daybook.Bell, error) {
	given := a.flags.bell
	scheme, rest, _ := strings.Cut(given, ":")
	served := strings.HasPrefix(rest, "//")
	switch {
	case given == "":
		return db.bell()
	case given == "local:":
		return local.New(), nil
	case given == "none:":
		return daybook.NoBell{}, nil
	case given == "postgres:" || given == "postgresql:":
		own, ok := db.(postgresDatabase)
		if !ok {
			return nil, usage("--bell postgres: is the server of a book on PostgreSQL; give its whole URL, or another bell")
		}
		return own.bell()
	case served && (scheme == "postgres" || scheme == "postgresql"):
		return a.postgresBell(given)
	case served && slices.Contains([]string{"redis", "rediss", "nats", "tls", "wss", "amqp", "amqps"}, scheme):
		return a.broker(scheme, given)
	}
	return nil, usage("--bell wants %s; got %s", bellForms, shownDB(given))
}

// broker opens a bell on a server that isn't the book's. Books share a server
// under names of their own: ?name=NAME in the URL, else the book's schema.
func (a *app) broker(scheme, given string) (daybook.Bell, error) {
	at, name, err := nameOf(given)
	if err != nil {
		return nil, err
	}
	if name == "" {
		name = a.flags.schema
	}
	log := a.log()
	switch scheme {
	case "redis", "rediss":
		return opened(redis.Open(at, redis.Options{Name: name, Log: log, Echo: a.echo}))
	case "nats", "tls", "wss":
		return opened(nats.Open(at, nats.Options{Name: name, Log: log, Echo: a.echo}))
	}
	return opened(rabbitmq.Open(at, rabbitmq.Options{Name: name, Log: log, Echo: a.echo}))
}

// opened keeps a nil bell of one type from becoming a bell that isn't nil.
func opened[B daybook.Bell](b B, err error) (daybook.Bell, error) {
	if err != nil {
		return nil, err
	}
	return b, nil
}

// nameOf takes ?name=NAME out of a URL, and leaves the rest as it was.
func nameOf(given string) (rest, name string, err error) {
	at, query, found := strings.Cut(given, "?")
	if !found {
		return given, "", nil
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return "", "", usage("--bell has settings behind the ? that can't be read; write NAME=VALUE, with & between them")
	}
	if name = values.Get("name"); name != "" {
		if err := daybook.CheckName("name", name); err != nil {
			return "", "", usage("--bell has a setting that can't be; %s", err)
		}
	}
	if values.Del("name"); len(values) > 0 {
		at += "?" + values.Encode()
	}
	return at, name, nil
}

// bell is, without another one named, inside the process: see watch.
func (sqliteDatabase) bell() (daybook.Bell, error) { return local.New(), nil }

// bell is the database itself: its NOTIFY.
func (d postgresDatabase) bell() (daybook.Bell, error) {
	bell, err := d.app.postgresBell(d.url)
	if e, ok := errors.AsType[*daybook.Error](err); ok && e.Field == "bell" {
		err = daybook.Invalid("db", "%s", e.Text)
	}
	return bell, err
}

func (a *app) postgresBell(url string) (daybook.Bell, error) {
	return opened(bellpg.Open(a.base, url, bellpg.Options{Schema: a.flags.schema, Log: a.log(), Echo: a.echo}))
}
