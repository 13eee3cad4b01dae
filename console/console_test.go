package console

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/daybookdev/daybook"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(browsed{m}) }

// paths are every page, of a book that was played.
func (c cast) paths() []string {
	all := []string{"/", "/jobs", "/aside", "/aside?queue=webhooks&reason=failures", "/effects", "/effects?all=1",
		"/queues",
		"/workers", "/workers?ended=1", "/bells", "/check", "/gaps", "/keys", "/queue/mail/pause", "/queue/exports/resume",
		"/quiet?worker=mailer-1", "/batch?move=revive&state=set_aside", "/batch?move=cancel&state=waiting&queue=exports",
		"/jobs?held=1", "/jobs?q=ada", "/jobs?queue=none", "/jobs?reason=failures",
		"/job/" + c.open.String() + "/settle/bank"}
	for _, state := range daybook.States {
		all = append(all, "/jobs?state="+string(state))
	}
	for _, id := range c.ids() {
		all = append(all, "/job/"+id.String(), "/job/"+id.String()+"/cancel", "/job/"+id.String()+"/revive",
			"/job/"+id.String()+"/unhold")
	}
	return all
}

func (c cast) ids() []daybook.ID {
	return []daybook.ID{c.open, c.failed, c.held, c.running, c.done, c.cancelled, c.expired, c.waiting, c.fenced}
}

// Every page of a full book and of an empty one is whole, and carries the policy
// that lets no script and no style in but our own files.
func TestPages(t *testing.T) {
	full, empty := newStage(t), newStage(t)
	full.evening()
	c := full.play()
	for _, path := range c.paths() {
		full.page(path)
	}
	for _, path := range []string{"/", "/jobs", "/jobs?q=x", "/aside", "/effects", "/queues", "/workers", "/bells",
		"/check", "/gaps", "/keys"} {
		empty.page(path)
	}
	empty.want(200, "/", "<strong>Nothing.</strong>", "daybook enqueue")
	empty.want(200, "/aside", "Nothing is set aside")
	empty.want(200, "/effects", "No effect is open")
	empty.want(200, "/workers", "No worker is there")
	if full.log.Len() > 0 {
		t.Errorf("the log says:\n%s", full.log)
	}
}

func (s *stage) page(path string) {
	s.Helper()
	status, html, h := s.get(path)
	if status != http.StatusOK || !strings.HasSuffix(html, "</html>\n") {
		s.Errorf("%s: status %d, %s", path, status, plainText(html[:min(len(html), 3000)]))
	}
	for name, want := range map[string]string{"Content-Security-Policy": policy, "X-Content-Type-Options": "nosniff",
		"Cache-Control": "no-store", "Content-Type": "text/html; charset=utf-8"} {
		if h.Get(name) != want {
			s.Errorf("%s: %s is %q, want %q", path, name, h.Get(name), want)
		}
	}
	for _, bad := range []string{" style=", "<script>", "javascript:", "ZgotmplZ", "<no value>", "%!"} {
		if strings.Contains(html, bad) {
			s.Errorf("%s has %q", path, bad)
		}
	}
}

// What a person needs to see stands on the pages.
func TestPagesSay(t *testing.T) {
	s := newStage(t)
	c := s.play()
	s.want(200, "/", "1 effect open", "19 jobs set aside", "failures 14, permanent 4, effect open 1",
		"Queue exports is paused", "the disk of the archive is full", "No worker takes queue reports",
		"7 more in paused queues")
	s.want(200, "/job/"+c.open.String(), "Not safe to", "effect bank was begun and nobody knows", "Settle bank…")
	s.want(200, "/job/"+c.fenced.String(), "complete refused: not the owner any more", "&#34;rows&#34;:1790",
		"3 attempts over")
	s.want(200, "/job/"+c.done.String(), "9007199254740993", "1.10", "welcome:ada@example.org")
	s.want(200, "/job/"+c.waiting.String(), "no live worker takes kind weekly from queue reports")
	s.want(200, "/job/"+c.held.String(), "held by &#34;cutover sidekiq&#34;", "Let go…", "sidekiq default a1")
	s.want(200, "/aside", "POST https://shop-#.example/hook: # Service Unavailable", "For example:", "Revive these…")
	s.want(200, "/effects", "bank", "Settle…")
	s.want(200, "/workers", "mailer-2", "newsletter", "left")
	s.want(200, "/bells", daybook.InventorySentence[:40])
	s.want(200, "/jobs?state=succeeded", "an estimate, those that retention removed are in it")
	s.want(200, "/jobs?state=set_aside", "19 jobs,")
	s.want(200, "/jobs?q=shop-3", "jobs found", "looked at")
	s.want(200, "/gaps", "4,321 passes", "effects open now", "keeps no sum")
	s.want(200, "/batch?move=revive&state=set_aside", "19 jobs match. 18 safe to retry", "effect bank (ask) is open")
}

