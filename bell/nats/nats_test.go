package nats

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/bell/belltest"
	"github.com/daybookdev/daybook/internal/brokertest"
	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

func TestOpenRefusesWhatCanNeverWork(t *testing.T) {
	for _, url := range []string{"", "nats:", "nats:4222", "nats://", "nats://:4222", "redis://u:secret@h", "://secret@h",
		"nats://u:secret@h:0", "nats://u:secret@h:65536", "nats://u:secret@h:x", "nats://u:secret@h?jetstream=perhaps",
		"nats://u:secret@h?secret=1", "nats://u:sec%zzret@h", "nats://a,redis://u:secret@b"} {
		b, err := Open(url, Options{})
		if !errors.Is(err, daybook.ErrInvalid) {
			t.Errorf("Open(%q): %v, want invalid", url, err)
		}
		if err == nil {
			b.Close()
		} else if text := err.Error(); strings.Contains(text, "secret") || strings.Contains(text, "\n") {
			t.Errorf("Open(%q) says %q", url, text)
		}
	}
	if _, err := Open("nats://h", Options{Name: "a b"}); !errors.Is(err, daybook.ErrInvalid) {
		t.Errorf("a name with a space: %v, want invalid", err)
	}
}

func TestParse(t *testing.T) {
	got, err := parse("nats://u:secret@a:4223,tls://b?jetstream=1&creds=some/file")
	must(t, err)
	if got.shown != "nats://a:4223,b" || !got.jetStream || got.creds != "some/file" ||
		fmt.Sprint(got.servers) != "[nats://u:secret@a:4223 tls://b]" {
		t.Errorf("got %+v", got)
	}
}

// TestNames: every queue has subjects, a stream and a consumer that the server
// takes, and gets its own name back.
func TestNames(t *testing.T) {
	n := newNames("a.b")
	for _, q := range []string{"mail", "a.b", ".", "..", "a_b", "a-b", "a:b", strings.Repeat(".", daybook.NameMax)} {
		for _, prefix := range []string{n.rings, n.keeps} {
			subject := prefix + escape(q)
			if got, ok := n.queueOf(subject); !ok || got != q {
				t.Errorf("%s is read as %q, %v; want %q", subject, got, ok, q)
			}
			if strings.Count(subject, ".") != 2 || strings.ContainsAny(subject, "*> \t%") {
				t.Errorf("subject %q", subject)
			}
		}
	}
	for _, subject := range []string{"a~b.ring.", "a~b.other.q", "b.ring.q", ""} {
		if q, ok := n.queueOf(subject); ok {
			t.Errorf("%q is read as queue %q", subject, q)
		}
	}
}

// server is one that this test may kill.
func server(t *testing.T, args ...string) *brokertest.NATS { return brokertest.StartNATS(t, args...) }

func open(t *testing.T, url string, o Options) *Bell {
	t.Helper()
	if o.Echo == 0 {
		o.Echo = belltest.Echo
	}
	if o.Log == nil {
		o.Log = quiet()
	}
	b, err := Open(url, o)
	must(t, err)
	t.Cleanup(func() { b.Close() })
	return b
}

// listen collects what is heard, as an idle worker would.
func listen(t *testing.T, b *Bell, queues ...string) *ears {
	t.Helper()
	rings, err := b.Listen(t.Context(), queues)
	must(t, err)
	e := &ears{}
	go func() {
		for r := range rings {
			e.mu.Lock()
			e.rings = append(e.rings, r)
			e.mu.Unlock()
			r.Finish(true)
		}
	}()
	soon(t, "the bell listens", func() bool { return b.Stats().Listening })
	return e
}

type ears struct {
	mu    sync.Mutex
	rings []daybook.Heard
}

func (e *ears) of(queue string) (rings []daybook.Heard) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, r := range e.rings {
		if r.Queue == queue {
			rings = append(rings, r)
		}
	}
	return rings
}

// soon polls a condition, with a deadline that only a broken test reaches.
func soon(t *testing.T, what string, so func() bool) {
	t.Helper()
	look := time.NewTicker(2 * time.Millisecond)
	defer look.Stop()
	over := time.After(belltest.Patience)
	for !so() {
		select {
		case <-look.C:
		case <-over:
			t.Fatalf("not within %s: %s", belltest.Patience, what)
		}
	}
}

// flows rings until it is heard.
func flows(t *testing.T, ringer *Bell, e *ears, queue string) {
	t.Helper()
	before := len(e.of(queue))
	next := time.Now()
	soon(t, "rings of "+queue+" flow", func() bool {
		if time.Now().After(next) {
			ringer.Ring(t.Context(), queue)
			next = time.Now().Add(belltest.Echo)
		}
		return len(e.of(queue)) > before
	})
}

