package httpapi

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/daybookdev/daybook"
	inside "github.com/daybookdev/daybook/bell/local"
	"github.com/daybookdev/daybook/check"
	"github.com/daybookdev/daybook/store/sqlite"
)

// later moves a book's clock on.
type later func(time.Duration)

// agedWorld serves a book whose clock the test moves.
func agedWorld(t *testing.T, change ...func(*Options)) (*world, later) {
	t.Helper()
	var ahead atomic.Int64
	bell := inside.New()
	book, err := sqlite.Open(t.Context(), sqlite.Memory, sqlite.Options{
		Now:  func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) },
		Book: daybook.Options{Bell: bell, Log: slog.New(slog.DiscardHandler)}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		report, err := check.Run(context.WithoutCancel(t.Context()), book, check.Options{Full: true})
		if err != nil || report.Violations > 0 {
			t.Errorf("the book's invariants: %d violations, %v", report.Violations, err)
		}
		bell.Close()
		book.Close()
	})
	return worldOn(t, book, change...), func(d time.Duration) { ahead.Add(int64(d)) }
}

// A key answers for 30 days after its job's end: until then the same input is a
// replay and other input a conflict; then it is a new request, whatever its input.
// Before its job ended it never expires.
func TestIdempotencyKeyExpires(t *testing.T) {
	w, advance := agedWorld(t)
	upkeep := func() {
		t.Helper()
		if _, err := w.book.Prune(t.Context(), daybook.PruneOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.book.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	const same, other = `{"queue":"mail","kind":"k","args":[1]}`, `{"queue":"mail","kind":"k","args":[2]}`
	first := w.call("POST", "/v1/jobs", same, keyHeader+"=a1")
	w.hold(first, 201, "the first")
	at := first.header.Get("Location")
	stands := func(when string) {
		t.Helper()
		again := w.call("POST", "/v1/jobs", same, keyHeader+"=a1")
		w.hold(again, 200, when, `"replayed":true`)
		if got := again.header.Get("Location"); got != at {
			t.Errorf("%s: the key names %s, want %s", when, got, at)
		}
		w.refused(422, "key_conflict", "POST", "/v1/jobs", other, keyHeader+"=a1")
	}
	advance(10 * daybook.KeyRetention)
	upkeep()
	stands("a job that waits since long ago")
	w.want(200, "POST", at+"/cancel", `{"reason":"r"}`)
	advance(daybook.KeyRetention - time.Hour)
	upkeep()
	w.want(404, "GET", at, "") // retention took the job, not its key
	stands("shortly before the key expires")
	advance(2 * time.Hour)
	upkeep()
	anew := w.call("POST", "/v1/jobs", other, keyHeader+"=a1")
	w.hold(anew, 201, "the key anew", `"replayed":false`)
	if anew.header.Get("Location") == at || anew.header.Get("Idempotency-Replayed") != "" {
		t.Errorf("the key anew: %v, want another job", anew.header)
	}
	w.refused(422, "key_conflict", "POST", "/v1/jobs", same, keyHeader+"=a1")
}

// Past its expiry a token opens nothing, at once and on every route, nor does its
// absence; what its bearer did stays under its name, and its name may be had again,
// by another secret.
func TestExpiredToken(t *testing.T) {
	w, advance := agedWorld(t)
	token := func() string {
		t.Helper()
		_, secret, err := w.book.CreateToken(t.Context(), daybook.TokenRequest{Name: "ada", Expires: time.Hour,
			Scopes: []daybook.TokenScope{daybook.ScopeOperate, daybook.ScopeRead}}, daybook.By{Actor: "root"})
		if err != nil {
			t.Fatal(err)
		}
		return "Authorization=Bearer " + secret
	}
	look := func() { // again, at the book's tokens
		w.api.doors.mu.Lock()
		defer w.api.doors.mu.Unlock()
		w.api.doors.read = time.Time{}
	}
	w.enqueue(1, "")
	w.enqueue(2, "")
	old := token()
	look()
	cancel := func(n int) string { return "/v1/jobs/" + id(n) + "/cancel" }
	w.hold(w.call("POST", cancel(1), `{"reason":"a good one"}`, old), 200, "before")
	advance(time.Hour)
	look()
	w.refused(401, "unauthorized", "POST", cancel(2), `{"reason":"too late"}`, old)
	for _, r := range w.api.routes {
		path := strings.NewReplacer("{id}", id(1), "{session}", id(2), "{name}", "n", "{queue}", "q").Replace(r.path)
		if r.scope != "" {
			w.refused(401, "unauthorized", r.method, path, "", old)
			w.refused(401, "unauthorized", r.method, path, "")
		}
	}
	tokens, err := w.book.Tokens(t.Context())
	if list := tokens.List(); err != nil || len(list) != 1 || list[0].CreatedBy != "root" || list[0].Live(tokens.At) {
		t.Errorf("the record has %+v, %v, want the expired token", list, err)
	}
	anew := token()
	look()
	w.hold(w.call("GET", "/v1/jobs/"+id(1)+"/timeline", "", anew), 200, "another of the name", `"actor":"ada"`,
		`"reason":"a good one"`)
	w.hold(w.call("GET", "/v1/jobs/"+id(2), "", anew), 200, "what was refused", `"state":"waiting"`)
	w.refused(401, "unauthorized", "GET", "/v1/jobs", "", old)
}

// While the database is away tokens are believed as they were seen last, but none
// past its expiry.
func TestTokenExpiresWhileTheDatabaseIsAway(t *testing.T) {
	w, _ := agedWorld(t, func(o *Options) {
		o.Metrics = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	})
	_, secret, err := w.book.CreateToken(t.Context(), daybook.TokenRequest{Name: "ada", Expires: time.Hour,
		Scopes: []daybook.TokenScope{daybook.ScopeRead}}, daybook.By{})
	if err != nil {
		t.Fatal(err)
	}
	bearer := "Authorization=Bearer " + secret
	want(t, w.call("GET", "/metrics", "", bearer), http.StatusOK)
	w.api.doors.look = func(context.Context) (daybook.Tokens, error) {
		return daybook.Tokens{}, daybook.Fail(daybook.CodeUnavailable, "away")
	}
	for ago, status := range map[time.Duration]int{59 * time.Minute: http.StatusOK, time.Hour: http.StatusUnauthorized} {
		last := *w.api.doors.last.Load()
		last.read = time.Now().Add(-ago)
		w.api.doors.last.Store(&last)
		w.api.doors.read = time.Time{}
		want(t, w.call("GET", "/metrics", "", bearer), status)
	}
}
