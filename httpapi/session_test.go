package httpapi

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// A session that is started by itself claims, is noted as quiet, and ends.
func TestSessionByItself(t *testing.T) {
	w := newWorld(t)
	w.enqueue(1, `,"timeout_seconds":90.5,"priority":5`)
	w.enqueue(2, "")
	r := w.want(200, "POST", "/v1/sessions", `{"worker":"w","lease_seconds":45,"starts":true,"queues":["mail"]}`,
		`"worker":"w"`, `"starts":true`, `"queues":["mail"]`, `"lease_until":"`)
	session := r.json(t)["id"].(string)
	claim := `{"queues":["mail"],"session":"` + session + `"`
	got := w.want(200, "POST", "/v1/claims", claim+`,"limit":1}`, `"timeout_seconds":90.5`, `"full":true`, id(1)).json(t)
	if got["lease_until"] == nil {
		t.Errorf("got %v, want until when the session lasts", got)
	}
	w.want(204, "POST", "/v1/sessions/"+session+"/quiet", "")
	w.want(200, "POST", "/v1/claims", claim+`}`, `"claims":[]`)
	w.want(204, "POST", "/v1/sessions/"+session+"/end", "")
	w.refused(409, "fenced", "POST", "/v1/sessions/"+session+"/quiet", "")
	w.refused(404, "not_found", "POST", "/v1/sessions/"+id(9)+"/quiet", "")
	for body, at := range map[string]string{
		`{"lease_seconds":0.5}`: "#/lease_seconds", `{"queues":["a b"]}`: "#/queues", `{"kinds":[""]}`: "#/kinds",
		`{"worker":"` + strings.Repeat("x", 256) + `"}`: "#/worker",
	} {
		w.at(w.refused(422, "invalid", "POST", "/v1/sessions", body), at)
	}
}

// The oldest comes first where it is asked for.
func TestClaimOldest(t *testing.T) {
	w := newWorld(t)
	w.enqueue(1, "")
	w.enqueue(2, `,"priority":5`)
	w.want(200, "POST", "/v1/claims", `{"queues":["mail"],"oldest":true}`, id(1))
}

// A report of a failure says why it is for good, and that its text was cut.
func TestOutcomeReason(t *testing.T) {
	w := newWorld(t)
	w.enqueue(1, "")
	owner := strings.TrimPrefix(w.claimed(1), "{")
	row := `[{"id":"` + id(1) + `",` + owner + `,"outcome":"failed","error":"e","permanent":true,"cut":true,"reason":`
	w.want(200, "POST", "/v1/outcomes", row+`"lost"}]`, `"code":"invalid"`)
	w.want(200, "POST", "/v1/outcomes", row+`"timeout"}]`, `"state":"set_aside"`)
	w.want(200, "GET", "/v1/jobs/"+id(1), "", `"reason":"timeout"`, `"cut":true`)
}

// Who listens is told of a ring, of a job that becomes due, and that nothing came.
func TestListen(t *testing.T) {
	w := newWorld(t)
	listen := func(body string) <-chan reply {
		got := make(chan reply, 1)
		go func() {
			defer close(got)
			if r, err := w.send(t.Context(), "POST", "/v1/listen", body); err == nil {
				got <- r
			}
		}()
		return got
	}
	w.want(200, "POST", "/v1/listen", `{"queues":["mail"]}`, `{"rung":false}`)
	heard := listen(`{"queues":["sms","mail"],"wait_seconds":60}`)
	eventually(t, "it listens", func() bool { return w.waiters() == 1 })
	began := time.Now()
	w.enqueue(1, "")
	var rung Rung
	if r := <-heard; json.Unmarshal([]byte(r.body), &rung) != nil || !rung.Rung || rung.Queue != "mail" {
		t.Errorf("got %d %s, want a ring of mail", r.status, r.body)
	}
	t.Logf("heard after %s", time.Since(began))
	w.want(200, "POST", "/v1/claims", `{"queues":["mail"],"limit":10}`, id(1))
	w.enqueue(2, `,"in_seconds":1.5`)
	w.hold(<-listen(`{"queues":["mail"],"wait_seconds":60}`), 200, "a due job", `"rung":true`)
	w.at(w.refused(422, "invalid", "POST", "/v1/listen", `{"queues":[]}`), "#/queues")
	w.at(w.refused(422, "invalid", "POST", "/v1/listen", `{"queues":["mail"],"wait_seconds":61}`), "#/wait_seconds")
	last := listen(`{"queues":["other"],"wait_seconds":60}`)
	eventually(t, "the last listens", func() bool { return w.waiters() == 1 })
	w.api.Close() // answers who still waits
	w.hold(<-last, 200, "after the end", `"rung":false`)
}
