package ring

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daybookdev/daybook"
)

func ring(queue string) daybook.Ring { return daybook.Ring{Queue: queue} }

// server takes batches, slowly, and fails when it is told to.
type server struct {
	mu      sync.Mutex
	batches [][]string
	fails   error
	takes   time.Duration
}

func (s *server) send(ctx context.Context, rings []daybook.Ring) error {
	select {
	case <-time.After(s.takes):
	case <-ctx.Done():
		return ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fails != nil {
		return s.fails
	}
	var queues []string
	for _, r := range rings {
		queues = append(queues, r.Queue)
	}
	slices.Sort(queues)
	s.batches = append(s.batches, queues)
	return nil
}

func (s *server) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fails = err
}

func (s *server) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.batches)
}

func (s *server) took() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return fmt.Sprint(s.batches)
}

func TestOutCoalescesBehindTheFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{takes: time.Second}
		o := NewOut(s.send, nil)
		o.Ring(ring("a"))
		synctest.Wait()
		for range 1000 {
			o.Ring(ring("a"))
			o.Ring(ring("b"))
		}
		time.Sleep(3 * time.Second)
		if got := s.took(); got != "[[a] [a b]]" {
			t.Errorf("2001 rings went as %s, want the first at once and the others together", got)
		}
		if o.Published() != 3 || o.Failed() != 0 {
			t.Errorf("%d published, %d failed", o.Published(), o.Failed())
		}
		o.Close()
	})
}

// Many who enqueue at once make few batches, and one who does now and then waits
// for nothing.
func TestOutGathers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{takes: 50 * time.Microsecond}
		o := NewOut(s.send, nil)
		for range 10_000 {
			o.Ring(ring("a"))
			time.Sleep(10 * time.Microsecond)
		}
		time.Sleep(time.Second)
		if n := s.count(); n < 10 || n > 20 {
			t.Errorf("ten thousand rings within 100 ms went in %d batches, want about one in %s", n, apartMost)
		}
		before := s.count()
		for n := range 10 {
			o.Ring(ring("a"))
			time.Sleep(60 * time.Microsecond)
			if s.count() != before+n+1 {
				t.Errorf("ring %d, with none before it on its way, has to wait", n)
			}
		}
		o.Ring(ring("a"))
		synctest.Wait()
		o.Ring(ring("b"))
		time.Sleep(60 * time.Microsecond) // it has to wait
		begun := time.Now()
		if err := o.Publish(t.Context(), []daybook.Ring{ring("c")}); err != nil || time.Since(begun) > apartLeast/2 {
			t.Errorf("Publish: %v, after %s; it is waited for", err, time.Since(begun))
		}
		o.Close()
	})
}

func TestOutTriesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{}
		var told atomic.Int64
		o := NewOut(s.send, func(int, error) { told.Add(1) })
		s.fail(errors.New("away"))
		o.Ring(ring("a"))
		time.Sleep(time.Minute)
		if n := told.Load(); n == 0 || n > 100 {
			t.Errorf("tried %d times in a minute, want once in a second or two", n)
		}
		begun := time.Now()
		if err := o.Publish(t.Context(), []daybook.Ring{ring("b")}); err == nil {
			t.Error("Publish to a server that is away succeeds")
		} else if took := time.Since(begun); took > time.Second/10 {
			t.Errorf("Publish failed after %s, want a try at once", took)
		}
		s.fail(nil)
		time.Sleep(10 * time.Second)
		if got := s.took(); got != "[[a]]" {
			t.Errorf("afterwards %s went, want the one that nobody was told about", got)
		}
		s.fail(ErrRefused)
		o.Ring(ring("c"))
		time.Sleep(10 * time.Second)
		s.fail(nil)
		o.Close()
		if got := s.took(); got != "[[a]]" {
			t.Errorf("%s went, and c was refused for good", got)
		}
	})
}

func TestOutPublish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{takes: time.Second}
		o := NewOut(s.send, nil)
		rings := []daybook.Ring{ring("a"), ring("a"), ring("b"), ring(""), ring("x\x00"), ring("\xff"),
			ring(strings.Repeat("x", daybook.NameMax+1))}
		if err := o.Publish(t.Context(), rings); err != nil || s.took() != "[[a b]]" {
			t.Errorf("Publish: %v, %s", err, s.took())
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
		defer cancel()
		err := o.Publish(ctx, rings[:1])
		if !errors.Is(err, daybook.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) || o.Failed() != 1 {
			t.Errorf("Publish in half the time: %v; %d failed", err, o.Failed())
		}
		time.Sleep(time.Minute)
		o.Close()
		if err := o.Publish(t.Context(), rings); !errors.Is(err, daybook.ErrUnavailable) {
			t.Errorf("Publish after Close: %v", err)
		}
		o.Ring(ring("a"))
		o.Poke()
		o.Close()
	})
}