// Decisions ask for a reason, are carried out, and stand in the timeline with
// whoever made them.
func TestDecide(t *testing.T) {
	s := newStage(t)
	c := s.play()
	job := "/job/" + c.open.String()
	if status, html, _ := s.post(job + "/settle/bank"); status != 422 || !strings.Contains(html, "reason: is missing") {
		t.Errorf("settled without a reason: %d", status)
	}
	status, html, _ := s.post(job+"/revive", "reason", "x")
	if status != 409 || !strings.Contains(html, "settle it first") {
		t.Errorf("revived over an open effect: %d", status)
	}
	status, html, at := s.post(job+"/settle/bank", "reason", "seen <b>in</b> the account", "outcome", "happened",
		"result", `{"paid":1.50}`, "generation", "1")
	if status != 200 || at != s.base+job || !strings.Contains(html, "Settled.") {
		t.Fatalf("settle: %d at %s: %s", status, at, plainText(html))
	}
	s.want(200, job, "seen &lt;b&gt;in&lt;/b&gt; the account", "by <bdi>local</bdi>", "bank happened", "1.50")
	s.decideJob(c.failed, "revive", daybook.Waiting)
	s.decideJob(c.cancelled, "revive", daybook.Waiting)
	s.decideJob(c.waiting, "cancel", daybook.Cancelled)
	s.decideJob(c.held, "unhold", daybook.Waiting)
	s.decideJob(c.running, "cancel", daybook.Running)
	status, html, _ = s.post("/job/"+c.done.String()+"/cancel", "reason", "x")
	if status != 409 || !strings.Contains(html, "succeeded") {
		t.Errorf("cancelled what succeeded: %d", status)
	}
	if _, html, at := s.post("/queue/mail/pause", "reason", "the relay is down"); at != s.base+"/queues" {
		t.Errorf("pause led to %s: %s", at, plainText(html))
	}
	s.want(200, "/queues", "the relay is down")
	s.post("/queue/mail/resume", "reason", "it is back")
	if html := s.want(200, "/queues"); strings.Contains(html, "the relay is down") {
		t.Error("the queue stays paused")
	}
	s.post("/quiet", "worker", "mailer-2", "reason", "its host is moved")
	s.want(200, "/workers", `w-quiet`)
	if status, _, _ := s.post("/quiet", "worker", "", "reason", "all"); status != 422 {
		t.Errorf("quieted nobody by name: %d", status)
	}
}

func (s *stage) decideJob(id daybook.ID, move string, want daybook.State) {
	s.Helper()
	status, html, _ := s.post("/job/"+id.String()+"/"+move, "reason", "because of "+move)
	j, err := s.book.Job(s.Context(), id)
	s.ok(err)
	if status != 200 || j.State != want {
		s.Errorf("%s: %d, job is %s, want %s: %s", move, status, j.State, want, plainText(html))
	}
	s.want(200, "/job/"+id.String(), "because of "+move)
}

// Batches: a whole filter, and those of one error.
func TestBatch(t *testing.T) {
	s := newStage(t)
	s.play()
	page := s.want(200, "/aside")
	mark := regexp.MustCompile(`alike=([0-9a-f]+)`).FindStringSubmatch(page)[1]
	s.want(200, "/batch?move=revive&state=set_aside&reason=failures&alike="+mark, "14 jobs with this error now")
	status, html, _ := s.post("/batch", "move", "revive", "state", "set_aside", "aside_reason", "failures", "alike", mark)
	if status != 422 || !strings.Contains(html, "reason: is missing") || !strings.Contains(html, `name="alike" value="`+mark) {
		t.Errorf("a batch without a reason: %d %s", status, plainText(html))
	}
	_, html, at := s.post("/batch", "move", "revive", "state", "set_aside", "aside_reason", "failures", "alike", mark,
		"reason", "the shop is back")
	if at != s.base+"/batch/1" || !strings.Contains(html, "14 jobs done") {
		t.Fatalf("%s: %s", at, plainText(html))
	}
	_, html, _ = s.post("/batch", "move", "revive", "state", "set_aside", "reason", "templates are there")
	if !strings.Contains(html, "4 jobs done") || !strings.Contains(html, "effect open") {
		t.Errorf("got %s", plainText(html))
	}
	_, html, _ = s.post("/batch", "move", "cancel", "state", "waiting", "queue", "exports", "reason", "not wanted")
	if !strings.Contains(html, "7 jobs done") {
		t.Errorf("got %s", plainText(html))
	}
	for _, bad := range []string{"move=eat&state=waiting", "move=cancel", "move=revive&state=waiting",
		"move=cancel&state=no"} {
		s.want(422, "/batch?"+bad)
	}
	s.want(404, "/batch/99")
}

