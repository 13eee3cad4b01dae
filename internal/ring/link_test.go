package ring

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestLinkWaitsForItsFirstTryOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLink()
		answers := make(chan bool)
		go func() { answers <- l.Wait(t.Context()) }()
		synctest.Wait()
		select {
		case <-answers:
			t.Fatal("Wait answered before the first try did")
		default:
		}
		if changed, first := l.Set(false); changed || !first {
			t.Errorf("the first failure: changed %v, first %v", changed, first)
		}
		if <-answers {
			t.Error("Wait says that a server is connected that wasn't reached")
		}
		if l.Wait(t.Context()) { // returns at once
			t.Error("Wait says so later too")
		}
		if changed, first := l.Set(true); !changed || first {
			t.Errorf("the first success: changed %v, first %v", changed, first)
		}
		if epoch, up := l.Up(); epoch != 1 || !up || !l.Wait(t.Context()) {
			t.Errorf("connected once: epoch %d, up %v", epoch, up)
		}
		l.Set(false)
		l.Set(true)
		if epoch, _ := l.Up(); epoch != 2 {
			t.Errorf("connected twice: epoch %d", epoch)
		}
	})
}

func TestLinkWaitEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if NewLink().Wait(ctx) {
		t.Error("never tried, and connected")
	}
}

func TestLinkDropsTheNewest(t *testing.T) {
	l := NewLink()
	l.Drop() // harmless
	closed := func(c net.Conn) bool {
		c.SetReadDeadline(time.Now())
		_, err := c.Read(make([]byte, 1))
		timeout, ok := err.(net.Error)
		return !ok || !timeout.Timeout()
	}
	first, _ := net.Pipe()
	second, _ := net.Pipe()
	if !l.Use(first) || !l.Use(second) {
		t.Fatal("a connection wasn't wanted")
	}
	l.Drop()
	if !closed(second) || closed(first) {
		t.Error("Drop wants to close the newest connection and no other")
	}
	l.HangUp()
	third, _ := net.Pipe()
	if l.Use(third) || !closed(third) {
		t.Error("a connection was taken after the end")
	}
}

func TestNotedAwait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, up := NewNoted(), true
		var mu sync.Mutex
		connected := func() bool { mu.Lock(); defer mu.Unlock(); return up }
		n.Await(t.Context(), connected) // nothing is wanted: at once
		n.Poke()
		<-n.Wake()
		done := make(chan bool)
		wait := func() { n.Await(t.Context(), connected); done <- true }
		go wait()
		change, epoch := n.Wanted()
		if epoch != 0 || n.Settled() {
			t.Error("a server that was told nothing has noted something")
		}
		n.Set(change-1, 1)
		synctest.Wait()
		select {
		case <-done:
			t.Fatal("Await ended before the server had noted the change")
		default:
		}
		n.Set(change, 1)
		<-done
		if !n.Settled() {
			t.Error("the server has noted all, and isn't settled")
		}
		n.Forget()
		if n.Settled() {
			t.Error("the server knows nothing, and is settled")
		}
		n.Poke()
		go wait()
		synctest.Wait()
		mu.Lock()
		up = false // nobody can note anything now
		mu.Unlock()
		<-done
	})
}

func TestEcho(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var answers atomic.Bool
		var sent, silent atomic.Int64
		answers.Store(true)
		e := NewEcho(&Echo{Every: 10 * time.Second, Due: func() (int, bool) { return 7, true },
			Silent: func(epoch int) { silent.Add(int64(epoch)) }})
		e.Send = func(token int) error {
			sent.Add(1)
			e.Came(token - 1) // an old one is no answer
			synctestSleep(time.Millisecond)
			if answers.Load() {
				e.Came(token)
			}
			return nil
		}
		over := make(chan bool)
		go func() { e.Run(ctx); over <- true }()
		synctestSleep(100 * time.Second)
		if took, at := e.Last(); sent.Load() < 8 || sent.Load() > 13 ||
			took != time.Millisecond || at.IsZero() || silent.Load() > 0 {
			t.Errorf("%d echoes in 100 s, the last %v at %v, silent %d", sent.Load(), took, at, silent.Load())
		}
		answers.Store(false)
		synctestSleep(100 * time.Second)
		if n := silent.Load(); n < 5*7 || n%7 != 0 {
			t.Errorf("silent connections add up to %d, want connection 7 again and again", n)
		}
		cancel()
		<-over
	})
}

// synctestSleep sleeps in virtual time.
func synctestSleep(d time.Duration) { <-time.After(d) }
