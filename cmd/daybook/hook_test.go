//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	standard "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/daybookdev/daybook"
)

const hookSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// hooked is an endpoint, and what came to it.
type hooked struct {
	*httptest.Server
	mu   sync.Mutex
	came []*http.Request
	text []string
}

// hook serves an endpoint that answers each request by do.
func hook(t *testing.T, do func(w http.ResponseWriter, r *http.Request, body string)) *hooked {
	t.Helper()
	h := &hooked{}
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		h.mu.Lock()
		h.came, h.text = append(h.came, r), append(h.text, string(body))
		h.mu.Unlock()
		do(w, r, string(body))
	}))
	t.Cleanup(h.Close)
	return h
}

// requests are what came so far.
func (h *hooked) requests() []*http.Request {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]*http.Request(nil), h.came...)
}

// dropped ends the connection without a word.
func dropped(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err == nil {
		_ = conn.(*net.TCPConn).SetLinger(0)
		_ = conn.Close()
	}
}

// effects are what the ledger has of job n.
func (c *cli) effects(n int) (list []daybook.Effect) {
	c.t.Helper()
	var got struct{ Effects []daybook.Effect }
	c.json(statusDone, &got, "effect", "list")
	for _, e := range got.Effects {
		if e.Job.String() == id(n) {
			list = append(list, e)
		}
	}
	return list
}

// mainEffect holds the one effect of job n to a state.
func (c *cli) mainEffect(n int, want daybook.EffectState) daybook.Effect {
	c.t.Helper()
	list := c.effects(n)
	if len(list) != 1 || list[0].Name != "main" || list[0].State != want {
		c.t.Fatalf("job %d: got effects %+v, want main %s", n, list, want)
	}
	return list[0]
}

// posts runs a worker that posts what is due, until nothing is.
func (c *cli) posts(url string, more ...string) said {
	c.t.Helper()
	return c.want(statusDone, append([]string{"work", "--queue", "mail", "--drain", "--http", url}, more...)...)
}

// What an endpoint gets: the args byte for byte, whose they are, and signatures
// that the standard's own library takes, by each secret.
func TestHookRequest(t *testing.T) { onEach(t, testHookRequest) }

func testHookRequest(t *testing.T, c *cli) {
	const args = `{"n": 9007199254740993, "x":1.0}`
	next := "whsec_" + strings.Repeat("QUJD", 8)
	h := hook(t, func(w http.ResponseWriter, r *http.Request, body string) {
		for _, secret := range []string{hookSecret, next} {
			verifier, err := standard.NewWebhook(secret)
			if err == nil {
				err = verifier.Verify([]byte(body), r.Header)
			}
			if err != nil {
				t.Errorf("by %s: %v", secret, err)
			}
		}
		fmt.Fprint(w, `{"got": 1.0}`)
	})
	const trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	c.enqueue(1, "--args", args, "--traceparent", trace)
	s := c.posts(strings.Replace(h.URL, "http://", "http://ada:pa%20ss@", 1)+"/in?token=s3cr3t",
		"--webhook-secret-file", writeFile(t, "secrets", hookSecret+"\n"+next+"\n"))
	if j := c.state(1, daybook.Succeeded); string(j.Result) != `{"got":1.0}` {
		t.Errorf("got result %s", j.Result)
	}
	e := c.mainEffect(1, daybook.EffectDone)
	if e.Policy != daybook.PolicyAsk || e.Key != daybook.EffectKey(e.Job, "main", 0) {
		t.Errorf("got %+v, want ask, and the effect's own key", e)
	}
	r := h.requests()[0]
	want := map[string]string{"Daybook-Job": id(1), "Daybook-Generation": "1", "Daybook-Attempt": "1",
		"Daybook-Queue": "mail", "Daybook-Kind": "welcome", "Idempotency-Key": e.Key, "Webhook-Id": e.Key,
		"Content-Type": "application/json", "Accept-Encoding": "", "Traceparent": trace}
	for name, value := range want {
		if got := r.Header.Get(name); got != value {
			t.Errorf("%s: got %q, want %q", name, got, value)
		}
	}
	name, password, _ := r.BasicAuth()
	if h.text[0] != args || r.Method != "POST" || r.URL.String() != "/in?token=s3cr3t" ||
		name != "ada" || password != "pa ss" {
		t.Errorf("got %s %s of %s with %s", r.Method, r.URL, name, h.text[0])
	}
	for _, secret := range []string{"s3cr3t", "pa%20ss", "pa ss", hookSecret} {
		if strings.Contains(s.err, secret) {
			t.Errorf("the log has %q in it: %s", secret, s.err)
		}
	}
	if !strings.Contains(s.err, "doesn't say what it promises") || strings.Contains(s.err, "isn't signed") {
		t.Errorf("got %s, want a word about the policy that isn't declared, and none about signatures", s.err)
	}
}

