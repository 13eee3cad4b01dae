package main

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/drill"
	"github.com/daybookdev/daybook/internal/brokertest"
	"github.com/daybookdev/daybook/store/sqlite"
)

// drillSite makes the place of a drill of everything, and says what can be done to
// it there.
func (a *app) drillSite(ctx context.Context, power drill.Power) (drillBook, drill.Site, error) {
	db, err := a.database()
	if err != nil {
		return drillBook{}, drill.Site{}, err
	}
	if err := a.bellAnswers(ctx); err != nil { // told before anything is made
		return drillBook{}, drill.Site{}, err
	}
	book, err := db.drill(ctx)
	if err != nil {
		return book, drill.Site{}, err
	}
	if book.dir == "" {
		if book.dir, err = os.MkdirTemp("", "daybook-drill-"); err != nil {
			return book, drill.Site{}, errors.Join(daybook.Fail(daybook.CodeInternal,
				"the drill can't make a folder in %s", os.TempDir()), book.clear())
		}
	}
	site := drill.Site{Power: power, Store: "sqlite", Bell: a.flags.bell, Full: fullBook}
	site.Old, site.NoOld = oldRedis(book.dir)
	book.Name, book.Bell = cmp.Or(book.Schema, ownName(drillPrefix)), a.flags.bell
	if at, ok := db.(postgresDatabase); ok {
		site.Store, site.Full = "postgres", nil
		site.StoreAddr = hostOf(at.url)
		server := postgresServer{url: at.url, suffix: book.Schema}
		site.Room, err = server.room(ctx)
		if site.Place, err = server.place(ctx, err); err != nil {
			return book, site, errors.Join(err, book.clear(), os.RemoveAll(book.dir))
		}
		site.Server = server
		if book.Bell == "" || book.Bell == "postgres:" || book.Bell == "postgresql:" {
			book.Bell = book.DB
		}
	} else {
		book.Bell = cmp.Or(book.Bell, "local:")
	}
	if rest, _, err := nameOf(book.Bell); err == nil && !strings.HasPrefix(book.Bell, "postgres") {
		book.Bell = rest // its name is the drill's
	}
	site.Bell = schemeOf(book.Bell)
	site.BellAddr = hostOf(book.Bell)
	site.Where = func(r drill.Route) (string, error) { return book.where(r) }
	return book, site, nil
}

// oldRedis starts a Redis of the drill's own, with its files in the drill's folder,
// where a cutover has something to move; without a program for it none, and why.
func oldRedis(dir string) (start func() (string, func() error, error), missing string) {
	program := brokertest.RedisProgram()
	program.In = dir
	if _, err := exec.LookPath(program.Name); err != nil {
		return nil, "there is no redis-server to keep an old queue in; install it"
	}
	return func() (string, func() error, error) {
		server, err := brokertest.Open(program)
		if err != nil {
			return "", nil, err
		}
		return (&brokertest.Redis{Server: server}).URL() + "/0", server.Stop, nil
	}, ""
}

// where names the drill's book, reached as the route says.
func (b drillBook) where(r drill.Route) (string, error) {
	own := b.Bell == b.DB
	if b.Schema != "" {
		b.DB = routed(b.DB, r.Store, r.Application+"-"+b.Schema)
	} else {
		b.Clock = r.Clock
	}
	if b.Bell = routed(b.Bell, r.Bell, ""); own && r.Bell == "" {
		b.Bell = routed(b.Bell, r.Store, "")
	}
	if strings.HasPrefix(b.Bell, "postgres") { // known by its name, as all of the drill's
		b.Bell = routed(b.Bell, "", r.Application+"-bell-"+b.Name)
	}
	line, err := json.Marshal(b)
	return string(line), err
}

// routed leads a URL to another address, and names its connections.
func routed(from, address, application string) string {
	u, err := url.Parse(from)
	if err != nil || u.Host == "" {
		return from
	}
	q := u.Query()
	if address != "" {
		u.Host = address
		if q.Get("sslmode") == "verify-full" { // the proxy has another name
			q.Set("sslmode", "verify-ca")
		}
	}
	if application != "" {
		q.Set("application_name", application)
	}
	u.RawQuery = q.Encode()
	return u.String()
}

