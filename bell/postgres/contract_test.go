package postgres

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/bell/belltest"
	"github.com/daybookdev/daybook/internal/pgtest"
	"github.com/daybookdev/daybook/internal/proxy"
)

// placesUsed counts the schemas used on one server; a bell needs only their names.
var placesUsed atomic.Int64

func TestContract(t *testing.T) {
	if !wanted(t) {
		return
	}
	server, err := pgtest.Start(pgtest.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Stop() })
	belltest.Run(t, func(t *testing.T) belltest.Harness {
		line := through(t, server)
		schema := fmt.Sprintf("place-%d", placesUsed.Add(1))
		return belltest.Harness{
			Open: func(t *testing.T) daybook.Bell {
				return open(t, throughURL(t, server, line), Options{Schema: schema, Echo: belltest.Echo})
			},
			Line: line,
			Restart: func(t *testing.T) {
				if err := server.Kill(); err != nil {
					t.Fatal(err)
				}
				if err := server.StartAgain(); err != nil {
					t.Fatal(err)
				}
			},
			Connections: func(t *testing.T) int {
				n := psql(t, server, "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'daybook-bell'")
				var count int
				fmt.Sscan(n, &count)
				return count
			},
			ConnectionsMost: 2,
		}
	})
}

func through(t *testing.T, server *pgtest.Server) *proxy.Proxy {
	t.Helper()
	line, err := proxy.Start(fmt.Sprintf("127.0.0.1:%d", server.Port()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { line.Close() })
	return line
}

// throughURL leads to the server by the line.
func throughURL(t *testing.T, server *pgtest.Server, line *proxy.Proxy) string {
	t.Helper()
	u, err := url.Parse(server.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	u.Host = line.Addr()
	return u.String()
}

// open opens an end that logs into the test.
func open(t *testing.T, at string, o Options) *Bell {
	t.Helper()
	if o.Log == nil {
		o.Log = slog.New(slog.NewTextHandler(t.Output(), nil))
	}
	b, err := Open(context.Background(), at, o)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func psql(t *testing.T, server *pgtest.Server, sql string) string {
	t.Helper()
	out, err := server.Psql("postgres", sql)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(out)
}
