package httpapi

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/daybookdev/daybook"
)

// marker stands where a request's sender could put a secret: no answer and no
// log line may have it.
const marker = "s3cr3t-marker"

// refused makes a call that must be refused in the form of a problem, without
// repeating what it was given.
func (w *world) refused(status int, code daybook.Code, method, path, body string, headers ...string) reply {
	w.Helper()
	r := w.call(method, path, body, headers...)
	what := fmt.Sprintf("%s %s %.80s %v", method, path, body, headers)
	w.hold(r, status, what, `"code":"`+string(code)+`"`, fmt.Sprintf(`"status":%d`, status))
	if got := r.header.Get("Content-Type"); got != "application/problem+json" {
		w.Errorf("%s: Content-Type %s", what, got)
	}
	if strings.Contains(r.body, marker) {
		w.Errorf("%s: the answer repeats what was given: %s", what, r.body)
	}
	return r
}

// at holds the place that a problem blames.
func (w *world) at(r reply, where string) {
	w.Helper()
	if !strings.Contains(r.body, where) {
		w.Errorf("got %s, want %s blamed", r.body, where)
	}
}

// What can't be meant is refused by its place.
func TestRefusedBodies(t *testing.T) {
	w := newWorld(t)
	w.enqueue(1, "")
	pointer := func(p string) string { return `"pointer":"` + p + `"` }
	job := func(more string) string { return `{"queue":"q","kind":"k"` + more + `}` }
	for _, c := range []struct {
		status             int
		code               daybook.Code
		path, body, blamed string
	}{
		{400, "malformed", "/v1/jobs", `{"queue":`, ""},
		{400, "malformed", "/v1/jobs", `nope` + marker, ""},
		{400, "malformed", "/v1/claims", `{"queues":["q"]}{}`, ""},
		{400, "malformed", "/v1/claims", `{"queues":["` + "\xff" + `"]}`, ""},
		{400, "malformed", "/v1/claims", `{"queues":` + strings.Repeat("[", 20000), ""},
		{422, "invalid", "/v1/claims", `"x"`, "#"},
		{422, "invalid", "/v1/jobs", `{"kind":"k"}`, pointer("#/queue")},
		{422, "invalid", "/v1/jobs", `{"queue":"a ` + marker + `","kind":"k"}`, pointer("#/queue")},
		{422, "invalid", "/v1/jobs", job(`,"` + marker + `é":1`), ""},
		{422, "invalid", "/v1/jobs", job(`,"priorty":1`), "priorty"},
		{422, "invalid", "/v1/jobs", `{"Queue":"q","kind":"k"}`, "Queue"},
		{422, "invalid", "/v1/jobs", job(`,"priority":"` + marker + `"`), pointer("#/priority")},
		{422, "invalid", "/v1/jobs", job(`,"priority":99999`), pointer("#/priority")},
		{422, "invalid", "/v1/jobs", job(`,"run_at":"` + marker + `"`), pointer("#/run_at")},
		{422, "invalid", "/v1/jobs", job(`,"in_seconds":-1`), pointer("#/in_seconds")},
		{422, "invalid", "/v1/jobs", job(`,"on_lost":"` + marker + `"`), pointer("#/on_lost")},
		{422, "invalid", "/v1/jobs", job(`,"id":"` + marker + `"`), pointer("#/id")},
		{422, "invalid", "/v1/jobs", job(`,"queue":"q2"`), ""},
		{422, "invalid", "/v1/jobs", job(`,"args":{"a":{"b":1,"b":"` + marker + `"}}`), ""},
		{422, "invalid", "/v1/jobs", job(`,"args":"\u0000` + marker + `"`), ""},
		{413, "too_large", "/v1/jobs", job(`,"args":"` + strings.Repeat("x", daybook.ArgsMax) + `"`), ""},
		{413, "too_large", "/v1/jobs", job(`,"args":"` + strings.Repeat("x", 2*daybook.ArgsMax) + `"`), ""},
		{422, "invalid", "/v1/jobs/batch", `[{"queue":"q","kind":"k"},{"queue":"q"}]`, pointer("#/1/kind")},
		{422, "invalid", "/v1/jobs/batch", `[{"queue":"q","kind":"k"},{"queue":"q","kind":7}]`, pointer("#/1/kind")},
		{422, "invalid", "/v1/jobs/batch", `{"jobs":[]}`, "#"},
		{413, "too_large", "/v1/jobs/batch", "[" + strings.Repeat("{},", daybook.BatchMax) + "{}]", ""},
		{422, "invalid", "/v1/claims", `{"queues":[]}`, pointer("#/queues")},
		{422, "invalid", "/v1/claims", `{"queues":["q"],"limt":1}`, "limt"},
		{422, "invalid", "/v1/claims", `{"queues":["q"],"queues":["q"]}`, pointer("#/queues")},
		{422, "invalid", "/v1/claims", `{"queues":["q"],"limit":0}`, pointer("#/limit")},
		{422, "invalid", "/v1/claims", `{"queues":["q"],"limit":10001}`, pointer("#/limit")},
		{422, "invalid", "/v1/claims", `{"queues":["q"],"lease_seconds":0.5}`, pointer("#/lease_seconds")},
		{422, "invalid", "/v1/claims", `{"queues":["q"],"wait_seconds":61}`, pointer("#/wait_seconds")},
		{422, "invalid", "/v1/claims", `{"queues":["q"],"wait_seconds":"` + marker + `"}`, pointer("#/wait_seconds")},
		{422, "invalid", "/v1/claims", `{"queues":["q",["` + marker + `"]]}`, pointer("#/queues/1")},
		{422, "invalid", "/v1/claims", `{"queues":["q"],"session":"` + marker + `"}`, pointer("#/session")},
		{404, "not_found", "/v1/claims", `{"queues":["q"],"session":"` + id(5) + `"}`, ""},
		{422, "invalid", "/v1/jobs/" + id(1) + "/complete", `{"generation":1}`, pointer("#/session")},
		{422, "invalid", "/v1/jobs/" + id(1) + "/complete", `{"session":"` + id(5) + `"}`, pointer("#/generation")},
		{409, "fenced", "/v1/jobs/" + id(1) + "/complete", `{"session":"` + id(5) + `","generation":1}`, ""},
		{404, "not_found", "/v1/jobs/" + id(9) + "/complete", `{"session":"` + id(5) + `","generation":1}`, ""},
		{422, "invalid", "/v1/jobs/" + id(1) + "/cancel", `{}`, pointer("#/reason")},
		{422, "invalid", "/v1/jobs/" + id(1) + "/cancel", `{"reason":"a\u0000` + marker + `","dry_run":true}`, "#/reason"},
		{422, "invalid", "/v1/jobs/" + id(1) + "/cancel", `{"reason":"a\ud83d` + marker + `"}`, pointer("#/reason")},
		{422, "invalid", "/v1/jobs/" + id(1) + "/cancel", `{"reason":"\ud83d\u0041"}`, pointer("#/reason")},
		{422, "invalid", "/v1/jobs/cancel", `{"filter":{"key":"\ude00"},"reason":"r"}`, pointer("#/filter/key")},
		{404, "not_found", "/v1/workers/" + marker + "/quiet", `{"reason":"\ud83d\ude00 \\ud83d"}`, "no such live worker"},
		{422, "invalid", "/v1/workers/w/quiet", `{"reason":"\u0000"}`, pointer("#/reason")},
		{422, "invalid", "/v1/jobs/" + id(1) + "/fail", `{"session":"` + id(5) + `","generation":1}`, pointer("#/error")},
		{422, "invalid", "/v1/jobs/" + id(1) + "/fail", `{"session":"` + id(5) + `","generation":1,"error":null}`, "#/error"},
		{409, "fenced", "/v1/jobs/" + id(1) + "/fail", `{"session":"` + id(5) + `","generation":1,"error":"\ud83d"}`, ""},
		{422, "invalid", "/v1/jobs/" + id(1) + "/complete", `{"session":"` + id(5) + `","generation":null}`, "got null"},
		{422, "invalid", "/v1/sessions/" + id(5) + "/started", `[{"id":"` + id(1) + `"}]`, pointer("#/0/generation")},
		{422, "invalid", "/v1/sessions/" + id(5) + "/started", `[{"generation":1}]`, pointer("#/0/id")},
		{422, "invalid", "/v1/sessions/" + id(5) + "/renew", `{"claims":[{"id":"` + id(1) + `"}]}`, "#/claims/0/generation"},
		{400, "malformed", "/v1/jobs/" + id(1) + "/cancel", ``, ""},
		{409, "refused", "/v1/jobs/" + id(1) + "/revive", `{"reason":"r"}`, ""},
		{422, "invalid", "/v1/jobs/nope/cancel", `{"reason":"r"}`, `"parameter":"id"`},
		{422, "invalid", "/v1/jobs/cancel", `{"reason":"r"}`, pointer("#/filter")},
		{422, "invalid", "/v1/jobs/cancel", `{"filter":{"state":"` + marker + `"},"reason":"r"}`, pointer("#/filter/state")},
		{422, "invalid", "/v1/jobs/cancel", `{"filter":{"reason":"` + marker + `"},"reason":"r"}`, "#/filter/reason"},
		{404, "not_found", "/v1/queues/nope/resume", `{"reason":"r"}`, ""},
		{422, "invalid", "/v1/queues/a%20b/pause", `{"reason":"r"}`, `"parameter":"queue"`},
		{422, "invalid", "/v1/queues/q/pause", `{"reason":"a\u0007` + marker + `"}`, pointer("#/reason")},
		{422, "invalid", "/v1/jobs/" + id(1) + "/effects/a/begin",
			`{"session":"` + id(5) + `","generation":1,"policy":"` + marker + `"}`, ""},
		{422, "invalid", "/v1/jobs/" + id(1) + "/effects/a/settle", `{"outcome":"` + marker + `","reason":"r"}`, "#/outcome"},
	} {
		w.at(w.refused(c.status, c.code, "POST", c.path, c.body), c.blamed)
	}
	if strings.Contains(w.log.String(), marker) {
		t.Errorf("the log has what was given: %s", w.log)
	}
	w.want(200, "GET", "/v1/jobs", "", id(1))
}

