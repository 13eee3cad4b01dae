//go:build unix

package main

import (
	"bufio"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	neturl "net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/daybookdev/daybook"
)

// serveExample runs an example of serve until it serves, and stops it.
func serveExample(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	log, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	url := urlIn(t, log)
	answer, err := http.Get(url + "/readyz")
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Errorf("readyz: %v, %v", answer, err)
	} else {
		answer.Body.Close()
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("serve ended with %v", err)
	}
}

// ask makes one call; token is "" for none.
func ask(t *testing.T, token, method, url, body string) (status int, text string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	all, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(all)
}

// A job's whole way over HTTP, the schema made by the server itself; the command
// line sees the same.
func TestServe(t *testing.T) { onEach(t, testServe) }

func testServe(t *testing.T, c *cli) {
	url := c.served()
	if status, text := ask(t, "", "POST", url+"/v1/jobs", `{"queue":"mail","kind":"k","id":"`+id(1)+`"}`); status != 201 {
		t.Fatalf("enqueue: %d %s", status, text)
	}
	status, text := ask(t, "", "POST", url+"/v1/claims", `{"queues":["mail"],"worker":"w","wait_seconds":10}`)
	var claims claims
	if err := json.Unmarshal([]byte(text), &claims); err != nil || status != 200 || len(claims.Claims) != 1 {
		t.Fatalf("claim: %d %s", status, text)
	}
	status, text = ask(t, "", "POST", url+"/v1/jobs/"+id(1)+"/complete",
		`{"session":"`+claims.Session.String()+`","generation":1,"result":[1.0]}`)
	if status != 200 {
		t.Fatalf("complete: %d %s", status, text)
	}
	c.state(1, daybook.Succeeded)
	for path, want := range map[string]string{"/metrics": "daybook_book_up 1", "/readyz": "ready", "/healthz": "ok",
		"/v1/check": `"violations":0`} {
		if status, text := ask(t, "", "GET", url+path, ""); status != 200 || !strings.Contains(text, want) {
			t.Errorf("%s: got %d %s", path, status, text)
		}
	}
}

// Tokens by the command line: what they allow, who did it, and that a revoked
// one is let in no more.
func TestServeTokens(t *testing.T) { onEach(t, testServeTokens) }

func testServeTokens(t *testing.T, c *cli) {
	var made shownToken
	if err := json.Unmarshal([]byte(c.ok("token", "create", "ops", "--scope", "operate", "--scope", "enqueue",
		"-o", "json")), &made); err != nil {
		t.Fatal(err)
	}
	url := c.served()
	enqueue := `{"queue":"mail","kind":"k","id":"` + id(1) + `"}`
	if status, _ := ask(t, "", "POST", url+"/v1/jobs", enqueue); status != 401 {
		t.Errorf("without a token: %d", status)
	}
	if status, _ := ask(t, made.Secret, "GET", url+"/v1/jobs", ""); status != 403 {
		t.Errorf("with another scope: %d", status)
	}
	if status, text := ask(t, made.Secret, "POST", url+"/v1/jobs", enqueue); status != 201 {
		t.Errorf("enqueue: %d %s", status, text)
	}
	if status, text := ask(t, made.Secret, "POST", url+"/v1/jobs/"+id(1)+"/cancel", `{"reason":"r"}`); status != 200 {
		t.Errorf("cancel: %d %s", status, text)
	}
	if out := c.ok("job", "timeline", id(1), "-o", "json"); !strings.Contains(out, `"actor":"ops"`) {
		t.Errorf("the timeline doesn't say who it was: %s", out)
	}
	out := c.ok("token", "list")
	if strings.Contains(out, made.Secret) || !strings.Contains(out, "enqueue and operate") {
		t.Errorf("the list is %s", out)
	}
	c.ok("token", "revoke", "ops")
	await(t, "a revoked token refused", func() bool {
		status, _ := ask(t, made.Secret, "POST", url+"/v1/jobs", enqueue)
		return status == 401
	})
	c.want(statusNotFound, "token", "revoke", "nobody")
	c.want(statusUsage, "token", "create", "x")
	c.want(statusUsage, "token", "create", "x", "--scope", "all")
	c.want(statusUsage, "token", "create", "x", "--scope", "read", "--expires", "-1s")
}

