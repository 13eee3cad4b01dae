package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"syscall"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/store/postgres"
)

// server is what a postgres:// URL says of whom to ask, as far as it may be
// shown.
type server struct{ hosts, user, database string }

func serverOf(db string) server {
	u, err := url.Parse(db)
	if err != nil {
		return server{hosts: "the server"}
	}
	hosts := cmp.Or(u.Host, u.Query().Get("host"), os.Getenv("PGHOST"), "the local server")
	return server{hosts: hosts, user: u.User.Username(), database: strings.TrimPrefix(u.Path, "/")}
}

// unreachable says of a server that didn't let us in which one it is and, as far
// as that can be told, why: the store's own words leave out what the driver said.
func (d postgresDatabase) unreachable(err error) error {
	why := whyUnreachable(err, serverOf(d.url))
	if why == "" {
		return err
	}
	return &daybook.Error{Code: daybook.CodeUnavailable, Err: err,
		Text: "can't reach PostgreSQL at " + serverOf(d.url).hosts + ": " + why}
}

// whyUnreachable is the reason and what to do about it, or "" for an error that
// means something else.
func whyUnreachable(err error, at server) string {
	var refused interface{ SQLState() string }
	if errors.As(err, &refused) {
		return whyRefused(refused.SQLState(), at)
	}
	if daybook.CodeOf(err) != daybook.CodeUnavailable {
		return ""
	}
	var dns *net.DNSError
	var timeout net.Error
	var certificate *tls.CertificateVerificationError
	switch {
	case errors.Is(err, postgres.ErrReadOnly):
		return "it takes no writes (a standby, or read-only by default); name the primary in --db"
	case errors.As(err, &dns):
		return "there is no such host; correct --db"
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ENOENT):
		return "nobody listens there; start the server, or correct --db"
	case errors.As(err, &certificate):
		return "its certificate isn't trusted; see sslrootcert and sslmode of the URL"
	case strings.Contains(fmt.Sprint(errors.Unwrap(err)), "refused TLS"):
		return "it doesn't speak TLS; see sslmode of the URL"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return "no answer in time; try again"
	}
	return "the connection failed; try again"
}

// whyRefused puts a server's refusal of a connection into words.
func whyRefused(state string, at server) string {
	switch {
	case strings.HasPrefix(state, "28"):
		return fmt.Sprintf("it doesn't let user %q in; see user and password of --db, or PGPASSFILE", at.user)
	case state == "3D000":
		return fmt.Sprintf("it has no database %q; create it, or name another in --db", at.database)
	case state == "53300":
		return "it has no connection left; try again, or raise max_connections"
	case state == "57P03":
		return "it is starting or stopping; try again"
	}
	return ""
}
