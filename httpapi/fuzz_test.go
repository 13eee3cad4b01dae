package httpapi

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/daybookdev/daybook"
)

var (
	abuseCalls = flag.Int("abuse", 10_000, "how many wrong calls TestAbuse makes")
	abuseSeed  = flag.Uint64("abuse.seed", 1, "what they are drawn from")
)

// oddName is of fields and parameters that there aren't: names are places, and
// may be said.
const oddName = "odd-name"

// abuser draws wrong calls from what the API says of itself.
type abuser struct {
	*rand.Rand
	routes []route
	tokens []string
}

// value is what a field wasn't meant to have, or was.
func (a abuser) value() any {
	return []any{nil, true, -1, 0, 1e300, 9007199254740993, 1.5, "", marker, marker + "\x00", "q", "mail", id(1), id(2),
		strings.Repeat(marker, 1+a.IntN(2000)), []any{marker}, map[string]any{oddName: marker}, []any{}, map[string]any{},
		"2026-12-24T18:00:00Z", "succeeded", "keyed", deep(1 + a.IntN(2000))}[a.IntN(23)]
}

// deep is a document that nests.
func deep(n int) json.RawMessage {
	return json.RawMessage(strings.Repeat("[", n) + strings.Repeat("]", n))
}

// spoil changes something in a document.
func (a abuser) spoil(doc any) any {
	switch doc := doc.(type) {
	case map[string]any:
		names := []string{oddName, "session", "generation", "limit", "queues", "reason", "id"}
		for name := range doc {
			names = append(names, name)
		}
		slices.Sort(names)
		name := names[a.IntN(len(names))]
		switch a.IntN(4) {
		case 0:
			delete(doc, name)
		case 1:
			doc[name] = a.spoil(doc[name])
		default:
			doc[name] = a.value()
		}
		return doc
	case []any:
		if len(doc) > 0 && a.IntN(3) > 0 {
			doc[0] = a.spoil(doc[0])
			return doc
		}
		return append(doc, a.value())
	}
	return a.value()
}

// call is one wrong call.
func (a abuser) call() (method, path, body string, headers []string) {
	r := a.routes[a.IntN(len(a.routes))]
	method = r.method
	if a.IntN(20) == 0 {
		method = []string{"GET", "PUT", "DELETE", "POST", "PATCH", "OPTIONS"}[a.IntN(6)]
	}
	ids := []string{id(1), id(2), id(3), oddName, "%00", "..", "%2e%2e%2f" + marker, strings.Repeat("a", 300)}
	pick := func() string { return ids[min(a.IntN(3*len(ids)), a.IntN(len(ids)))] }
	path = strings.NewReplacer("{id}", pick(), "{session}", pick(), "{name}", pick(), "{queue}", pick()).Replace(r.path)
	if method == http.MethodGet && a.IntN(2) == 0 {
		names := []string{"limit", "cursor", "state", "queue", "open", "job", "key", oddName}
		path += "?" + names[a.IntN(len(names))] + "=" + []string{"", "1", "-1", marker, "%ff", "%00", "%27--"}[a.IntN(7)]
	}
	if r.example != "" {
		var doc any
		_ = json.Unmarshal([]byte(r.example), &doc)
		for range 1 + a.IntN(3) {
			doc = a.spoil(doc)
		}
		text, _ := json.Marshal(doc)
		if body = string(text); a.IntN(8) == 0 {
			body = body[:a.IntN(len(body)+1)]
		}
		body = strings.Replace(body, `"wait_seconds":20`, `"wait_seconds":0`, 1)
	}
	headers = []string{a.tokens[a.IntN(len(a.tokens))]}
	switch a.IntN(12) {
	case 0:
		headers = append(headers, "Content-Type=text/"+marker)
	case 1:
		keys := []string{`"`, marker, `"` + marker + `"`, "é", strings.Repeat("k", 300)}
		headers = append(headers, keyHeader+"="+keys[a.IntN(5)])
	case 2:
		headers[0] = "Authorization=Bearer " + marker
	}
	return method, path, body, headers
}

// Whatever is sent, the server says in the right form what is wrong, never that
// it failed itself, and neither its answers nor its log repeat what they were
// given. (daybooktest checks the book after.)
func TestAbuse(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Check = nil })
	all := w.token("all", daybook.TokenScopes...)
	for n := 1; n <= 3; n++ {
		w.hold(w.call("POST", "/v1/jobs", `{"queue":"mail","kind":"k","id":"`+id(n)+`"}`, all), 201, "enqueue")
	}
	a := abuser{Rand: rand.New(rand.NewPCG(*abuseSeed, 0)), routes: w.api.routes,
		tokens: []string{all, all, all, w.token("reader", daybook.ScopeRead)}}
	statuses := map[int]int{}
	before := uint64(0)
	for n := range *abuseCalls {
		if n == *abuseCalls/10 { // pools are filled, and types known
			before = heap()
		}
		method, path, body, headers := a.call()
		r, err := w.send(t.Context(), method, path, body, headers...)
		if err != nil {
			if strings.Contains(err.Error(), "invalid header") || strings.Contains(err.Error(), "parse") {
				continue // the client itself won't send it
			}
			t.Fatalf("call %d: %v", n, err)
		}
		statuses[r.status]++
		what := fmt.Sprintf("call %d: %s %.200s %.300s", n, method, path, body)
		wrong := r.status >= 400
		switch {
		case r.status >= 500:
			t.Errorf("%s: got %d %s", what, r.status, r.body)
		case wrong && (!json.Valid([]byte(r.body)) || r.header.Get("Content-Type") != "application/problem+json"):
			t.Errorf("%s: got %d %q, want a problem", what, r.status, r.body)
		case wrong && strings.Contains(r.body, marker):
			t.Errorf("%s: the answer repeats what was given: %.500s", what, r.body)
		case r.header.Get("Content-Security-Policy") == "":
			t.Errorf("%s: no Content-Security-Policy", what)
		}
	}
	if log := w.log.String(); strings.Contains(log, marker) || strings.Contains(log, "SELECT") {
		t.Errorf("the log has what was given: %s", log)
	}
	if statuses[422] < *abuseCalls/10 || statuses[200] == 0 {
		t.Errorf("the calls are not what they are meant to be: %v", statuses)
	}
	after := heap()
	t.Logf("%v; the heap went from %d to %d KiB", statuses, before>>10, after>>10)
	if after > before+heapMore {
		t.Errorf("the heap grew from %d to %d bytes", before, after)
	}
}

// heapMore is how much more memory may be in use after many wrong calls: for the
// keys of claims that are remembered, and what the log of a test keeps.
const heapMore = 8 << 20

// heap is how much memory is in use, in bytes.
func heap() uint64 {
	runtime.GC()
	runtime.GC() // what finalizers let go of
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
