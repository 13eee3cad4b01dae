package local

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/daybookdev/daybook"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// hear listens and counts what arrives, until ctx ends.
func hear(t *testing.T, ctx context.Context, b *Bell, queues ...string) map[string]int {
	t.Helper()
	rings, err := b.Listen(ctx, queues)
	if err != nil {
		t.Fatalf("Listen: %v", err)
	}
	heard := map[string]int{}
	go func() {
		for r := range rings {
			heard[r.Queue]++
		}
	}()
	return heard
}

func total(heard ...map[string]int) int {
	n := 0
	for _, h := range heard {
		for _, count := range h {
			n += count
		}
	}
	return n
}

func TestRingWakesOneListenerInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		b := New()
		defer b.Close()
		defer cancel()
		heard := make([]map[string]int, 3)
		for i := range heard {
			heard[i] = hear(t, ctx, b, "mail")
		}
		other := hear(t, ctx, b, "video")
		for n := 1; n <= 6; n++ {
			synctest.Wait() // everybody waits for rings again
			b.Ring(ctx, "mail")
			synctest.Wait()
			if got := total(heard...); got != n {
				t.Fatalf("after %d rings listeners woke %d times", n, got)
			}
		}
		for i, h := range heard {
			if h["mail"] != 2 {
				t.Errorf("listener %d got %d rings of 6, want 2", i, h["mail"])
			}
		}
		if got := total(other); got != 0 {
			t.Errorf("a listener of another queue got %d rings", got)
		}
	})
}

func TestRingsWithoutAReaderCoalesceAndNeverBlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		b := New()
		defer b.Close()
		defer cancel()
		rings, err := b.Listen(ctx, []string{"mail", "video"})
		if err != nil {
			t.Fatal(err)
		}
		for range 10_000 {
			b.Ring(ctx, "mail")
			b.Ring(ctx, "video")
		}
		got := []string{(<-rings).Queue, (<-rings).Queue}
		if got[0] != "mail" || got[1] != "video" {
			t.Errorf("got %v, want mail and video, the oldest first", got)
		}
		synctest.Wait()
		select {
		case q := <-rings:
			t.Errorf("20000 rings left a third one, of %s", q.Queue)
		default:
		}
	})
}

// A worker without free slots doesn't read. Its ring must go to one that does.
func TestRingPassesABusyListener(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		b := New()
		defer b.Close()
		defer cancel()
		if _, err := b.Listen(ctx, []string{"mail"}); err != nil { // never reads
			t.Fatal(err)
		}
		b.Ring(ctx, "mail") // nobody is waiting: it stays
		synctest.Wait()
		idle := hear(t, ctx, b, "mail")
		synctest.Wait()
		if idle["mail"] != 1 {
			t.Errorf("the idle listener got %d rings, want the one that was left", idle["mail"])
		}
		for range 5 {
			b.Ring(ctx, "mail")
			synctest.Wait()
		}
		if idle["mail"] != 6 {
			t.Errorf("the idle listener got %d rings, want 6", idle["mail"])
		}
	})
}

func TestListenToEveryQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		b := New()
		defer b.Close()
		defer cancel()
		heard := hear(t, ctx, b)
		for i := range 5 {
			synctest.Wait()
			b.Ring(ctx, fmt.Sprintf("q%d", i))
		}
		synctest.Wait()
		if len(heard) != 5 {
			t.Errorf("heard %v, want five queues", heard)
		}
	})
}

func TestListenEndsWithItsContextAndForgetsItsRings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New()
		defer b.Close()
		ctx, cancel := context.WithCancel(t.Context())
		rings, err := b.Listen(ctx, []string{"mail"})
		if err != nil {
			t.Fatal(err)
		}
		b.Ring(ctx, "mail")
		cancel()
		synctest.Wait()
		for q := range rings { // at most the ring that was offered; then closed
			if q.Queue != "mail" {
				t.Errorf("got a ring of %q", q.Queue)
			}
		}
		b.Ring(t.Context(), "mail") // nobody listens: dropped
		b.mu.Lock()
		defer b.mu.Unlock()
		if len(b.pending) != 0 || len(b.listeners) != 0 {
			t.Errorf("kept %v rings for %d listeners, want none", b.pending, len(b.listeners))
		}
	})
}

func TestCloseEndsListening(t *testing.T) {
	b := New()
	rings, err := b.Listen(t.Context(), []string{"mail"})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := b.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
	if _, open := <-rings; open {
		t.Error("the channel is open after Close")
	}
	if _, err := b.Listen(t.Context(), nil); !errors.Is(err, daybook.ErrUnavailable) {
		t.Errorf("Listen after Close: %v, want unavailable", err)
	}
	b.Ring(t.Context(), "mail") // harmless
}