func schemeOf(bell string) string {
	scheme, _, _ := strings.Cut(bell, ":")
	return scheme
}

// hostOf is the host:port of a URL whose server a proxy can stand before: one
// host, and no TLS that would notice.
func hostOf(of string) string {
	u, err := url.Parse(of)
	if err != nil || u.Hostname() == "" || strings.Contains(u.Host, ",") {
		return ""
	}
	ports := map[string]string{"postgres": "5432", "postgresql": "5432", "redis": "6379", "nats": "4222", "amqp": "5672"}
	port, plain := ports[u.Scheme]
	if !plain {
		return ""
	}
	return net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), port))
}

// postgresServer is the server of a drill: what is asked of it is about the
// drill's own connections.
type postgresServer struct{ url, suffix string }

func (s postgresServer) connect(ctx context.Context, application string) (*sql.DB, error) {
	at := routed(s.url, "", application)
	if u, err := url.Parse(at); err == nil { // a pooler between may not know prepared statements
		q := u.Query()
		q.Set("default_query_exec_mode", "simple_protocol")
		u.RawQuery = q.Encode()
		at = u.String()
	}
	db, err := sql.Open("pgx", at)
	if err != nil {
		return nil, daybook.Invalid("db", "is not a PostgreSQL URL like postgres://user@host/database")
	}
	if err := db.PingContext(ctx); err != nil {
		return nil, errors.Join(daybook.Unavailable("connecting", err), db.Close())
	}
	return db, nil
}

// Terminate ends the drill's connections of one sort.
func (s postgresServer) Terminate(ctx context.Context, application string) (n int, err error) {
	db, err := s.connect(ctx, "daybook-drill-kills")
	if err != nil {
		return 0, err
	}
	defer db.Close()
	err = db.QueryRowContext(ctx, "SELECT count(*) FILTER (WHERE pg_terminate_backend(pid)) FROM pg_stat_activity "+
		"WHERE application_name = $1 AND datname = current_database() AND pid <> pg_backend_pid()",
		shortName(application+"-"+s.suffix)).Scan(&n)
	if err != nil {
		err = &daybook.Error{Code: daybook.CodeUnavailable, Err: err, Text: "the drill's connections can't be ended"}
	}
	return n, err
}

// Began is when the server's first process began.
func (s postgresServer) Began(ctx context.Context) (at string, err error) {
	err = s.ask(ctx, "SELECT pg_postmaster_start_time()::text", &at)
	return at, err
}

// room is how many connections the server lets this user have besides those that
// are there.
func (s postgresServer) room(ctx context.Context) (n int, err error) {
	err = s.ask(ctx, "SELECT greatest(0, n) FROM ("+roomQuery+") AS r", &n)
	return n, err
}

// place is which server it is, unless something is wrong already.
func (s postgresServer) place(ctx context.Context, wrong error) (string, error) {
	var version string
	if wrong == nil {
		wrong = s.ask(ctx, "SELECT current_setting('server_version')", &version)
	}
	at := serverOf(s.url)
	version, _, _ = strings.Cut(version, " ") // without who built it
	return fmt.Sprintf("%s/%s, PostgreSQL %s", at.hosts, at.database, version), wrong
}

func (s postgresServer) ask(ctx context.Context, query string, to any) error {
	db, err := s.connect(ctx, "daybook-drill-asks")
	if err != nil {
		return err
	}
	if err = db.QueryRowContext(ctx, query).Scan(to); err != nil {
		err = daybook.Unavailable("asking the server about itself", err)
	}
	return errors.Join(err, db.Close())
}

