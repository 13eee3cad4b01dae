package console

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/daybookdev/daybook"
)

// stream reads a page's live parts until enough came.
func (s *stage) stream(ctx context.Context, at string, enough func(name, html string) bool) {
	s.Helper()
	r, err := http.NewRequestWithContext(ctx, "GET", s.url+"/live?at="+url.QueryEscape(at), nil)
	s.ok(err)
	answer, err := s.http.Do(r)
	s.ok(err)
	defer answer.Body.Close()
	if answer.StatusCode != 200 || answer.Header.Get("Content-Type") != "text/event-stream" {
		s.Fatalf("stream: %d %s", answer.StatusCode, answer.Header)
	}
	name, data := "", ""
	for line := range linesOf(answer.Body) {
		switch {
		case strings.HasPrefix(line, "event: "):
			name = line[7:]
		case strings.HasPrefix(line, "data: "):
			data += line[6:] + "\n"
		case line == "" && name != "":
			if enough(name, data) {
				return
			}
			name, data = "", ""
		}
	}
	s.Fatal("the stream ended")
}

// A page that is watched follows the book; a person's decision is there at once.
func TestLive(t *testing.T) {
	s := newStage(t)
	c := s.play()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var once sync.Once
	s.stream(ctx, "/job/"+c.waiting.String(), func(name, html string) bool {
		once.Do(func() {
			_, err := s.book.Cancel(ctx, c.waiting, ada, false)
			s.ok(err)
		})
		return name == "facts" && strings.Contains(html, "s-cancelled")
	})
	s.until(func() bool {
		s.console.hub.mu.Lock()
		defer s.console.hub.mu.Unlock()
		return s.console.hub.watchers == 0 && len(s.console.hub.rooms) == 0
	})
}

// Streams are bounded, and many watchers of one page are one look at the book.
func TestWatchersAreBounded(t *testing.T) {
	s := newStage(t, func(o *Options) { o.Watchers = 3 })
	s.play()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	var all sync.WaitGroup
	came := make(chan struct{}, 3)
	for range 3 {
		all.Go(func() {
			first := true
			r, _ := http.NewRequestWithContext(ctx, "GET", s.url+"/live?at=/", nil)
			answer, err := s.http.Do(r)
			if err != nil {
				return
			}
			defer answer.Body.Close()
			for range linesOf(answer.Body) {
				if first {
					came <- struct{}{}
				}
				first = false
			}
		})
	}
	for range 3 {
		select {
		case <-came:
		case <-ctx.Done():
			t.Fatal("a stream never began")
		}
	}
	s.console.hub.mu.Lock()
	rooms := len(s.console.hub.rooms)
	s.console.hub.mu.Unlock()
	if rooms != 1 {
		t.Errorf("%d rooms for one page", rooms)
	}
	r, _ := http.NewRequestWithContext(ctx, "GET", s.url+"/live?at=/", nil)
	fourth, err := s.http.Do(r) // whose body would have no end
	if err != nil {
		t.Fatal(err)
	}
	fourth.Body.Close()
	if fourth.StatusCode != http.StatusServiceUnavailable || fourth.Header.Get("Retry-After") == "" {
		t.Errorf("a fourth watcher: %s %v", fourth.Status, fourth.Header)
	}
	cancel()
	all.Wait()
}

// Closing ends streams at once, so that a server can stop.
func TestCloseEndsStreams(t *testing.T) {
	s := newStage(t)
	s.play()
	r, err := http.NewRequestWithContext(t.Context(), "GET", s.url+"/live?at=/queues", nil)
	s.ok(err)
	answer, err := s.http.Do(r)
	s.ok(err)
	defer answer.Body.Close()
	s.console.Close()
	for range linesOf(answer.Body) {
	}
	s.console.Close()
	s.want(200, "/", "Overview")
}

// broken is a store that can't be read while it is told so.
type broken struct {
	daybook.Store
	now atomic.Bool
}

func (b *broken) Read(ctx context.Context, doing string, fn func(daybook.View) error) error {
	if b.now.Load() {
		return daybook.Unavailable(doing, errors.New("the line is cut"))
	}
	return b.Store.Read(ctx, doing, fn)
}

// A page that is watched says so when it can't follow the book any more, and when it
// can again: nobody takes what is old for what is.
func TestLiveSaysWhenItIsNot(t *testing.T) {
	s := newStage(t)
	c := s.play()
	store := &broken{Store: s.book.Store()}
	s.book = daybook.New(store, daybook.Options{Bell: daybook.NoBell{}})
	s.serve()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	var said []string
	s.stream(ctx, "/job/"+c.waiting.String(), func(name, data string) bool {
		if name == statePart {
			said = append(said, strings.TrimSpace(data))
		}
		store.now.Store(len(said) == 0)
		s.console.forget()
		return len(said) == 2
	})
	if !strings.Contains(said[0], "can’t be read") || said[1] != "" {
		t.Errorf("it said %q", said)
	}
}

// Whoever's token is revoked sees nothing more of a page that they have open.
func TestLiveEndsWithItsToken(t *testing.T) {
	s := newStage(t)
	c := s.play()
	s.logIn(s.token("ada", daybook.ScopeRead))
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	revoked := false
	s.stream(ctx, "/job/"+c.waiting.String(), func(name, data string) bool {
		if !revoked {
			_, err := s.book.RevokeToken(ctx, "ada", ada)
			s.ok(err)
			s.forgetTokens()
			_, err = s.book.Cancel(ctx, c.waiting, ada, false)
			s.ok(err)
			s.console.forget()
			revoked = true
			return false
		}
		if strings.Contains(data, "s-cancelled") {
			t.Error("it was told what happened behind its token's end")
		}
		return name == "bye"
	})
}
