package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/check"
	"github.com/daybookdev/daybook/daybooktest"
)

// world is a server on a book of its own, and a client.
type world struct {
	*testing.T
	book *daybook.Book
	api  *Server
	url  string
	log  *bytes.Buffer
}

// newWorld serves a SQLite book in memory on this machine, to anybody on it.
func newWorld(t *testing.T, change ...func(*Options)) *world {
	t.Helper()
	return worldOn(t, daybooktest.New(t).Book, change...)
}

func worldOn(t *testing.T, book *daybook.Book, change ...func(*Options)) *world {
	t.Helper()
	w := &world{T: t, book: book, log: &bytes.Buffer{}}
	o := Options{Loopback: true, Log: slog.New(slog.NewTextHandler(w.log, nil)),
		Check: func(ctx context.Context, full bool) (any, error) {
			return check.Run(ctx, book, check.Options{Full: full})
		}}
	for _, c := range change {
		c(&o)
	}
	api, err := New(book, o)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(api)
	w.api, w.url = api, server.URL
	t.Cleanup(func() {
		api.Close()
		http.DefaultClient.CloseIdleConnections()
		server.Close()
	})
	return w
}

// reply is an answer as a client sees it.
type reply struct {
	status int
	header http.Header
	body   string
}

func (r reply) json(t *testing.T) map[string]any {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal([]byte(r.body), &v); err != nil {
		t.Fatalf("the answer %q is not a JSON object: %v", r.body, err)
	}
	return v
}

// call makes one call; headers are NAME=VALUE.
func (w *world) call(method, path, body string, headers ...string) reply {
	w.Helper()
	r, err := w.send(context.Background(), method, path, body, headers...)
	if err != nil {
		w.Fatalf("%s %s: %v", method, path, err)
	}
	return r
}

func (w *world) send(ctx context.Context, method, path, body string, headers ...string) (reply, error) {
	var from io.Reader
	if body != "" {
		from = strings.NewReader(body)
	}
	r, err := http.NewRequestWithContext(ctx, method, w.url+path, from)
	if err != nil {
		return reply{}, err
	}
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/json")
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, "=")
		if r.Header.Set(name, value); name == "Host" {
			r.Host = value
		}
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return reply{}, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	return reply{answer.StatusCode, answer.Header, string(text)}, err
}

// want makes a call and holds its status, and that the answer has these parts.
func (w *world) want(status int, method, path, body string, parts ...string) reply {
	w.Helper()
	r := w.call(method, path, body)
	w.hold(r, status, method+" "+path, parts...)
	return r
}

func (w *world) hold(r reply, status int, what string, parts ...string) {
	w.Helper()
	if r.status != status {
		w.Errorf("%s: got %d %s, want %d", what, r.status, r.body, status)
	}
	for _, part := range parts {
		if !strings.Contains(r.body, part) {
			w.Errorf("%s: got %s, want %s in it", what, r.body, part)
		}
	}
	if r.header.Get("Content-Security-Policy") == "" {
		w.Errorf("%s: no Content-Security-Policy", what)
	}
}

func id(n int) string { return fmt.Sprintf("01900000-0000-7000-8000-%012d", n) }

// enqueue puts job n in.
func (w *world) enqueue(n int, more string) {
	w.Helper()
	w.want(http.StatusCreated, "POST", "/v1/jobs", `{"queue":"mail","kind":"welcome","id":"`+id(n)+`"`+more+`}`)
}

// claimed claims one job and answers its owner, as the beginning of a body.
func (w *world) claimed(n int) string {
	w.Helper()
	r := w.want(http.StatusOK, "POST", "/v1/jobs/"+id(n)+"/claim", `{"worker":"w"}`, `"generation":1`)
	return `{"session":"` + r.json(w.T)["session"].(string) + `","generation":1`
}

// Every call of the table, once, with what it answers.
func TestCalls(t *testing.T) { testCalls(newWorld(t)) }

