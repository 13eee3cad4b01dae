package postgres

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/internal/pgtest"
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

// text is a log that can be read while it is written.
type text struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *text) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *text) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// listening listens and counts what is heard, by queue, and waits until it is
// connected.
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

func closing(t *testing.T, b *Bell) *Bell {
	t.Cleanup(func() { b.Close() })
	return b
}

// L42: the listener's packets vanish. The echo finds that, it listens anew, and
// looks at once at what it may have missed.
func TestL42Blackhole(t *testing.T) {
	if !wanted(t) {
		return
	}
	server, schema := pgtest.Shared(t), fmt.Sprintf("place-%d", placesUsed.Add(1))
	line := through(t, server)
	const echo = 500 * time.Millisecond
	var log text
	listener := closing(t, open(t, throughURL(t, server, line), Options{Schema: schema, Echo: echo,
		Log: slog.New(slog.NewTextHandler(&log, nil))}))
	heard := listening(t, listener, "mail")
	ringer := closing(t, open(t, server.URL("postgres"), Options{Schema: schema}))
	ringer.Ring(t.Context(), "mail")
	soon(t, "a ring", func() bool { return heard("mail") == 1 })
	before, caughtUp := listener.Stats(), heard("")

	line.Freeze()
	ringer.Ring(t.Context(), "mail") // into the hole
	soon(t, "a catch-up ring", func() bool { return heard("") > caughtUp })
	if !strings.Contains(log.String(), errDeaf.Error()) {
		t.Errorf("the connection ended, and not because nothing came back:\n%s", log.String())
	}
	after := listener.Stats()
	if after.Reconnects != before.Reconnects+1 {
		t.Errorf("%d reconnects, want one more than %d", after.Reconnects, before.Reconnects)
	}
	ringer.Ring(t.Context(), "mail")
	soon(t, "a ring after it", func() bool { return heard("mail") >= 2 })
	soon(t, "an echo after it", func() bool { return listener.Stats().EchoAt.After(before.EchoAt) })
}

// Behind PgBouncer in transaction mode nothing is heard, and the log says so.
func TestTransactionPooling(t *testing.T) {
	if !wanted(t) {
		return
	}
	server := pgtest.Shared(t)
	bouncer := pgtest.NewBouncer(t, server, nil)
	var log text
	bell := closing(t, open(t, bouncer.URL("postgres"), Options{Schema: "pooled", Echo: 100 * time.Millisecond,
		Log: slog.New(slog.NewTextHandler(&log, nil))}))
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	rings, err := bell.Listen(ctx, []string{"mail"})
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for range rings {
		}
	}()
	soon(t, "a line about the pooler", func() bool { return strings.Contains(log.String(), "PgBouncer") })
	if bell.Stats().Listening {
		t.Error("the bell says that it listens")
	}
	if n := strings.Count(log.String(), "PgBouncer"); n != 1 {
		t.Errorf("%d lines about the pooler, want one", n)
	}
	if err := bell.Publish(t.Context(), []daybook.Ring{{Queue: "mail"}}); err != nil {
		t.Errorf("ringing works through a pooler, and here: %v", err)
	}
}

// What is wrong with a URL is said without its password.
func TestWrongURL(t *testing.T) {
	for _, url := range []string{"", "postgres://u:hunter2@host:port/db", "redis://u:hunter2@host", "hunter2",
		"postgres://u:hunter2@host/db?sslmode=nonsense", "postgres://u:hunter2@[::1/db"} {
		_, err := Open(t.Context(), url, Options{})
		if daybook.CodeOf(err) != daybook.CodeInvalid || strings.Contains(fmt.Sprint(err), "hunter2") {
			t.Errorf("Open(%q): %v, want invalid without the password", url, err)
		}
	}
	for _, o := range []Options{{Schema: strings.Repeat("s", 64)}, {Echo: -1}} {
		if _, err := Open(t.Context(), "postgres://u@host/db", o); daybook.CodeOf(err) != daybook.CodeInvalid {
			t.Errorf("Open with %+v: %v, want invalid", o, err)
		}
	}
	b, err := Open(t.Context(), "postgres://u@127.0.0.1:1/db?pool_max_conns=7&default_query_exec_mode=exec",
		Options{Schema: strings.Repeat("é", 31)})
	if err != nil {
		t.Fatal(err)
	}
	if len(b.channel) > nameMax || len(b.config.RuntimeParams) != 1 {
		t.Errorf("channel %q, settings %v", b.channel, b.config.RuntimeParams)
	}
	b.Close()
}

// Connections have a name by which people find them: the URL's, or our own.
func TestNameIsKept(t *testing.T) {
	t.Setenv("PGAPPNAME", "")
	for url, want := range map[string]string{"postgres://u@host/db": "daybook-bell",
		"postgres://u@host/db?application_name=mine": "mine"} {
		config, err := parse(url)
		if err != nil || config.RuntimeParams["application_name"] != want {
			t.Errorf("%s: got %v, want the name %s", url, err, want)
		}
	}
}
