package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/daybookdev/daybook"
)

// call is one call of the API.
type call struct {
	method, path string // the path's parts are escaped
	query        url.Values
	body         []byte // nil is none
	key          string // Idempotency-Key
	// again says that sending the call twice is the same as once; others are sent
	// again only when the server said, or the dial showed, that nothing was done.
	again  bool
	within time.Duration // of one try; 0 is Options.Timeout
	rows   int           // jobs that the answer may hold, for its size
}

// Answers are bounded: a small one, and what each row of it may hold at most.
const (
	answerMax = 4 << 20
	rowMax    = daybook.ArgsMax + daybook.ResultMax + 128<<10
)

func get(path string, query url.Values) call {
	return call{method: http.MethodGet, path: path, query: query, again: true}
}

func post(path string, body []byte) call {
	return call{method: http.MethodPost, path: path, body: body}
}

// repeatable marks a call that may be sent twice.
func (k call) repeatable() call { k.again = true; return k }

// many makes room for an answer of so many rows.
func (k call) many(rows int) call { k.rows = rows; return k }

// slow gives a call the time that the server gives calls about many jobs.
func (k call) slow() call { k.within = timeoutSlow; return k }

// path puts a path together; each part is escaped.
func path(parts ...string) string {
	var b strings.Builder
	for _, p := range parts {
		b.WriteString("/" + url.PathEscape(p))
	}
	return b.String()
}

// do makes a call and decodes its answer into out; nil wants none. The error
// has the code that the book would have given.
func (c *Client) do(ctx context.Context, k call, out any) error {
	for n := 1; ; n++ {
		err := c.try(ctx, k, out)
		if err == nil || n == c.opts.Tries || ctx.Err() != nil {
			return err
		}
		wait, again := c.pause(k, n, err)
		if !again || !sleep(ctx, wait) {
			return err
		}
		c.opts.Log.Debug("sending a call again", "path", k.path, "try", n+1, "error", err)
	}
}

// pauseMax bounds how long the client waits because a server said so: a longer
// wait is the caller's to make.
const pauseMax = 10 * time.Second

// pause is how long to wait before the next try, if there is one to make.
func (c *Client) pause(k call, n int, err error) (time.Duration, bool) {
	t, ok := errors.AsType[*trouble](err)
	switch {
	case !ok, !t.undone && !k.again, t.after > pauseMax:
		return 0, false
	case t.after > 0:
		return t.after, true
	}
	most := 100 * time.Millisecond << n
	return most/2 + rand.N(most/2), true
}

// trouble is a failure that another try may not meet.
type trouble struct {
	err    *daybook.Error
	undone bool          // the call was certainly not carried out
	after  time.Duration // when to come again, as the server said
}

func (t *trouble) Error() string { return t.err.Error() }
func (t *trouble) Unwrap() error { return t.err }

// away is the error of a server that didn't answer. What the transport says may
// hold a proxy's password, so it stays inside.
func (c *Client) away(err error) error {
	text := "the connection failed; try again"
	var dns *net.DNSError
	var dial *net.OpError
	var timeout net.Error
	undone := errors.As(err, &dial) && dial.Op == "dial"
	switch {
	case errors.As(err, &dns):
		text = "there is no such host; correct the address"
	case undone && !dial.Timeout():
		text = "nobody listens there; start daybook serve, or correct the address"
	case errors.Is(err, context.Canceled):
		text = "the call was given up"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		text = "no answer in time; try again"
	case strings.Contains(err.Error(), "server gave HTTP response to HTTPS client"):
		text = "it doesn't speak HTTPS; begin the address with http://"
	case strings.Contains(err.Error(), "certificate"):
		text = "its certificate isn't trusted"
	}
	return &trouble{undone: undone, err: &daybook.Error{Code: daybook.CodeUnavailable, Err: err,
		Text: "can't reach the server at " + c.Server() + ": " + text}}
}

// try makes a call once.
func (c *Client) try(ctx context.Context, k call, out any) error {
	within := k.within
	if within == 0 {
		within = c.opts.Timeout
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	r, err := c.request(ctx, k)
	if err != nil {
		return err
	}
	answer, err := c.http.Do(r)
	if err != nil {
		return c.away(err)
	}
	defer answer.Body.Close()
	most := int64(answerMax) + int64(k.rows)*rowMax
	body, err := io.ReadAll(io.LimitReader(answer.Body, most+1))
	switch {
	case err != nil:
		return c.away(err)
	case answer.StatusCode >= 300:
		return c.refused(answer, body)
	case int64(len(body)) > most:
		return daybook.Fail(daybook.CodeInternal, "the server's answer has more than %d bytes; ask for fewer at once", most)
	case out == nil:
		return nil
	}
	media, _, _ := mime.ParseMediaType(answer.Header.Get("Content-Type"))
	if media != "application/json" || json.Unmarshal(body, out) != nil {
		return daybook.Fail(daybook.CodeInternal, "what answers at %s is no Daybook server; correct the address", c.Server())
	}
	return nil
}

func (c *Client) request(ctx context.Context, k call) (*http.Request, error) {
	address := c.base.String() + k.path
	if len(k.query) > 0 {
		address += "?" + k.query.Encode()
	}
	var body io.Reader
	if k.body != nil {
		body = bytes.NewReader(k.body)
	}
	r, err := http.NewRequestWithContext(ctx, k.method, address, body)
	if err != nil {
		return nil, daybook.Fail(daybook.CodeInternal, "the call of %s can't be made", k.path)
	}
	r.Header.Set("Accept", "application/json")
	r.Header.Set("User-Agent", "daybook-client")
	if k.method == http.MethodPost {
		r.Header.Set("Content-Type", "application/json")
	}
	if c.opts.Token != "" {
		r.Header.Set("Authorization", "Bearer "+c.opts.Token)
	}
	if k.key != "" {
		r.Header.Set("Idempotency-Key", strconv.Quote(k.key))
	}
	follow(ctx, r.Header)
	return r, nil
}

// follow makes a call part of the context's trace, so that its jobs are too.
func follow(ctx context.Context, h http.Header) {
	t := daybook.TraceOf(ctx)
	if t = daybook.ReadTrace(t.Parent, t.State); t.IsZero() {
		return
	}
	h.Set("Traceparent", t.Parent)
	if t.State != "" {
		h.Set("Tracestate", t.State)
	}
}

// sleep waits d, or less when ctx ends; then it is false.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
