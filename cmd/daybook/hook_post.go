package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/worker"
	"github.com/daybookdev/daybook/worker/webhook"
)

// hookEffect is the effect that a posted job is.
const hookEffect = "main"

// idleMost is how long a connection is kept for the next request. Servers close
// theirs after two seconds and more, and a request that crosses with the closing
// gets no answer: nobody could say whether it was acted on.
const idleMost = time.Second

// poster posts jobs. Its requests follow no redirect, use no proxy, ask for no
// compression, and are sent once: Go's own client sends what has an
// Idempotency-Key again by itself, which is for the ledger to decide.
type poster struct {
	transport *http.Transport
	secrets   []webhook.Secret
	timeout   time.Duration
	unsure    []int
}

func newPoster(secrets []webhook.Secret, f hookFlags) *poster {
	dialer := &net.Dialer{Timeout: f.timeout}
	return &poster{secrets: secrets, timeout: f.timeout, unsure: f.unsure, transport: &http.Transport{
		DialContext: dialer.DialContext, DisableCompression: true,
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}, TLSHandshakeTimeout: f.timeout,
		MaxIdleConnsPerHost: worker.ConcurrencyMax, IdleConnTimeout: idleMost, MaxResponseHeaderBytes: 64 << 10,
		// HTTP/2 is left out: it says less surely what was sent.
		TLSNextProto: map[string]func(string, *tls.Conn) http.RoundTripper{},
	}}
}

// handler posts one job through the ledger.
func (p *poster) handler(e endpoint) func(context.Context, *worker.Claim[json.RawMessage]) error {
	return func(ctx context.Context, c *worker.Claim[json.RawMessage]) error {
		job := c.Job()
		result, err := worker.Effect(ctx, hookEffect, e.policy,
			func(ctx context.Context, key string) (json.RawMessage, error) { return p.post(ctx, e, job, key) },
			worker.CallLimit(p.timeout))
		if err != nil {
			return err
		}
		return c.SetResult(result)
	}
}

// hookError is what became of a request that isn't a success.
type hookError struct {
	text, kind string
	err        error // why, if that is ours to know
}

func (e *hookError) Error() string     { return e.text }
func (e *hookError) ErrorKind() string { return e.kind }
func (e *hookError) Unwrap() error     { return e.err }

// trip is how far one request came.
type trip struct {
	sent   atomic.Bool // the head was written: the endpoint may act on it
	reused atomic.Bool // on a connection that had served another
}

// post sends the job, and says what came of it in the ledger's words.
func (p *poster) post(ctx context.Context, e endpoint, job daybook.Job, key string) (json.RawMessage, error) {
	for {
		answer, came, err := p.send(ctx, e, job, key)
		switch {
		case err == nil:
			return p.read(answer, e)
		case came.sent.Load():
			return nil, &hookError{"no answer from " + e.host + "; the request was sent, so it may have happened: " +
				p.reason(ctx, err), "no answer", err}
		case came.reused.Load() && ctx.Err() == nil:
			continue // the connection had been closed meanwhile; there are only so many of them
		}
		return nil, worker.NotHappened(&hookError{e.host + " can't be reached, nothing was sent: " + p.reason(ctx, err),
			"not sent", err})
	}
}

// send makes one request. An answer is there as soon as its head is.
func (p *poster) send(ctx context.Context, e endpoint, job daybook.Job, key string) (*http.Response, *trip, error) {
	came := &trip{}
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn:      func(c httptrace.GotConnInfo) { came.reused.Store(c.Reused) },
		WroteHeaders: func() { came.sent.Store(true) },
	})
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url, bytes.NewReader(job.Args))
	if err != nil {
		return nil, came, err
	}
	r.GetBody = nil // see poster: without it nothing is sent again
	r.Header = headersOf(ctx, job, e, key)
	webhook.SetHeaders(r.Header, p.secrets, key, time.Now(), job.Args)
	answer, err := p.transport.RoundTrip(r)
	return answer, came, err
}

// read makes the answer a result, or an error that says what it means.
func (p *poster) read(answer *http.Response, e endpoint) (json.RawMessage, error) {
	defer answer.Body.Close()
	v := webhook.Judge(answer.StatusCode, answer.Header, p.unsure, time.Now())
	said := e.host + " answered " + strings.TrimSpace(strconv.Itoa(answer.StatusCode)+" "+
		http.StatusText(answer.StatusCode))
	most := int64(daybook.ResultMax)
	if v.Meaning != webhook.Succeeded {
		most = daybook.ErrorMax
	}
	body, err := io.ReadAll(io.LimitReader(answer.Body, most+1))
	switch {
	case v.Meaning != webhook.Succeeded:
		return nil, refused(v, answer.StatusCode, said, strings.TrimSpace(string(body)))
	case err != nil:
		return nil, &hookError{fmt.Sprintf("%s, and the answer broke off after %d bytes: %s", said, len(body),
			sendFault(err)), "answer broke off", err}
	}
	return resultOf(body), nil
}

// refused is the error that an answer which isn't a success ends the call with.
func refused(v webhook.Verdict, status int, said, body string) error {
	switch {
	case v.Meaning == webhook.Unsure:
		said += ", which leaves open whether it happened"
	case status >= 300 && status <= 399:
		said += "; redirects aren't followed, give the URL that it leads to"
	}
	if body != "" {
		said += ": " + body
	}
	failed := &hookError{text: said, kind: "http " + strconv.Itoa(status)}
	switch v.Meaning {
	case webhook.Unsure:
		return failed
	case webhook.Released:
		return worker.NotHappened(worker.Snooze(v.After))
	case webhook.Permanent:
		return worker.NotHappened(worker.Permanent(failed))
	}
	return worker.NotHappened(failed)
}

// reason says why a request has no answer.
func (p *poster) reason(ctx context.Context, err error) string {
	cause := context.Cause(ctx)
	switch {
	case errors.Is(cause, context.DeadlineExceeded) && !errors.Is(cause, worker.ErrRunLimit):
		return "it took longer than " + shortDuration(p.timeout)
	case cause != nil && !errors.Is(cause, context.Canceled):
		return sendFault(cause)
	}
	return sendFault(err)
}

// sendFault puts the network's complaint into words. It can hold addresses, and
// never the URL.
func sendFault(err error) string {
	if e, ok := errors.AsType[*daybook.Error](err); ok {
		return e.Error()
	}
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "the connection was closed"
	case errors.Is(err, context.DeadlineExceeded):
		return "it took too long"
	}
	text, _, _ := strings.Cut(err.Error(), "\n")
	return cut(strings.TrimPrefix(text, "net/http: "), 300)
}
