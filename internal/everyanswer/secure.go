package everyanswer

import (
	"crypto/tls"
	"errors"
	"net"
	"slices"
	"time"
)

// wrapping accepts connections that [conn] watches.
type wrapping struct {
	net.Listener
	secure *tls.Config   // nil is plain HTTP
	limit  time.Duration // of a handshake; 0 has none
}

// Accept never waits for a client: handshakes are made later, each in its own
// connection's goroutine.
func (l *wrapping) Accept() (net.Conn, error) {
	raw, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if l.secure == nil {
		return &conn{Conn: raw}, nil
	}
	secure := tls.Server(raw, l.secure)
	return &secureConn{conn{Conn: secure}, secure, raw, l.limit}, nil
}

// secureConn is a connection of HTTPS. net/http makes the handshake itself for a
// *tls.Conn only; of any other it asks for the state, first of all.
type secureConn struct {
	conn
	tls   *tls.Conn
	raw   net.Conn
	limit time.Duration
}

// ConnectionState is the connection's state after the handshake, which it makes,
// within its limit in time. Where that fails the connection is closed.
func (c *secureConn) ConnectionState() tls.ConnectionState {
	if c.limit > 0 {
		_ = c.raw.SetDeadline(time.Now().Add(c.limit))
	}
	err := c.tls.Handshake()
	if record, ok := errors.AsType[tls.RecordHeaderError](err); ok && speaksHTTP(record.RecordHeader) {
		_, _ = (&conn{Conn: c.raw}).Write([]byte("HTTP/1.1 400 Bad Request\r\n" +
			"Content-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n" +
			"Client sent an HTTP request to an HTTPS server.\n"))
	}
	if err != nil {
		_ = c.raw.Close()
	} else if c.limit > 0 {
		_ = c.raw.SetDeadline(time.Time{})
	}
	return c.tls.ConnectionState()
}

// speaksHTTP reports whether a connection begins like an HTTP request.
func speaksHTTP(begin [5]byte) bool {
	return slices.Contains([]string{"GET /", "HEAD ", "POST ", "PUT /", "PATCH", "DELET", "OPTIO"}, string(begin[:]))
}
