//go:build unix

package main

import (
	"io"
	"net/http"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/daybookdev/daybook/internal/brokertest"
)

// A job that one process enqueues is run by another at once, with nothing but
// the bell between them: no poll, no loops.
func TestBellReachesAnotherProcess(t *testing.T) {
	if onPostgres {
		t.Run("postgres", func(t *testing.T) { testBellReaches(t, newPostgresCLI(t), "", nil) })
	}
	if !brokertest.Wanted() {
		return
	}
	t.Run("redis", func(t *testing.T) {
		s := brokertest.StartRedis(t)
		testBellReaches(t, newCLI(t), s.URL(), s.Server)
	})
	t.Run("nats", func(t *testing.T) {
		s := brokertest.StartNATS(t)
		testBellReaches(t, newCLI(t), s.URL(), s.Server)
	})
	t.Run("rabbitmq", func(t *testing.T) {
		s := brokertest.StartRabbitMQ(t)
		testBellReaches(t, newCLI(t), s.URL(), s.Server)
	})
}

// testBellReaches also kills the bell's server, if it is one of its own: health
// says so while it is away, and jobs flow when it is back (L43, celery 8030).
func testBellReaches(t *testing.T, c *cli, bell string, server *brokertest.Server) {
	t.Setenv("DAYBOOK_BELL", bell)
	p := c.start("work", "--queue", "mail", "--poll", "0", "--no-loops", "--listen", "127.0.0.1:0",
		"--exec", "echo ran >&2")
	line := p.says("listening", 1)[0]
	address := regexp.MustCompile(`address=(\S+)`).FindStringSubmatch(line)
	if address == nil {
		t.Fatalf("got %q, want the address", line)
	}
	health := func(want string) {
		t.Helper()
		await(t, "/healthz with "+want, func() bool { return strings.Contains(get(t, address[1], "/healthz"), want) })
	}
	health(`"bell":"listening"`)
	for n := 1; n <= 3; n++ {
		c.enqueue(n)
		p.says("ran", n)
	}
	if server != nil {
		if err := server.Kill(); err != nil {
			t.Fatal(err)
		}
		health(`"bell":"not heard`)
		c.enqueue(4) // nobody hears of it until the bell has healed
		if err := server.StartAgain(); err != nil {
			t.Fatal(err)
		}
		p.says("ran", 4)
		health(`"bell":"listening"`)
		c.enqueue(5)
		p.says("ran", 5)
	}
	body := get(t, address[1], "/metrics")
	for _, want := range []string{"daybook_bell_listening 1", `daybook_worker_rings_total{what="heard"} [1-9]`,
		`daybook_bell_rings_total{what="heard"} [1-9]`, "daybook_worker_found_by_poll_total 0",
		"daybook_outbox_age_seconds ", "daybook_bell_reconnects_total "} {
		if !regexp.MustCompile("(?m)^" + want).MatchString(body) {
			t.Errorf("/metrics doesn't have %s", want)
		}
	}
	p.signal(syscall.SIGTERM)
	p.ends(statusDone)
}

func get(t *testing.T, address, path string) string {
	t.Helper()
	response, err := http.Get("http://" + address + path)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}
