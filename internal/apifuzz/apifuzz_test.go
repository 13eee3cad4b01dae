package apifuzz

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// described is an API of one call, whose answers a test decides.
const description = `{"openapi":"3.1.0","paths":{"/things/{id}":{"post":{"operationId":"make",
	"security":[{"token":["work"]}],
	"parameters":[{"name":"id","in":"path","schema":{"type":"string","format":"uuid"}}],
	"requestBody":{"required":true,"x-max-bytes":65536,"content":{"application/json":{"schema":{"type":"object",
		"additionalProperties":false,"required":["n"],"properties":{"n":{"type":"integer","minimum":1}}}}}},
	"responses":{"200":{"content":{"application/json":{"schema":{"$ref":"#/components/schemas/Thing"}}}},
		"default":{"content":{"application/problem+json":{"schema":{"type":"object","required":["status","code"],
			"properties":{"code":{"type":"string","enum":["invalid"]}}}}}}}}}},
	"components":{"schemas":{"Thing":{"type":"object","additionalProperties":false,"required":["id"],
		"properties":{"id":{"type":"string","format":"uuid"},"at":{"type":"string","format":"date-time"}}}}}}`

// fuzzerOf is a fuzzer of a server that describes itself, and answers everything
// in one way.
func fuzzerOf(t *testing.T, answer http.HandlerFunc) *Fuzzer {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/openapi.json" {
			fmt.Fprint(w, description)
			return
		}
		w.Header().Set("Content-Security-Policy", "default-src 'none'")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		answer(w, r)
	}))
	t.Cleanup(server.Close)
	f, err := New(t.Context(), Options{URL: server.URL, Tokens: map[string]string{"work": "tok-work", "read": "tok-read"},
		All: "tok-all", IDs: []string{"01900000-0000-7000-8000-000000000001"}, Seed: 1,
		Patience: 100 * time.Millisecond, AtOnce: 2})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// thing is an answer as it should be.
const thing = `{"id":"01900000-0000-7000-8000-000000000001"}`

// Each fault that an answer can have is found.
func TestJudge(t *testing.T) {
	f := fuzzerOf(t, nil)
	good := func() *call { return &call{op: f.doc.operations[0], method: "POST", not: clientFaults} }
	for want, c := range map[string]struct {
		call *call
		got  answer
	}{
		"":                      {good(), reply(200, jsonMedia, thing)},
		"the server failed":     {good(), reply(500, problemMedia, `{"status":500,"code":"invalid"}`)},
		"as it is described":    {good(), reply(400, problemMedia, `{"status":400,"code":"invalid"}`)},
		"want one of [422]":     {&call{op: f.doc.operations[0], want: []int{422}}, reply(200, jsonMedia, thing)},
		"lacks id":              {good(), reply(200, jsonMedia, `{}`)},
		"is no UUID":            {good(), reply(200, jsonMedia, `{"id":"x"}`)},
		"is no time":            {good(), reply(200, jsonMedia, thing[:len(thing)-1]+`,"at":"today"}`)},
		"which isn't described": {good(), reply(200, jsonMedia, thing[:len(thing)-1]+`,"more":1}`)},
		"is of type integer":    {good(), reply(200, jsonMedia, `{"id":1}`)},
		"no such status":        {good(), reply(202, jsonMedia, thing)},
		"no media type":         {good(), reply(200, "text/html", thing)},
		"isn't one JSON":        {good(), reply(200, jsonMedia, thing+thing)},
		"want one of [invalid]": {good(), reply(409, problemMedia, `{"status":409,"code":"odd"}`)},
		"names another status":  {good(), reply(409, problemMedia, `{"status":422,"code":"invalid"}`)},
		"repeats what":          {good(), reply(409, problemMedia, `{"status":409,"code":"invalid","x":"`+Marker+`"}`)},
		"token of scope work":   {good(), reply(409, problemMedia, `{"status":409,"code":"invalid","x":"tok-work"}`)},
		"select a from":         {good(), reply(409, problemMedia, `{"status":409,"code":"invalid","x":"select a from b"}`)},
		"goroutine 7":           {good(), reply(409, problemMedia, `{"status":409,"code":"invalid","x":"goroutine 7"}`)},
		"no Retry-After":        {good(), reply(429, problemMedia, `{"status":429,"code":"invalid"}`)},
		"no Content-Security":   {good(), answer{200, http.Header{"Content-Type": {jsonMedia}}, []byte(thing)}},
	} {
		if wrong := f.judge(c.call, c.got); !strings.Contains(wrong, want) || (want == "") != (wrong == "") {
			t.Errorf("got %q, want %q", wrong, want)
		}
	}
}

func reply(status int, media, body string) answer {
	return answer{status, http.Header{"Content-Type": {media}, "Content-Security-Policy": {"default-src 'none'"},
		"X-Content-Type-Options": {"nosniff"}}, []byte(body)}
}

// A server that takes everything is found out by every kind of wrong call that
// gets to it.
func TestTakesEverything(t *testing.T) {
	f := fuzzerOf(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", jsonMedia)
		fmt.Fprint(w, thing)
	})
	f.Run(t.Context(), 0, 600)
	found := strings.Join(f.Faults(), "\n")
	for _, k := range []string{"a value of another type", "a required field missing", "an unknown field",
		"a value out of its range", "no JSON", "no body", "a body too large", "another media type", "no token",
		"an unknown token", "a token without the scope", "another site's page", "another method", "no such path",
		"an unknown parameter"} {
		if !strings.Contains(found, "("+k+")") {
			t.Errorf("no fault by %s", k)
		}
	}
	for _, right := range []string{"(as described)", "(slow, and whole)"} {
		if strings.Contains(found, right) {
			t.Errorf("a call that is %s was called a fault: %s", right, found)
		}
	}
}

// A call is drawn from the seed and its number alone.
func TestReplay(t *testing.T) {
	one, two := fuzzerOf(t, nil), fuzzerOf(t, nil)
	for n := range 300 {
		if a, b := one.draw(n).bytes("h"), two.draw(n).bytes("h"); string(a) != string(b) {
			t.Fatalf("call %d is %q, and then %q", n, a, b)
		}
	}
}

// A description that nothing can be held to is refused.
func TestRefusedDescriptions(t *testing.T) {
	for wrong, text := range map[string]string{
		"not JSON":        `nope`,
		`OpenAPI "3.0.0"`: strings.Replace(description, "3.1.0", "3.0.0", 1),
		"no calls":        `{"openapi":"3.1.0"}`,
		"no schema": strings.Replace(description, `"Thing":`, `"Other":{"properties":{"x":{"$ref":"#/a/Thing"}}},"Thin":`,
			1),
		"how large":       strings.Replace(description, `"x-max-bytes":65536,`, "", 1),
		"operationId":     strings.Replace(description, `"operationId":"make",`, "", 1),
		"what it answers": strings.Replace(description, `"default"`, `"409"`, 1),
	} {
		if _, err := read([]byte(text)); err == nil || !strings.Contains(err.Error(), wrong) {
			t.Errorf("got %v, want %q in it", err, wrong)
		}
	}
	if _, err := read([]byte(description)); err != nil || !json.Valid([]byte(description)) {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := New(ctx, Options{URL: "http://127.0.0.1:1"}); err == nil {
		t.Error("a server that isn't there was described")
	}
}