func testCalls(w *world) {
	for n := 1; n <= 9; n++ {
		w.enqueue(n, "")
	}
	j := func(n int, rest string) string { return "/v1/jobs/" + id(n) + rest }
	w.want(200, "POST", "/v1/jobs/batch", `[{"queue":"q","kind":"k"},{"queue":"q","kind":"k","key":"b"}]`,
		`"replayed":false`)
	w.want(200, "GET", "/v1/jobs?queue=mail&limit=2&state=waiting", "", id(1), id(2), `"cursor":"`)
	w.want(200, "GET", j(1, ""), "", `"state":"waiting"`, `"args":{}`)
	w.want(200, "GET", j(1, "/timeline"), "", `{"events":[{`, `"accepted"`)
	w.want(200, "GET", j(1, "/why"), "", `"because":"no_worker"`)
	w.want(200, "GET", j(1, "/attempts"), "", `{"attempts":[]}`)
	w.want(200, "POST", j(1, "/cancel"), `{"reason":"r"}`, `"state":"cancelled"`)
	w.want(200, "POST", j(1, "/revive"), `{"reason":"r"}`, `"state":"waiting"`)
	w.want(200, "GET", j(1, "/timeline"), "", `"actor":"local"`, `"reason":"r"`)
	w.want(200, "POST", "/v1/jobs/cancel", `{"filter":{"queue":"q"},"dry_run":true}`, `"matched":2`, `"dry_run":true`)
	w.want(200, "POST", "/v1/jobs/cancel", `{"filter":{"queue":"q"},"reason":"r"}`, `"done":2`)
	w.want(200, "POST", "/v1/jobs/revive", `{"filter":{"queue":"q","state":"cancelled"},"dry_run":true}`,
		`"matched":2`, `"safe":2`, `"unsafe":[]`)
	w.want(200, "POST", "/v1/jobs/revive", `{"filter":{"queue":"q","state":"cancelled"},"reason":"r"}`, `"done":2`)

	claims := w.want(200, "POST", "/v1/claims", `{"queues":["mail"],"worker":"w","limit":2,"lease_seconds":60}`,
		`"lease_until":"`, `"job":{`).json(w.T)
	session := claims["session"].(string)
	first := claims["claims"].([]any)[0].(map[string]any)["job"].(map[string]any)["id"].(string)
	second := claims["claims"].([]any)[1].(map[string]any)["job"].(map[string]any)["id"].(string)
	ref := `{"id":"` + first + `","generation":1}`
	w.want(200, "POST", "/v1/sessions/"+session+"/renew", "", `"lost":[]`, `"cancel":[]`)
	w.want(200, "POST", "/v1/sessions/"+session+"/renew", `{"claims":[`+ref+`,{"id":"`+id(9)+`","generation":3}]}`,
		`"lost":[{"id":"`+id(9)+`","generation":3}]`)
	w.want(204, "POST", "/v1/sessions/"+session+"/started", `[`+ref+`]`)
	w.want(409, "POST", "/v1/sessions/"+session+"/started", `[`+ref+`,{"id":"`+id(9)+`","generation":3}]`,
		`"code":"fenced"`, `"lost":[{"id":"`+id(9)+`","generation":3}]`)
	owner := `{"session":"` + session + `","generation":1`
	w.want(204, "POST", "/v1/jobs/"+first+"/progress", owner+`,"progress":[1]}`)
	w.want(200, "POST", "/v1/jobs/"+first+"/complete", owner+`,"result":{"b":1.0,"a":2}}`, `"state":"succeeded"`)
	w.want(200, "POST", "/v1/jobs/"+first+"/complete", owner+`}`, `"already":true`)
	w.want(409, "POST", "/v1/jobs/"+first+"/fail", owner+`,"error":"e"}`, `"code":"fenced"`)
	w.want(200, "GET", "/v1/jobs/"+first, "", `"result":{"b":1.0,"a":2}`)
	w.want(200, "POST", "/v1/outcomes", `[{"id":"`+second+`","session":"`+session+`","generation":1,"outcome":"released",`+
		`"in_seconds":60},{"id":"`+id(99)+`","session":"`+session+`","generation":1,"outcome":"succeeded"},`+
		`{"id":"`+id(9)+`","session":"`+session+`","generation":0,"outcome":"succeeded"}]`,
		`"state":"waiting"`, `"code":"not_found"`, `"code":"invalid"`)
	w.want(204, "POST", "/v1/sessions/"+session+"/end", "")
	w.want(409, "POST", "/v1/sessions/"+session+"/renew", "", `"code":"fenced"`)

	w.want(200, "POST", j(4, "/fail"), w.claimed(4)+`,"error":"no \u0000 such","retry_in_seconds":60}`,
		`"state":"waiting"`)
	w.want(200, "POST", j(5, "/fail"), w.claimed(5)+`,"error":"x","permanent":true}`, `"state":"set_aside"`)
	w.want(200, "POST", j(6, "/release"), w.claimed(6)+`}`, `"state":"waiting"`)
	testEffectCalls(w, j)

	w.want(200, "GET", "/v1/backlog", "", `"queue":"mail"`, `"oldest_eligible_seconds"`)
	w.want(200, "GET", "/v1/inventory", "", `"sentence":"`, `"outbox_age_seconds"`)
	w.want(200, "GET", "/v1/queues", "", `"name":"mail"`)
	w.want(200, "POST", "/v1/queues/mail/pause", `{"reason":"r"}`, `"paused":true`)
	w.want(200, "GET", "/v1/queues", "", `"paused_by":"local"`)
	w.want(200, "POST", "/v1/queues/mail/resume", `{"reason":"r"}`, `"paused":false`)
	w.want(200, "GET", "/v1/sessions?ended=true", "", `"worker":"w"`)
	w.want(200, "GET", "/v1/check?full=true", "", `"violations":0`, `"one-place"`)
	w.want(200, "GET", "/healthz", "", `"ok"`)
	w.want(200, "GET", "/readyz", "", `"ready"`)
}