// Answers, and what they make of a job and its effect.
func TestHookAnswers(t *testing.T) { onEach(t, testHookAnswers) }

func testHookAnswers(t *testing.T, c *cli) {
	h := hook(t, func(w http.ResponseWriter, r *http.Request, body string) {
		var say struct {
			Status int
			After  string
			Body   string
			Large  int
			To     string
		}
		if err := json.Unmarshal([]byte(body), &say); err != nil {
			t.Error(err)
		}
		if say.After == "date" {
			say.After = time.Now().Add(time.Hour).UTC().Format(http.TimeFormat)
		}
		if say.After != "" {
			w.Header().Set("Retry-After", say.After)
		}
		if say.To != "" {
			w.Header().Set("Location", say.To)
		}
		w.WriteHeader(say.Status)
		fmt.Fprint(w, say.Body, strings.Repeat("x", say.Large))
	})
	cases := []struct {
		args   string
		state  daybook.State
		reason daybook.Reason
		result string
		said   string // in the error
		effect daybook.EffectState
	}{
		{`{"status":200}`, daybook.Succeeded, "", "", "", daybook.EffectDone},
		{`{"status":204}`, daybook.Succeeded, "", "", "", daybook.EffectDone},
		{`{"status":201,"body":"hello\n"}`, daybook.Succeeded, "", `"hello"`, "", daybook.EffectDone},
		{`{"status":200,"body":"{\"a\":1,\"a\":2}"}`, daybook.Succeeded, "", `"{\"a\":1,\"a\":2}"`, "", daybook.EffectDone},
		{`{"status":200,"large":1048577}`, daybook.SetAside, daybook.ReasonPermanent, "", "it happened", daybook.EffectDone},
		{`{"status":422,"body":"no such address"}`, daybook.SetAside, daybook.ReasonPermanent, "",
			"answered 422 Unprocessable Entity: no such address", daybook.EffectAbsent},
		{`{"status":429,"after":"30"}`, daybook.Waiting, "", "", "", daybook.EffectAbsent},
		{`{"status":503,"after":"date"}`, daybook.Waiting, "", "", "", daybook.EffectAbsent},
		{`{"status":429}`, daybook.Waiting, "", "", "answered 429 Too Many Requests", daybook.EffectAbsent},
		{`{"status":503}`, daybook.Waiting, "", "", "answered 503 Service Unavailable", daybook.EffectAbsent},
		{`{"status":500,"large":100000}`, daybook.Waiting, "", "", "answered 500 Internal Server Error: xxx",
			daybook.EffectAbsent},
		{`{"status":404}`, daybook.Waiting, "", "", "answered 404 Not Found", daybook.EffectAbsent},
		{`{"status":302,"to":"/t0ken"}`, daybook.Waiting, "", "", "redirects aren't followed", daybook.EffectAbsent},
		{`{"status":504}`, daybook.Waiting, "", "", "leaves open whether it happened", daybook.EffectIsOpen},
	}
	for n, test := range cases {
		c.enqueue(n+1, "--args", test.args)
	}
	c.posts(h.URL)
	if got := len(h.requests()); got != len(cases) {
		t.Errorf("got %d requests, want one a job", got)
	}
	for n, test := range cases {
		j := c.state(n+1, test.state)
		if j.Reason != test.reason || string(j.Result) != test.result {
			t.Errorf("%s: got %s, result %s", test.args, j.Reason, j.Result)
		}
		c.mainEffect(n+1, test.effect)
		switch {
		case test.said == "" && (j.LastError != nil || j.Failures != 0):
			t.Errorf("%s: got failure %+v, want none", test.args, j.LastError)
		case test.said != "" && (j.LastError == nil || !strings.Contains(j.LastError.Text, test.said) || j.Failures != 1):
			t.Errorf("%s: got %+v after %d failures, want %s", test.args, j.LastError, j.Failures, test.said)
		case test.said != "" && strings.Contains(j.LastError.Text, "t0ken"):
			t.Errorf("%s: got %s, want nothing of where it leads", test.args, j.LastError.Text)
		}
		if test.said == "" && test.state == daybook.Waiting && j.RunAt.Sub(j.EnqueuedAt) < 25*time.Second {
			t.Errorf("%s: due at %s, want as much later as was asked", test.args, j.RunAt)
		}
	}
	if j := c.job(6); j.LastError.Kind != "http 422" {
		t.Errorf("got kind %s, want the status", j.LastError.Kind)
	}
}