// roomQuery counts the connections that the server, the user and the database have
// room for, the least of the three.
const roomQuery = `SELECT least(
	current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
		- coalesce(current_setting('reserved_connections', true)::int, 0)
		- (SELECT count(*)::int FROM pg_stat_activity WHERE backend_type = 'client backend'),
	(SELECT rolconnlimit - (SELECT count(*)::int FROM pg_stat_activity WHERE usename = current_user)
		FROM pg_roles WHERE rolname = current_user AND rolconnlimit >= 0),
	(SELECT datconnlimit - (SELECT count(*)::int FROM pg_stat_activity WHERE datname = current_database())
		FROM pg_database WHERE datname = current_database() AND datconnlimit >= 0)) AS n`

// shortName is what the server makes of an application_name.
func shortName(name string) string { return name[:min(len(name), 63)] }

// spare is how many connections a drill leaves to others.
const spare = 20

// Sit opens idle connections, as far as the server has room.
func (s postgresServer) Sit(ctx context.Context, n int, application string) (sits int, leave func(), err error) {
	db, err := s.connect(ctx, application+"-"+s.suffix)
	if err != nil {
		return 0, nil, err
	}
	var room int
	err = db.QueryRowContext(ctx, roomQuery).Scan(&room)
	if err != nil {
		return 0, nil, errors.Join(daybook.Unavailable("counting connections", err), db.Close())
	}
	var seats []*sql.Conn
	leave = func() {
		for _, c := range seats {
			_ = c.Close() // gone is gone
		}
		_ = db.Close()
	}
	for len(seats) < min(n, room-spare) {
		c, err := db.Conn(ctx)
		if err != nil { // something between has less room than the server
			back := max(0, len(seats)-spare)
			for _, c := range seats[back:] {
				_ = c.Raw(func(any) error { return driver.ErrBadConn }) // closed, not kept
			}
			seats = seats[:back]
			break
		}
		seats = append(seats, c)
	}
	return len(seats), leave, nil
}

// fullBook makes a SQLite book whose file can grow by a few pages only. A table
// beside the book's is the room that can be made: its pages are used again.
func fullBook(ctx context.Context, dir string) (*daybook.Book, func() error, error) {
	path := filepath.Join(dir, "full.db")
	book, err := sqlite.Open(ctx, path, sqlite.Options{Book: quietBook})
	if err != nil {
		return nil, nil, err
	}
	if err := book.Close(); err != nil {
		return nil, nil, err
	}
	db, err := sql.Open("sqlite", path+"?_pragma=busy_timeout(60000)")
	if err != nil {
		return nil, nil, daybook.Unavailable("filling the book's file", err)
	}
	var pages int
	_, err = db.ExecContext(ctx, "CREATE TABLE ballast (b BLOB); INSERT INTO ballast VALUES (zeroblob(8000000))")
	if err == nil {
		err = db.QueryRowContext(ctx, "PRAGMA page_count").Scan(&pages)
	}
	if err != nil {
		return nil, nil, errors.Join(daybook.Unavailable("filling the book's file", err), db.Close())
	}
	room := func() error {
		_, err := db.ExecContext(context.WithoutCancel(ctx), "DROP TABLE ballast")
		if err != nil {
			err = daybook.Unavailable("making room in the book's file", err)
		}
		return errors.Join(err, db.Close())
	}
	limited := func(c driver.Connector) driver.Connector { return limitedFile{c, pages + 60} }
	book, err = sqlite.Open(ctx, path, sqlite.Options{Book: quietBook, Wrap: limited, Busy: 10 * time.Second})
	return book, room, err
}

// limitedFile makes connections under which the file can't have more pages.
type limitedFile struct {
	driver.Connector
	pages int
}

// Connect opens one.
func (l limitedFile) Connect(ctx context.Context) (driver.Conn, error) {
	c, err := l.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	does, ok := c.(driver.ExecerContext)
	if !ok {
		return nil, errors.Join(errors.New("the driver can't limit its file"), c.Close())
	}
	if _, err := does.ExecContext(ctx, fmt.Sprintf("PRAGMA max_page_count = %d", l.pages), nil); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}
