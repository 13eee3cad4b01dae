package rabbitmq

import (
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/bell/belltest"
	"github.com/daybookdev/daybook/internal/brokertest"
	amqp "github.com/rabbitmq/amqp091-go"
)

func TestOpenRefusesWhatCanNeverWork(t *testing.T) {
	for _, url := range []string{"", "amqp:", "amqp:5672", "amqp://", "amqp://:5672", "redis://u:secret@h", "://secret@h",
		"amqp://u:secret@h:0", "amqp://u:secret@h:65536", "amqp://u:secret@h:x", "amqp://u:secret@h?secret=1",
		"amqp://u:secret@h?heartbeat=0", "amqp://u:secret@h?connection_timeout=secret", "amqp://u:sec%zzret@h"} {
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
	if _, err := Open("amqp://h", Options{Name: "a b"}); !errors.Is(err, daybook.ErrInvalid) {
		t.Errorf("a name with a space: %v, want invalid", err)
	}
	if shown, err := parse("amqps://u:secret@h:5671/some%2Fhost?connection_timeout=1"); err != nil ||
		shown != "amqps://h:5671/some/host" {
		t.Errorf("shown as %q, %v", shown, err)
	}
}

// TestPlaces: every queue has a name at the server, which is read back.
func TestPlaces(t *testing.T) {
	b := &Bell{name: strings.Repeat("n", daybook.NameMax-10)}
	for _, q := range []string{"mail", "a.b", "s", ".", everyQueue, strings.Repeat("x", daybook.NameMax)} {
		place := b.place(q)
		if got, ok := b.queueOf(place); !ok || got != q || len(place) > 255 {
			t.Errorf("%q is at %q (%d bytes), read as %q, %v", q, place, len(place), got, ok)
		}
	}
	if q, ok := b.queueOf("somebody.else"); ok {
		t.Errorf("somebody's queue is read as %q", q)
	}
}

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

// ears collect what is heard, as an idle worker would.
type ears struct {
	mu    sync.Mutex
	rings []daybook.Heard
}

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

// deaf listens and leaves the receiving to the test.
func deaf(t *testing.T, b *Bell, queues ...string) <-chan daybook.Heard {
	t.Helper()
	rings, err := b.Listen(t.Context(), queues)
	must(t, err)
	soon(t, "the bell listens", func() bool { return b.Stats().Listening })
	return rings
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
	over := time.After(2 * belltest.Patience)
	for !so() {
		select {
		case <-look.C:
		case <-over:
			t.Fatalf("not within %s: %s", 2*belltest.Patience, what)
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

// published rings when the bell has come up.
func published(t *testing.T, b *Bell, queue string) {
	t.Helper()
	soon(t, "Publish", func() bool { return b.Publish(t.Context(), []daybook.Ring{{Queue: queue}}) == nil })
}

// TestL43ServerDiesWhileWeListen: killed and started, stopped for a while,
// wiped: the process takes rings again by itself, says meanwhile that it hears
// nothing, and is told to look at everything.
func TestL43ServerDiesWhileWeListen(t *testing.T) {
	s := brokertest.StartRabbitMQ(t)
	b, ringer := open(t, s.URL(), Options{}), open(t, s.URL(), Options{})
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
}

// TestBusyProcessStepsAside: it gives a ring back once, and the next ones don't
// come to it at all until it is free.
func TestBusyProcessStepsAside(t *testing.T) {
	h := place(t)
	busy, free, ringer := h.Open(t).(*Bell), h.Open(t).(*Bell), h.Open(t).(*Bell)
	t.Cleanup(func() { busy.Close(); free.Close(); ringer.Close() })
	rings, e := deaf(t, busy, "mail"), listen(t, free, "mail")
	ring := func() {
		heard := len(e.of("mail"))
		published(t, ringer, "mail")
		soon(t, "the free one hears each ring", func() bool { return len(e.of("mail")) > heard })
	}
	for busy.Stats().Passed == 0 {
		ring()
	}
	for range 20 {
		ring()
	}
	if got := busy.Stats(); got.Passed != 1 || got.Heard != 1 {
		t.Errorf("the busy process heard %d rings and gave %d back, want 1", got.Heard, got.Passed)
	}
	must(t, free.Close())
	next(t, rings).Finish(true)
	soon(t, "it competes again when it is free", func() bool {
		ringer.Ring(t.Context(), "mail")
		select {
		case r := <-rings:
			r.Finish(true)
			return busy.Stats().Heard > 1
		default:
			return false
		}
	})
}

// TestRingGivenBackIsKnownAgain: nobody else is there, so the ring that a busy
// process gave back comes to it again, and isn't rung a second time.
func TestRingGivenBackIsKnownAgain(t *testing.T) {
	h := place(t)
	busy, ringer := h.Open(t).(*Bell), h.Open(t).(*Bell)
	t.Cleanup(func() { busy.Close(); ringer.Close() })
	rings := deaf(t, busy, "mail")
	for { // told to look at everything when it connected
		select {
		case r := <-rings:
			r.Finish(true)
			continue
		case <-time.After(4 * grace):
		}
		break
	}
	published(t, ringer, "mail")
	soon(t, "it gives the ring back", func() bool { return busy.Stats().Passed == 1 })
	next(t, rings).Finish(true)
	soon(t, "the ring came again", func() bool { return busy.Stats().Heard == 2 })
	soon(t, "the ring is acknowledged", func() bool { return empty(t, h, "mail") })
	select {
	case r := <-rings:
		t.Errorf("one ring came twice: %+v", r.Ring)
	default:
	}
}

// empty reports whether no ring of the queue lies at the server, also not in
// anybody's hand: an end that is closed gives all back.
func empty(t *testing.T, h belltest.Harness, queue string) bool {
	t.Helper()
	b := h.Open(t).(*Bell)
	defer b.Close()
	b.Know(queue)
	depth, err := b.Depth(t.Context())
	return err == nil && len(depth) == 0
}

// TestHungListenerLosesItsRing: it neither acts nor dies. After its time another
// process gets the ring.
func TestHungListenerLosesItsRing(t *testing.T) {
	url, o := node(t).URL(), Options{Name: "hung", Acknowledge: 300 * time.Millisecond}
	hung, other, ringer := open(t, url, o), open(t, url, o), open(t, url, o)
	rings := deaf(t, hung, "mail")
	published(t, ringer, "mail")
	next(t, rings)
	e := listen(t, other, "mail")
	soon(t, "another hears it", func() bool { return len(e.of("mail")) > 0 })
	if !e.of("mail")[0].Again {
		t.Error("a ring that was delivered before doesn't say so")
	}
}

// TestAllAndOneAreTwoAtMost: one ring wakes one of those who listen to every
// queue, and one of those who listen to this one.
func TestAllAndOneAreTwoAtMost(t *testing.T) {
	h := place(t)
	var all []*ears
	for i := range 4 {
		b := h.Open(t).(*Bell)
		t.Cleanup(func() { b.Close() })
		queues := [][]string{nil, {"mail"}}[i%2]
		all = append(all, listen(t, b, queues...))
	}
	ringer := h.Open(t).(*Bell)
	t.Cleanup(func() { ringer.Close() })
	heard := func() (n int) {
		for _, e := range all {
			n += len(e.of("mail"))
		}
		return n
	}
	for n := 1; n <= 10; n++ {
		published(t, ringer, "mail")
		soon(t, "two hear each ring", func() bool { return heard() >= 2*n })
	}
	soon(t, "nothing is left", func() bool { return empty(t, h, "mail") })
	if got := heard(); got > 20 {
		t.Errorf("10 rings woke %d, want 20", got)
	}
}

// admin is a client of the tests' own.
func admin(t *testing.T, s *brokertest.RabbitMQ) *amqp.Channel {
	t.Helper()
	conn, err := amqp.Dial(s.URL())
	must(t, err)
	t.Cleanup(func() { conn.Close() })
	ch, err := conn.Channel()
	must(t, err)
	return ch
}

// TestQueueOfOtherKind: it is there with other limits. People are told once, it
// is used as it is, its neighbours as well, and deleting it is all it takes.
func TestQueueOfOtherKind(t *testing.T) {
	s := node(t)
	ch := admin(t, s)
	_, err := ch.QueueDeclare("odd.ring.mail", true, false, false, false, amqp.Table{"x-max-length": int32(7)})
	must(t, err)
	log := &lines{}
	o := Options{Name: "odd", Log: slog.New(slog.NewTextHandler(log, nil))}
	b, ringer := open(t, s.URL(), o), open(t, s.URL(), Options{Name: "odd"})
	e := listen(t, b, "audio", "mail", "video")
	for _, q := range []string{"mail", "audio", "video", "mail"} {
		heard := len(e.of(q))
		published(t, ringer, q)
		soon(t, "a ring of "+q, func() bool { return len(e.of(q)) > heard })
	}
	if log.count("level=ERROR") != 1 || log.count("odd.ring.mail") < 1 {
		t.Errorf("want one line about odd.ring.mail:\n%s", log)
	}
	caughtUp := len(e.of(""))
	_, err = ch.QueueDelete("odd.ring.mail", false, false, false)
	must(t, err)
	soon(t, "a catch-up, for rings that went with the queue", func() bool { return len(e.of("")) > caughtUp })
	heard := len(e.of("mail"))
	published(t, ringer, "mail")
	soon(t, "a ring through the new queue", func() bool { return len(e.of("mail")) > heard })
	if err := b.declare(ch, "mail"); err != nil {
		t.Fatal(err)
	}
	must(t, ch.Qos(1, 0, false)) // fails if the queue isn't as it should be
}

// TestQueueOfSomebodyElse: one that can't be listened to makes no other deaf.
func TestQueueOfSomebodyElse(t *testing.T) {
	s := node(t)
	ch := admin(t, s)
	ours := &Bell{name: "theirs", age: AgeDefault}
	must(t, ours.declare(ch, "mail"))
	_, err := ch.Consume("theirs.ring.mail", "", true, true, false, false, nil)
	must(t, err)
	log := &lines{}
	b := open(t, s.URL(), Options{Name: "theirs", Log: slog.New(slog.NewTextHandler(log, nil))})
	e := listen(t, b, "audio", "mail", "video")
	ringer := open(t, s.URL(), Options{Name: "theirs"})
	flows(t, ringer, e, "audio")
	flows(t, ringer, e, "video")
	if log.count("level=ERROR") != 1 || log.count("theirs.ring.mail") < 1 {
		t.Errorf("want one line about theirs.ring.mail:\n%s", log)
	}
}

// TestServerShortOfMemory: it takes nothing and says so. Ringing doesn't wait
// for it, publishing fails at once, and all goes on when it has memory again.
func TestServerShortOfMemory(t *testing.T) {
	s := brokertest.StartRabbitMQ(t)
	o := Options{Echo: time.Second}
	b, ringer := open(t, s.URL(), o), open(t, s.URL(), o)
	e := listen(t, b, "mail")
	flows(t, ringer, e, "mail")
	soon(t, "an echo comes back", func() bool { return !ringer.Stats().EchoAt.IsZero() && !b.Stats().EchoAt.IsZero() })
	_, err := s.Ctl("set_vm_memory_high_watermark", "0.00001")
	must(t, err)
	soon(t, "Publish says that the server takes nothing", func() bool {
		err := ringer.Publish(t.Context(), []daybook.Ring{{Queue: "mail"}})
		return errors.Is(err, daybook.ErrUnavailable) && strings.Contains(err.Error(), "memory")
	})
	for range 10_000 {
		ringer.Ring(t.Context(), "mail")
	}
	soon(t, "echoes stay out for much longer than a server that is there may take", func() bool {
		return time.Since(ringer.Stats().EchoAt) > 8*ringer.asked.Patience()
	})
	heard := len(e.of("mail"))
	_, err = s.Ctl("set_vm_memory_high_watermark", "0.6")
	must(t, err)
	soon(t, "what was rung meanwhile is heard", func() bool { return len(e.of("mail")) > heard })
	flows(t, ringer, e, "mail")
	// On a slow machine an echo can be late, which costs a connection and no more. A
	// bell that took the server for dead would have made three by now, or more.
	for _, end := range []*Bell{ringer, b} {
		if got := end.Stats().Reconnects; got > 1 {
			t.Errorf("%d reconnects to a server that is there all the time", got)
		}
	}
}

// TestSecretsStayOut: neither an error nor the log shows the password.
func TestSecretsStayOut(t *testing.T) {
	s := node(t)
	log := &lines{}
	b := open(t, "amqp://guest:secret@"+s.Addr(), Options{Log: slog.New(slog.NewTextHandler(log, nil))})
	_, err := b.Listen(t.Context(), []string{"mail"})
	must(t, err)
	soon(t, "people are told", func() bool { return log.count("level=WARN") > 0 })
	err = b.Publish(t.Context(), []daybook.Ring{{Queue: "mail"}})
	if !errors.Is(err, daybook.ErrUnavailable) || strings.Contains(err.Error(), "secret") {
		t.Errorf("Publish with a wrong password: %v", err)
	}
	if b.Stats().Listening || log.count("secret") > 0 || log.count("level=WARN") != 1 {
		t.Errorf("listening %v; the log says\n%s", b.Stats().Listening, log)
	}
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

// TestQueueThatIsGone: one that was there, and was deleted while nobody
// listened, is made again by whoever rings.
func TestQueueThatIsGone(t *testing.T) {
	s := node(t)
	ringer := open(t, s.URL(), Options{Name: "gone"})
	published(t, ringer, "mail")
	_, err := admin(t, s).QueueDelete("gone.ring.mail", false, false, false)
	must(t, err)
	must(t, ringer.Publish(t.Context(), []daybook.Ring{{Queue: "mail"}}))
	depth, err := ringer.Depth(t.Context())
	must(t, err)
	if depth["mail"] != 1 {
		t.Errorf("a ring that was taken over isn't there: %v", depth)
	}
}

// TestUnescapedPasswords: what may be a part of a password never becomes a host or a
// path that is shown.
func TestUnescapedPasswords(t *testing.T) {
	for _, url := range []string{"amqp://bell:s3@cret/s@h:5672/x", "amqp://bell:12/cret@h/x", "amqp://bell:12?cret@h",
		"amqp://bell:12#cret@h", "amqp://bell:cret@h@h:5672/a@b"} {
		b, err := Open(url, Options{})
		if daybook.CodeOf(err) != daybook.CodeInvalid || strings.Contains(err.Error(), "cret") {
			t.Errorf("%s: got %v, want invalid and nothing of the password", url, err)
		}
		if b != nil {
			b.Close()
		}
	}
}
