package client_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/worker"
)

// A worker works for a server as it does on the book: it hears of jobs without a
// poll, its effects are in the ledger, and what it still holds it gives back.
func TestWorkerForAServer(t *testing.T) {
	s := newStand(t)
	w := worker.New(s.Client, worker.Config{Queues: []string{"mail"}, Name: "w1", Poll: -1})
	done := make(chan daybook.ID, 10)
	worker.Handle(w, "welcome", func(ctx context.Context, c *worker.Claim[map[string]any]) error {
		if c.Book() != nil {
			t.Error("got a book at hand, want none")
		}
		if err := c.Progress(ctx, "half"); err != nil {
			return err
		}
		id, err := worker.Effect(ctx, "send", worker.Repeatable, func(_ context.Context, key string) (string, error) {
			return "m-" + key[:1], nil
		})
		if err != nil {
			return err
		}
		done <- c.Job().ID
		return c.SetResult(id)
	})
	worker.Handle(w, "broken", func(context.Context, *worker.Claim[struct{ N int }]) error { return nil })
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	for range 3 {
		began := time.Now()
		receipt, err := s.book.Enqueue(t.Context(), mail)
		s.ok(err)
		if id := <-done; id != receipt.ID {
			t.Errorf("ran %s, want %s", id, receipt.ID)
		}
		t.Logf("ran after %s", time.Since(began))
	}
	due := mail
	due.In = 300 * time.Millisecond
	_, err := s.book.Enqueue(t.Context(), due) // nobody rings for it
	s.ok(err)
	<-done
	bad, err := s.book.Enqueue(t.Context(), daybook.Request{Queue: "mail", Kind: "broken", Args: []byte(`{"N":"x"}`)})
	s.ok(err)
	s.eventually("the broken one set aside", func() bool {
		j, err := s.book.Job(t.Context(), bad.ID)
		return err == nil && j.State == daybook.SetAside && j.Reason == daybook.ReasonUndecodable
	})
	if st := w.Stats(); !st.Healthy || st.Claimed != 5 || st.Polled != 0 {
		t.Errorf("got %+v, want five claims and none found by a poll", st)
	}
	stop()
	s.ok(<-ended)
	sessions, err := s.book.Sessions(t.Context(), daybook.SessionFilter{WithEnded: true})
	s.ok(err)
	if len(sessions) != 1 || sessions[0].EndedAt == 0 || sessions[0].Worker != "w1" || !sessions[0].Starts {
		t.Errorf("got %+v, want the worker's one session, ended", sessions)
	}
}

// eventually waits until something holds.
func (s *stand) eventually(what string, holds func() bool) {
	s.Helper()
	deadline, every := time.After(30*time.Second), time.NewTicker(5*time.Millisecond)
	defer every.Stop()
	for !holds() {
		select {
		case <-every.C:
		case <-deadline:
			s.Fatalf("waited 30s for %s", what)
		}
	}
}

// A bell that was away rings once when it is heard again.
func TestBellComesBack(t *testing.T) {
	s := newStand(t)
	s.line.instead(func(r *http.Request) *http.Response {
		if strings.HasSuffix(r.URL.Path, "/listen") {
			return said(404, "text/plain", "away")
		}
		return nil
	})
	ctx, stop := context.WithCancel(t.Context())
	rings, err := s.Bell().Listen(ctx, []string{"mail"})
	s.ok(err)
	s.eventually("it was tried", func() bool { return s.line.tries() > 0 })
	s.line.instead(nil)
	_, err = s.book.Enqueue(ctx, mail)
	s.ok(err)
	if heard := <-rings; heard.Queue != "" && heard.Queue != "mail" {
		t.Errorf("got %+v, want a ring", heard)
	}
	stop()
	for range rings {
	}
	if _, err := s.Bell().Listen(t.Context(), nil); !errors.Is(err, daybook.ErrInvalid) {
		t.Errorf("got %v, want queues wanted", err)
	}
}

// Outcomes that are too large for one call go in several, each answered at its
// place.
func TestFinishInParts(t *testing.T) {
	s := newStand(t)
	ctx := t.Context()
	const jobs = 20
	requests := make([]daybook.Request, jobs)
	for i := range requests {
		requests[i] = daybook.Request{Queue: "mail", Kind: "k"}
	}
	_, err := s.EnqueueMany(ctx, requests)
	s.ok(err)
	given, err := s.Claim(ctx, daybook.ClaimRequest{Queues: []string{"mail"}, Limit: jobs})
	s.ok(err)
	large := []byte(`"` + strings.Repeat("x", daybook.ResultMax-2) + `"`)
	outcomes := make([]daybook.Outcome, jobs)
	for i, j := range given.Jobs {
		outcomes[i] = daybook.Outcome{Job: j.ID, Kind: daybook.OutcomeSucceeded, Result: large,
			Owner: daybook.Owner{Session: given.Session.ID, Generation: j.Generation}}
	}
	outcomes[7].Result = append(large, ' ') // past the limit: its attempt fails
	outcomes[11].Result = []byte(`{"a":1,`) // no JSON: the same
	outcomes[13].Owner.Generation = 5       // not the owner
	s.line.tries()
	answers, err := s.Finish(ctx, outcomes)
	s.ok(err)
	if n := s.line.tries(); n < 2 || n > 4 {
		t.Errorf("got %d calls, want a few", n)
	}
	for i, a := range answers {
		want := daybook.Succeeded
		switch i {
		case 7, 11:
			want = daybook.SetAside
		case 13:
			want = ""
			s.code(a.Err, daybook.CodeFenced)
		}
		if a.Job != outcomes[i].Job || a.State != want {
			t.Errorf("outcome %d: got %+v, want %s", i, a, want)
		}
	}
}
