package httpapi

import (
	"encoding/json"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/cutover"
	"github.com/daybookdev/daybook/daybooktest"
)

// canary stands wherever a user or a handler can put a document of a job's.
const canary = "c4n4ry"

// sensitiveWorld has a job that said the canary in every way there is, and one of
// another kind that did the same.
func sensitiveWorld(t *testing.T) (w *world, reader, seer string) {
	w = newWorld(t, func(o *Options) { o.Sensitive = []string{"medical", "other"}; o.Metrics = http.NotFoundHandler() })
	worker := w.token("worker", daybook.ScopeWork, daybook.ScopeEnqueue)
	reader = w.token("reader", daybook.ScopeRead, daybook.ScopeOperate)
	seer = w.token("seer", daybook.ScopeRead, daybook.ScopeOperate, daybook.ScopeSensitive)
	do := func(status int, path, body string) reply {
		r := w.call("POST", path, body, worker)
		w.hold(r, status, path)
		return r
	}
	for n, kind := range []string{"medical", "plain"} {
		job := "/v1/jobs/" + id(n+1)
		do(201, "/v1/jobs", `{"queue":"q","kind":"`+kind+`","id":"`+id(n+1)+`","args":{"who":"`+canary+`"}}`)
		r := do(200, job+"/claim", `{"worker":"w"}`)
		w.hold(r, 200, "the claim", `"args":{"who":"`+canary+`"}`)
		owner := `{"session":"` + r.json(t)["session"].(string) + `","generation":1`
		do(200, job+"/effects/first/begin", owner+`,"policy":"ask"}`)
		do(200, job+"/effects/second/begin", owner+`,"policy":"ask"}`)
		do(200, job+"/effects/second/finish", owner+`,"outcome":"done","result":"`+canary+`"}`)
		do(204, job+"/progress", owner+`,"progress":"`+canary+`"}`)
		do(200, job+"/fail", owner+`,"error":"`+canary+`","trace":"`+canary+`","permanent":true}`)
		do(409, job+"/progress", owner+`,"progress":"late `+canary+`"}`)
		do(409, job+"/effects/first/finish", owner+`,"outcome":"done","result":"late `+canary+`"}`)
		do(409, job+"/complete", owner+`,"result":"late `+canary+`"}`)
	}
	return w, reader, seer
}

// told are all answers that a token gets about job n, by what was asked.
func (w *world) told(n int, token string) map[string]string {
	all := map[string]string{}
	for _, r := range w.api.routes {
		if r.method != http.MethodGet {
			continue
		}
		path := strings.NewReplacer("{id}", id(n)).Replace(r.path)
		all[r.id] = w.call("GET", path, "", token).body
	}
	return all
}

// Nothing of a sensitive job's documents is told by any call to who may not see
// them, nor logged; who may sees all, and other kinds are as ever.
func TestSensitive(t *testing.T) {
	w, reader, seer := sensitiveWorld(t)
	shown := []string{"listJobs", "getJob", "getTimeline", "listAttempts", "listEffects"}
	hidden := w.told(1, reader)
	for call, text := range hidden {
		ofAll := strings.HasPrefix(call, "list") && call != "listAttempts"
		if n := strings.Count(text, canary); n > 0 && !ofAll {
			t.Errorf("%s tells it: %s", call, text)
		}
	}
	for call, text := range w.told(1, seer) {
		if want := slices.Contains(shown, call); want != strings.Contains(text, canary) {
			t.Errorf("%s to who may see: got %s", call, text)
		}
	}
	plain := w.told(2, reader)
	for _, call := range []string{"getJob", "getTimeline", "listAttempts"} {
		if !strings.Contains(plain[call], canary) || !strings.Contains(hidden[call], `"hidden":true`) {
			t.Errorf("%s: got %s of another kind, and %s", call, plain[call], hidden[call])
		}
	}
	w.hold(w.call("GET", "/v1/jobs?kind=medical", "", reader), 200, "the list", `"hidden":true`, `"last_error":{"text":""`)
	effects := w.call("GET", "/v1/effects?job="+id(1), "", reader)
	w.hold(effects, 200, "the effects", `"hidden":true`, `"outcome":"done"`)
	for _, path := range []string{"/v1/jobs?kind=medical", "/v1/effects?job=" + id(1)} {
		if got := w.call("GET", path, "", reader).body; strings.Contains(got, canary) {
			t.Errorf("%s tells it: %s", path, got)
		}
	}
	// What people decide answers with the job.
	for path, body := range map[string]string{"/effects/first/settle": `{"outcome":"happened","result":"x","reason":"r"}`,
		"/revive": `{"reason":"r"}`, "/cancel": `{"reason":"r"}`} {
		r := w.call("POST", "/v1/jobs/"+id(1)+path, body, reader)
		if strings.Contains(r.body, canary) {
			t.Errorf("%s tells it: %s", path, r.body)
		}
	}
	if strings.Contains(w.log.String(), canary) {
		t.Errorf("the log tells it: %s", w.log)
	}
}