// Wrong methods, media, paths and parameters.
func TestRefusedCalls(t *testing.T) {
	w := newWorld(t)
	if r := w.refused(405, "method_not_allowed", "DELETE", "/v1/jobs", ""); r.header.Get("Allow") != "POST, GET, HEAD" {
		t.Errorf("Allow is %q", r.header.Get("Allow"))
	}
	w.refused(405, "method_not_allowed", "GET", "/v1/claims", "")
	w.refused(405, "method_not_allowed", "GET", "/v1/jobs/batch", "")
	w.refused(404, "not_found", "GET", "/v1/"+marker, "")
	w.refused(404, "not_found", "GET", "/v1//jobs", "")
	w.refused(404, "not_found", "POST", "/v1/jobs/"+id(1)+"/../"+id(2)+"/cancel", "{}")
	w.refused(404, "not_found", "GET", "/v1/jobs/"+id(1), "")
	body := `{"queue":"q","kind":"k"}`
	w.refused(415, "unsupported_media_type", "POST", "/v1/jobs", body, "Content-Type=text/plain")
	w.refused(415, "unsupported_media_type", "POST", "/v1/jobs", body, "Content-Type=application/x-www-form-urlencoded")
	w.refused(415, "unsupported_media_type", "POST", "/v1/jobs", body, "Content-Type=")
	w.refused(415, "unsupported_media_type", "POST", "/v1/jobs", body, "Content-Encoding=gzip")
	for query, blamed := range map[string]string{"limit=0": "limit", "limit=1001": "limit", "limit=x": "limit",
		"state=" + marker: "state", "reason=" + marker: "reason", "nope=1": "nope", "held=yes": "held",
		"queue=a&queue=b": "queue", "cursor=" + marker: "", url.QueryEscape(marker) + "%20=1": ""} {
		w.at(w.refused(422, "invalid", "GET", "/v1/jobs?"+query, ""), blamed)
	}
	w.refused(400, "malformed", "GET", "/v1/jobs?a=1;b=2", "")
	w.refused(422, "invalid", "GET", "/v1/effects?job="+marker, "")
	for _, odd := range []string{"%00", "%ff", "a%0A"} { // what no store takes
		for _, list := range []string{"jobs?queue", "jobs?kind", "jobs?key", "sessions?worker", "cutovers/c/items?id"} {
			w.refused(422, "invalid", "GET", "/v1/"+list+"="+odd, "")
		}
		w.refused(422, "invalid", "POST", "/v1/workers/"+odd+"/quiet", `{"reason":"r"}`)
	}
	for key, status := range map[string]int{`"a`: 400, `"a\x"`: 400, `""`: 400, `"a"b`: 400,
		strings.Repeat("k", 256): 422} {
		w.refused(status, map[int]daybook.Code{400: "malformed", 422: "invalid"}[status], "POST", "/v1/jobs", body,
			keyHeader+"="+key)
	}
	w.refused(422, "invalid", "POST", "/v1/jobs", `{"queue":"q","kind":"k","key":"b"}`, keyHeader+"=a")
	w.refused(422, "invalid", "POST", "/v1/jobs/batch", `[`+body+`]`, keyHeader+"=a")
	w.want(200, "GET", "/v1/jobs", "", `{"jobs":[],"cursor":""}`)
}

