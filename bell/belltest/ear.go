package belltest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/daybookdev/daybook"
)

// ear listens and finishes what it hears, like an idle worker.
type ear struct {
	bell   daybook.Bell
	stop   context.CancelFunc
	queues []string

	mu    sync.Mutex
	rings []daybook.Heard
	last  time.Time
	ended bool
}

// listen opens an end of its own and listens on it, connected and with what the
// beginning rang behind it.
func (p *place) listen(t *testing.T, queues ...string) *ear {
	t.Helper()
	e := p.listenOn(t, p.bell(t), queues...)
	ready(t, e)
	return e
}

// listenOn listens on a bell, connected or not.
func (p *place) listenOn(t *testing.T, b daybook.Bell, queues ...string) *ear {
	t.Helper()
	e := &ear{bell: b, queues: queues}
	rings := e.open(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for r := range rings {
			e.note(r)
			r.Finish(true)
		}
		e.mu.Lock()
		e.ended = true
		e.mu.Unlock()
	}()
	t.Cleanup(func() { e.stop(); <-done })
	return e
}

// deaf begins to listen and leaves the receiving to the test.
func deaf(t *testing.T, b daybook.Bell, queues ...string) (<-chan daybook.Heard, *ear) {
	t.Helper()
	e := &ear{bell: b, queues: queues}
	return e.open(t), e
}

func (e *ear) open(t *testing.T) <-chan daybook.Heard {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	e.stop, e.last = stop, time.Now()
	t.Cleanup(stop)
	rings, err := e.bell.Listen(ctx, e.queues)
	if err != nil {
		t.Fatalf("Listen: %v", err)
	}
	return rings
}

func (e *ear) note(r daybook.Heard) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.rings, e.last = append(e.rings, r), time.Now()
}

// ready waits until all are connected and nothing more comes from that.
func ready(t *testing.T, ears ...*ear) {
	t.Helper()
	for _, e := range ears {
		connected(t, e.bell)
	}
	calm(ears...)
	for _, e := range ears {
		e.forget()
	}
}

// connected waits until the bell says that it listens.
func connected(t *testing.T, b daybook.Bell) {
	t.Helper()
	if b, ok := b.(daybook.Outside); ok {
		soon(t, "Stats().Listening", func() bool { return b.Stats().Listening })
	}
}

// calm waits until none of them has heard anything for a while.
func calm(ears ...*ear) {
	last := time.Now()
	for {
		for _, e := range ears {
			e.mu.Lock()
			if e.last.After(last) {
				last = e.last
			}
			e.mu.Unlock()
		}
		rest := settle - time.Since(last)
		if rest <= 0 {
			return
		}
		time.Sleep(rest)
	}
}

func (e *ear) forget() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.rings = nil
}

// heard is what was heard of a queue since forget.
func (e *ear) heard(queue string) (rings []daybook.Heard) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, r := range e.rings {
		if r.Queue == queue {
			rings = append(rings, r)
		}
	}
	return rings
}

// all is every queue heard since forget, with how often.
func (e *ear) all() map[string]int {
	e.mu.Lock()
	defer e.mu.Unlock()
	heard := map[string]int{}
	for _, r := range e.rings {
		heard[r.Queue]++
	}
	return heard
}

func (e *ear) over() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.ended
}

// hears waits until the ear heard the queue.
func (e *ear) hears(t *testing.T, queue string) daybook.Heard {
	t.Helper()
	soon(t, "a ring of "+queue, func() bool { return len(e.heard(queue)) > 0 })
	return e.heard(queue)[0]
}

// caughtUp waits until the ear was told to look at all of its queues: by one
// ring of "", or by one of each.
func (e *ear) caughtUp(t *testing.T) {
	t.Helper()
	soon(t, "a catch-up ring", func() bool {
		heard := e.all()
		if heard[""] > 0 {
			return true
		}
		for _, q := range e.queues {
			if heard[q] == 0 {
				return false
			}
		}
		return len(e.queues) > 0
	})
}

// receive is one ring from a channel that the test reads itself; those that say
// "look at all" are finished and passed over.
func receive(t *testing.T, rings <-chan daybook.Heard) daybook.Heard {
	t.Helper()
	over := time.NewTimer(Patience)
	defer over.Stop()
	for {
		select {
		case r, open := <-rings:
			if !open {
				t.Fatal("the channel was closed, want a ring")
			}
			if r.Queue != "" {
				return r
			}
			r.Finish(true)
		case <-over.C:
			t.Fatalf("no ring within %s", Patience)
		}
	}
}

// nothing fails the test when a ring of a queue comes.
func nothing(t *testing.T, rings <-chan daybook.Heard) {
	t.Helper()
	quiet := time.NewTimer(settle)
	defer quiet.Stop()
	for {
		select {
		case r, open := <-rings:
			if !open {
				return
			}
			if r.Queue != "" {
				t.Errorf("got one more ring of %s (again: %v)", r.Queue, r.Again)
			}
			r.Finish(true)
		case <-quiet.C:
			return
		}
	}
}
