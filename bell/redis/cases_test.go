package redis

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/internal/brokertest"
)

const patient = 30 * time.Second

// soon waits until done, and fails the test when that takes too long.
func soon(t testing.TB, what string, done func() bool) {
	t.Helper()
	look, late := time.NewTicker(2*time.Millisecond), time.After(patient)
	defer look.Stop()
	for !done() {
		select {
		case <-look.C:
		case <-late:
			t.Fatalf("%s: not within %s", what, patient)
		}
	}
}

func open(t *testing.T, url string, o Options) *Bell {
	t.Helper()
	b, err := Open(url, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

// listening listens and counts what is heard, by queue, once it is connected.
func listening(t *testing.T, b *Bell, queues ...string) func(queue string) int {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	rings, err := b.Listen(ctx, queues)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	heard := map[string]int{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for r := range rings {
			mu.Lock()
			heard[r.Queue]++
			mu.Unlock()
		}
	}()
	t.Cleanup(func() { stop(); <-done })
	soon(t, "listening", func() bool { return b.Stats().Listening })
	return func(queue string) int {
		mu.Lock()
		defer mu.Unlock()
		return heard[queue]
	}
}

// L43: the server is killed and started again while workers listen, and rings
// flow; what is said of it meanwhile is true.
func TestL43ServerRestarted(t *testing.T) {
	server := brokertest.StartRedis(t)
	bells := make([]*Bell, 3)
	heard := make([]func(string) int, len(bells))
	for i := range bells {
		bells[i] = open(t, server.URL(), Options{Echo: 200 * time.Millisecond})
		heard[i] = listening(t, bells[i], "mail")
	}
	sum := func(queue string) (n int) {
		for _, h := range heard {
			n += h(queue)
		}
		return n
	}
	ringer := open(t, server.URL(), Options{})
	for range 3 {
		soon(t, "everybody listening", func() bool {
			return bells[0].Stats().Listening && bells[1].Stats().Listening && bells[2].Stats().Listening
		})
		before := sum("mail")
		ringer.Ring(t.Context(), "mail")
		soon(t, "a ring", func() bool { return sum("mail") > before })
		caughtUp := sum("")
		if err := server.Kill(); err != nil {
			t.Fatal(err)
		}
		soon(t, "the truth", func() bool { return !bells[0].Stats().Listening })
		ringer.Ring(t.Context(), "mail") // kept until the server is there
		if err := server.StartAgain(); err != nil {
			t.Fatal(err)
		}
		soon(t, "a ring from before", func() bool { return sum("mail") > before+1 })
		soon(t, "catching up", func() bool { return sum("") >= caughtUp+len(bells) })
	}
}

// A server that is stopped for a while takes bytes and answers nothing.
func TestServerPaused(t *testing.T) {
	server := brokertest.StartRedis(t)
	b := open(t, server.URL(), Options{Echo: 200 * time.Millisecond})
	heard := listening(t, b, "mail")
	before := b.Stats()
	if err := server.Pause(); err != nil {
		t.Fatal(err)
	}
	soon(t, "the truth", func() bool { return !b.Stats().Listening })
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := b.Publish(ctx, []daybook.Ring{{Queue: "mail"}}); daybook.CodeOf(err) != daybook.CodeUnavailable {
		t.Errorf("Publish to a stopped server: %v, want unavailable", err)
	}
	if err := server.Resume(); err != nil {
		t.Fatal(err)
	}
	soon(t, "listening", func() bool { return b.Stats().Listening && b.Stats().Reconnects > before.Reconnects })
	b.Ring(t.Context(), "mail")
	soon(t, "a ring", func() bool { return heard("mail") > 0 })
}

// A ring wakes one, be it a listener to its queue or to every queue.
func TestOneOfBothKinds(t *testing.T) {
	server := brokertest.StartRedis(t)
	var heard []func(string) int
	for i := range 6 {
		var queues []string
		if i%2 == 0 {
			queues = []string{"mail", "video"}
		}
		heard = append(heard, listening(t, open(t, server.URL(), Options{}), queues...))
	}
	ringer := open(t, server.URL(), Options{})
	sum := func() (n int) {
		for _, h := range heard {
			n += h("mail")
		}
		return n
	}
	const rings = 200
	for n := range rings {
		if err := ringer.Publish(t.Context(), []daybook.Ring{{Queue: "mail"}}); err != nil {
			t.Fatal(err)
		}
		soon(t, "a ring", func() bool { return sum() > n })
	}
	depth, err := ringer.Depth(t.Context())
	if err != nil || len(depth) > 0 || sum() != rings {
		t.Errorf("%d rings woke %d; %v are left (%v)", rings, sum(), depth, err)
	}
}

// Two busy listeners hand a ring to and fro no more than now and then, and the
// first that is free has it soon.
func TestBusyListenersHold(t *testing.T) {
	server := brokertest.StartRedis(t)
	var channels []<-chan daybook.Heard
	var bells []*Bell
	for i := range 3 {
		b := open(t, server.URL(), Options{})
		ctx, stop := context.WithCancel(t.Context())
		t.Cleanup(stop)
		var queues []string
		if i > 0 {
			queues = []string{"mail"}
		}
		rings, err := b.Listen(ctx, queues)
		if err != nil {
			t.Fatal(err)
		}
		if first := <-rings; first.Queue != "" {
			t.Fatalf("listening began with a ring of %q", first.Queue)
		}
		channels, bells = append(channels, rings), append(bells, b)
	}
	ringer := open(t, server.URL(), Options{})
	id := daybook.NewID()
	if err := ringer.Publish(t.Context(), []daybook.Ring{{Queue: "mail", Job: id}}); err != nil {
		t.Fatal(err)
	}
	passed := func() (n int64) {
		for _, b := range bells {
			n += b.Stats().Passed
		}
		return n
	}
	soon(t, "some passing on", func() bool { return passed() >= 3 })
	begun, from := time.Now(), passed()
	soon(t, "more of it", func() bool { return passed() >= from+5 })
	if took := time.Since(begun); took < 5*passesLeast {
		t.Errorf("five times handed on within %s: busy listeners play ball with a ring", took)
	}
	if got := <-channels[1]; got.Queue != "mail" || got.Job != id {
		t.Errorf("got %+v, want the ring of mail", got.Ring)
	}
	soon(t, "an empty bell", func() bool { d, err := ringer.Depth(t.Context()); return err == nil && len(d) == 0 })
}

// A busy listener that offered its ring takes it back only while nobody comes
// for it: who listens to every queue needs a second step to get it.
func TestAgainLeavesWhatOthersTake(t *testing.T) {
	b, ctx := open(t, brokertest.StartRedis(t).URL(), Options{}), t.Context()
	again := func() error {
		return againScript.Run(ctx, b.client, []string{b.rungKey(), b.listKey("mail")}, "mail").Err()
	}
	for _, taken := range []bool{false, true} {
		if err := b.Publish(ctx, []daybook.Ring{{Queue: "mail"}}); err != nil {
			t.Fatal(err)
		}
		if taken { // the first step
			if got := b.client.ZPopMin(ctx, b.rungKey()).Val(); len(got) != 1 {
				t.Fatalf("%v were rung", got)
			}
		}
		if err := again(); (err == nil) == taken {
			t.Errorf("taken: %v, and taking it back says %v", taken, err)
		}
	}
	if n := b.client.LLen(ctx, b.listKey("mail")).Val(); n != 1 {
		t.Errorf("%d rings are left for who took the first step, want 1", n)
	}
}

// What nobody hears expires, and so does what else is there.
func TestEverythingExpires(t *testing.T) {
	server := brokertest.StartRedis(t)
	b := open(t, server.URL(), Options{Name: "a b"})
	rings := make([]daybook.Ring, 3000)
	for i := range rings {
		rings[i].Queue = fmt.Sprint(i)
	}
	if err := b.Publish(t.Context(), rings); err != nil {
		t.Fatal(err)
	}
	keys, err := b.client.Keys(t.Context(), "*").Result()
	if err != nil || len(keys) != len(rings)+1 {
		t.Fatalf("%d keys for %d queues: %v", len(keys), len(rings), err)
	}
	for _, key := range keys {
		if ttl := b.client.TTL(t.Context(), key).Val(); ttl <= 0 || ttl > keep {
			t.Errorf("%s is kept for %s, want %s at most", key, ttl, keep)
		}
	}
	depth, err := b.Depth(t.Context())
	if err != nil || len(depth) != len(rings) {
		t.Errorf("Depth has %d queues: %v", len(depth), err)
	}
	peeked, err := b.Peek(t.Context(), 1234)
	if err != nil || len(peeked) != 1234 {
		t.Errorf("Peek of 1234 has %d: %v", len(peeked), err)
	}
}

// What is wrong with a URL is said without its password.
func TestWrongURL(t *testing.T) {
	for _, url := range []string{"", "redis://u:hunter2@host:port", "postgres://u:hunter2@host", "hunter2",
		"redis://u:hunter2@host/x", "redis://u:hunter2@host?what=1", "redis://u:hunter2@[::1"} {
		_, err := Open(url, Options{})
		if daybook.CodeOf(err) != daybook.CodeInvalid || strings.Contains(fmt.Sprint(err), "hunter2") {
			t.Errorf("Open(%q): %v, want invalid without the password", url, err)
		}
	}
	for _, o := range []Options{{Name: strings.Repeat("n", 101)}, {Echo: -1}} {
		if _, err := Open("redis://127.0.0.1", o); daybook.CodeOf(err) != daybook.CodeInvalid {
			t.Errorf("Open with %+v: %v, want invalid", o, err)
		}
	}
}

// Nobody at the other end is told as that, for the log.
func TestNobodyThere(t *testing.T) {
	b := open(t, "redis://127.0.0.1:1", Options{})
	err := b.Publish(t.Context(), []daybook.Ring{{Queue: "mail"}})
	if daybook.CodeOf(err) != daybook.CodeUnavailable || !strings.Contains(causeOf(err), "connection refused") {
		t.Errorf("Publish to nobody: %v, because of %s", err, causeOf(err))
	}
	if lines := said.all(); len(lines) > 0 {
		t.Errorf("the driver wrote to standard error: %v", lines)
	}
}

// A wrong password is told in the log of whoever runs it, and stops nothing.
func TestWrongPassword(t *testing.T) {
	server := brokertest.StartRedis(t)
	if _, err := server.Do("CONFIG", "SET", "requirepass", "right"); err != nil {
		t.Fatal(err)
	}
	b := open(t, "redis://:hunter2@"+server.Addr(), Options{})
	err := b.Publish(t.Context(), []daybook.Ring{{Queue: "mail"}})
	if daybook.CodeOf(err) != daybook.CodeUnavailable || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("Publish with a wrong password: %v, want unavailable", err)
	}
	right := open(t, "redis://:right@"+server.Addr(), Options{})
	if err := right.Publish(t.Context(), []daybook.Ring{{Queue: "mail"}}); err != nil {
		t.Errorf("Publish with the right one: %v", err)
	}
}

// TestPopRefused: a server that answers everything but lets nobody pop, as to a user
// without the right or as a replica, isn't one that is heard: that is said once, it is
// asked more and more rarely, and nobody looks into the book for it.
func TestPopRefused(t *testing.T) {
	server := brokertest.StartRedis(t)
	admin := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer admin.Close()
	acl := func(rules ...any) {
		t.Helper()
		if err := admin.Do(t.Context(), append([]any{"ACL", "SETUSER", "default"}, rules...)...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	acl("-blpop")
	var mu sync.Mutex
	var log strings.Builder
	b := open(t, server.URL(), Options{Log: slog.New(slog.NewTextHandler(lockedWriter{&mu, &log}, nil))})
	ctx, stop := context.WithCancel(t.Context())
	rings, err := b.Listen(ctx, []string{"mail"})
	if err != nil {
		t.Fatal(err)
	}
	soon(t, "four tries", func() bool {
		refused, err := admin.Info(t.Context(), "commandstats").Result()
		_, calls, found := strings.Cut(refused, "cmdstat_blpop:")
		_, calls, _ = strings.Cut(calls, "rejected_calls=")
		n := 0
		fmt.Sscan(calls, &n)
		return err == nil && found && n >= 4
	})
	said := func(what string) int {
		mu.Lock()
		defer mu.Unlock()
		return strings.Count(log.String(), what)
	}
	if s := b.Stats(); s.Listening || s.Reconnects != 0 || said("can't be heard") != 1 || said("heard again") != 0 {
		t.Errorf("%+v, and the log:\n%s", s, log.String())
	}
	select {
	case r := <-rings:
		t.Errorf("heard %+v", r.Ring)
	default:
	}
	acl("+blpop")
	if r := <-rings; r.Queue != "" {
		t.Errorf("heard %+v, want to be told to look at everything", r.Ring)
	}
	soon(t, "being told", func() bool { return said("heard again") == 1 })
	stop()
	for range rings {
	}
}

// lockedWriter is a log that a test reads meanwhile.
type lockedWriter struct {
	mu *sync.Mutex
	to *strings.Builder
}

func (w lockedWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.to.Write(p)
}

// What waits for a server that answers nothing ends with the bell: Close isn't kept
// until the answer's time is over.
func TestConnectionsEndWithTheBell(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	b := open(t, "redis://"+silent.Addr().String(), Options{})
	conn, err := b.dialer(nil)(t.Context(), "tcp", silent.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := conn.Read(make([]byte, 1))
		ended <- err
	}()
	b.Ring(t.Context(), "mail")
	b.Close()
	if err := <-ended; err == nil {
		t.Error("the connection outlived the bell")
	}
	if _, err := b.dialer(nil)(t.Context(), "tcp", silent.Addr().String()); err == nil {
		t.Error("the bell connects after its end")
	}
}

// told is an answer of the server.
type told string

func (t told) Error() string { return string(t) }
func (told) RedisError()     {}

// What Redis says is told as what to do, and its own words only in the log.
func TestWhy(t *testing.T) {
	said := func(text string) error { return fmt.Errorf("outside: %w", told(text)) }
	for _, test := range []struct {
		err         error
		want, cause string
	}{
		{said("NOAUTH Authentication required."), "password", "the server says: NOAUTH Authentication required."},
		{said("WRONGPASS invalid username-password pair"), "password", "WRONGPASS"},
		{said("NOPERM this user has no permissions"), "rights", "NOPERM"},
		{said("READONLY You can't write against a read only replica."), "replica", "READONLY"},
		{said("OOM command not allowed when used memory > 'maxmemory'."), "maxmemory", "OOM"},
		{said("LOADING Redis is loading the dataset"), "LOADING", "LOADING"},
		{said("MISCONF Redis is configured to save"), "disk", "MISCONF"},
		{said("MOVED 3999 127.0.0.1:6381"), "cluster", "MOVED"},
		{said("ERR unknown command 'X'\nlevel=ERROR"), "version", "'X' level"},
		{context.DeadlineExceeded, "did not answer", "no answer in time"},
		{&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, "did not answer", "connection refused"},
		{io.EOF, "did not answer", "the connection was closed"},
		{errors.New("a\nb"), "did not answer", "a b"},
	} {
		if got := unavailable("taking rings", test.err); !strings.Contains(got.Error(), test.want) {
			t.Errorf("%v: got %q, want something of %q", test.err, got, test.want)
		}
		if got := causeOf(test.err); !strings.Contains(got, test.cause) || strings.Contains(got, "\n") {
			t.Errorf("%v: got the cause %q, want something of %q", test.err, got, test.cause)
		}
	}
}
