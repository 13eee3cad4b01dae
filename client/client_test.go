package client_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/check"
	"github.com/daybookdev/daybook/client"
	"github.com/daybookdev/daybook/daybooktest"
	"github.com/daybookdev/daybook/httpapi"
)

// stand is a real server on a book of its own, and a client of it whose line can
// be cut.
type stand struct {
	*testing.T
	book   *daybooktest.Book
	api    *httpapi.Server
	url    string
	secret string
	line   *line
	log    *bytes.Buffer
	*client.Client
}

func newStand(t *testing.T) *stand {
	t.Helper()
	s := &stand{T: t, book: daybooktest.New(t), line: &line{}, log: &bytes.Buffer{}}
	_, secret, err := s.book.CreateToken(t.Context(), daybook.TokenRequest{Name: "ada", Scopes: daybook.TokenScopes},
		daybook.By{})
	if err != nil {
		t.Fatal(err)
	}
	s.api, err = httpapi.New(s.book.Book, httpapi.Options{Log: slog.New(slog.DiscardHandler),
		Check: func(ctx context.Context, full bool) (any, error) {
			return check.Run(ctx, s.book.Book, check.Options{Full: full})
		}})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(s.api)
	s.url, s.secret = server.URL, secret
	s.Client = s.client(client.Options{Token: secret})
	t.Cleanup(func() {
		s.api.Close()
		server.Close()
	})
	return s
}

// client makes a client on the stand's line.
func (s *stand) client(o client.Options) *client.Client {
	s.Helper()
	o.Transport, o.Log = s.line, slog.New(slog.NewTextHandler(s.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	c, err := client.New(s.url, o)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(s.line.close)
	return c
}

// line carries calls, and loses answers when it is told to.
type line struct {
	http.Transport
	mu     sync.Mutex
	lose   int // so many answers are lost: the server has done the work
	sent   []string
	answer func(r *http.Request) *http.Response // stands in for the server; nil is none
}

func (l *line) RoundTrip(r *http.Request) (*http.Response, error) {
	l.mu.Lock()
	l.sent = append(l.sent, r.Method+" "+r.URL.Path)
	instead := l.answer
	lost := l.lose > 0
	l.lose = max(0, l.lose-1)
	l.mu.Unlock()
	if instead != nil {
		if answer := instead(r); answer != nil {
			return answer, nil
		}
	}
	answer, err := l.Transport.RoundTrip(r)
	if err == nil && lost {
		_, _ = io.Copy(io.Discard, answer.Body)
		answer.Body.Close()
		return nil, errors.New("cut, with a proxy's secret in the text")
	}
	return answer, err
}

func (l *line) close() { l.CloseIdleConnections() }

func (l *line) tries() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := len(l.sent)
	l.sent = nil
	return n
}

func (l *line) loses(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lose, l.sent = n, nil
}

// instead answers every call by itself, as often as it wants.
func (l *line) instead(of func(r *http.Request) *http.Response) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.answer, l.sent = of, nil
}

func said(status int, media, body string, headers ...string) *http.Response {
	w := httptest.NewRecorder()
	w.Header().Set("Content-Type", media)
	for _, h := range headers {
		name, value, _ := strings.Cut(h, "=")
		w.Header().Set(name, value)
	}
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
	return w.Result()
}