// A body past its limit is read to the end before the answer, so that its sender
// gets it.
func TestTooLargeIsAnswered(t *testing.T) {
	w := newWorld(t)
	for _, chunked := range []bool{false, true} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(w.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		head := "POST /v1/queues/q/pause HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
		size, part := 6<<20, strings.Repeat("x", 1<<20)
		if chunked {
			head += "Transfer-Encoding: chunked\r\n\r\n"
		} else {
			head += fmt.Sprintf("Content-Length: %d\r\n\r\n", size)
		}
		// All of it is sent before anything is read.
		if _, err := io.WriteString(conn, head); err != nil {
			t.Fatal(err)
		}
		for range 6 {
			text := part
			if chunked {
				text = fmt.Sprintf("%x\r\n%s\r\n", len(part), part)
			}
			if _, err := io.WriteString(conn, text); err != nil {
				t.Fatalf("chunked %v: the server stopped reading: %v", chunked, err)
			}
		}
		if chunked {
			if _, err := io.WriteString(conn, "0\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
		}
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil || answer.StatusCode != http.StatusRequestEntityTooLarge {
			t.Errorf("chunked %v: got %v, %v", chunked, answer, err)
		}
	}
}

// A body that ends too early is no request.
func TestTruncatedBody(t *testing.T) {
	w := newWorld(t)
	conn, err := net.Dial("tcp", strings.TrimPrefix(w.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, err = io.WriteString(conn, "POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"+
		"Content-Length: 100\r\n\r\n"+`{"queue":"q","kind":"k"}`)
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if answer, err := http.ReadResponse(bufio.NewReader(conn), nil); err == nil && answer.StatusCode != 400 {
		t.Errorf("got %d", answer.StatusCode)
	}
	w.want(200, "GET", "/v1/jobs", "", `{"jobs":[],"cursor":""}`)
}

// L63 (ejschmitt/delayed_job_web #54; sidekiq PR #2422): another site's page
// changes nothing, and no GET does.
func TestL63CallsFromOtherSites(t *testing.T) {
	w := newWorld(t)
	w.enqueue(1, "")
	cancel := "/v1/jobs/" + id(1) + "/cancel"
	for _, header := range []string{"Origin=https://evil.example", "Origin=null", "Origin=" + w.url + ".evil.example",
		"Origin=http://localhost:1", "Sec-Fetch-Site=cross-site", "Host=evil.example", "Host=127.0.0.1.evil.example:80"} {
		for _, path := range []string{cancel, "/v1/queues/mail/pause"} {
			w.refused(403, "forbidden", "POST", path, `{"reason":"r"}`, header)
		}
		w.refused(403, "forbidden", "GET", "/v1/jobs", "", header)
	}
	// What a form of another page can send without asking first.
	for _, media := range []string{"text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"} {
		w.refused(415, "unsupported_media_type", "POST", cancel, `{"reason":"r"}`, "Content-Type="+media)
	}
	for _, path := range []string{cancel, "/v1/jobs/" + id(1) + "/revive", "/v1/queues/mail/pause", "/v1/claims"} {
		w.refused(405, "method_not_allowed", "GET", path+"?reason=r", "")
	}
	before := w.want(200, "GET", "/v1/jobs/"+id(1), "").body
	if _, err := w.book.PlanCutover(t.Context(), daybook.Cutover{Name: "moving", System: "rq", Store: "redis://there",
		OldQueue: "old", Queue: "new"}, daybook.By{}); err != nil {
		t.Fatal(err)
	}
	for _, r := range w.api.routes {
		if r.method == http.MethodGet {
			path := strings.NewReplacer("{id}", id(1), "{name}", "moving").Replace(r.path)
			w.want(200, "GET", path, "")
		}
	}
	if after := w.want(200, "GET", "/v1/jobs/"+id(1), "").body; after != before {
		t.Errorf("a GET changed the job:\n%s\n%s", before, after)
	}
	w.hold(w.call("POST", cancel, `{"reason":"r"}`, "Origin="+w.url), 200, "its own page")

	// With tokens the token is wanted besides.
	token := newWorld(t, func(o *Options) { o.Loopback = false })
	token.refused(401, "unauthorized", "POST", "/v1/queues/mail/pause", `{"reason":"r"}`)
	secret := token.token("ops", daybook.ScopeOperate)
	token.refused(403, "forbidden", "POST", "/v1/queues/mail/pause", `{"reason":"r"}`, secret,
		"Origin=https://evil.example")
	token.hold(token.call("POST", "/v1/queues/mail/pause", `{"reason":"r"}`, secret), 200, "with the token")
}

// token makes a token, and the header that brings it.
func (w *world) token(name string, scopes ...daybook.TokenScope) string {
	w.Helper()
	_, secret, err := w.book.CreateToken(w.Context(), daybook.TokenRequest{Name: name, Scopes: scopes}, daybook.By{})
	if err != nil {
		w.Fatal(err)
	}
	w.api.doors.mu.Lock()
	w.api.doors.read = w.api.doors.read.Add(-tokensEvery)
	w.api.doors.mu.Unlock()
	return "Authorization=Bearer " + secret
}

// A token is good as soon as it is made, though the server looked a moment before.
func TestNewToken(t *testing.T) {
	w := newWorld(t)
	first := w.token("first", daybook.ScopeRead)
	w.hold(w.call("GET", "/v1/jobs", "", first), 200, "with the first")
	_, secret, err := w.book.CreateToken(t.Context(), daybook.TokenRequest{Name: "new",
		Scopes: []daybook.TokenScope{daybook.ScopeRead}}, daybook.By{})
	if err != nil {
		t.Fatal(err)
	}
	w.api.doors.mu.Lock()
	w.api.doors.read = time.Now().Add(-tokensAgain)
	w.api.doors.mu.Unlock()
	w.hold(w.call("GET", "/v1/jobs", "", "Authorization=Bearer "+secret), 200, "with the new one")
}

// Each call wants its scope, and nothing else opens it.
func TestScopes(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Metrics = http.NotFoundHandler() })
	w.want(200, "GET", "/v1/jobs", "") // nobody made a token yet
	tokens := map[daybook.TokenScope]string{}
	for _, s := range daybook.TokenScopes {
		tokens[s] = w.token(string(s), s)
	}
	for _, r := range w.api.routes {
		path := strings.NewReplacer("{id}", id(1), "{session}", id(2), "{name}", "n", "{queue}", "q").Replace(r.path)
		if r.scope == "" {
			w.want(200, r.method, path, "")
			continue
		}
		if r := w.refused(401, "unauthorized", r.method, path, ""); r.header.Get("WWW-Authenticate") == "" {
			t.Errorf("%s: no WWW-Authenticate", path)
		}
		for _, wrong := range []string{"Authorization=Bearer " + marker, "Authorization=Basic eA==", "Authorization="} {
			w.refused(401, "unauthorized", r.method, path, "", wrong)
		}
		for scope, header := range tokens {
			if scope != r.scope { // sensitive alone opens nothing
				w.refused(403, "forbidden", r.method, path, "", header)
			} else if got := w.call(r.method, path, "", header); got.status == 401 || got.status == 403 {
				t.Errorf("%s %s: scope %s isn't let in: %s", r.method, path, scope, got.body)
			}
		}
	}
	if _, err := w.book.RevokeToken(t.Context(), "read", daybook.By{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the revoked token refused", func() bool {
		return w.call("GET", "/v1/jobs", "", tokens[daybook.ScopeRead]).status == 401
	})
}

// A token that calls too often is told so, and the others aren't.
func TestRateLimit(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Rate = 0.001; o.Loopback = false })
	busy, other := w.token("busy", daybook.ScopeRead), w.token("other", daybook.ScopeRead)
	w.api.rates.each = 2
	for range 4 {
		w.call("GET", "/v1/queues", "", busy)
	}
	w.api.rates.mu.Lock()
	w.api.rates.each = 0.001
	w.api.rates.had["busy"].left = 0
	w.api.rates.mu.Unlock()
	if r := w.refused(429, "rate_limited", "GET", "/v1/queues", "", busy); r.header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	w.api.rates.mu.Lock()
	w.api.rates.each = 1
	w.api.rates.mu.Unlock()
	w.hold(w.call("GET", "/v1/queues", "", other), 200, "the other token")
}

// A database that is away is said so, with when to come again.
func TestUnavailable(t *testing.T) {
	w := newWorld(t, func(o *Options) {
		o.Check = nil
		o.Ready = nil
	})
	w.refused(404, "not_found", "GET", "/v1/check", "")
	broken := problemOf(daybook.Unavailable("asking", fmt.Errorf("dial %s", marker)), "")
	if broken.Status != 503 || strings.Contains(broken.Detail, marker) {
		t.Errorf("got %+v", broken)
	}
	if p := problemOf(fmt.Errorf("SELECT %s", marker), ""); p.Status != 500 || strings.Contains(p.Detail, marker) {
		t.Errorf("got %+v", p)
	}
}