// Nobody listens to the network without a token that somebody could have.
func TestServeRefuses(t *testing.T) {
	c := newCLI(t)
	for _, line := range []string{"--listen 0.0.0.0:0", "--listen [::]:0", "--listen nowhere", "--grace -1s",
		"--rate -1", "--tls-cert x", "--tls-cert x --tls-key y", "--listen :http", "extra"} {
		s := c.want(statusUsage, append([]string{"serve"}, strings.Fields(line)...)...)
		if strings.Count(s.err, "\n") != 1 {
			t.Errorf("serve %s: got %q, want one line", line, s.err)
		}
	}
	c.ok("token", "create", "a", "--scope", "read")
	c.ok("token", "revoke", "a")
	c.want(statusUsage, "serve", "--listen", "0.0.0.0:0")
}

// Sensitive kinds, by flag and by configuration: hidden over HTTP from who lacks
// the scope, and not from who has the database.
func TestServeSensitive(t *testing.T) {
	c := newCLI(t)
	c.enqueue(1, "--args", `"c4n4ry"`)
	c.ok("enqueue", "--queue", "mail", "--kind", "medical", "--id", id(2), "--args", `"c4n4ry"`)
	c.ok("enqueue", "--queue", "mail", "--kind", "plain", "--id", id(3), "--args", `"c4n4ry"`)
	tokens := map[string]string{}
	for name, scopes := range map[string][]string{"reader": {"--scope", "read"},
		"seer": {"--scope", "read", "--scope", "sensitive"}} {
		var made shownToken
		c.json(statusDone, &made, append([]string{"token", "create", name}, scopes...)...)
		tokens[name] = made.Secret
	}
	conf := writeFile(t, "serve.toml", "[kind.medical]\nsensitive = true\n[kind.plain]\nsensitive = false\n")
	url := c.served("--config", conf, "--sensitive", "welcome")
	for n := 1; n <= 3; n++ {
		for name, token := range tokens {
			_, text := ask(t, token, "GET", url+"/v1/jobs/"+id(n), "")
			if sees := name == "seer" || n == 3; sees != strings.Contains(text, "c4n4ry") ||
				sees == strings.Contains(text, `"hidden":true`) {
				t.Errorf("job %d to the %s: got %s", n, name, text)
			}
		}
	}
	for name, token := range tokens { // the console by the same rule
		if _, text := consolePage(t, url, token, "/job/"+id(2)); strings.Contains(text, "c4n4ry") != (name == "seer") ||
			!strings.Contains(text, "medical") {
			t.Errorf("the console to the %s: got %s", name, text)
		}
	}
	if j := c.job(2); string(j.Args) != `"c4n4ry"` {
		t.Errorf("got %s, want all for who has the database", j.Args)
	}
	c.want(statusUsage, "serve", "--sensitive", "no good")
	c.want(statusUsage, "serve", "--config", writeFile(t, "bad.toml", "[kind.k]\nsensitive = 'yes'\n"))
}

// A book's file that is deleted or replaced ends server and worker: they would go
// on writing into a file that nobody can open any more.
func TestEndsWithoutItsFile(t *testing.T) {
	lose := map[string]func(path string) error{
		"deleted": os.Remove,
		"replaced": func(path string) error {
			copied, err := os.ReadFile(path)
			if err == nil {
				err = os.WriteFile(path+".new", copied, 0o600)
			}
			return errors.Join(err, os.Rename(path+".new", path))
		},
	}
	for _, line := range []string{"serve --listen 127.0.0.1:0", "work --queue none --exec true --grace 1s"} {
		for what, lose := range lose {
			t.Run(line[:5]+" "+what, func(t *testing.T) { testEndsWithoutItsFile(t, line, lose) })
		}
	}
}