func testEffectCalls(w *world, j func(int, string) string) {
	owner := w.claimed(7)
	w.want(200, "POST", j(7, "/effects/charge/begin"), owner+`,"policy":"keyed","window_seconds":3600}`,
		`"decision":"call"`, `"key":"`)
	w.want(200, "GET", "/v1/effects?open=true", "", `"name":"charge"`)
	w.want(409, "POST", j(7, "/complete"), owner+`}`, `"code":"effect_open"`)
	w.want(200, "POST", j(7, "/effects/charge/finish"), owner+`,"outcome":"done","result":{"id":"ch"}}`, `"state":"done"`)
	w.want(409, "POST", j(7, "/effects/charge/begin"), owner+`,"policy":"keyed","window_seconds":3600}`,
		`"code":"effect_name_reused"`)
	w.want(200, "POST", j(7, "/complete"), owner+`}`, `"succeeded"`)
	owner = w.claimed(8)
	w.want(200, "POST", j(8, "/effects/mail/begin"), owner+`,"policy":"ask"}`, `"decision":"call"`)
	w.want(200, "POST", j(8, "/fail"), owner+`,"error":"e","permanent":true}`, `"set_aside"`)
	w.want(409, "POST", j(8, "/revive"), `{"reason":"r"}`, `"code":"effect_open"`)
	w.want(200, "POST", j(8, "/effects/mail/settle"), `{"generation":1,"outcome":"absent","reason":"r"}`, `"id":"`+id(8))
}

// args go in and out as they were given.
func TestArgsAreKept(t *testing.T) {
	w := newWorld(t)
	for n, args := range []string{`{"z":9007199254740993,"a":1.0,"m":{"y":1e400,"x":-0}}`, `"<&>\u2028ü"`, `null`,
		`[1.00,{"":0.1e-7}]`, `"\u00e9\/"`} {
		w.enqueue(n+1, `,"args":`+args)
		w.want(200, "GET", "/v1/jobs/"+id(n+1), "", `"args":`+args+`,`)
		w.want(200, "POST", "/v1/jobs/"+id(n+1)+"/claim", `{}`, `"args":`+args+`,`)
	}
}

// The description describes every call, its examples are what the calls take,
// and neither it nor the page loads anything from elsewhere.
func TestDescription(t *testing.T) {
	w := newWorld(t)
	spec := w.want(200, "GET", "/openapi.json", "", `"openapi":"3.1.0"`).json(t)
	paths := spec["paths"].(map[string]any)
	for _, r := range w.api.routes {
		op, ok := paths[r.path].(map[string]any)[strings.ToLower(r.method)].(map[string]any)
		if !ok || op["operationId"] != r.id {
			t.Errorf("%s %s isn't described", r.method, r.path)
			continue
		}
		if r.example == "" {
			continue
		}
		path := strings.NewReplacer("{id}", id(1), "{session}", id(2), "{name}", "n", "{queue}", "q").Replace(r.path)
		body := strings.Replace(r.example, `"wait_seconds":20`, `"wait_seconds":0`, 1)
		if got := w.call(r.method, path, body); slices.Contains([]int{400, 413, 415, 422}, got.status) {
			t.Errorf("%s %s doesn't take its own example: %s", r.method, r.path, got.body)
		}
	}
	docs := w.want(200, "GET", "/docs", "", "/v1/jobs/batch", "Idempotency-Key")
	for _, outside := range []string{"http://", "https://", "<script", "src=", "<link"} {
		if strings.Contains(docs.body, outside) {
			t.Errorf("the page has %s in it", outside)
		}
	}
	csp := docs.header.Get("Content-Security-Policy")
	if !strings.HasPrefix(csp, "default-src 'none'; style-src 'sha256-") {
		t.Errorf("the page's Content-Security-Policy is %q", csp)
	}
}

// Every answer is shown by an example, which is what the type of the answer says.
func TestAnswersAreShown(t *testing.T) {
	for _, r := range newWorld(t).api.routes {
		if r.out == nil || r.path == "/openapi.json" || r.path == "/docs" { // they show themselves
			continue
		}
		if r.answer == "" {
			t.Errorf("%s %s has no example of its answer", r.method, r.path)
			continue
		}
		d := json.NewDecoder(strings.NewReader(r.answer))
		d.DisallowUnknownFields()
		if err := d.Decode(reflect.New(r.out).Interface()); err != nil {
			t.Errorf("%s %s: its example isn't its answer: %v", r.method, r.path, err)
		}
	}
}

// eventually polls until the condition holds, for as long as a slow machine may
// need.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline := time.After(30 * time.Second)
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for !holds() {
		select {
		case <-again.C:
		case <-deadline:
			t.Fatalf("%s: not within 30s", what)
		}
	}
}
