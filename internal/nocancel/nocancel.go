// Package nocancel keeps pgx from sending cancel requests through a pooler.
package nocancel

import (
	"context"
	"errors"
	"net"

	"github.com/jackc/pgx/v5/pgconn"
)

// Dial dials as before, but for cancel requests, which it refuses. A query that is
// given up is cancelled by pgx over a connection of its own. PgBouncer 1.18, which
// Debian 12 has, and 1.19 end, and with them everybody's connections, when such
// requests come while they are busy (pgbouncer's issues 801, 822 and 904). Without
// one a pooler sees the closed connection, and closes the one to the server, whose
// statement is undone.
func Dial(before pgconn.DialFunc) pgconn.DialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		if network == (nowhere{}).Network() {
			return nil, errors.New("no cancel request goes through a pooler")
		}
		c, err := before(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return conn{c}, nil
	}
}

// conn tells nobody the address that a cancel request would go to.
type conn struct{ net.Conn }

func (conn) RemoteAddr() net.Addr { return nowhere{} }

type nowhere struct{}

func (nowhere) Network() string { return "nowhere" }
func (nowhere) String() string  { return "behind a pooler" }