func (s *stand) ok(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// code holds an error to a code.
func (s *stand) code(err error, want daybook.Code) {
	s.Helper()
	if got := daybook.CodeOf(err); got != want {
		s.Errorf("got %q (%v), want %q", got, err, want)
	}
}

var mail = daybook.Request{Queue: "mail", Kind: "welcome", Args: []byte(`{ "b": 1.0, "a": 9007199254740993 }`)}

// A job goes its whole way through the client, and its input stays as it was.
func TestJobsWay(t *testing.T) {
	s := newStand(t)
	ctx := t.Context()
	r := mail
	r.Key, r.Timeout, r.In = "k1", 90*time.Second, 0
	receipt, err := s.Enqueue(ctx, r)
	s.ok(err)
	if again, err := s.Enqueue(ctx, r); err != nil || again.ID != receipt.ID || !again.Replayed {
		t.Errorf("again: got %+v, %v, want the same job", again, err)
	}
	if kept, err := s.book.Job(ctx, receipt.ID); err != nil || string(kept.Args) != string(mail.Args) {
		t.Errorf("got args %s, %v, want them byte for byte", kept.Args, err)
	}
	given, err := s.Claim(ctx, daybook.ClaimRequest{Queues: []string{"mail"}, Limit: 2,
		SessionRequest: daybook.SessionRequest{Worker: "w", Lease: time.Minute}})
	s.ok(err)
	if len(given.Jobs) != 1 || given.Full || given.Jobs[0].Timeout != r.Timeout || given.Session.ExpiresAt == 0 {
		t.Fatalf("got %+v, want the job with its run limit", given)
	}
	job, owner := given.Jobs[0].ID, daybook.Owner{Session: given.Session.ID, Generation: given.Jobs[0].Generation}
	refs := []daybook.ClaimRef{{Job: job, Generation: 1}, {Job: daybook.NewID(), Generation: 1}}
	renewal, err := s.Renew(ctx, owner.Session, refs)
	s.ok(err)
	if len(renewal.Lost) != 1 || renewal.Lost[0] != refs[1] || renewal.LeaseUntil == 0 {
		t.Errorf("got %+v, want the strange one lost", renewal)
	}
	if lost, err := s.Started(ctx, owner.Session, refs); err != nil || len(lost) != 1 || lost[0] != refs[1] {
		t.Errorf("started: got %v, %v, want the strange one lost", lost, err)
	}
	s.ok(s.Progress(ctx, job, owner, []byte(`{"n":1.0}`)))
	begun, err := s.BeginEffect(ctx, job, owner, daybook.Begin{Name: "charge", Policy: daybook.PolicyAsk})
	s.ok(err)
	if begun.Decision != daybook.DecisionCall || begun.Key != daybook.EffectKey(job, "charge", 0) {
		t.Errorf("got %+v, want a call", begun)
	}
	_, err = s.Complete(ctx, job, owner, nil)
	s.code(err, daybook.CodeEffectOpen)
	_, err = s.FinishEffect(ctx, job, owner, daybook.EffectEnd{Name: "charge", Outcome: daybook.OutcomeDone})
	s.ok(err)
	answer, err := s.Complete(ctx, job, owner, []byte(`{"sent": 1.0}`))
	if err != nil || answer.State != daybook.Succeeded || answer.Job != job {
		t.Errorf("got %+v, %v, want succeeded", answer, err)
	}
	_, err = s.Fail(ctx, job, owner, daybook.Failure{Problem: daybook.NewProblem("late", "", "")}, nil)
	s.code(err, daybook.CodeFenced)
	if done, err := s.Job(ctx, job); err != nil || string(done.Result) != `{"sent": 1.0}` {
		t.Errorf("got %s, %v", done.Result, err)
	}
	s.ok(s.EndSession(ctx, owner.Session))
	if report, err := s.Check(ctx, true); err != nil || report.Violations != 0 || len(report.Invariants) == 0 {
		t.Errorf("got %+v, %v", report, err)
	}
}

// What was done and whose answer was lost is answered by the next try, whatever
// it was that can be repeated.
func TestLostAnswers(t *testing.T) {
	s := newStand(t)
	ctx := t.Context()
	s.line.loses(1)
	first, err := s.Enqueue(ctx, mail) // without key and id
	s.ok(err)
	if n := s.line.tries(); n != 2 || first.Replayed {
		t.Errorf("got %+v after %d tries, want a new job after 2", first, n)
	}
	s.line.loses(2)
	many, err := s.EnqueueMany(ctx, []daybook.Request{mail, mail, {Queue: "mail", Kind: "k", Key: "k1"}})
	s.ok(err)
	if len(many) != 3 || many[0].Replayed || many[1].Replayed {
		t.Errorf("got %+v, want three jobs that are new", many)
	}
	if n, err := s.Count(ctx, daybook.Filter{Queue: "mail"}); n != 4 || err != nil {
		t.Errorf("got %d jobs, %v, want 4", n, err)
	}
	session, err := s.StartSession(ctx, daybook.SessionRequest{Worker: "w", Lease: time.Minute, Queues: []string{"mail"}})
	s.ok(err)
	if session.Lease != time.Minute {
		t.Errorf("got lease %s", session.Lease)
	}
	s.line.loses(1)
	given, err := s.Claim(ctx, daybook.ClaimRequest{Session: session.ID, Queues: []string{"mail"}, Limit: 2})
	s.ok(err)
	if len(given.Jobs) != 2 || given.Session.ID != session.ID || !given.Full {
		t.Fatalf("got %+v, want two jobs", given)
	}
	var outcomes []daybook.Outcome
	for _, j := range given.Jobs {
		outcomes = append(outcomes, daybook.Outcome{Job: j.ID, Kind: daybook.OutcomeSucceeded,
			Owner: daybook.Owner{Session: session.ID, Generation: j.Generation}})
	}
	s.line.loses(1)
	answers, err := s.Finish(ctx, outcomes)
	s.ok(err)
	for i, a := range answers {
		if a.Err != nil || !a.Already || a.State != daybook.Succeeded || a.Job != outcomes[i].Job {
			t.Errorf("got %+v, want it recorded by the first try", a)
		}
	}
	if running, err := s.Count(ctx, daybook.Filter{State: daybook.Running}); running != 0 || err != nil {
		t.Errorf("got %d running, %v", running, err)
	}
	s.line.loses(1)
	s.ok(s.Pause(ctx, "mail", daybook.By{Reason: "r"}))
	s.line.loses(1)
	_, err = s.Cancel(ctx, first.ID, daybook.By{Reason: "r"}, false)
	if s.code(err, daybook.CodeUnavailable); s.line.tries() != 1 {
		t.Error("a decision was sent twice")
	}
	if err := s.EndSession(ctx, session.ID); err != nil {
		t.Error(err)
	}
	if strings.Contains(err.Error()+s.log.String(), "secret") || strings.Contains(s.log.String(), s.secret) {
		t.Errorf("something secret in %v or\n%s", err, s.log)
	}
}
