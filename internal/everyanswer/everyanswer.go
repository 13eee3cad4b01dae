// Package everyanswer makes every answer of an HTTP server carry the headers that
// keep browsers from doing anything with it: also what net/http answers by itself
// to bytes that are no request, which no handler sees.
package everyanswer

import (
	"bytes"
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"sync/atomic"
)

// headers are what an answer carries that no handler makes.
const headers = "Content-Security-Policy: default-src 'none'; frame-ancestors 'none'\r\n" +
	"X-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\nCache-Control: no-store\r\n"

// Serve serves as the server's own Serve does, until the server is shut down or
// closed. It may be called once for a server. With a TLS configuration it serves
// HTTPS, as HTTP/1.1: what net/http answers by itself in HTTP/2 can't be told from
// what handlers answer, nor given headers.
func Serve(server *http.Server, listener net.Listener, secure *tls.Config) error {
	handler, state, context := server.Handler, server.ConnState, server.ConnContext
	if handler == nil {
		handler = http.DefaultServeMux
	}
	server.Protocols = new(http.Protocols)
	server.Protocols.SetHTTP1(true)
	server.ConnContext = keepIn(context)
	server.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, ok := r.Context().Value(key{}).(*conn); ok {
			c.handled.Store(true)
		}
		handler.ServeHTTP(w, r)
	})
	server.ConnState = func(c net.Conn, s http.ConnState) {
		if c, ok := c.(ours); ok && s == http.StateIdle { // the answer was sent whole
			c.own().handled.Store(false)
		}
		if state != nil {
			state(c, s)
		}
	}
	if secure != nil {
		secure = secure.Clone()
		secure.NextProtos = []string{"http/1.1"}
	}
	return server.Serve(&wrapping{listener, secure, server.ReadHeaderTimeout})
}

// key finds the connection in a request's context.
type key struct{}

func keepIn(next func(context.Context, net.Conn) context.Context) func(context.Context, net.Conn) context.Context {
	return func(ctx context.Context, c net.Conn) context.Context {
		if next != nil {
			ctx = next(ctx, c)
		}
		if c, ok := c.(ours); ok {
			ctx = context.WithValue(ctx, key{}, c.own())
		}
		return ctx
	}
}

// ours is a connection that a wrapping listener accepted.
type ours interface{ own() *conn }

// conn is a connection that knows whether a handler answers on it. What is
// written else is net/http's own, whatever a handler's answer has in it.
type conn struct {
	net.Conn
	handled atomic.Bool // from a handler's beginning until its answer was sent
}

func (c *conn) own() *conn { return c }

// Write sends what a handler answers as it is, and the head of an answer of
// net/http's own, which comes in one piece, with our headers behind its first line.
func (c *conn) Write(p []byte) (int, error) {
	if c.handled.Load() || !bytes.HasPrefix(p, []byte("HTTP/1.")) {
		return c.Conn.Write(p)
	}
	line, rest, _ := bytes.Cut(p, []byte("\r\n"))
	if _, err := c.Conn.Write(bytes.Join([][]byte{line, []byte("\r\n" + headers), rest}, nil)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// CloseWrite ends what the server says: net/http closes so after a refusal, so
// that a client that still sends can read it.
func (c *conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}