// A program that enqueues and ends is heard; one whose server is away ends.
func TestOutCloseSendsWhatIsRung(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{takes: time.Second / 2}
		o := NewOut(s.send, nil)
		o.Ring(ring("a"))
		o.Close()
		if s.took() != "[[a]]" {
			t.Errorf("Close left %s, want what was rung", s.took())
		}
		slow := &server{takes: time.Hour}
		o = NewOut(slow.send, nil)
		o.Ring(ring("a"))
		begun := time.Now()
		o.Close()
		if took := time.Since(begun); took != lastWords {
			t.Errorf("Close took %s with a server that doesn't answer, want %s", took, lastWords)
		}
	})
}

func TestOutForgetsWhatIsTooMuch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{takes: time.Hour}
		s.fail(errors.New("away"))
		o := NewOut(s.send, nil)
		for i := range 2 * pendingMax {
			o.Ring(ring(fmt.Sprint(i)))
		}
		time.Sleep(2 * time.Hour)
		o.mu.Lock()
		if n := len(o.pending); n > pendingMax || n < pendingMax/2 {
			t.Errorf("%d queues wait for a server that is away, want %d at most", n, pendingMax)
		}
		o.mu.Unlock()
		o.Close()
	})
}

func TestEars(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		changes := 0
		var back []daybook.Ring
		e := NewEars(func() { changes++ }, func(r daybook.Ring) { back = append(back, r) })
		ctx, stop := context.WithCancel(t.Context())
		mail, err := e.Listen(ctx, []string{"mail"})
		if err != nil {
			t.Fatal(err)
		}
		all, _ := e.Listen(t.Context(), nil)
		if queues, every := e.Queues(); changes != 2 || !every || fmt.Sprint(queues) != "[mail]" || !e.Hears("x") {
			t.Errorf("%d changes, %v, %v", changes, queues, every)
		}
		if e.Try(ring("mail")) {
			t.Error("a ring went to nobody")
		}
		var out []daybook.Ring
		send := func(r daybook.Ring) { out = append(out, r) }
		if e.Ring(ring("mail"), send) || len(out) != 1 {
			t.Errorf("a ring that nobody here waits for went out %d times, want once", len(out))
		}
		for i, acted := range []bool{true, false} {
			go func() { h := <-mail; h.Finish(acted) }()
			synctest.Wait()
			if !e.Ring(ring("mail"), send) {
				t.Error("a listener waits here, and the ring went out")
			}
			synctest.Wait()
			if len(out) != 1+i || len(back) != 0 {
				t.Errorf("heard here, acted on: %v; %d went out", acted, len(out)-1)
			}
		}
		go func() { h := <-mail; h.Finish(false); h.Finish(false) }()
		synctest.Wait()
		if !e.Try(ring("mail")) {
			t.Error("a listener waits, and the ring didn't go")
		}
		synctest.Wait()
		if len(back) != 1 {
			t.Errorf("%d rings were given back, want one", len(back))
		}
		left := e.Leave(daybook.Ring{Queue: "mail", Job: daybook.NewID()})
		if e.Leave(ring("mail")) != left {
			t.Error("a second ring of a queue was left beside the first")
		}
		if h := <-all; h.Queue != "mail" || !h.Job.IsZero() {
			t.Errorf("got %+v, want any job of mail", h.Ring)
		}
		<-left.Taken()
		if e.Withdraw(left) {
			t.Error("a ring that was taken could be withdrawn")
		}
		e.CatchUp()
		if a, b := <-all, <-mail; a.Queue != "" || b.Queue != "" {
			t.Errorf("caught up with %q and %q", a.Queue, b.Queue)
		}
		left = e.Leave(ring("mail"))
		if !e.Withdraw(left) {
			t.Error("a ring that nobody took couldn't be withdrawn")
		}
		stop()
		synctest.Wait()
		if _, open := <-mail; open || e.Heard() != 6 {
			t.Errorf("the channel of a listening that ended is open, or %d were heard", e.Heard())
		}
		e.Close()
		e.Close()
		if _, err := e.Listen(t.Context(), nil); !errors.Is(err, daybook.ErrUnavailable) || e.Any() {
			t.Errorf("Listen after Close: %v", err)
		}
	})
}

func TestPauseGrows(t *testing.T) {
	var p Pause
	for i := range 20 {
		got := p.Next()
		if want := min(PauseLeast<<i, PauseMost); got < want/2 || got > want {
			t.Errorf("pause %d is %s, want %s to %s", i, got, want/2, want)
		}
	}
	p.Over()
	if got := p.Next(); got > PauseLeast {
		t.Errorf("the pause after a success is %s", got)
	}
}
