package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/daybooktest"
)

func (w *world) waiters() int {
	w.api.waiting.mu.Lock()
	defer w.api.waiting.mu.Unlock()
	return len(w.api.waiting.waiters)
}

// given are the jobs in an answer of claims.
func (w *world) given(r reply) (session string, jobs []string) {
	w.Helper()
	var c struct {
		Session string
		Claims  []struct{ Job struct{ ID string } }
	}
	if err := json.Unmarshal([]byte(r.body), &c); err != nil {
		w.Fatalf("got %d %s", r.status, r.body)
	}
	for _, claim := range c.Claims {
		jobs = append(jobs, claim.Job.ID)
	}
	return c.Session, jobs
}

// waitFor makes a claim call that waits, on the side.
func (w *world) waitFor(ctx context.Context, body string, headers ...string) <-chan reply {
	got := make(chan reply, 1)
	go func() {
		defer close(got)
		if r, err := w.send(ctx, "POST", "/v1/claims", body, headers...); err == nil {
			got <- r
		}
	}()
	return got
}

// A call that waits is woken by the bell, as soon as there is work of its queue
// and kind.
func TestClaimWaits(t *testing.T) {
	w := newWorld(t)
	other := w.waitFor(t.Context(), `{"queues":["mail"],"kinds":["nope"],"wait_seconds":60}`)
	eventually(t, "the first waits", func() bool { return w.waiters() == 1 })
	mine := w.waitFor(t.Context(), `{"queues":["sms","mail"],"kinds":["welcome"],"wait_seconds":60}`)
	eventually(t, "both wait", func() bool { return w.waiters() == 2 })
	began := time.Now()
	w.enqueue(1, "")
	if _, jobs := w.given(<-mine); len(jobs) != 1 || jobs[0] != id(1) {
		t.Errorf("got %v, want the job", jobs)
	}
	t.Logf("claimed after %s", time.Since(began))
	w.api.Close() // answers who still waits
	if session, jobs := w.given(<-other); len(jobs) != 0 || session == "" {
		t.Errorf("got %v and session %q, want none", jobs, session)
	}
	if r := w.call("POST", "/v1/claims", `{"queues":["mail"],"wait_seconds":60}`); r.status != 200 {
		t.Errorf("a call after the end: %d %s", r.status, r.body)
	}
}

// A job that becomes due while calls wait is found, though nobody rings.
func TestClaimWaitsForDueJobs(t *testing.T) {
	w := newWorld(t)
	w.enqueue(1, `,"in_seconds":1.5`)
	if _, jobs := w.given(<-w.waitFor(t.Context(), `{"queues":["mail"],"wait_seconds":60}`)); len(jobs) != 1 {
		t.Errorf("got %v, want the job", jobs)
	}
}

// No claim is made for a client that has gone.
func TestNoClaimForWhoLeft(t *testing.T) {
	w := newWorld(t)
	ctx, leave := context.WithCancel(t.Context())
	gone := w.waitFor(ctx, `{"queues":["mail"],"wait_seconds":60}`)
	eventually(t, "it waits", func() bool { return w.waiters() == 1 })
	leave()
	<-gone
	eventually(t, "the server notices", func() bool { return w.waiters() == 0 })
	w.enqueue(1, "")
	if _, jobs := w.given(w.call("POST", "/v1/claims", `{"queues":["mail"],"wait_seconds":60}`)); len(jobs) != 1 {
		t.Errorf("got %v, want the job", jobs)
	}
	w.want(200, "GET", "/v1/jobs/"+id(1), "", `"generation":1`)
}

// What was claimed while the client left is given back without blame, and kept
// for one that can ask for the same again.
func TestClaimsOfWhoLeft(t *testing.T) {
	w := newWorld(t)
	w.enqueue(1, "")
	claim := func(repeatable bool) error {
		r, _ := http.NewRequestWithContext(t.Context(), "POST", "/v1/claims", nil)
		ctx, leave := context.WithCancel(r.Context())
		c := &call{s: w.api, r: r.WithContext(ctx)}
		given, err := w.api.tryClaim(c, daybook.ClaimRequest{Queues: []string{"mail"}})
		if err != nil || len(given.Jobs) != 1 {
			t.Fatalf("claim: %v, %v", given, err)
		}
		leave()
		_, err = w.api.granted(c, given, repeatable)
		return err
	}
	if err := claim(false); err == nil {
		t.Error("a client that left was answered")
	}
	w.want(200, "GET", "/v1/jobs/"+id(1), "", `"state":"waiting"`, `"crashes":0`, `"failures":0`)
	if err := claim(true); err != nil {
		t.Error(err)
	}
	w.want(200, "GET", "/v1/jobs/"+id(1), "", `"state":"running"`)
}

