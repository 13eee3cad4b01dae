package client

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/daybookdev/daybook"
)

// The codes that only the network has, beside the book's own. Too many calls
// (429) come as [daybook.CodeUnavailable]: they may be made again later.
const (
	// CodeUnauthorized: the token is missing, not known, expired or revoked.
	CodeUnauthorized daybook.Code = "unauthorized"
	// CodeForbidden: the token, or the place that the call comes from, doesn't allow
	// it.
	CodeForbidden daybook.Code = "forbidden"
)

// problem is an error as the API answers it (RFC 9457).
type problem struct {
	Status int                `json:"status"`
	Detail string             `json:"detail"`
	Code   daybook.Code       `json:"code"`
	Errors []fieldError       `json:"errors"`
	Lost   []daybook.ClaimRef `json:"lost"`
}

type fieldError struct {
	Pointer   string `json:"pointer"`
	Parameter string `json:"parameter"`
	Detail    string `json:"detail"`
}

// lostClaims is the refusal of starts: the others were recorded.
type lostClaims struct {
	error
	lost []daybook.ClaimRef
}

func (l *lostClaims) Unwrap() error { return l.error }

// refused makes the server's refusal the error that the book would have given.
func (c *Client) refused(answer *http.Response, body []byte) error {
	var p problem
	if json.Unmarshal(body, &p) != nil || p.Code == "" {
		return c.stranger(answer, body)
	}
	after := retryAfter(answer.Header.Get("Retry-After"))
	err := p.error()
	switch {
	case answer.StatusCode == http.StatusTooManyRequests:
		err.Code = daybook.CodeUnavailable
		return &trouble{err: err, undone: true, after: after}
	case p.Code == daybook.CodeUnavailable:
		return &trouble{err: err, after: after}
	case len(p.Lost) > 0:
		return &lostClaims{err, p.Lost}
	}
	if index, ok := p.index(); ok {
		return &daybook.BatchError{Index: index, Err: err}
	}
	return err
}

// stranger is the error of an answer that isn't the API's: a proxy's, or that of
// another server.
func (c *Client) stranger(answer *http.Response, body []byte) error {
	status := answer.StatusCode
	switch {
	case status == http.StatusBadGateway, status == http.StatusServiceUnavailable,
		status == http.StatusGatewayTimeout, status == http.StatusTooManyRequests:
		return &trouble{after: retryAfter(answer.Header.Get("Retry-After")), err: daybook.Fail(daybook.CodeUnavailable,
			"what stands before the server at %s answered %d; try again", c.Server(), status)}
	case status == http.StatusBadRequest && bytes.Contains(body, []byte("HTTP request to an HTTPS server")):
		return daybook.Fail(daybook.CodeUnavailable,
			"can't reach the server at %s: it speaks HTTPS; begin the address with https://", c.Server())
	case status < 400:
		return daybook.Fail(daybook.CodeInternal, "the server at %s sends calls elsewhere (%d); give its own address",
			c.Server(), status)
	}
	return daybook.Fail(daybook.CodeInternal, "what answers at %s is no Daybook server (%d); correct the address",
		c.Server(), status)
}

// retryAfter reads seconds, the only form that the API gives; 0 is none.
func retryAfter(given string) time.Duration {
	n, err := strconv.Atoi(given)
	if err != nil || n < 0 || n > 1<<20 {
		return 0
	}
	return time.Duration(n) * time.Second
}

// bookNames are fields that have another name in the API.
var bookNames = map[string]string{"in_seconds": "in", "retry_in_seconds": "retry_in", "lease_seconds": "lease",
	"timeout_seconds": "timeout", "window_seconds": "window", "quiet_seconds": "quiet"}

// error is the book's error of a problem: which field, and what is wrong with it.
func (p problem) error() *daybook.Error {
	e := &daybook.Error{Code: p.Code, Text: p.Detail}
	if len(p.Errors) == 0 {
		return e
	}
	blamed := p.Errors[0]
	parts := blamed.parts()
	if _, batch := p.index(); batch {
		parts = parts[1:]
	}
	if len(parts) == 0 || parts[0] == "" {
		return e
	}
	e.Field = parts[0]
	if name := bookNames[e.Field]; name != "" {
		e.Field = name
	}
	e.Text = strings.TrimPrefix(blamed.Detail, parts[0]+": ")
	if len(parts) > 1 { // a place inside a document
		e.Text = "at " + strconv.Quote("/"+strings.Join(parts[1:], "/")) + ": " + e.Text
	}
	return e
}

// naming puts the name back into the error of one that nothing has: the server
// doesn't repeat what it was given.
func naming(err error, what, name string) error {
	e, ok := errors.AsType[*daybook.Error](err)
	if !ok || e.Code != daybook.CodeNotFound {
		return err
	}
	named := *e
	named.Text = strings.ReplaceAll(e.Text, "no such "+what, "no "+what+" "+strconv.Quote(name))
	return &named
}

// parts are the names on the way to what is to blame.
func (f fieldError) parts() []string {
	if f.Parameter != "" {
		return []string{f.Parameter}
	}
	return strings.Split(strings.TrimPrefix(strings.TrimPrefix(f.Pointer, "#"), "/"), "/")
}

// index is which row of a batch is to blame.
func (p problem) index() (int, bool) {
	if len(p.Errors) == 0 || p.Errors[0].Parameter != "" {
		return 0, false
	}
	n, err := strconv.Atoi(p.Errors[0].parts()[0])
	return n, err == nil && n >= 0
}

// lostOf are the claims that a refusal names as lost.
func lostOf(err error) ([]daybook.ClaimRef, bool) {
	l, ok := errors.AsType[*lostClaims](err)
	if !ok {
		return nil, false
	}
	return l.lost, true
}