// TestL43ServerDiesWhileWeListen: killed and started, stopped for a while,
// wiped: the process takes rings again by itself, says meanwhile that it hears
// nothing, and is told to look at everything.
func TestL43ServerDiesWhileWeListen(t *testing.T) {
	for name, o := range map[string]Options{"core": {}, "JetStream": {JetStream: true}} {
		t.Run(name, func(t *testing.T) {
			s := server(t)
			b, ringer := open(t, s.URL(), o), open(t, s.URL(), o)
			e := listen(t, b, "mail")
			flows(t, ringer, e, "mail")
			for _, fault := range []struct {
				name        string
				break_, fix func() error
			}{
				{"killed", s.Kill, s.StartAgain},
				{"stopped", s.Pause, s.Resume},
				{"wiped", s.Kill, s.Wipe},
			} {
				caughtUp, reconnects := len(e.of("")), b.Stats().Reconnects
				must(t, fault.break_())
				soon(t, "the bell notices that its server was "+fault.name, func() bool { return !b.Stats().Listening })
				must(t, fault.fix())
				soon(t, "a catch-up after "+fault.name, func() bool { return len(e.of("")) > caughtUp })
				flows(t, ringer, e, "mail")
				if got := b.Stats().Reconnects; got <= reconnects {
					t.Errorf("%s: %d reconnects, want more than %d", fault.name, got, reconnects)
				}
			}
		})
	}
}

// TestBusyProcessStepsAside: it passes a ring on once, and the next ones don't
// come to it at all until it is free.
func TestBusyProcessStepsAside(t *testing.T) {
	h := place(t, Options{})
	busy, free, ringer := h.Open(t).(*Bell), h.Open(t).(*Bell), h.Open(t).(*Bell)
	for _, b := range []*Bell{busy, free, ringer} {
		t.Cleanup(func() { b.Close() })
	}
	e := listen(t, free, "mail")
	deaf, err := busy.Listen(t.Context(), []string{"mail"})
	must(t, err)
	soon(t, "the busy one listens", func() bool { return busy.Stats().Listening })
	for busy.Stats().Passed == 0 {
		heard := len(e.of("mail"))
		must(t, ringer.Publish(t.Context(), []daybook.Ring{{Queue: "mail"}}))
		soon(t, "the free one hears each ring", func() bool { return len(e.of("mail")) > heard })
	}
	for range 20 {
		heard := len(e.of("mail"))
		must(t, ringer.Publish(t.Context(), []daybook.Ring{{Queue: "mail"}}))
		soon(t, "the free one hears each ring", func() bool { return len(e.of("mail")) > heard })
	}
	if got := busy.Stats(); got.Passed != 1 || got.Heard != 1 {
		t.Errorf("the busy process heard %d rings and passed %d on, want 1", got.Heard, got.Passed)
	}
	must(t, free.Close())
	<-deaf // what was left for it
	soon(t, "it competes again when it is free", func() bool {
		ringer.Ring(t.Context(), "mail")
		select {
		case r := <-deaf:
			return r.Queue == "mail" && busy.Stats().Heard > 1
		default:
			return false
		}
	})
}

// TestGivenBackRingGoesToAnother: also where nothing is kept.
func TestGivenBackRingGoesToAnother(t *testing.T) {
	h := place(t, Options{})
	first, ringer := h.Open(t).(*Bell), h.Open(t).(*Bell)
	t.Cleanup(func() { first.Close(); ringer.Close() })
	rings, err := first.Listen(t.Context(), []string{"mail"})
	must(t, err)
	soon(t, "it listens", func() bool { return first.Stats().Listening })
	id := daybook.NewID()
	soon(t, "a ring goes out", func() bool {
		return ringer.Publish(t.Context(), []daybook.Ring{{Queue: "mail", Job: id}}) == nil
	})
	r := next(t, rings)
	if r.Again {
		t.Error("the first time says again")
	}
	r.Finish(false) // nobody else is there: it comes here once more, later
	again := next(t, rings)
	if !again.Again || again.Job != id {
		t.Errorf("given back, it came as %+v", again)
	}
	other := h.Open(t).(*Bell)
	t.Cleanup(func() { other.Close() })
	e := listen(t, other, "mail")
	again.Finish(false)
	soon(t, "another hears it", func() bool { return len(e.of("mail")) > 0 })
	if got := e.of("mail")[0]; !got.Again || got.Job != id {
		t.Errorf("another heard %+v", got)
	}
}

func next(t *testing.T, rings <-chan daybook.Heard) daybook.Heard {
	t.Helper()
	over := time.After(belltest.Patience)
	for {
		select {
		case r := <-rings:
			if r.Queue != "" {
				return r
			}
			r.Finish(true)
		case <-over:
			t.Fatal("no ring")
		}
	}
}

