package console

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/daybookdev/daybook"
)

// hostile is what somebody may have put wherever text goes.
const hostile = `<img src=x onerror=alert(1)>"'></textarea></title><script>alert(2)</script>` +
	"{{.}}javascript:alert(3)\u202e\u200b&lt;null"

// hostileName is as far as a name can go.
const hostileName = "javascript:alert-1_"

// hostileBook has that in every field of a job that takes it.
func (s *stage) hostileBook() (ids []daybook.ID) {
	s.Helper()
	doc, err := json.Marshal(map[string]any{hostile: []string{hostile}})
	s.ok(err)
	boss := daybook.By{Actor: hostile, Reason: hostile}
	add := func(key string) daybook.ID {
		id := s.enqueue(daybook.Request{Queue: hostileName, Kind: hostileName, Args: doc, Key: key + hostile})
		ids = append(ids, id)
		return id
	}
	problem := daybook.NewProblem(hostile+"\n"+hostile, hostile, hostile)
	done, failed, open, running, cancelled := add("1"), add("2"), add("3"), add("4"), add("5")
	_, err = s.book.Cancel(s.Context(), cancelled, boss, false)
	s.ok(err)
	claimed, err := s.book.Claim(s.Context(), daybook.ClaimRequest{Queues: []string{hostileName}, Limit: 4,
		SessionRequest: daybook.SessionRequest{Worker: hostile, Lease: time.Hour, Queues: []string{hostileName}}})
	s.ok(err)
	of := map[daybook.ID]daybook.Job{}
	for _, j := range claimed.Jobs {
		of[j.ID] = j
	}
	s.complete(of[done], string(doc))
	s.fail(of[failed], daybook.Failure{Permanent: true, Problem: problem})
	_, err = s.book.BeginEffect(s.Context(), open, owner(of[open]), daybook.Begin{Name: "bank", Policy: daybook.PolicyAsk})
	s.ok(err)
	s.fail(of[open], daybook.Failure{Permanent: true, Problem: problem})
	_, err = s.book.FinishEffect(s.Context(), open, owner(of[open]), daybook.EffectEnd{Name: "bank",
		Outcome: daybook.OutcomeDone, Result: doc})
	if daybook.CodeOf(err) != daybook.CodeFenced {
		s.Fatalf("a late finish: %v", err)
	}
	s.ok(s.book.Progress(s.Context(), running, owner(of[running]), doc))
	_, err = s.book.Complete(s.Context(), failed, owner(of[done]), doc) // fenced, with what it said
	if err == nil {
		s.Fatal("a stranger completed")
	}
	s.ok(s.book.Pause(s.Context(), hostileName, boss))
	prepared, err := daybook.Request{Queue: hostileName, Kind: hostileName, Args: doc}.Prepare()
	s.ok(err)
	s.ok(s.book.Store().Write(s.Context(), "importing", func(tx daybook.Tx) error {
		return tx.Save(s.Context(), []daybook.Change{prepared.Import(daybook.Arrival{HeldBy: hostile,
			Origin: daybook.Origin{System: hostile, Store: hostile, Queue: hostile, ID: hostile}}, tx.Now())})
	}))
	return append(ids, prepared.Job.ID)
}

// hostilePaths are all pages of that book.
func hostilePaths(ids []daybook.ID) []string {
	q := "queue=" + hostileName
	all := []string{"/", "/jobs", "/jobs?state=set_aside", "/jobs?held=1", "/jobs?q=onerror", "/jobs?" + q,
		"/jobs?q=%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E", "/aside", "/effects", "/effects?all=1", "/queues", "/workers",
		"/bells", "/check", "/gaps", "/queue/" + hostileName + "/resume",
		"/quiet?worker=%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E",
		"/batch?move=revive&state=set_aside&" + q, "/login?to=javascript:alert(1)", "/jobs?state=%3Cimg%3E",
		"/%3Cimg%20src=x%3E"}
	for _, id := range ids {
		for _, under := range []string{"", "/cancel", "/revive", "/unhold", "/settle/bank"} {
			all = append(all, "/job/"+id.String()+under)
		}
	}
	return all
}

var ours = regexp.MustCompile(`<(/?[a-zA-Z!][^>]*)>`)