// Rings that come while a call looks by itself wait for it, and keep nobody else
// waiting.
func TestRingsWhileACallLooks(t *testing.T) {
	h := newHub(daybooktest.New(t).Book)
	defer h.close()
	first, second := h.join([]string{"mail"}, nil), h.join([]string{"mail"}, nil)
	h.wakeEach([]string{"mail"})
	h.looked(first, nil, true, false) // it looked before it knew of the ring
	h.wakeEach([]string{"mail"})      // goes to the second
	h.wakeEach([]string{"mail"})      // and this to nobody: both have one
	if len(first.wake) != 1 || len(second.wake) != 1 {
		t.Fatalf("got %d and %d rings, want one each", len(first.wake), len(second.wake))
	}
	h.looked(second, <-second.wake, true, true)
	h.wakeEach([]string{"mail"})
	if len(second.wake) != 1 {
		t.Error("who has looked isn't woken again")
	}
	h.leave(first)
	h.leave(second)
}

// Fifty clients and a hundred jobs: each job goes to one of them, and one ring
// for many wakes them all.
func TestManyClientsWait(t *testing.T) { testManyClientsWait(newWorld(t)) }

func testManyClientsWait(w *world) {
	t := w.T
	const clients, jobs = 50, 100
	var got sync.Map
	var n atomic.Int64
	var all sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	for range clients {
		all.Go(func() {
			for ctx.Err() == nil {
				r, err := w.send(ctx, "POST", "/v1/claims", `{"queues":["mail"],"limit":2,"wait_seconds":60}`)
				if err != nil {
					return
				}
				_, given := w.given(r)
				for _, j := range given {
					if _, twice := got.LoadOrStore(j, true); twice {
						t.Errorf("job %s was claimed twice", j)
					}
					n.Add(1)
				}
			}
		})
	}
	eventually(t, "all wait", func() bool { return w.waiters() == clients })
	rows := make([]string, jobs)
	for i := range rows {
		rows[i] = `{"queue":"mail","kind":"k"}`
	}
	w.want(200, "POST", "/v1/jobs/batch", "["+strings.Join(rows, ",")+"]")
	eventually(t, "all claimed", func() bool { return n.Load() == jobs })
	stop()
	all.Wait()
}

// While a call waits its session's lease is kept.
func TestWaitingKeepsTheLease(t *testing.T) {
	w := newWorld(t)
	session, _ := w.given(w.call("POST", "/v1/claims", `{"queues":["mail"],"lease_seconds":1}`))
	first := w.want(200, "GET", "/v1/sessions", "", session).body
	w.waitFor(t.Context(), `{"queues":["mail"],"session":"`+session+`","wait_seconds":60}`)
	eventually(t, "the lease renewed", func() bool { return w.call("GET", "/v1/sessions", "").body != first })
}

// The same claim call again gives the same claims, to the same token only.
func TestClaimIsRepeatable(t *testing.T) { testClaimIsRepeatable(newWorld(t)) }

