package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/store/postgres"
)

// A server that isn't there, or isn't one, is told within a bounded time and
// named without the password.
func TestUnreachablePostgres(t *testing.T) {
	deaf, err := net.Listen("tcp", "127.0.0.1:0") // takes connections and never answers
	if err != nil {
		t.Fatal(err)
	}
	defer deaf.Close()
	for _, test := range []struct{ url, want string }{
		{"postgres://u:secret@127.0.0.1:1/x", "127.0.0.1:1: nobody listens there"},
		{"postgres://u:secret@/x?host=/no/such/folder", "/no/such/folder: nobody listens there"},
		{"postgres://u:secret@" + deaf.Addr().String() + "/x?connect_timeout=1", "no answer in time"},
		{"postgres://u:secret@127.0.0.1:1,127.0.0.2:1/x", "127.0.0.1:1,127.0.0.2:1: nobody listens there"},
	} {
		c := newCLI(t)
		c.db = test.url
		s := c.want(statusUnavailable, "job", "list")
		if !strings.Contains(s.err, test.want) || strings.Contains(s.err, "secret") || s.out != "" {
			t.Errorf("--db %s: got %q and %q, want %q and no secret", test.url, s.out, s.err, test.want)
		}
	}
}

// Whatever the command, a server that isn't there is exit 6, and not what an
// empty book would answer.
func TestUnreachableForEveryCommand(t *testing.T) {
	c := newCLI(t)
	c.db = "postgres://u:secret@127.0.0.1:1/x"
	for _, args := range []string{"schema up", "schema status", "doctor", "check", "check --selftest", "backlog",
		"backlog --watch", "reconcile", "reconcile --once", "prune", "queue list", "queue pause q", "worker list",
		"enqueue --queue q --kind k", "enqueue --from -", "claim --queue q", "job cancel --queue q -y",
		"effect list", "work --queue q --exec true", "schema restored --since 2026-01-01T00:00:00Z"} {
		if s := c.want(statusUnavailable, strings.Fields(args)...); s.out != "" {
			t.Errorf("daybook %s: got %q on standard output", args, s.out)
		}
	}
	out := c.ok("schema", "print", "--schema", "my jobs")
	if !strings.Contains(out, `CREATE SCHEMA IF NOT EXISTS "my jobs"`) {
		t.Errorf("schema print wants no server: got %q…", out[:min(80, len(out))])
	}
}

func TestWhyUnreachable(t *testing.T) {
	at := serverOf("postgres://ada:secret@h/app")
	for _, test := range []struct {
		err  error
		want string
	}{
		{&net.DNSError{Name: "h", IsNotFound: true}, "there is no such host; correct --db"},
		{&pgconn.PgError{Code: "28P01"}, `doesn't let user "ada" in`},
		{&pgconn.PgError{Code: "3D000"}, `no database "app"`},
		{&pgconn.PgError{Code: "53300"}, "no connection left"},
		{&pgconn.PgError{Code: "57P03"}, "starting or stopping"},
		{&tls.CertificateVerificationError{Err: errors.New("x")}, "certificate"},
		{errors.New("server refused TLS connection"), "doesn't speak TLS"},
		{errors.Join(errors.New("server refused TLS connection"), postgres.ErrReadOnly), "name the primary"},
		{fmt.Errorf("dialing: %w", context.DeadlineExceeded), "no answer in time"},
		{errors.New("anything"), "the connection failed"},
	} {
		if got := whyUnreachable(daybook.Unavailable("asking", test.err), at); !strings.Contains(got, test.want) {
			t.Errorf("%v: got %q, want %q in it", test.err, got, test.want)
		}
	}
	if got := whyUnreachable(&pgconn.PgError{Code: "42501"}, at); got != "" {
		t.Errorf("a refusal of something else: got %q, want nothing", got)
	}
}
