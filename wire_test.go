package daybook

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestRequestFields(t *testing.T) {
	var got []string
	for _, f := range reflect.VisibleFields(reflect.TypeFor[requestBody]()) {
		got = append(got, f.Tag.Get("json"))
	}
	if !reflect.DeepEqual(got, requestFields) {
		t.Errorf("the decoder knows %v, the check %v", got, requestFields)
	}
}

func TestDecodeRequest(t *testing.T) {
	got, err := DecodeRequest([]byte(` {"id":"00000000-0000-7000-8000-000000000001",
		"queue":"mail","kind":"welcome",
		"args": {"b" : 1.50, "a":"<\u00e9&>", "n":9007199254740993} ,"key":"k1",
		"run_at":"2027-01-02T03:04:05.678901+01:00",
		"expires_at":"2028-01-01T00:00:00Z","priority":-3,"max_failures":2,"on_lost":"set_aside",
		"timeout_seconds":0.5} `))
	if err != nil {
		t.Fatal(err)
	}
	want := Request{ID: testJob, Queue: "mail", Kind: "welcome",
		Args: json.RawMessage(`{"b" : 1.50, "a":"<\u00e9&>", "n":9007199254740993}`),
		Key:  "k1", RunAt: time.Date(2027, 1, 2, 2, 4, 5, 678901000, time.UTC),
		ExpiresAt: time.Date(2028, 1, 1, 0, 0, 0, 0, time.UTC),
		Priority:  -3, MaxFailures: 2, OnLost: LostSetAside, Timeout: 500 * time.Millisecond}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	got, err = DecodeRequest([]byte(`{"queue":"q","kind":"k","in_seconds":1.5,
		"args":null,"id":null,"key":null,"priority":null}`))
	if err != nil || got.In != 1500*time.Millisecond || string(got.Args) != "null" || got.Key != "" {
		t.Errorf("a delay and nulls: got %+v, %v", got, err)
	}
}

func TestDecodeRequestRefuses(t *testing.T) {
	long := strings.Repeat("9", 100_000)
	for _, tt := range []struct {
		doc  string
		code Code
		want string
	}{
		{`{"queue":"q","kind":"k","colour":1}`, CodeInvalid, `colour: is not a field of this request`},
		{`{"Queue":"q","kind":"k"}`, CodeInvalid, `Queue: is not a field of this request`},
		{`{"queue":"q","QUEUE":"r","kind":"k"}`, CodeInvalid, `QUEUE: is not a field of this request`},
		{`{"queue":"q","a b\n":1}`, CodeInvalid, `"a b\n": is not a field of this request`},
		{`{"queue":"q","queue":"r"}`, CodeInvalid, `body: at "/queue": has this key twice`},
		{`{"queue":"q","args":{"a":"\u0000"}}`, CodeInvalid,
			`body: at "/args/a": has \u0000, which databases can't store as text`},
		{`{"queue":5}`, CodeInvalid, `queue: wants a string, got a JSON number`},
		{`{"queue":"q","priority":1.5}`, CodeInvalid, `priority: wants a whole number, got a JSON number`},
		{`{"queue":"q","priority":"1"}`, CodeInvalid, `priority: wants a whole number, got a JSON string`},
		{`{"queue":"q","priority":` + long + `}`, CodeInvalid, `priority: wants a whole number, got a JSON number`},
		{`{"queue":"q","max_failures":0}`, CodeInvalid, `max_failures: wants 1…10000, got 0`},
		{`{"queue":"q","on_lost":""}`, CodeInvalid, `on_lost: wants retry or set_aside, got ""`},
		{`{"queue":"q","key":""}`, CodeInvalid, `key: is empty; leave it out for no key`},
		{`{"queue":"q","in_seconds":-1}`, CodeInvalid, `in_seconds: wants 0…3153600000 seconds, got -1`},
		{`{"queue":"q","in_seconds":1e300}`, CodeInvalid, `in_seconds: wants 0…3153600000 seconds, got 1e+300`},
		{`{"queue":"q","in_seconds":1e999}`, CodeInvalid, `in_seconds: wants a number, got a JSON number`},
		{`{"queue":"q","timeout_seconds":0}`, CodeInvalid, `timeout_seconds: wants at least 0.001, got 0`},
		{`{"queue":"q","timeout_seconds":true}`, CodeInvalid, `timeout_seconds: wants a number, got a JSON bool`},
		{`{"queue":"q","run_at":"2027-01-02T03:04:05"}`, CodeInvalid,
			`run_at: wants RFC 3339 with a zone, like 2026-12-24T18:00:00Z, got "2027-01-02T03:04:05"`},
		{`{"queue":"q","run_at":1}`, CodeInvalid, `run_at: wants a string, got a JSON number`},
		{`{"queue":"q","id":"x"}`, CodeInvalid,
			`id: wants a UUID like 0190a2b4-7c1e-7000-8000-000000000000, got "x"`},
		{`{"queue":"q","id":5}`, CodeInvalid, `id: wants a string, got a JSON number`},
		{`[]`, CodeInvalid, `body: wants a JSON object, got a JSON array`},
		{`"x"`, CodeInvalid, `body: wants a JSON object, got a JSON string`},
		{`{`, CodeMalformed, `body: at "/": wants a key at byte 1`},
		{`{} {}`, CodeMalformed, `body: has something behind the JSON document, at byte 3`},
		{``, CodeMalformed, `body: ends where a JSON value is wanted`},
		{`{"colour":1,`, CodeMalformed, `body: at "/": wants a key at byte 12`},
		{`{"a":1,"a":2`, CodeMalformed, `body: at "/a": has this key twice`},
	} {
		_, err := DecodeRequest([]byte(tt.doc))
		if err == nil {
			t.Errorf("%.60s: accepted", tt.doc)
			continue
		}
		if err.Error() != tt.want || CodeOf(err) != tt.code {
			t.Errorf("%.60s:\ngot  %s: %.200s\nwant %s: %s", tt.doc, CodeOf(err), err, tt.code, tt.want)
		}
	}
}

