package nocancel_test

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/daybookdev/daybook/internal/nocancel"
)

// A server that greets and then answers nothing: a query that is given up closes
// its connection, and asks for no other one.
func TestGivenUpQuery(t *testing.T) {
	for name, wrap := range map[string]func(pgconn.DialFunc) pgconn.DialFunc{
		"as pgx does": nil, "through a pooler": nocancel.Dial,
	} {
		t.Run(name, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			asked := make(chan struct{}, 2)
			go greet(l, asked)
			config, err := pgconn.ParseConfig("postgres://u@" + l.Addr().String() + "/d?sslmode=disable")
			if err != nil {
				t.Fatal(err)
			}
			if wrap != nil {
				config.DialFunc = wrap(config.DialFunc)
			}
			c, err := pgconn.ConnectConfig(t.Context(), config)
			if err != nil {
				t.Fatal(err)
			}
			<-asked
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(10*time.Millisecond, cancel)
			if err := c.Exec(ctx, "SELECT 1").Close(); err == nil {
				t.Fatal("a query that nobody answers succeeded")
			}
			<-c.CleanupDone()
			if again := len(asked) > 0; again != (wrap == nil) {
				t.Errorf("a cancel request was sent: %v", again)
			}
		})
	}
}

// greet lets each connection in, says so, and then reads until it is closed.
func greet(l net.Listener, asked chan<- struct{}) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		asked <- struct{}{}
		go func() {
			defer c.Close()
			buf := make([]byte, 4096)
			if _, err := c.Read(buf); err != nil {
				return
			}
			// AuthenticationOk, BackendKeyData and ReadyForQuery.
			c.Write([]byte("R\x00\x00\x00\x08\x00\x00\x00\x00" +
				"K\x00\x00\x00\x0c\x00\x00\x00\x01\x00\x00\x00\x02" + "Z\x00\x00\x00\x05I"))
			for {
				if n, err := c.Read(buf); err != nil || buf[0] == 'X' && n > 0 {
					return
				}
			}
		}()
	}
}
