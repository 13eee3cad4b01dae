// Package client speaks to a Daybook server over HTTP. Its methods are those of
// [daybook.Book], with the same types and the same errors, so that a program can
// take either: what it needs of them is an interface of its own.
//
// The server decides everything, by the database's clock. What differs from a
// book at hand: people's decisions are recorded under the token's name, whatever
// actor a caller names, and want a reason; answers keep documents as they were
// given but for the spaces between; fields that JSON doesn't show are zero.
package client

import (
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/daybookdev/daybook"
)

// Options of a client. The zero value works.
type Options struct {
	// Token lets the client in. It is never part of an error or a log.
	Token string
	// Timeout bounds one try of a call; 0 is 30 s. A call that waits for work may
	// take as long as it waits besides, and one about many jobs 10 minutes.
	Timeout time.Duration
	// Tries bounds how often a call is sent that may be repeated; 0 is 4.
	Tries int
	// Transport carries the calls; nil is one of this client's own.
	Transport http.RoundTripper
	Log       *slog.Logger // nil is slog.Default
}

// Client speaks to one server. Its methods may be called from many goroutines.
type Client struct {
	base  *url.URL
	opts  Options
	http  *http.Client
	close func()
}

const (
	timeoutDefault = 30 * time.Second
	timeoutSlow    = 10 * time.Minute // what the server gives calls about many jobs
	triesDefault   = 4
)

// New makes a client of the server at an address like https://jobs.example.org,
// which may have a path in front of /v1. Nothing is sent yet.
func New(address string, o Options) (*Client, error) {
	base, err := parse(address)
	if err != nil {
		return nil, err
	}
	if strings.ContainsFunc(o.Token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, daybook.Invalid("token", "has a space or another character that no token has")
	}
	if o.Timeout <= 0 {
		o.Timeout = timeoutDefault
	}
	if o.Tries < 1 {
		o.Tries = triesDefault
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	c := &Client{base: base, opts: o, close: func() {}}
	transport := o.Transport
	if transport == nil {
		own := &http.Transport{Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true,
			DialContext:  (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 15 * time.Second}).DialContext,
			MaxIdleConns: 64, MaxIdleConnsPerHost: 64, IdleConnTimeout: time.Minute,
			TLSHandshakeTimeout: 10 * time.Second}
		transport, c.close = own, own.CloseIdleConnections
	}
	// A redirect would take the token to where nobody meant it to go.
	c.http = &http.Client{Transport: transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return c, nil
}

// parse reads a server's address. Its errors don't repeat it: it may have a
// password in it.
func parse(address string) (*url.URL, error) {
	base, err := url.Parse(address)
	switch {
	case err != nil || base.Scheme != "http" && base.Scheme != "https" || base.Hostname() == "":
		return nil, daybook.Invalid("server", "wants a URL like http://127.0.0.1:7373 or https://jobs.example.org")
	case base.User != nil:
		return nil, daybook.Invalid("server", "has a user or password in its URL; give a token instead")
	case base.RawQuery != "" || base.Fragment != "" || base.ForceQuery:
		return nil, daybook.Invalid("server", "wants a URL without ? and #")
	}
	return &url.URL{Scheme: base.Scheme, Host: base.Host, Path: strings.TrimRight(base.Path, "/")}, nil
}

// Server is the address, as it may be shown.
func (c *Client) Server() string { return c.base.String() }

// Log is the client's logger.
func (c *Client) Log() *slog.Logger { return c.opts.Log }

// Close lets go of idle connections. Twice is harmless.
func (c *Client) Close() error {
	c.close()
	return nil
}
