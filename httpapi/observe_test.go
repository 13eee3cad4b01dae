package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"

	"github.com/daybookdev/daybook"
)

// watcher notes what it saw of calls.
type watcher struct {
	mu    sync.Mutex
	begun []string
	ended []string
	over  chan struct{} // a call has ended; holds many
}

func (w *watcher) Begin(r *http.Request, route string) (*http.Request, func(int, string)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.begun = append(w.begun, route)
	return r, func(status int, code string) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.ended = append(w.ended, fmt.Sprintf("%s %s %d %s", r.Method, route, status, code))
		w.over <- struct{}{}
	}
}

// Observers see patterns of paths and codes of problems, whatever was sent.
func TestObservers(t *testing.T) {
	first, second := &watcher{over: make(chan struct{}, 100)}, &watcher{over: make(chan struct{}, 100)}
	w := newWorld(t, func(o *Options) { o.Observers = []Observer{first, second} })
	id := daybook.NewID().String()
	w.call("POST", "/v1/jobs", `{"queue":"q","kind":"k"}`)
	w.call("GET", "/v1/jobs/"+id, "")
	w.call("GET", "/v1/jobs/"+id+"/timeline?secret=1", "")
	w.call("GET", "/secret", "")
	w.call("GET", "/v1//jobs", "")
	w.call("DELETE", "/v1/jobs/"+id, "")
	w.call("HEAD", "/healthz", "")
	for range 7 {
		<-first.over
	}
	want := []string{"POST /v1/jobs 201 ", "GET /v1/jobs/{id} 404 not_found", "GET /v1/jobs/{id}/timeline 422 invalid",
		"GET  404 not_found", "GET  404 not_found", "DELETE /v1/jobs/{id} 405 method_not_allowed", "HEAD /healthz 200 "}
	if !slices.Equal(first.ended, want) {
		t.Errorf("got %q\nwant %q", first.ended, want)
	}
	if !slices.Equal(second.ended, want) || len(second.begun) != len(want) {
		t.Errorf("the second saw %q and %q", second.begun, second.ended)
	}
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan struct{})
	go func() {
		defer close(left)
		_, _ = w.send(ctx, "POST", "/v1/claims", `{"queues":["q2"],"worker":"w","wait_seconds":60}`)
	}()
	eventually(t, "a call waits", func() bool { return w.api.Waiting() == 1 })
	leave()
	<-left
	<-first.over
	if got := first.ended[len(first.ended)-1]; got != "POST /v1/claims 0 " {
		t.Errorf("of a client that left got %q", got)
	}
	eventually(t, "nobody waits", func() bool { return w.api.Waiting() == 0 })
}

// A call's trace is its jobs', unless they bring their own. A broken header is no
// reason to refuse the call, a broken field is.
func TestTraceHeaders(t *testing.T) {
	const parent, other = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
		"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b8-01"
	w := newWorld(t)
	for _, c := range []struct {
		name, body string
		headers    []string
		want       string
	}{
		{"none", `{"queue":"q","kind":"k"`, nil, ""},
		{"header", `{"queue":"q","kind":"k"`, []string{"traceparent=" + parent, "tracestate=a=1"}, parent + " a=1"},
		{"state alone", `{"queue":"q","kind":"k"`, []string{"tracestate=a=1"}, ""},
		{"broken header", `{"queue":"q","kind":"k"`, []string{"traceparent=" + parent + "0"}, ""},
		{"broken state", `{"queue":"q","kind":"k"`, []string{"traceparent=" + parent, "tracestate=??"}, parent},
		{"field", `{"queue":"q","kind":"k","traceparent":"` + other + `"`, nil, other},
		{"field wins", `{"queue":"q","kind":"k","traceparent":"` + other + `","tracestate":"b=2"`,
			[]string{"traceparent=" + parent, "tracestate=a=1"}, other + " b=2"},
	} {
		id := daybook.NewID()
		one := w.call("POST", "/v1/jobs", c.body+`,"id":"`+id.String()+`"}`, c.headers...)
		many := w.call("POST", "/v1/jobs/batch", "["+c.body+`,"key":"`+c.name+`"}]`, c.headers...)
		if one.status != http.StatusCreated || many.status != http.StatusOK {
			t.Fatalf("%s: %v, %v", c.name, one, many)
		}
		j, err := w.book.Job(t.Context(), id)
		if err != nil || j.Trace().Column() != c.want {
			t.Errorf("%s: the job has trace %q, want %q: %v", c.name, j.Trace().Column(), c.want, err)
		}
		page, err := w.book.Jobs(t.Context(), daybook.Filter{Key: c.name})
		if err != nil || len(page.Items) != 1 || page.Items[0].Trace().Column() != c.want {
			t.Errorf("%s: the batch has %v, want trace %q: %v", c.name, page.Items, c.want, err)
		}
		shown := w.call("GET", "/v1/jobs/"+id.String(), "").json(t)
		if got, _ := shown["traceparent"].(string); got != j.Traceparent {
			t.Errorf("%s: shown with traceparent %v", c.name, shown["traceparent"])
		}
	}
	for _, body := range []string{`"traceparent":"junk"`, `"traceparent":""`, `"tracestate":"a=1"`, `"traceparent":7`} {
		if r := w.call("POST", "/v1/jobs", `{"queue":"q","kind":"k",`+body+`}`); r.status != http.StatusUnprocessableEntity {
			t.Errorf("%s: got %v", body, r)
		}
	}
	claims := w.call("POST", "/v1/claims", `{"queues":["q"],"worker":"w","limit":100}`).json(t)
	traced := 0
	for _, c := range claims["claims"].([]any) {
		if c.(map[string]any)["job"].(map[string]any)["traceparent"] != nil {
			traced++
		}
	}
	if traced != 8 {
		t.Errorf("%d claimed jobs have a traceparent, want 8", traced)
	}
}
