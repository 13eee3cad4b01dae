package client_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/client"
)

// either is what a book and a client of it are compared by.
type either interface {
	EnqueueMany(ctx context.Context, requests []daybook.Request) ([]daybook.Receipt, error)
	Job(ctx context.Context, id daybook.ID) (daybook.Job, error)
	Jobs(ctx context.Context, f daybook.Filter) (daybook.Page[daybook.Job], error)
	Claim(ctx context.Context, r daybook.ClaimRequest) (daybook.Claimed, error)
	Cancel(ctx context.Context, id daybook.ID, by daybook.By, force bool) (daybook.Job, error)
	Resume(ctx context.Context, queue string, by daybook.By) error
	Progress(ctx context.Context, job daybook.ID, o daybook.Owner, progress []byte) error
	Settle(ctx context.Context, id daybook.ID, name string, v daybook.Verdict, by daybook.By) (daybook.Job, error)
	Finish(ctx context.Context, outcomes []daybook.Outcome) ([]daybook.Answer, error)
}

// Errors have the codes, the fields and the places in a batch that the book's own
// have.
func TestErrorsAreTheBooks(t *testing.T) {
	s := newStand(t)
	ctx := t.Context()
	taken := daybook.Request{Queue: "mail", Kind: "k", Key: "taken"}
	_, err := s.Enqueue(ctx, taken)
	s.ok(err)
	taken.Kind = "other"
	by, nobody := daybook.By{Actor: "ada", Reason: "r"}, daybook.NewID()
	for name, call := range map[string]func(b either) error{
		"no queue": func(b either) error {
			_, err := b.EnqueueMany(ctx, []daybook.Request{mail, {Kind: "k"}})
			return err
		},
		"a key taken, one": func(b either) error {
			_, err := b.EnqueueMany(ctx, []daybook.Request{taken})
			return err
		},
		"a key taken, of three": func(b either) error {
			_, err := b.EnqueueMany(ctx, []daybook.Request{mail, mail, taken})
			return err
		},
		"no job":      func(b either) error { _, err := b.Job(ctx, nobody); return err },
		"a cursor":    func(b either) error { _, err := b.Jobs(ctx, daybook.Filter{Cursor: "zzz"}); return err },
		"a limit":     func(b either) error { _, err := b.Jobs(ctx, daybook.Filter{Limit: -1}); return err },
		"a state":     func(b either) error { _, err := b.Jobs(ctx, daybook.Filter{State: "lost"}); return err },
		"no queues":   func(b either) error { _, err := b.Claim(ctx, daybook.ClaimRequest{}); return err },
		"no such job": func(b either) error { _, err := b.Claim(ctx, daybook.ClaimRequest{Job: nobody}); return err },
		"a lease": func(b either) error {
			_, err := b.Claim(ctx, daybook.ClaimRequest{Queues: []string{"q"},
				SessionRequest: daybook.SessionRequest{Lease: time.Hour * 48}})
			return err
		},
		"cancel nothing": func(b either) error { _, err := b.Cancel(ctx, nobody, by, false); return err },
		"a reason": func(b either) error {
			_, err := b.Cancel(ctx, nobody, daybook.By{Reason: "two\nlines"}, false)
			return err
		},
		"no such queue":  func(b either) error { return b.Resume(ctx, "nope", by) },
		"a queue's name": func(b either) error { return b.Resume(ctx, "a b/c", by) },
		"progress": func(b either) error {
			return b.Progress(ctx, nobody, daybook.Owner{Session: nobody, Generation: 1}, []byte(`{"a":1,"a":2}`))
		},
		"a result": func(b either) error {
			_, err := b.Settle(ctx, nobody, "e", daybook.Verdict{Happened: true, Result: []byte("{")}, by)
			return err
		},
		"an outcome": func(b either) error {
			answers, err := b.Finish(ctx, []daybook.Outcome{{Job: nobody, Kind: daybook.OutcomeSucceeded,
				Owner: daybook.Owner{Session: nobody, Generation: 1}}})
			if err != nil {
				return err
			}
			return answers[0].Err
		},
	} {
		want, got := call(s.book.Book), call(s.Client)
		if want == nil || daybook.CodeOf(got) != daybook.CodeOf(want) || daybook.BatchIndex(got) != daybook.BatchIndex(want) {
			t.Errorf("%s: got %v (%s), want %v (%s)", name, got, daybook.CodeOf(got), want, daybook.CodeOf(want))
			continue
		}
		mine, _ := errors.AsType[*daybook.Error](got)
		if its, _ := errors.AsType[*daybook.Error](want); mine.Field != its.Field {
			t.Errorf("%s: got field %q (%v), want %q (%v)", name, mine.Field, got, its.Field, want)
		}
	}
}