func testClaimIsRepeatable(w *world) {
	t := w.T
	w.enqueue(1, "")
	w.enqueue(2, "")
	body := `{"queues":["mail"],"worker":"w"}`
	session, jobs := w.given(w.call("POST", "/v1/claims", body, keyHeader+`="c1"`))
	repeat := strings.Replace(body, "}", `,"wait_seconds":1}`, 1)
	again, same := w.given(w.call("POST", "/v1/claims", repeat, keyHeader+"=c1"))
	if again != session || len(jobs) != 1 || len(same) != 1 || same[0] != jobs[0] {
		t.Errorf("got %s %v, then %s %v", session, jobs, again, same)
	}
	if _, next := w.given(w.call("POST", "/v1/claims", body, keyHeader+"=c2")); len(next) != 1 || next[0] == jobs[0] {
		t.Errorf("another key got %v", next)
	}
	of := func(token string) daybook.ID {
		id, err := w.api.callOf(&call{token: token}, "c1", ClaimBody{})
		if err != nil {
			t.Error(err)
		}
		return id
	}
	if of("a") == of("b") {
		t.Error("two tokens share a call")
	}
	for _, other := range []string{`{"queues":["sms"],"worker":"w"}`, `{"queues":["mail"],"worker":"w","limit":2}`} {
		w.at(w.refused(422, "key_conflict", "POST", "/v1/claims", other, keyHeader+"=c1"), keyHeader)
	}
	w.refused(422, "key_conflict", "POST", "/v1/jobs/"+id(2)+"/claim", `{}`, keyHeader+"=c1")
	if again, _ := w.given(w.call("POST", "/v1/claims", body, keyHeader+"=c1")); again != session {
		t.Errorf("after the conflict: got %s, want the same claims", again)
	}
	w.enqueue(3, "")
	one := func() (string, []string) {
		return w.given(w.call("POST", "/v1/jobs/"+id(3)+"/claim", `{"worker":"w"}`, keyHeader+"=c3"))
	}
	first, _ := one()
	if second, jobs := one(); second != first || len(jobs) != 1 {
		t.Errorf("claiming the job again: %s %v, then %s", first, jobs, second)
	}
	w.refused(409, "refused", "POST", "/v1/jobs/"+id(3)+"/claim", `{"worker":"w"}`)
}

// The key of a request in quotes and without is the same; a replay says so.
func TestIdempotencyKey(t *testing.T) {
	w := newWorld(t)
	body := `{"queue":"q","kind":"k","args":{"b":1,"a":1.0}}`
	first := w.call("POST", "/v1/jobs", body, keyHeader+`="a \"1\""`)
	w.hold(first, 201, "first", `"replayed":false`)
	if first.header.Get("Idempotency-Replayed") != "" {
		t.Error("the first is a replay")
	}
	at := first.header.Get("Location")
	w.want(200, "GET", at, "", `"key":"a \"1\""`)
	for _, key := range []string{`"a \"1\""`, `a "1"`} {
		again := w.call("POST", "/v1/jobs", `{"kind":"k","args":{"a":1,"b":1e0},"queue":"q","priority":3}`, keyHeader+"="+key)
		w.hold(again, 200, "again", `"replayed":true`)
		if again.header.Get("Idempotency-Replayed") != "true" || again.header.Get("Location") != at {
			t.Errorf("got %v", again.header)
		}
	}
	w.at(w.refused(422, "key_conflict", "POST", "/v1/jobs", `{"queue":"q","kind":"k","args":{"`+marker+`":1}}`,
		keyHeader+`=a "1"`), keyHeader)
	w.at(w.refused(422, "key_conflict", "POST", "/v1/jobs", `{"queue":"q","kind":"k","key":"a \"1\""}`), `"#/key"`)
	w.want(200, "POST", "/v1/jobs/batch", `[{"queue":"q","kind":"k","args":{"b":1,"a":1},"key":"a \"1\""}]`,
		`"replayed":true`)
	w.at(w.refused(422, "key_conflict", "POST", "/v1/jobs/batch",
		`[{"queue":"q","kind":"k"},{"queue":"q","kind":"k","key":"a \"1\""}]`), "#/")
}

// L35 (mastodon PR #37879; jcagarcia/grape-idempotency #10; idempot-js #181):
// many equal requests at once are one job: one 201, the others replays or "send
// again", and never an error of the server.
func TestL35SameKeyAtOnce(t *testing.T) { testL35(newWorld(t)) }

func testL35(w *world) {
	w.Helper()
	var created, replayed, busy atomic.Int64
	var all sync.WaitGroup
	var ids sync.Map
	for i := range 100 {
		all.Go(func() {
			body := fmt.Sprintf(`{"queue":"q","kind":"k","args":{"n":%d.0},"priority":%d}`, 1, i)
			r, err := w.send(w.Context(), "POST", "/v1/jobs", body, keyHeader+`="same"`)
			switch {
			case err != nil:
				w.Error(err)
				return
			case r.status == 201:
				created.Add(1)
			case r.status == 200 && r.header.Get("Idempotency-Replayed") == "true":
				replayed.Add(1)
			case r.status == 409 && strings.Contains(r.body, `"busy"`):
				busy.Add(1)
				return
			default:
				w.Errorf("got %d %s", r.status, r.body)
				return
			}
			ids.Store(r.header.Get("Location"), true)
		})
	}
	all.Wait()
	n := 0
	ids.Range(func(any, any) bool { n++; return true })
	if created.Load() != 1 || n != 1 {
		w.Errorf("%d were created, %d replayed, %d busy, %d ids", created.Load(), replayed.Load(), busy.Load(), n)
	}
}