// TestHungListenerLosesItsRing: it neither acts nor dies. After its time another
// process gets the ring.
func TestHungListenerLosesItsRing(t *testing.T) {
	h := place(t, Options{JetStream: true, Acknowledge: 500 * time.Millisecond})
	hung, other, ringer := h.Open(t).(*Bell), h.Open(t).(*Bell), h.Open(t).(*Bell)
	t.Cleanup(func() { hung.Close(); other.Close(); ringer.Close() })
	rings, err := hung.Listen(t.Context(), []string{"mail"})
	must(t, err)
	soon(t, "a ring goes out", func() bool { return ringer.Publish(t.Context(), []daybook.Ring{{Queue: "mail"}}) == nil })
	next(t, rings)
	// Until it has fetched what is stored, another one's first look may take that.
	soon(t, "the hung one holds it", func() bool {
		hung.kept.mu.Lock()
		defer hung.kept.mu.Unlock()
		return len(hung.kept.held) == 1
	})
	e := listen(t, other, "mail")
	soon(t, "another hears it", func() bool { return len(e.of("mail")) > 0 })
	if !e.of("mail")[0].Again {
		t.Error("a ring that was delivered before doesn't say so")
	}
	soon(t, "what was acted on is gone from the stream", func() bool {
		depth, err := ringer.Depth(t.Context())
		return err == nil && len(depth) == 0
	})
}

// TestOddStream: one that isn't for rings is left alone. People are told once,
// rings go on without being kept, and all is well when it is gone.
func TestOddStream(t *testing.T) {
	s := server(t)
	nc, err := natsgo.Connect(s.URL())
	must(t, err)
	defer nc.Close()
	js, err := jetstream.New(nc)
	must(t, err)
	_, err = js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "daybook-rings", Subjects: []string{"x"}})
	must(t, err)
	log := &lines{}
	o := Options{JetStream: true, Log: slog.New(slog.NewTextHandler(log, nil))}
	b, ringer := open(t, s.URL(), o), open(t, s.URL(), Options{JetStream: true})
	e := listen(t, b, "mail")
	for n := range 3 {
		must(t, ringer.Publish(t.Context(), []daybook.Ring{{Queue: "mail"}}))
		soon(t, "a ring that isn't kept is heard", func() bool { return len(e.of("mail")) > n })
		_, err := b.Depth(t.Context())
		if !errors.Is(err, daybook.ErrUnavailable) || !strings.Contains(err.Error(), "daybook-rings") {
			t.Errorf("Depth with another's stream in the way: %v", err)
		}
	}
	before := len(e.of("mail"))
	if n := log.count("level=ERROR"); n != 1 {
		t.Errorf("%d lines for one fault:\n%s", n, log)
	}
	must(t, js.DeleteStream(t.Context(), "daybook-rings"))
	soon(t, "Publish works again", func() bool {
		return ringer.Publish(t.Context(), []daybook.Ring{{Queue: "mail"}}) == nil
	})
	soon(t, "the ring is heard", func() bool { return len(e.of("mail")) > before })
}

// TestOwnStream: a stream that an operator made for rings, with other limits, is
// used.
func TestOwnStream(t *testing.T) {
	s := server(t)
	nc, err := natsgo.Connect(s.URL())
	must(t, err)
	defer nc.Close()
	js, err := jetstream.New(nc)
	must(t, err)
	_, err = js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "daybook-rings", MaxMsgsPerSubject: 2,
		Subjects: []string{"daybook.keep.*"}, Retention: jetstream.WorkQueuePolicy, Storage: jetstream.MemoryStorage})
	must(t, err)
	b := open(t, s.URL(), Options{JetStream: true})
	e := listen(t, b, "mail")
	must(t, b.Publish(t.Context(), []daybook.Ring{{Queue: "mail"}}))
	soon(t, "the ring is heard", func() bool { return len(e.of("mail")) > 0 })
}

// TestSecretsStayOut: neither an error nor the log shows the password.
func TestSecretsStayOut(t *testing.T) {
	s := server(t, "--user", "u", "--pass", "right")
	log := &lines{}
	b := open(t, "nats://u:secret@"+s.Addr(), Options{Log: slog.New(slog.NewTextHandler(log, nil))})
	listenDeaf, err := b.Listen(t.Context(), []string{"mail"})
	must(t, err)
	soon(t, "people are told", func() bool { return log.count("level=WARN") > 0 })
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	err = b.Publish(ctx, []daybook.Ring{{Queue: "mail"}})
	if !errors.Is(err, daybook.ErrUnavailable) || strings.Contains(err.Error(), "secret") {
		t.Errorf("Publish with a wrong password: %v", err)
	}
	if b.Stats().Listening || log.count("secret") > 0 || log.count("level=WARN") != 1 {
		t.Errorf("listening %v; the log says\n%s", b.Stats().Listening, log)
	}
	must(t, b.Close())
	for range listenDeaf {
	}
	right := open(t, "nats://u:right@"+s.Addr(), Options{})
	flows(t, right, listen(t, right, "mail"), "mail")
}

// lines is a log that a test reads.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (l *lines) count(what string) int { return strings.Count(l.String(), what) }