// Nobody is waited for longer than the client says, and each answer that isn't
// the server's is told from it, without a word of what was sent.
func TestStrangeAnswers(t *testing.T) {
	s := newStand(t)
	problem := func(code string) string { return `{"code":"` + code + `","detail":"what it says"}` }
	refusal := func(status int, code string) func(int) *http.Response {
		return func(int) *http.Response { return said(status, "application/problem+json", problem(code)) }
	}
	for name, test := range map[string]struct {
		answer func(n int) *http.Response // of the nth try
		code   daybook.Code
		tries  int
	}{
		"rate": {func(n int) *http.Response {
			if n > 1 {
				return nil // goes through
			}
			return said(429, "application/problem+json", problem("rate_limited"), "Retry-After=1")
		}, "", 2},
		"rate, long": {func(int) *http.Response {
			return said(429, "application/problem+json", problem("rate_limited"), "Retry-After=3600")
		}, daybook.CodeUnavailable, 1},
		"unavailable": {func(n int) *http.Response {
			if n > 2 {
				return nil
			}
			return said(503, "application/problem+json", problem("unavailable"))
		}, "", 3},
		"proxy": {func(int) *http.Response { return said(502, "text/html", "<html>") }, daybook.CodeUnavailable, 4},
		"elsewhere": {func(int) *http.Response {
			return said(307, "text/html", "", "Location=http://127.0.0.1:1/")
		}, daybook.CodeInternal, 1},
		"a page":        {func(int) *http.Response { return said(200, "text/html", "<html>") }, daybook.CodeInternal, 1},
		"other JSON":    {func(int) *http.Response { return said(200, "application/json", "[1]") }, daybook.CodeInternal, 1},
		"not here":      {func(int) *http.Response { return said(404, "text/plain", "nope") }, daybook.CodeInternal, 1},
		"nobody's":      {refusal(401, "unauthorized"), client.CodeUnauthorized, 1},
		"its own error": {refusal(500, "internal"), daybook.CodeInternal, 1},
		"endless": {func(int) *http.Response {
			return said(200, "application/json", strings.Repeat(" ", 5<<20))
		}, daybook.CodeInternal, 1},
	} {
		n := 0
		s.line.instead(func(*http.Request) *http.Response { n++; return test.answer(n) })
		_, err := s.Queues(t.Context(), false)
		tries := s.line.tries()
		if daybook.CodeOf(err) != test.code || tries != test.tries {
			t.Errorf("%s: got %v (%s) after %d tries, want %s after %d", name, err, daybook.CodeOf(err), tries, test.code,
				test.tries)
		}
		if err != nil && strings.Contains(err.Error(), s.secret) {
			t.Errorf("%s: the token is in %v", name, err)
		}
	}
}

// A server that isn't there, or doesn't answer, is said so soon.
func TestNobodyThere(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0") // takes calls, and never answers
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	silent, err := client.New("http://"+listener.Addr().String(), client.Options{Timeout: 50 * time.Millisecond, Tries: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	if _, err := silent.Job(t.Context(), daybook.NewID()); daybook.CodeOf(err) != daybook.CodeUnavailable ||
		!strings.Contains(err.Error(), "no answer in time") {
		t.Errorf("got %v, want no answer in time", err)
	}
	gone, err := client.New("http://127.0.0.1:1", client.Options{Tries: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer gone.Close()
	if _, err := gone.Cancel(t.Context(), daybook.NewID(), daybook.By{Reason: "r"}, false); daybook.CodeOf(err) !=
		daybook.CodeUnavailable || !strings.Contains(err.Error(), "http://127.0.0.1:1: nobody listens there") {
		t.Errorf("got %v, want nobody listens", err)
	}
}

// Addresses and tokens that can't be meant are refused, and not repeated.
func TestWrongAddresses(t *testing.T) {
	for _, address := range []string{"", "jobs.example.org", "ftp://x", "http://", "http://u:secret@x",
		"http://x?token=secret", "http://x#secret", "http://secret\x7f", "://"} {
		if _, err := client.New(address, client.Options{}); daybook.CodeOf(err) != daybook.CodeInvalid ||
			strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: got %v, want it refused", address, err)
		}
	}
	if _, err := client.New("http://x", client.Options{Token: "sec\nret"}); daybook.CodeOf(err) != daybook.CodeInvalid ||
		strings.Contains(err.Error(), "sec\n") {
		t.Errorf("got %v, want the token refused", err)
	}
	c, err := client.New("https://jobs.example.org/daybook/", client.Options{})
	if err != nil || c.Server() != "https://jobs.example.org/daybook" {
		t.Errorf("got %v, %v", c, err)
	}
}