func testEndsWithoutItsFile(t *testing.T, line string, lose func(path string) error) {
	c := newCLI(t)
	c.enqueue(1)
	log, say := io.Pipe()
	a := &app{base: t.Context(), stdin: strings.NewReader(""), stdout: io.Discard, stderr: say, now: c.clock,
		terminal: func(any) bool { return false }}
	ended := make(chan int, 1)
	go func() {
		ended <- a.run(append([]string{"--db", c.db}, strings.Fields(line)...))
		say.Close()
	}()
	lines := bufio.NewReader(log)
	for text := ""; !strings.Contains(text, "msg=serving") && !strings.Contains(text, "session starts"); {
		var err error
		if text, err = lines.ReadString('\n'); err != nil {
			t.Fatalf("%s ended with %v before it ran", line, err)
		}
	}
	go func() { _, _ = io.Copy(io.Discard, lines) }()
	if err := lose(strings.TrimPrefix(c.db, "sqlite:")); err != nil {
		t.Fatal(err)
	}
	if status := <-ended; status != statusUnavailable {
		t.Errorf("%s ended with %d, want %d", line, status, statusUnavailable)
	}
}

// OPTIONS * is answered by the API too, with its headers.
func TestServeAnswersOptions(t *testing.T) {
	c := newCLI(t)
	url := c.served()
	said := rawAnswer(t, url, "OPTIONS * HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
	if !strings.HasPrefix(said, "HTTP/1.1 404") || strings.Count(said, "Content-Security-Policy:") != 1 {
		t.Errorf("got %q, want the API's answer with its Content-Security-Policy", said)
	}
}

// What is no request is answered by net/http, and has our headers all the same.
func TestServeAnswersNonsense(t *testing.T) {
	c := newCLI(t)
	cert, key := filepath.Join(c.dir, "cert.pem"), filepath.Join(c.dir, "key.pem")
	certify(t, cert, key, 1)
	for _, url := range []string{c.served(), c.served("--tls-cert", cert, "--tls-key", key)} {
		saysPolicy(t, url)
	}
}

// saysPolicy fails unless refusals of what is no request have our headers.
func saysPolicy(t *testing.T, url string) {
	t.Helper()
	for send, status := range map[string]string{"nonsense\r\n\r\n": "400", "GET / HTTP/1.1\r\n\r\n": "400",
		"GET / HTTP/1.1\r\nHost: h\r\nExpect: much\r\n\r\n": "417", "GET / HTTP/7.0\r\nHost: h\r\n\r\n": "505",
		"GET / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip\r\n\r\n": "501"} {
		said := rawAnswer(t, url, send)
		if !strings.HasPrefix(said, "HTTP/1.1 "+status) ||
			!strings.Contains(said, "\r\nContent-Security-Policy: default-src 'none'") ||
			!strings.Contains(said, "\r\nX-Content-Type-Options: nosniff") {
			t.Errorf("%s: %q was answered %q, want %s with our headers", url, send, said, status)
		}
	}
}

// rawAnswer is all that a server says to what one connection sends.
func rawAnswer(t *testing.T, url, send string) string {
	t.Helper()
	var conn net.Conn
	var err error
	if address, secure := strings.CutPrefix(url, "https://"); secure {
		conn, err = tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true})
	} else {
		conn, err = net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	}
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err = io.WriteString(conn, send); err != nil {
		t.Fatal(err)
	}
	all, err := io.ReadAll(conn)
	if err != nil {
		t.Errorf("%q: %v", send, err)
	}
	return string(all)
}

// consolePage logs in to the console with a token and loads a page.
func consolePage(t *testing.T, url, token, path string) (status int, text string) {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	person := &http.Client{Jar: jar}
	read := func(answer *http.Response, err error) string {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		all, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		status = answer.StatusCode
		return string(all)
	}
	_, rest, _ := strings.Cut(read(person.Get(url+"/login")), `name="form" value="`)
	key, _, _ := strings.Cut(rest, `"`)
	text = read(person.PostForm(url+"/login", neturl.Values{"form": {key}, "token": {token}, "to": {path}}))
	return status, text
}