// A check is run by who may decide, one at a time, and says what it found.
func TestCheckPage(t *testing.T) {
	s := newStage(t)
	s.play()
	s.want(200, "/check", "No clean check is on record", "not asked here")
	if status, _, _ := s.post("/check/run"); status != 422 {
		t.Errorf("a check without a reason: %d", status)
	}
	if _, _, at := s.post("/check/run", "reason", "the disk was full"); at != s.base+"/check" {
		t.Errorf("led to %s", at)
	}
	s.until(func() bool { return !s.console.check.last().Going })
	s.want(200, "/check", "All held", "the disk was full", "The last clean check", fmt.Sprint(len(daybook.Invariants)))
	s.console.check.change(func(run *checkRun) { run.Going = true })
	if _, html, _ := s.post("/check/run", "reason", "again"); !strings.Contains(html, "A check runs already") {
		t.Errorf("a second check: %s", plainText(html))
	}
}

// until polls a condition with a deadline.
func (s *stage) until(holds func() bool) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), 30*time.Second)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-ctx.Done():
			s.Fatal("it never came to that")
		case <-tick.C:
		}
	}
}

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
	for _, bad := range []string{body + ".", body[1:] + "." + sum, string(old) + "." + sum, "." + sum, good + "x"} {
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

var addresses = regexp.MustCompile(`(?:href|src|action)="([^"]*)"`)

// Mounted below a path, every address stays below it.
func TestMounted(t *testing.T) {
	s := newStage(t, func(o *Options) { o.Base = "/admin/jobs/" })
	c := s.play()
	for _, path := range c.paths() {
		status, html, _ := s.get(path)
		if status != 200 {
			t.Errorf("%s: %d", path, status)
		}
		for _, m := range addresses.FindAllStringSubmatch(html, -1) {
			if !strings.HasPrefix(m[1], "/admin/jobs/") && !strings.HasPrefix(m[1], "#") {
				t.Errorf("%s points to %s", path, m[1])
			}
		}
	}
	answer, err := s.http.Get(strings.TrimSuffix(s.url, "/admin/jobs") + "/admin/jobs")
	s.ok(err)
	if answer.Body.Close(); answer.Request.URL.Path != "/admin/jobs/" {
		t.Errorf("the bare path led to %s", answer.Request.URL.Path)
	}
	for _, path := range []string{"/", "/jobs", "/admin/jobsx", "/admin"} {
		w := httptest.NewRecorder()
		s.console.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		if w.Code != 404 {
			t.Errorf("%s: got %d, want 404", path, w.Code)
		}
	}
}

// What isn't there, methods that a page doesn't take, and HEAD.
func TestMethods(t *testing.T) {
	s := newStage(t)
	c := s.play()
	job := "/job/" + c.done.String()
	for _, r := range []struct {
		method, path string
		want         int
	}{{"HEAD", "/", 200}, {"HEAD", job, 200}, {"HEAD", "/assets/console.css", 200}, {"HEAD", "/nothing", 404},
		{"PUT", "/", 405}, {"DELETE", job, 405}, {"POST", "/jobs", 405}, {"GET", "/check/run", 405}, {"GET", "/logout", 405},
		{"POST", "/assets/console.css", 405}, {"PATCH", "/login", 405}, {"GET", "/nothing", 404}, {"GET", "//", 404},
		{"GET", "/jobs/", 404}, {"GET", "/../etc", 404}, {"GET", "/job/1", 404}, {"GET", job + "/eat", 404},
		{"GET", "/job/" + daybook.NewID().String(), 404}, {"GET", job + "/settle/none", 404},
		{"GET", "/queue/m%20x/pause", 404},
		{"GET", "/assets/none.js", 404}, {"GET", "/assets/..%2fpage.go", 404}, {"GET", "/jobs?state=eaten", 422},
		{"GET", "/jobs?cursor=!", 422}, {"GET", "/jobs?reason=why", 422}, {"GET", "/jobs?queue=%3Cimg%3E", 422},
		{"GET", "/jobs?limit=9&x=y", 200}, {"GET", "/live?at=/keys", 422}, {"GET", "/live?at=http://x/", 422},
		{"GET", "/live", 422}} {
		w := httptest.NewRecorder()
		request := httptest.NewRequest(r.method, r.path, nil)
		request.Host = "localhost"
		s.console.ServeHTTP(w, request)
		if w.Code != r.want {
			t.Errorf("%s %s: got %d, want %d", r.method, r.path, w.Code, r.want)
		}
		if r.method == "HEAD" && w.Body.Len() > 0 {
			t.Errorf("HEAD %s has a body", r.path)
		}
		if r.want == 405 && w.Header().Get("Allow") == "" {
			t.Errorf("%s %s doesn't say what is allowed", r.method, r.path)
		}
		if w.Header().Get("Content-Security-Policy") != policy {
			t.Errorf("%s %s has the policy %q", r.method, r.path, w.Header().Get("Content-Security-Policy"))
		}
	}
	if got := local("//evil.example") + local(`/\evil`) + local("https://x") + local("/ok"); got != "////ok" {
		t.Errorf("local: %s", got)
	}
}

// Args of sensitive kinds are shown to nobody without leave, in no place.
func TestSensitive(t *testing.T) {
	secret := "4111111111111111"
	may := false
	s := newStage(t, func(o *Options) {
		o.Sensitive = func(kind string) bool { return kind == "card" }
		o.Who = func(*http.Request) (Viewer, bool) { return Viewer{Name: "x", Operate: true, Sensitive: may}, true }
	})
	id := s.enqueue(daybook.Request{Queue: "pay", Kind: "card", Args: json.RawMessage(`{"number":"` + secret + `"}`)})
	j := s.claim("w", "pay", 1).Jobs[0]
	_, err := s.book.BeginEffect(t.Context(), id, owner(j), daybook.Begin{Name: "bank", Policy: daybook.PolicyAsk})
	s.ok(err)
	_, err = s.book.FinishEffect(t.Context(), id, owner(j), daybook.EffectEnd{Name: "bank", Outcome: daybook.OutcomeDone,
		Result: json.RawMessage(`"` + secret + `"`)})
	s.ok(err)
	s.complete(j, `{"was":"`+secret+`"}`)
	for _, path := range []string{"/job/" + id.String(), "/effects?all=1", "/job/" + id.String() + "/args",
		"/job/" + id.String() + "/settle/bank"} {
		if _, html, _ := s.get(path); strings.Contains(html, secret) {
			t.Errorf("%s shows it: %s", path, plainText(html))
		}
	}
	s.want(200, "/jobs?q="+secret, "0 jobs found", "Args of sensitive kinds were not searched")
	may = true
	s.console.forget()
	s.want(200, "/job/"+id.String(), secret)
	s.want(200, "/job/"+id.String()+"/args", secret)
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

// A search looks at a bounded number of jobs, says so, and goes on from there.
func TestSearchIsBounded(t *testing.T) {
	s := newStage(t)
	var requests []daybook.Request
	for n := range searchJobs + 300 {
		requests = append(requests, daybook.Request{Queue: "q", Kind: "k", Args: json.RawMessage(fmt.Sprintf(`{"n":%d}`, n))})
	}
	requests[10].Args = json.RawMessage(`{"name":"Grace"}`)
	_, err := s.book.EnqueueMany(t.Context(), requests)
	s.ok(err)
	html := s.want(200, "/jobs?q=grace", "0 jobs found", "2,000 jobs of this filter looked at", "there are more",
		"Look further")
	next := regexp.MustCompile(`data-next href="([^"]+)"`).FindStringSubmatch(html)
	s.want(200, strings.ReplaceAll(next[1], "&amp;", "&"), "1 job found", "300 jobs of this filter")
}

// stream reads a page's live parts until enough came.
func (s *stage) stream(ctx context.Context, at string, enough func(name, html string) bool) {
	s.Helper()
	r, err := http.NewRequestWithContext(ctx, "GET", s.url+"/live?at="+url.QueryEscape(at), nil)
	s.ok(err)
	answer, err := s.http.Do(r)
	s.ok(err)
	defer answer.Body.Close()
	if answer.StatusCode != 200 || answer.Header.Get("Content-Type") != "text/event-stream" {
		s.Fatalf("stream: %d %s", answer.StatusCode, answer.Header)
	}
	name, data := "", ""
	for line := range linesOf(answer.Body) {
		switch {
		case strings.HasPrefix(line, "event: "):
			name = line[7:]
		case strings.HasPrefix(line, "data: "):
			data += line[6:] + "\n"
		case line == "" && name != "":
			if enough(name, data) {
				return
			}
			name, data = "", ""
		}
	}
	s.Fatal("the stream ended")
}

// A page that is watched follows the book; a person's decision is there at once.
func TestLive(t *testing.T) {
	s := newStage(t)
	c := s.play()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var once sync.Once
	s.stream(ctx, "/job/"+c.waiting.String(), func(name, html string) bool {
		once.Do(func() {
			_, err := s.book.Cancel(ctx, c.waiting, ada, false)
			s.ok(err)
		})
		return name == "facts" && strings.Contains(html, "s-cancelled")
	})
	s.until(func() bool {
		s.console.hub.mu.Lock()
		defer s.console.hub.mu.Unlock()
		return s.console.hub.watchers == 0 && len(s.console.hub.rooms) == 0
	})
}

// Streams are bounded, and many watchers of one page are one look at the book.
func TestWatchersAreBounded(t *testing.T) {
	s := newStage(t, func(o *Options) { o.Watchers = 3 })
	s.play()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	var all sync.WaitGroup
	came := make(chan struct{}, 3)
	for range 3 {
		all.Go(func() {
			first := true
			r, _ := http.NewRequestWithContext(ctx, "GET", s.url+"/live?at=/", nil)
			answer, err := s.http.Do(r)
			if err != nil {
				return
			}
			defer answer.Body.Close()
			for range linesOf(answer.Body) {
				if first {
					came <- struct{}{}
				}
				first = false
			}
		})
	}
	for range 3 {
		select {
		case <-came:
		case <-ctx.Done():
			t.Fatal("a stream never began")
		}
	}
	s.console.hub.mu.Lock()
	rooms := len(s.console.hub.rooms)
	s.console.hub.mu.Unlock()
	if rooms != 1 {
		t.Errorf("%d rooms for one page", rooms)
	}
	status, _, h := s.get("/live?at=/")
	if status != http.StatusServiceUnavailable || h.Get("Retry-After") == "" {
		t.Errorf("a fourth watcher: %d %v", status, h)
	}
	cancel()
	all.Wait()
}

// Closing ends streams at once, so that a server can stop.
func TestCloseEndsStreams(t *testing.T) {
	s := newStage(t)
	s.play()
	r, err := http.NewRequestWithContext(t.Context(), "GET", s.url+"/live?at=/queues", nil)
	s.ok(err)
	answer, err := s.http.Do(r)
	s.ok(err)
	defer answer.Body.Close()
	s.console.Close()
	for range linesOf(answer.Body) {
	}
	s.console.Close()
	s.want(200, "/", "Overview")
}

func TestWords(t *testing.T) {
	for d, want := range map[time.Duration]string{0: "0 ms", 999 * time.Millisecond: "999 ms",
		1500 * time.Millisecond: "1.5 s",
		time.Minute:             "1 min", 61 * time.Second: "1 min 1 s", 25 * time.Hour: "1 d 1 h", 24*time.Hour + time.Minute: "1 d",
		-time.Second: "0 ms"} {
		if got := lasted(d); got != want {
			t.Errorf("%s: got %q, want %q", d, got, want)
		}
	}
	for in, want := range map[string]string{"plain": "plain", "a\u202eb": `a\u202eb`, "a\x00\x1b[2J": `a\x00\x1b[2J`,
		"\u200b": `\u200b`, "ä€": "ä€", "\xff": `\xff`} {
		if got := safe(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
	if got := num(-1234567) + " " + num(999) + " " + count(int64(1), "job"); got != "-1,234,567 999 1 job" {
		t.Errorf("got %s", got)
	}
	a := likeness(daybook.NewProblem("dial 10.0.0.1:5432 by 3f2a-11: timeout after 3.5s\nmore", "", ""))
	b := likeness(daybook.NewProblem("dial 10.0.9.7:5433 by 7e-9: timeout after 12s", "", ""))
	if strings.ReplaceAll(a, "#.#", "#") != strings.ReplaceAll(b, "#.#", "#") || !strings.HasPrefix(a, "dial ") {
		t.Errorf("not alike: %q, %q", a, b)
	}
}

// The drawing has each gap once.
func TestDrawing(t *testing.T) {
	drawing := string(drawGaps())
	for i, g := range daybook.Gaps {
		if strings.Count(drawing, `href="#gap-`+g.Name+`"`) != 1 ||
			!strings.Contains(drawing, fmt.Sprintf(">%d</text>", i+1)) {
			t.Errorf("gap %s isn't drawn once", g.Name)
		}
	}
	if len(slices.Collect(func(yield func(stroke) bool) {
		for _, s := range gapStrokes {
			if s.gap != "" && !yield(s) {
				return
			}
		}
	})) != len(daybook.Gaps) {
		t.Error("the drawing has a gap that isn't one")
	}
}
