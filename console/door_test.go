package console

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/daybookdev/daybook"
)

// A change that isn't from a form of this session is refused, and changes nothing.
func TestForgedForms(t *testing.T) {
	s := newStage(t)
	c := s.play()
	key := s.formKey()
	target := s.url + "/job/" + c.waiting.String() + "/cancel"
	forge := func(why, key, header, value string) {
		t.Helper()
		form := url.Values{"form": {key}, "reason": {"x"}}
		r, err := http.NewRequest("POST", target, strings.NewReader(form.Encode()))
		s.ok(err)
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		if header != "" {
			r.Header.Set(header, value)
		}
		client := *s.http
		if why == "no session" {
			client.Jar = nil
		}
		answer, err := client.Do(r)
		s.ok(err)
		answer.Body.Close()
		if answer.StatusCode != http.StatusForbidden {
			t.Errorf("%s: status %d, want 403", why, answer.StatusCode)
		}
		if j, err := s.book.Job(t.Context(), c.waiting); err != nil || j.State != daybook.Waiting {
			t.Fatalf("%s: the job is %s, %v", why, j.State, err)
		}
	}
	forge("no key", "", "", "")
	forge("another key", key[:len(key)-2]+"xx", "", "")
	forge("another site", key, "Origin", "https://evil.example")
	forge("no origin that says so", key, "Origin", "null")
	forge("a page of another site", key, "Sec-Fetch-Site", "cross-site")
	forge("a sister site", key, "Sec-Fetch-Site", "same-site")
	forge("no session", key, "", "")
	other := newStage(t)
	forge("another session's key", other.formKey(), "", "")
}

// Without a token the console is there for this machine alone, by its own name.
func TestHost(t *testing.T) {
	s := newStage(t)
	for host, want := range map[string]int{"localhost:7373": 200, "127.0.0.1": 200, "[::1]:80": 200, "evil.example": 403,
		"127.0.0.1.evil.example": 403} {
		r := httptest.NewRequest("GET", "/", nil)
		r.Host = host
		w := httptest.NewRecorder()
		s.console.ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("Host %s: got %d, want %d", host, w.Code, want)
		}
	}
}

// token makes a token and logs in with it, in a browser of its own.
func (s *stage) token(name string, scopes ...daybook.TokenScope) (secret string) {
	s.Helper()
	_, secret, err := s.book.CreateToken(s.Context(), daybook.TokenRequest{Name: name, Scopes: scopes}, ada)
	s.ok(err)
	s.forgetTokens()
	return secret
}

func (s *stage) forgetTokens() {
	s.console.door.mu.Lock()
	s.console.door.read = time.Time{}
	s.console.door.mu.Unlock()
}

// logIn logs in as a person would, with a page they wanted.
func (s *stage) logIn(secret string) (status int, html, at string) {
	s.Helper()
	answer, err := s.http.Get(s.url + "/jobs?state=waiting")
	s.ok(err)
	if answer.Body.Close(); answer.Request.URL.Path != s.base+"/login" {
		s.Fatalf("a stranger came to %s", answer.Request.URL)
	}
	status, html, _ = s.get("/login?to=/jobs?state%3Dwaiting")
	if status != 200 {
		s.Fatalf("login page: %d", status)
	}
	answer, err = s.http.PostForm(s.url+"/login", url.Values{"form": {formKeyIn.FindStringSubmatch(html)[1]},
		"to": {"/jobs?state=waiting"}, "token": {secret}})
	s.ok(err)
	defer answer.Body.Close()
	var b strings.Builder
	_ = answer.Write(&b)
	return answer.StatusCode, b.String(), answer.Request.URL.RequestURI()
}

