package console

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/daybookdev/daybook"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(browsed{m}) }

// paths are every page, of a book that was played.
func (c cast) paths() []string {
	all := []string{"/", "/jobs", "/aside", "/aside?queue=webhooks&reason=failures", "/effects", "/effects?all=1",
		"/queues", "/cutovers",
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
	full.evening(20)
	c := full.play()
	full.playCutover("legacy")
	for _, path := range append(c.paths(), "/cutover/legacy", "/cutover/legacy?term=moved") {
		full.page(path)
	}
	for _, path := range []string{"/", "/jobs", "/jobs?q=x", "/aside", "/effects", "/queues", "/workers", "/bells",
		"/check", "/gaps", "/keys", "/cutovers"} {
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
		"7 more in paused queues", "Nobody reconciles since the book was made")
	s.want(200, "/job/"+c.open.String(), "Not safe to", "effect bank was begun and nobody knows", "Settle bank…")
	s.want(200, "/job/"+c.fenced.String(), "complete refused: not the owner any more", "&#34;rows&#34;:1790",
		"3 attempts over")
	s.want(200, "/job/"+c.done.String(), "9007199254740993", "1.10", "welcome:ada@example.org")
	s.want(200, "/job/"+c.waiting.String(), "no live worker takes kind weekly from queue reports")
	s.want(200, "/queues", "nobody takes it")
	s.want(200, "/job/"+c.held.String(), "held by &#34;cutover sidekiq&#34;", "Let go…", "sidekiq default a1")
	s.want(200, "/aside", "POST https://shop-#.example/hook: # Service Unavailable", "For example:", "Revive these…",
		"1 job not yet: an effect is open, settle it first", "14 jobs with no effect open: Revive these… looks at each")
	s.want(200, "/effects", "bank", "Settle…")
	s.want(200, "/workers", "mailer-2", "newsletter", "left")
	s.want(200, "/bells", daybook.InventorySentence[:40])
	s.want(200, "/jobs?state=succeeded", "succeeded since the book began; listed are those that retention hasn’t removed")
	s.want(200, "/jobs", "came in since the book began", "Accepted (UTC)")
	s.want(200, "/job/"+c.open.String(), " UTC</time>", "times in UTC", "; you decide, below.")
	s.want(200, "/jobs?state=set_aside", "19 jobs,")
	s.want(200, "/jobs?q=shop-3", "jobs found", "looked at")
	s.want(200, "/gaps", "4,321 passes", "effects open now", "keeps no sum")
	s.want(200, "/batch?move=revive&state=set_aside", "19 jobs match. 18 safe to retry", "effect bank (ask) is open")
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
	}{{"HEAD", "/", 200}, {"HEAD", job, 200}, {"HEAD", "/assets/console.css", 200}, {"HEAD", "/live?at=/", 200},
		{"HEAD", "/nothing", 404},
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

// Ten thousand queues without a worker are one line, and don't hide what else wants
// a person; each is found by its name.
func TestManyQueues(t *testing.T) {
	s := newStage(t)
	s.enqueue(daybook.Request{Queue: "old-one", Kind: "k"})
	s.advance(time.Hour)
	var requests []daybook.Request
	for n := range 2000 {
		requests = append(requests, daybook.Request{Queue: fmt.Sprintf("q-%04d", n), Kind: "k"})
	}
	_, err := s.book.EnqueueMany(t.Context(), requests)
	s.ok(err)
	s.ok(s.book.Pause(t.Context(), "q-0007", ada))
	html := s.want(200, "/", "No worker takes 2,000 queues", "2,000 jobs ready, the oldest for 1 h", "in old-one, then",
		"Queue q-0007 is paused")
	if n := strings.Count(html, `class="need `); n != 2 {
		t.Errorf("%d lines want a person, want 2", n)
	}
	s.want(200, "/queues", "1,501 queues more; narrow by a part of the name")
	html = s.want(200, "/queues?name=1999", "q-1999")
	if n := strings.Count(html, `<tr id="q-`); n != 1 {
		t.Errorf("%d queues match a whole name", n)
	}
	s.want(200, "/queues?paused=1", "q-0007", "Resume…")
	s.want(200, "/queues?name=%3Cimg", "No queue matches")
	s.want(200, "/queue/q-0007/pause", "It is paused since", "by ada: “the address was corrected”")
	if html = s.want(200, "/jobs"); len(html) > 200_000 {
		t.Errorf("the list of jobs has %d bytes", len(html))
	}
}
