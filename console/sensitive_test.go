package console

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/daybookdev/daybook"
)

// canary is what nobody may see without leave. It is a word, so that errors that
// say it are alike by it.
const canary = "fourelevenone"

// sensitiveBook has the canary in every field that users or handlers fill, of jobs
// of kind card in all states: done, set aside with an error, with an effect open,
// running.
func (s *stage) sensitiveBook() (ids []daybook.ID) {
	s.Helper()
	doc := json.RawMessage(`{"` + canary + `":["` + canary + `"]}`)
	for range 5 {
		ids = append(ids, s.enqueue(daybook.Request{Queue: "pay", Kind: "card", Args: doc}))
	}
	of := map[daybook.ID]daybook.Job{}
	for _, j := range s.claim("w", "pay", 5).Jobs {
		of[j.ID] = j
	}
	done, failed, open, running, retried := of[ids[0]], of[ids[1]], of[ids[2]], of[ids[3]], of[ids[4]]
	problem := daybook.NewProblem(canary+" is wrong", "Declined", canary+".go:1")
	for _, j := range []daybook.Job{done, open} {
		_, err := s.book.BeginEffect(s.Context(), j.ID, owner(j), daybook.Begin{Name: "bank", Policy: daybook.PolicyAsk})
		s.ok(err)
	}
	_, err := s.book.FinishEffect(s.Context(), done.ID, owner(done), daybook.EffectEnd{Name: "bank",
		Outcome: daybook.OutcomeDone, Result: doc})
	s.ok(err)
	s.complete(done, string(doc))
	s.fail(failed, daybook.Failure{Permanent: true, Problem: problem})
	s.fail(open, daybook.Failure{Permanent: true, Problem: problem})
	_, err = s.book.FinishEffect(s.Context(), open.ID, owner(open), daybook.EffectEnd{Name: "bank",
		Outcome: daybook.OutcomeDone, Result: doc}) // too late: evidence
	if daybook.CodeOf(err) != daybook.CodeFenced {
		s.Fatalf("a late finish: %v", err)
	}
	s.ok(s.book.Progress(s.Context(), running.ID, owner(running), doc))
	s.fail(retried, daybook.Failure{Problem: problem})
	if _, err = s.book.Complete(s.Context(), failed.ID, owner(failed), doc); err == nil {
		s.Fatal("a stranger completed")
	}
	return ids
}

// shows loads every page, and renders every live fragment, as its only viewer sees
// them, and says which have the canary.
func (s *stage) shows(paths []string) (found []string) {
	s.Helper()
	for _, path := range paths {
		status, html, _ := s.get(path)
		if status >= 500 {
			s.Errorf("%s: %d", path, status)
		}
		if strings.Contains(html, canary) {
			found = append(found, path)
		}
		at, err := url.Parse(s.base + path)
		s.ok(err)
		who, _ := s.console.opts.Who(nil)
		r, err := http.NewRequest("GET", path, nil)
		s.ok(err)
		a, err := s.console.pageAt(&ask{ctx: s.Context(), r: r, who: who}, at)
		if err != nil {
			continue // it isn't live
		}
		parts, err := s.console.parts(s.Context(), a)
		s.ok(err)
		for name, html := range parts {
			if strings.Contains(html, canary) {
				found = append(found, path+" live "+name)
			}
		}
	}
	return found
}

// Whatever users or handlers of sensitive kinds said is shown to nobody without
// leave, on no page, live or not; and nothing tells whether a guess of it is right.
func TestSensitive(t *testing.T) {
	may := false
	s := newStage(t, func(o *Options) {
		o.Sensitive = []string{"card"}
		o.Who = func(*http.Request) (Viewer, bool) { return Viewer{Name: "x", Operate: true, Sensitive: may}, true }
	})
	s.console.looks.least = time.Hour // those who may see and those who may not share looks
	ids := s.sensitiveBook()
	mark := groupMark(daybook.ReasonPermanent, canary+" is wrong")
	guess := "/batch?move=cancel&state=set_aside&alike=" + mark
	paths := []string{"/", "/jobs", "/jobs?state=set_aside", "/aside", "/effects", "/effects?all=1", "/queues", "/workers",
		"/bells", "/check", "/gaps", "/batch?move=revive&state=set_aside", "/batch?move=cancel&state=running"}
	for _, id := range ids {
		for _, under := range []string{"", "/args", "/result", "/cancel", "/revive", "/settle/bank"} {
			paths = append(paths, "/job/"+id.String()+under)
		}
	}
	may = true
	if found := s.shows(paths); len(found) < 20 {
		t.Fatalf("who may see it finds it in %q alone", found)
	}
	s.want(200, "/jobs?q="+canary, "5 jobs found")
	s.want(200, guess, "2 jobs with this error now")
	may = false
	if found := s.shows(paths); len(found) > 0 {
		t.Errorf("it is shown in %q", found)
	}
	s.want(200, "/jobs?q="+canary, "0 jobs found", "What is in jobs of sensitive kinds was not searched")
	s.want(200, guess, "Nothing matches now")
	s.want(403, "/job/"+ids[0].String()+"/args", "scope sensitive")
	s.want(200, "/job/"+ids[1].String(), "Declined", "hidden", "Hidden: this kind is marked sensitive")
	html := s.want(200, "/aside", "Declined (hidden: a sensitive kind)")
	s.want(200, "/batch?move=cancel&state=set_aside&alike="+between(t, html, "alike=", `"`), "2 jobs with this error now")
}

// between is what stands first between two texts.
func between(t *testing.T, in, before, after string) string {
	t.Helper()
	_, rest, ok := strings.Cut(in, before)
	out, _, ended := strings.Cut(rest, after)
	if !ok || !ended {
		t.Fatalf("no %q in it", before)
	}
	return out
}

// Nobody's own session of this machine has no scope, so kinds that are hidden are
// hidden from it as they are by the API.
func TestSensitiveOnLoopback(t *testing.T) {
	s := newStage(t, func(o *Options) { o.Sensitive = []string{"card"} })
	ids := s.sensitiveBook()
	if html := s.want(200, "/job/"+ids[0].String(), "Hidden"); strings.Contains(html, canary) {
		t.Error("it is shown to whoever is on this machine")
	}
	secret := s.token("auditor", daybook.ScopeRead, daybook.ScopeSensitive)
	s.logIn(secret)
	s.want(200, "/job/"+ids[0].String(), canary)
}