// A result that a job ended with, and without any token on this machine.
func TestSensitiveWithoutToken(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Sensitive = []string{"welcome"} })
	w.enqueue(1, `,"args":"`+canary+`"`)
	r := w.want(200, "POST", "/v1/jobs/"+id(1)+"/claim", `{}`, canary) // who works must know
	owner := `{"session":"` + r.json(t)["session"].(string) + `","generation":1`
	w.want(200, "POST", "/v1/jobs/"+id(1)+"/complete", owner+`,"result":"`+canary+`"}`)
	if got := w.want(200, "GET", "/v1/jobs/"+id(1), "", `"hidden":true`); strings.Contains(got.body, canary) {
		t.Errorf("got %s", got.body)
	}
}

// Every answer that could have a job's documents in it has a line in seen.
func TestSensitiveAnswersAreKnown(t *testing.T) {
	w := newWorld(t)
	holds := []reflect.Type{reflect.TypeFor[daybook.Job](), reflect.TypeFor[daybook.Attempt](),
		reflect.TypeFor[daybook.Event](), reflect.TypeFor[daybook.Effect](), reflect.TypeFor[daybook.Problem](),
		reflect.TypeFor[json.RawMessage](), reflect.TypeFor[daybook.Refusal](), reflect.TypeFor[daybook.KeyRecord]()}
	known := []reflect.Type{reflect.TypeFor[daybook.Job](), reflect.TypeFor[JobPage](), reflect.TypeFor[EffectPage](),
		reflect.TypeFor[Timeline](), reflect.TypeFor[Attempts](), reflect.TypeFor[Cutovers](),
		reflect.TypeFor[cutover.Board](), reflect.TypeFor[CutoverItems]()}
	var within func(t reflect.Type, depth int) bool
	within = func(t reflect.Type, depth int) bool {
		switch {
		case slices.Contains(holds, t):
			return true
		case depth == 0:
			return false
		case t.Kind() == reflect.Slice || t.Kind() == reflect.Pointer || t.Kind() == reflect.Map:
			return within(t.Elem(), depth-1)
		case t.Kind() == reflect.Struct:
			for i := range t.NumField() {
				if within(t.Field(i).Type, depth-1) {
					return true
				}
			}
		}
		return false
	}
	found := 0
	for _, r := range w.api.routes {
		if r.out == nil || r.scope == daybook.ScopeWork || !within(r.out, 8) {
			continue
		}
		if found++; !slices.Contains(known, r.out) {
			t.Errorf("%s %s answers with %s, which may hold what is sensitive; give it a line in seen", r.method, r.path, r.out)
		}
	}
	if found < len(known) {
		t.Errorf("%d answers hold documents, want at least %d", found, len(known))
	}
}

// What is hidden isn't changed in the book.
func TestSensitiveIsKept(t *testing.T) {
	book := daybooktest.New(t).Book
	r := daybook.Request{Queue: "q", Kind: "k", Args: []byte(`"` + canary + `"`)}
	if _, err := book.Enqueue(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	page, err := book.Jobs(t.Context(), daybook.Filter{})
	if err != nil || len(page.Items) != 1 {
		t.Fatal(page, err)
	}
	j := page.Items[0]
	seen := daybook.SightOf([]string{"k"}, false).Job(j)
	if seen.Args != nil || !seen.Hidden || j.Hidden || j.Args == nil {
		t.Errorf("got %+v of %+v", seen, j)
	}
	if seen := daybook.SightOf([]string{"k"}, true).Job(j); seen.Hidden || string(seen.Args) != string(j.Args) {
		t.Errorf("got %+v", seen)
	}
}