// A stop answers calls that wait, at once and well, and calls under way end.
func TestShutdown(t *testing.T) {
	book := daybooktest.New(t)
	w := worldOn(t, book.Book)
	waits := w.waitFor(t.Context(), `{"queues":["mail"],"wait_seconds":60}`)
	eventually(t, "it waits", func() bool { return w.waiters() == 1 })
	w.api.Close()
	w.api.Close()
	if r := <-waits; r.status != 200 || !strings.Contains(r.body, `"claims":[]`) {
		t.Errorf("got %d %s", r.status, r.body)
	}
}

// A list goes on where the page before ended.
func TestPages(t *testing.T) {
	w := newWorld(t)
	for n := 1; n <= 5; n++ {
		w.enqueue(n, "")
	}
	seen, cursor := map[string]bool{}, ""
	for range 10 {
		r := w.want(200, "GET", "/v1/jobs?limit=2&cursor="+cursor, "").json(t)
		for _, j := range r["jobs"].([]any) {
			seen[j.(map[string]any)["id"].(string)] = true
		}
		if cursor = r["cursor"].(string); cursor == "" {
			break
		}
	}
	if len(seen) != 5 || cursor != "" {
		t.Errorf("saw %v, cursor %q", seen, cursor)
	}
}

// HEAD answers like GET, without the body.
func TestHead(t *testing.T) {
	w := newWorld(t)
	for _, path := range []string{"/v1/jobs", "/healthz", "/docs", "/openapi.json", "/v1/nope"} {
		got, head := w.call("GET", path, ""), w.call("HEAD", path, "")
		same := head.header.Get("Content-Length") == got.header.Get("Content-Length")
		if head.status != got.status || head.body != "" || !same {
			t.Errorf("%s: got %d and %q", path, head.status, head.body)
		}
	}
}

// What belongs to another outcome is refused, row by row: nobody's pause, result
// or error is left aside in silence.
func TestOutcomesTakeOnlyTheirOwn(t *testing.T) {
	w := newWorld(t)
	id := w.call("POST", "/v1/jobs", `{"queue":"mail","kind":"k"}`).json(t)["id"].(string)
	session := w.call("POST", "/v1/claims", `{"queues":["mail"],"worker":"w"}`).json(t)["session"].(string)
	for _, rest := range []string{`"released","retry_in_seconds":60`, `"failed","error":"x","in_seconds":60`,
		`"failed","error":"x","result":1`, `"released","result":1`, `"released","error":"x"`, `"released","permanent":true`,
		`"succeeded","error":"x"`, `"succeeded","in_seconds":60`, `"succeeded","retry_in_seconds":60`,
		`"succeeded","permanent":true`} {
		answer := w.call("POST", "/v1/outcomes",
			`[{"id":"`+id+`","session":"`+session+`","generation":1,"outcome":`+rest+`}]`)
		if answer.status != http.StatusOK || !strings.Contains(answer.body, `"code":"invalid"`) {
			t.Errorf("%s: got %d %s, want the row refused", rest, answer.status, answer.body)
		}
	}
	answer := w.call("POST", "/v1/outcomes",
		`[{"id":"`+id+`","session":"`+session+`","generation":1,"outcome":"released","in_seconds":60}]`)
	if !strings.Contains(answer.body, `"state":"waiting"`) {
		t.Errorf("got %s, want it released", answer.body)
	}
}

// What a failed row says went wrong is kept, like that of a call of its own.
func TestOutcomesKeepTheError(t *testing.T) {
	w := newWorld(t)
	id := w.call("POST", "/v1/jobs", `{"queue":"mail","kind":"k"}`).json(t)["id"].(string)
	session := w.call("POST", "/v1/claims", `{"queues":["mail"],"worker":"w"}`).json(t)["session"].(string)
	w.call("POST", "/v1/outcomes", `[{"id":"`+id+`","session":"`+session+
		`","generation":1,"outcome":"failed","error":"no such address","error_kind":"SMTP"}]`)
	job := w.call("GET", "/v1/jobs/"+id, "")
	if !strings.Contains(job.body, `"last_error":{"text":"no such address","kind":"SMTP"`) {
		t.Errorf("got %s, want the error's text", job.body)
	}
}