// A book with tokens lets people in by one, as far as its scopes go, as long as it
// lives.
func TestLogin(t *testing.T) {
	s := newStage(t, func(o *Options) { o.Base = "/ops" })
	c := s.play()
	reader := s.token("reader", daybook.ScopeRead)
	operator := s.token("operator", daybook.ScopeRead, daybook.ScopeOperate)
	worker := s.token("worker", daybook.ScopeWork)
	for _, bad := range []string{"", "daybook_wrong", worker} {
		if status, html, _ := s.logIn(bad); status != 401 || !strings.Contains(html, "isn’t known") {
			t.Errorf("let in by %q: %d", bad, status)
		}
	}
	status, html, at := s.logIn(reader)
	if status != 200 || at != "/ops/jobs?state=waiting" || !strings.Contains(html, "reader") {
		t.Fatalf("login: %d at %s", status, at)
	}
	for _, cookie := range s.http.Jar.Cookies(must(url.Parse(s.url + "/"))) {
		if strings.Contains(cookie.Value, reader) {
			t.Error("the cookie has the token")
		}
	}
	s.want(200, "/job/"+c.waiting.String()+"/cancel", "Only a token with scope operate may decide")
	if status, _, _ := s.post("/job/"+c.waiting.String()+"/cancel", "reason", "x"); status != 403 {
		t.Errorf("a reader decided: %d", status)
	}
	if html := s.want(200, "/queues"); strings.Contains(html, "Pause…") {
		t.Error("a reader is offered to pause")
	}
	s.post("/logout")
	if _, _, at := s.logIn(operator); at != "/ops/jobs?state=waiting" {
		t.Fatalf("login led to %s", at)
	}
	s.decideJob(c.waiting, "cancel", daybook.Cancelled)
	s.want(200, "/job/"+c.waiting.String(), "by <bdi>operator</bdi>")
	_, err := s.book.RevokeToken(t.Context(), "operator", ada)
	s.ok(err)
	s.forgetTokens()
	s.want(200, "/queues", "Log in")
	s.token("operator", daybook.ScopeOperate) // another one of the name
	s.want(200, "/queues", "Log in")
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// The session's cookie is for our own pages and out of scripts' reach; a forged or
// old one lets nobody in.
func TestSessionCookie(t *testing.T) {
	s := newStage(t)
	secret := s.token("ada", daybook.ScopeOperate)
	jar := s.http.Jar
	s.http.Jar = nil
	_, html, h := s.get("/login")
	set := h.Get("Set-Cookie")
	for _, want := range []string{"HttpOnly", "SameSite=Strict", "Path=/", "Max-Age=43200"} {
		if !strings.Contains(set, want) {
			t.Errorf("the cookie lacks %s: %s", want, set)
		}
	}
	_ = html
	s.http.Jar = jar
	if _, _, at := s.logIn(secret); at != "/jobs?state=waiting" {
		t.Fatalf("login led to %s", at)
	}
	name := s.console.door.cookieName()
	var good string
	for _, cookie := range jar.Cookies(must(url.Parse(s.url + "/"))) {
		if cookie.Name == name {
			good = cookie.Value
		}
	}
	try := func(value string) int {
		r := httptest.NewRequest("GET", "/jobs", nil)
		r.AddCookie(&http.Cookie{Name: name, Value: value})
		w := httptest.NewRecorder()
		s.console.ServeHTTP(w, r)
		return w.Code
	}
	if got := try(good); got != 200 {
		t.Fatalf("the good cookie: %d", got)
	}
	body, sum, _ := strings.Cut(good, ".")
	old, err := json.Marshal(visit{Token: "ada", Nonce: "n", Expires: time.Now().Add(time.Hour).Unix()})
	s.ok(err)
	late := base64.RawURLEncoding.EncodeToString(must(json.Marshal(visit{Token: "ada", Nonce: "n",
		Made: s.console.door.tokens.List()[0].CreatedAt, Expires: time.Now().Unix()})))
	late += "." + base64.RawURLEncoding.EncodeToString(s.console.door.mac("visit", late))
	for _, bad := range []string{late, body + ".", body[1:] + "." + sum, string(old) + "." + sum, "." + sum, good + "x"} {
		if got := try(bad); got != 303 {
			t.Errorf("cookie %q: got %d, want the way to the login", bad, got)
		}
	}
}

// A link in another site's page brings no cookie; the page that answers it does.
func TestLinkFromElsewhere(t *testing.T) {
	s := newStage(t)
	s.token("ada", daybook.ScopeRead)
	r := httptest.NewRequest("GET", "/jobs?state=set_aside", nil)
	r.Header.Set("Sec-Fetch-Site", "cross-site")
	w := httptest.NewRecorder()
	s.console.ServeHTTP(w, r)
	if w.Code != 200 || !strings.Contains(w.Body.String(), `content="0;url=/jobs?state=set_aside"`) {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}

// A program that signs people in itself says who asks.
func TestWho(t *testing.T) {
	s := newStage(t, func(o *Options) {
		o.Who = func(r *http.Request) (Viewer, bool) {
			name, _, ok := r.BasicAuth()
			return Viewer{Name: name, Operate: name == "boss"}, ok
		}
	})
	c := s.play()
	s.want(401, "/", "sign in first")
	s.want(404, "/login")
	s.url = strings.Replace(s.url, "://", "://boss:x@", 1)
	s.decideJob(c.waiting, "cancel", daybook.Cancelled)
	s.want(200, "/job/"+c.waiting.String(), "by <bdi>boss</bdi>")
	s.url = strings.Replace(s.url, "boss:", "guest:", 1)
	s.want(200, "/job/"+c.failed.String()+"/revive", "may decide")
}

// Args are given out byte for byte, and as nothing that a browser would run.
func TestRaw(t *testing.T) {
	s := newStage(t)
	args := `{"b":1.0, "a":[9007199254740993,"<script>"]}`
	id := s.enqueue(daybook.Request{Queue: "q", Kind: "k", Args: json.RawMessage(args)})
	status, text, h := s.get("/job/" + id.String() + "/args")
	if status != 200 || text != args || !strings.HasPrefix(h.Get("Content-Type"), "text/plain") ||
		!strings.HasPrefix(h.Get("Content-Disposition"), "attachment") {
		t.Errorf("got %d %s as %v", status, text, h)
	}
	large := `{"x":"` + strings.Repeat("y", 300_000) + `"}`
	id = s.enqueue(daybook.Request{Queue: "q", Kind: "k", Args: json.RawMessage(large)})
	html := s.want(200, "/job/"+id.String(), "Show the first 64 KiB of 293.0 KiB", "Byte for byte")
	if len(html) > 120_000 {
		t.Errorf("the page has %d bytes", len(html))
	}
}