// Faults that leave it open whether the endpoint acted: the next attempt does what
// the policy says, and the key is the same.
func TestHookNoAnswer(t *testing.T) { onEach(t, testHookNoAnswer) }

func testHookNoAnswer(t *testing.T, each *cli) {
	for name, fault := range map[string]func(w http.ResponseWriter, r *http.Request){
		"dropped": func(w http.ResponseWriter, _ *http.Request) { dropped(w) },
		"slow":    func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, // until it is given up
		"truncated": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			fmt.Fprint(w, `{"a":`)
			_ = http.NewResponseController(w).Flush()
			dropped(w)
		},
		"gateway": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) },
	} {
		policies := []string{"", "ask", "repeatable", "keyed"}
		if name == "slow" {
			policies = []string{"", "keyed"} // each takes as long as a request may
		}
		for _, policy := range policies {
			t.Run(name+" "+policy, func(t *testing.T) {
				testHookFault(t, each.another(t), fault, policy, name == "slow")
			})
		}
	}
}

// testHookFault makes the first of two requests fail so that nobody knows.
func testHookFault(t *testing.T, c *cli, fault func(http.ResponseWriter, *http.Request), policy string, slow bool) {
	var once sync.Once
	h := hook(t, func(w http.ResponseWriter, r *http.Request, body string) {
		failed := false
		once.Do(func() { failed = true; fault(w, r) })
		if !failed {
			fmt.Fprint(w, `"second"`)
		}
	})
	var flags []string
	if policy != "" {
		flags = append(flags, "--endpoint-policy", policy)
	}
	if policy == "keyed" {
		flags = append(flags, "--window", "24h")
	}
	first := flags
	if slow { // long enough for the request to be sent on a busy machine
		first = append(first[:len(first):len(first)], "--http-timeout", "3s")
	}
	c.enqueue(1)
	c.posts(h.URL, first...)
	if j := c.state(1, daybook.Waiting); j.Failures != 1 {
		t.Errorf("got %d failures, %+v", j.Failures, j.LastError)
	}
	c.mainEffect(1, daybook.EffectIsOpen)
	c.later(time.Minute)
	c.posts(h.URL, flags...)
	came := h.requests()
	if policy == "" || policy == "ask" {
		if j := c.state(1, daybook.SetAside); j.Reason != daybook.ReasonEffectOpen || len(came) != 1 {
			t.Errorf("got %s after %d requests, want a person asked after one", j.Reason, len(came))
		}
		c.ok("effect", "settle", id(1), "main", "--absent", "--reason", "not in its log")
		c.posts(h.URL, flags...)
		came = h.requests()
	}
	if j := c.state(1, daybook.Succeeded); string(j.Result) != `"second"` || len(came) != 2 {
		t.Fatalf("got result %s after %d requests", j.Result, len(came))
	}
	c.mainEffect(1, daybook.EffectDone)
	if came[0].Header.Get("Idempotency-Key") != came[1].Header.Get("Idempotency-Key") ||
		came[1].Header.Get("Daybook-Attempt") != "2" || came[1].Header.Get("Daybook-Generation") == "1" {
		t.Errorf("got %v, then %v", came[0].Header, came[1].Header)
	}
}