func TestDecodeRequestSize(t *testing.T) {
	doc := func(n int) []byte {
		return []byte(`{"queue":"q","kind":"k","args":"` + strings.Repeat("x", n-2) + `"}`)
	}
	r, err := DecodeRequest(doc(ArgsMax))
	if err != nil || len(r.Args) != ArgsMax {
		t.Errorf("args at the limit: %d bytes, %v", len(r.Args), err)
	}
	if _, err := DecodeRequest(doc(ArgsMax + 64<<10)); CodeOf(err) != CodeTooLarge {
		t.Errorf("a body past the limit: got %v, want too_large", err)
	}
}

// Args leave as they came: Go's encoder alone would rewrite <, > and &.
func TestEncodeJSONKeepsArgs(t *testing.T) {
	args := `{"b":1.0,"a":"<script>&\u00e9"}`
	var b bytes.Buffer
	if err := EncodeJSON(&b, with(waitingJob(), func(j *Job) { j.Args = json.RawMessage(args) })); err != nil {
		t.Fatal(err)
	}
	line := b.String()
	if !strings.Contains(line, `"args":`+args) || strings.Count(line, "\n") != 1 ||
		!strings.HasSuffix(line, "\n") {
		t.Errorf("got %q, want the args byte for byte on one line", line)
	}
}

// A job's JSON has the names of the published surface, and leaves out what it
// doesn't have.
func TestJobJSON(t *testing.T) {
	keys := func(j Job) (names []string) {
		d := json.NewDecoder(strings.NewReader(asJSON(t, j)))
		depth := 0
		for key := false; ; {
			tok, err := d.Token()
			if err != nil {
				return names
			}
			switch v := tok.(type) {
			case json.Delim:
				depth += map[json.Delim]int{'{': 1, '[': 1, '}': -1, ']': -1}[v]
				key = depth == 1
			case string:
				if key {
					names = append(names, v)
				}
				key = depth == 1 && !key
			default:
				key = depth == 1
			}
		}
	}
	want := "id queue kind state priority run_at generation failures crashes max_failures on_lost enqueued_at"
	if got := strings.Join(keys(waitingJob()), " "); got != want {
		t.Errorf("a waiting job:\ngot  %s\nwant %s", got, want)
	}
	full := with(runningJob(), asked, expires(time.Hour), origin, held, func(j *Job) {
		j.Args, j.Key, j.Result, j.Progress = json.RawMessage(`1`), "k", json.RawMessage(`1`), json.RawMessage(`1`)
		j.LastError, j.Reason, j.EndedAt = testProblem, ReasonLost, testNow
	})
	want = "id queue kind args state reason priority run_at expires_at held_by generation failures crashes " +
		"max_failures on_lost key origin result progress last_error session worker lease_until " +
		"cancel_requested_at enqueued_at claimed_at ended_at"
	if got := strings.Join(keys(full), " "); got != want {
		t.Errorf("a full job:\ngot  %s\nwant %s", got, want)
	}
}
