package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// bookCommands need the book itself, whatever --server says.
var bookCommands = []string{"bench", "cutover", "demo", "doctor", "drill", "prune", "reconcile", "relay", "schema",
	"serve", "token", "top"}

// needsBook reports whether a command line is of such a command.
func needsBook(args []string) bool { return len(args) > 0 && slices.Contains(bookCommands, args[0]) }

// onServer serves the cli's book by a real daybook serve, and has commands speak
// to it with a token that may do all.
func (c *cli) onServer() *cli {
	c.t.Helper()
	var made shownToken
	if err := json.Unmarshal([]byte(c.ok("token", "create", "ada", "--scope", "enqueue", "--scope", "work",
		"--scope", "read", "--scope", "operate", "-o", "json")), &made); err != nil {
		c.t.Fatal(err)
	}
	c.token = made.Secret
	c.server = c.served("--no-loops")
	return c
}

// asServed serves a copied book as the one that it was copied from.
func (c *cli) asServed(from *cli) *cli {
	c.t.Helper()
	if from.server != "" {
		c.token, c.server = from.token, c.served("--no-loops")
	}
	return c
}

var servedURL = regexp.MustCompile(`url=(\S+)`)

// urlIn reads a server's log until it says where it serves, and lets the rest
// pass.
func urlIn(t *testing.T, log io.Reader) string {
	t.Helper()
	lines := bufio.NewScanner(log)
	for lines.Scan() {
		if m := servedURL.FindStringSubmatch(lines.Text()); m != nil {
			go func() { _, _ = io.Copy(io.Discard, log) }()
			return m[1]
		}
		t.Log(lines.Text())
	}
	t.Fatal("the server ended without saying where it serves")
	return ""
}

// served serves the cli's book in this process until the test ends.
func (c *cli) served(args ...string) (url string) {
	c.t.Helper()
	ctx, stop := context.WithCancel(c.t.Context())
	log, say := io.Pipe()
	ended := make(chan int, 1)
	a := &app{base: ctx, stdin: strings.NewReader(""), stdout: io.Discard, stderr: say, now: c.clock,
		terminal: func(any) bool { return false }}
	go func() {
		ended <- a.run(append([]string{"--db", c.db, "serve", "--listen", "127.0.0.1:0"}, args...))
		say.Close()
	}()
	url = urlIn(c.t, log)
	c.t.Cleanup(func() {
		stop()
		if status := <-ended; status != statusDone {
			c.t.Errorf("serve ended with %d", status)
		}
	})
	return url
}

// await polls a condition of another process.
func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	deadline, every := time.After(30*time.Second), time.NewTicker(5*time.Millisecond)
	defer every.Stop()
	for !done() {
		select {
		case <-every.C:
		case <-deadline:
			t.Fatalf("waited 30s for %s", what)
		}
	}
}