// What was never sent didn't happen: no such host, nobody who listens, a
// certificate that nobody vouches for.
func TestHookNotSent(t *testing.T) {
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	strange := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("a server that nobody vouches for was asked")
	}))
	strange.Config.ErrorLog = nil
	defer strange.Close()
	for name, url := range map[string]string{"refused": closed.URL, "no host": "http://no-such-host.invalid/x",
		"certificate": strange.URL} {
		t.Run(name, func(t *testing.T) {
			c := newCLI(t)
			c.enqueue(1)
			c.posts(url)
			if j := c.state(1, daybook.Waiting); j.Failures != 1 || !strings.Contains(j.LastError.Text, "nothing was sent") ||
				j.LastError.Kind != "not sent" {
				t.Errorf("got %+v", j.LastError)
			}
			c.mainEffect(1, daybook.EffectAbsent)
		})
	}
}

// A connection serves many requests, and one that the server closed meanwhile
// costs no attempt. No request is sent twice by itself, though it has a key.
func TestHookConnections(t *testing.T) {
	var mu sync.Mutex
	made := map[string]int{}
	h := hook(t, func(w http.ResponseWriter, r *http.Request, _ string) {
		mu.Lock()
		defer mu.Unlock()
		if made[r.RemoteAddr]++; made[r.RemoteAddr]%5 == 0 {
			dropped(w) // on a connection that served others before
		}
	})
	c := newCLI(t)
	const jobs = 20
	for n := range jobs {
		c.enqueue(n + 1)
	}
	c.posts(h.URL, "--concurrency", "1")
	if got := len(h.requests()); got != jobs || len(made) > jobs/4 {
		t.Errorf("got %d requests on %d connections, want %d on few", got, len(made), jobs)
	}
	open := 0
	for n := range jobs {
		if c.effects(n + 1)[0].State == daybook.EffectIsOpen {
			open++
		}
	}
	if open != jobs/5 {
		t.Errorf("%d are open, want the %d whose answer was dropped", open, jobs/5)
	}
}

// A worker that is killed between the endpoint's acting and its own writing it
// down: the effect is open, and the policy decides.
func TestHookKilled(t *testing.T) { onEach(t, testHookKilled) }

func testHookKilled(t *testing.T, each *cli) {
	for _, policy := range []string{"ask", "keyed"} {
		t.Run(policy, func(t *testing.T) {
			c := each.another(t)
			var p *process
			ready := make(chan struct{})
			var once sync.Once
			h := hook(t, func(w http.ResponseWriter, r *http.Request, _ string) {
				<-ready
				once.Do(func() { p.kill() })
				fmt.Fprint(w, `"acted"`)
			})
			flags := []string{"work", "--queue", "mail", "--lease", "1s", "--http", h.URL, "--endpoint-policy", policy}
			if policy == "keyed" {
				flags = append(flags, "--window", "1h")
			}
			c.enqueue(1)
			p = c.start(flags...)
			close(ready)
			<-p.done
			c.mainEffect(1, daybook.EffectIsOpen)
			c.later(5 * time.Second)
			c.ok("reconcile", "--once")
			c.want(statusDone, append(flags, "--drain")...)
			j := c.job(1)
			came := len(h.requests())
			if policy == "ask" && (j.State != daybook.SetAside || j.Reason != daybook.ReasonEffectOpen || came != 1) {
				t.Errorf("got %s (%s) after %d requests, want a person asked", j.State, j.Reason, came)
			}
			if policy == "keyed" && (j.State != daybook.Succeeded || string(j.Result) != `"acted"` || came != 2) {
				t.Errorf("got %s, result %s after %d requests", j.State, j.Result, came)
			}
			c.ok("check", "--full")
		})
	}
}