// TestL62: script in any field of a job runs nowhere: it isn't part of any tag, and
// the policy would keep it from running if it were. (The browser's tests load the
// same pages and see that nothing ran.)
func TestL62(t *testing.T) {
	s := newStage(t)
	ids := s.hostileBook()
	shown := 0
	for _, path := range hostilePaths(ids) {
		status, html, h := s.get(path)
		if status >= 500 || h.Get("Content-Security-Policy") != policy {
			t.Errorf("%s: %d, policy %q", path, status, h.Get("Content-Security-Policy"))
		}
		if strings.Contains(html, "<img") || strings.Contains(html, "<script>") ||
			strings.Contains(html, `href="javascript:`) {
			t.Errorf("%s has it as it was given", path)
		}
		for _, tag := range ours.FindAllStringSubmatch(html, -1) {
			name, _, _ := strings.Cut(tag[1], " ")
			if unquoted := regexp.MustCompile(`"[^"]*"`).ReplaceAllString(tag[1], ""); strings.Contains(unquoted, "onerror") {
				t.Errorf("%s: <%s has it outside of its values", path, name)
			}
		}
		if strings.ContainsAny(html, "\u202e\u200b") {
			t.Errorf("%s has a mark that can't be seen", path)
		}
		shown += strings.Count(html, "&lt;img src=x onerror=alert(1)&gt;")
	}
	if shown < 40 {
		t.Errorf("it was shown %d times; the pages leave something out", shown)
	}
}

// asked is a store that notes what it is asked for.
type asked struct {
	daybook.Store
	mu  sync.Mutex
	log []string
}

func (a *asked) Read(ctx context.Context, doing string, fn func(daybook.View) error) error {
	return a.Store.Read(ctx, doing, func(v daybook.View) error { return fn(askedView{v, a}) })
}

func (a *asked) note(what string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.log = append(a.log, what)
}

func (a *asked) take() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	log := a.log
	a.log = nil
	return log
}

type askedView struct {
	daybook.View
	to *asked
}

func (v askedView) Jobs(ctx context.Context, f daybook.Filter) (daybook.Page[daybook.Job], error) {
	v.to.note(fmt.Sprintf("jobs brief=%t limit=%d", f.Brief, f.Limit))
	return v.View.Jobs(ctx, f)
}

func (v askedView) Find(ctx context.Context, q daybook.Finding) ([]daybook.ID, error) {
	v.to.note("find " + string(q.What))
	return v.View.Find(ctx, q)
}

func (v askedView) Review(ctx context.Context, f daybook.Filter) (daybook.Reviewed, error) {
	v.to.note("review")
	return v.View.Review(ctx, f)
}

func (v askedView) Queues(ctx context.Context, counted bool) ([]daybook.Queue, error) {
	v.to.note(fmt.Sprintf("queues counted=%t", counted))
	return v.View.Queues(ctx, counted)
}

// TestL61: with a long history, a page costs what a short one does. It asks for
// sums and for one bounded page of jobs without what is large, and never for a walk
// of what finished; what it only knows as an upper bound it calls an estimate. (How
// long it takes with five million is measured by the bench: -console.)
func TestL61(t *testing.T) {
	s := newStage(t)
	s.play()
	store := &asked{Store: s.book.Store()}
	s.book = daybook.New(store, daybook.Options{Bell: daybook.NoBell{}})
	s.serve()
	s.console.looks.least = time.Hour
	for path, want := range map[string][]string{
		"/":                     {"queues counted=true", "queues counted=false"},
		"/jobs":                 {"queues counted=true", "jobs brief=true limit=50"},
		"/jobs?state=succeeded": {"queues counted=true", "jobs brief=true limit=50"},
		"/aside":                {"queues counted=true", "jobs brief=true limit=1000"},
		"/queues":               {"queues counted=true", "queues counted=false"},
	} {
		s.console.forget()
		store.take()
		s.want(200, path)
		if got := store.take(); !slices.Equal(got, want) {
			t.Errorf("%s asked for %q, want %q", path, got, want)
		}
		for range 5 { // others who look at the same moment
			s.want(200, path)
		}
		if got := store.take(); len(got) > 0 {
			t.Errorf("%s looked again for a second watcher: %q", path, got)
		}
	}
	s.want(200, "/jobs?state=succeeded", " jobs succeeded since the book began; listed are those that retention "+
		"hasn’t removed, the last to end first")
}
