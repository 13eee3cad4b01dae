package httpapi

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/daybookdev/daybook"
)

// A program whose variable isn't set writes an empty filter. It must not decide
// about everything, nor be answered with everything.
func TestEmptyFiltersAreRefused(t *testing.T) {
	w := newWorld(t)
	want(t, w.call("POST", "/v1/jobs", `{"queue":"mail","kind":"k"}`), http.StatusCreated)
	for _, filter := range []string{`{"queue":"","kind":"k"}`, `{"queue":null,"kind":"k"}`, `{"kind":"","queue":"mail"}`,
		`{"queue":"mail","state":""}`, `{"queue":"mail","reason":""}`, `{"queue":"mail","key":""}`} {
		for _, move := range []string{"cancel", "revive", "unhold"} {
			answer := w.call("POST", "/v1/jobs/"+move, `{"filter":`+filter+`,"reason":"r","dry_run":true}`)
			want(t, answer, http.StatusUnprocessableEntity)
			if !strings.Contains(answer.body, `"pointer":"#/filter/`) {
				t.Errorf("%s of %s: got %s, want the field of the filter", move, filter, answer.body)
			}
		}
	}
	for _, query := range []string{"jobs?queue=", "jobs?kind=", "jobs?key=", "jobs?state=", "effects?job=",
		"sessions?worker="} {
		want(t, w.call("GET", "/v1/"+query, ""), http.StatusUnprocessableEntity)
	}
	for _, query := range []string{"queue=%zz", "queue=mail&%zz", "queue=%f"} {
		want(t, w.call("GET", "/v1/jobs?"+query, ""), http.StatusBadRequest)
	}
	want(t, w.call("GET", "/v1/jobs?cursor=", ""), http.StatusOK)
}

func want(t *testing.T, got reply, status int) {
	t.Helper()
	if got.status != status {
		t.Errorf("got %d %s, want %d", got.status, got.body, status)
	}
}

// While the database doesn't answer, calls that wait for the same look at the
// tokens end with it, and don't look one after the other.
func TestTokensFailTogether(t *testing.T) {
	looks := 0
	d := doors{look: func(context.Context) (daybook.Tokens, error) {
		looks++
		return daybook.Tokens{}, errors.New("no answer")
	}}
	came := time.Now()
	for range 50 {
		if _, err := d.since(t.Context(), came, tokensEvery); err == nil {
			t.Error("got tokens, want an error")
		}
	}
	if looks != 1 {
		t.Errorf("%d looks for calls that came before the first failed, want 1", looks)
	}
	if _, err := d.current(t.Context()); err == nil || looks != 2 {
		t.Errorf("got %v after %d looks, want a later call to look again", err, looks)
	}
}

// Metrics say that the database is away, so they are shown while it is, to whom
// they were shown before.
func TestMetricsWhileTheDatabaseIsAway(t *testing.T) {
	w := newWorld(t, func(o *Options) {
		o.Metrics = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	})
	want(t, w.call("GET", "/metrics", ""), http.StatusOK)
	w.api.doors.look = func(context.Context) (daybook.Tokens, error) {
		return daybook.Tokens{}, daybook.Fail(daybook.CodeUnavailable, "away")
	}
	w.api.doors.read = time.Time{}
	want(t, w.call("GET", "/metrics", ""), http.StatusOK)
	want(t, w.call("GET", "/metrics", "", "Authorization=Bearer nonsense"), http.StatusUnauthorized)
	want(t, w.call("GET", "/v1/jobs", ""), http.StatusServiceUnavailable)
}