// Kinds can have endpoints of their own, which promise for themselves.
func TestHookKinds(t *testing.T) {
	c := newCLI(t)
	mail := hook(t, func(w http.ResponseWriter, _ *http.Request, _ string) { fmt.Fprint(w, "mail") })
	rest := hook(t, func(w http.ResponseWriter, _ *http.Request, _ string) { fmt.Fprint(w, "rest") })
	c.enqueue(1)
	c.ok("enqueue", "--queue", "mail", "--kind", "other", "--id", id(2))
	own := "[kind.welcome]\nhttp = '" + mail.URL + "'\nendpoint-policy = 'keyed'\nwindow = '1h'\n"
	conf := writeFile(t, "own.toml", own)
	c.ok("work", "--config", conf, "--queue", "mail", "--drain")
	if j := c.state(1, daybook.Succeeded); string(j.Result) != `"mail"` {
		t.Errorf("got %s", j.Result)
	}
	if e := c.mainEffect(1, daybook.EffectDone); e.Policy != daybook.PolicyKeyed {
		t.Errorf("got policy %s", e.Policy)
	}
	c.state(2, daybook.Waiting) // nobody said where to post it
	c.enqueue(3)
	both := writeFile(t, "both.toml", own+"[work]\nhttp = '"+rest.URL+"'\n")
	c.ok("work", "--config", both, "--queue", "mail", "--drain")
	if j := c.state(2, daybook.Succeeded); string(j.Result) != `"rest"` {
		t.Errorf("got %s", j.Result)
	}
	if j := c.state(3, daybook.Succeeded); string(j.Result) != `"mail"` {
		t.Errorf("got %s", j.Result)
	}
	if e := c.mainEffect(2, daybook.EffectDone); e.Policy != daybook.PolicyAsk {
		t.Errorf("got policy %s, want none taken over from another endpoint", e.Policy)
	}
}

// What can't be meant is refused before anything is claimed, and no secret is
// told.
func TestHookRefused(t *testing.T) {
	c := newCLI(t)
	c.enqueue(1)
	file := func(text string) string { return writeFile(t, "f", text) }
	for _, args := range [][]string{{"--http", "ftp://x"}, {"--http", "http://"}, {"--http", "http://x#y"},
		{"--http", "http://u:marker@%zz"}, {"--http", "http://x", "--exec", "true"}, {"--endpoint-policy", "ask"},
		{"--http", "http://x", "--endpoint-policy", "keyed"}, {"--http", "http://x", "--endpoint-policy", "checked"},
		{"--http", "http://x", "--endpoint-policy", "keyed", "--window", "1s"},
		{"--http", "http://x", "--endpoint-policy", "ask", "--window", "1h"}, {"--http", "http://x", "--window", "1h"},
		{"--http", "http://x", "--http-timeout", "16s"}, {"--http", "http://x", "--http-timeout", "0s"},
		{"--http", "http://x", "--unsure-status", "200"},
		{"--http", "http://x", "--webhook-secret-file", filepath.Join(c.dir, "none")},
		{"--http", "http://x", "--webhook-secret-file", file("\n")},
		{"--http", "http://x", "--webhook-secret-file", file("whsec_marker")},
		{"--kind", "k", "--config", file("[kind.other]\nhttp='http://x'\n")},
		{"--config", file("[kind.k]\nhttp='marker'\n")},
		{"--http", "http://x", "--config", file("[kind.k]\nwindow='1h'\n")},
		{"--http", "http://x", "--config", file("[kind.k]\nsensitive=1\n")},
		{"--config", file("[kind.k]\nhttp='http://x'\nendpoint-policy='maybe'\n")}} {
		s := c.want(statusUsage, append([]string{"work", "--queue", "mail", "--drain"}, args...)...)
		if strings.Contains(s.err, "marker") {
			t.Errorf("%q: got %s", args, s.err)
		}
	}
	t.Setenv(envSecret, "whsec_marker")
	if s := c.want(statusUsage, "work", "--queue", "mail", "--http", "http://x"); strings.Contains(s.err, "marker") {
		t.Errorf("got %s", s.err)
	}
	c.state(1, daybook.Waiting)
	if j := c.job(1); j.Generation != 0 {
		t.Error("the job was claimed")
	}
}
