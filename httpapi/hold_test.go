package httpapi

import (
	"strings"
	"testing"

	"github.com/daybookdev/daybook"
)

// held sets a hold on job n as a cutover does.
func (w *world) held(n int) {
	w.Helper()
	job, err := daybook.ParseID(id(n))
	if err != nil {
		w.Fatal(err)
	}
	err = w.book.Store().Write(w.Context(), "holding", func(tx daybook.Tx) error {
		jobs, err := tx.Lock(w.Context(), []daybook.ID{job})
		if err != nil {
			return err
		}
		held := jobs[0]
		held.HeldBy = "cutover"
		return tx.Save(w.Context(), []daybook.Change{{Move: daybook.MoveUnhold, Was: jobs[0], Now: held}})
	})
	if err != nil {
		w.Fatal(err)
	}
}

// Holds are let go one by one and by filter, which finds held jobs alone; the
// record says who did it and why.
func TestUnhold(t *testing.T) {
	w := newWorld(t)
	for n := 1; n <= 4; n++ {
		w.enqueue(n, "")
	}
	for n := 1; n <= 3; n++ {
		w.held(n)
	}
	one := "/v1/jobs/" + id(1)
	r := w.want(200, "POST", one+"/unhold", `{"dry_run":true}`, `"state":"waiting"`)
	if strings.Contains(r.body, "held_by") {
		t.Errorf("a preview: got %s, want the job as it would be", r.body)
	}
	w.want(200, "GET", one, "", `"held_by":"cutover"`)
	w.at(w.refused(422, "invalid", "POST", one+"/unhold", `{}`), "#/reason")
	w.want(200, "POST", one+"/unhold", `{"reason":"restore checked"}`)
	w.want(200, "GET", one+"/timeline", "", `"what":"unheld"`, `"actor":"local"`, `"reason":"restore checked"`)
	w.refused(409, "refused", "POST", one+"/unhold", `{"reason":"again"}`)
	w.refused(409, "refused", "POST", one+"/unhold", `{"dry_run":true}`)
	w.refused(404, "not_found", "POST", "/v1/jobs/"+id(9)+"/unhold", `{"reason":"r"}`)
	w.want(200, "POST", "/v1/jobs/unhold", `{"filter":{"queue":"mail"},"dry_run":true}`,
		`"states":["waiting"]`, `"matched":2`, `"done":0`, `"dry_run":true`)
	w.want(200, "POST", "/v1/jobs/unhold", `{"filter":{"queue":"mail"},"reason":"all checked"}`, `"matched":2`, `"done":2`)
	w.want(200, "GET", "/v1/jobs?held=true", "", `"jobs":[]`)
	w.at(w.refused(422, "invalid", "POST", "/v1/jobs/unhold", `{"reason":"r"}`), "#/filter")
}

// A preview of a decision about one job writes nothing.
func TestDecisionPreview(t *testing.T) {
	w := newWorld(t)
	w.enqueue(1, "")
	one := "/v1/jobs/" + id(1)
	w.want(200, "POST", one+"/cancel", `{"dry_run":true}`, `"state":"cancelled"`)
	w.want(200, "GET", one, "", `"state":"waiting"`)
	w.refused(409, "refused", "POST", one+"/revive", `{"dry_run":true}`)
	w.want(200, "POST", one+"/cancel", `{"reason":"r"}`)
	w.want(200, "POST", one+"/revive", `{"dry_run":true}`, `"state":"waiting"`)
	w.want(200, "GET", one, "", `"state":"cancelled"`)
}

// A filter for jobs that can't be revived is answered job by job, as ever.
func TestReviveOfFinishedIsRefusedEach(t *testing.T) {
	w := newWorld(t)
	w.enqueue(1, "")
	w.want(200, "POST", "/v1/jobs/"+id(1)+"/complete", w.claimed(1)+`}`)
	w.want(200, "POST", "/v1/jobs/revive", `{"filter":{"queue":"mail","state":"succeeded"},"reason":"r"}`,
		`"matched":1`, `"done":0`, `"refused":{"refused":1}`)
	w.want(200, "POST", "/v1/jobs/revive", `{"filter":{"queue":"mail","state":"succeeded"},"dry_run":true}`,
		`"matched":1`, `"done":0`)
}

// A worker is asked to claim no more, whatever its name; who asked and why is
// answered and logged.
func TestQuietWorker(t *testing.T) {
	w := newWorld(t)
	w.enqueue(1, "")
	const name = "host 1/a%"
	w.want(200, "POST", "/v1/claims", `{"queues":["none"],"worker":"`+name+`"}`)
	path := "/v1/workers/host%201%2Fa%25/quiet"
	w.at(w.refused(422, "invalid", "POST", path, `{}`), "#/reason")
	ops := w.token("ops", daybook.ScopeOperate)
	w.hold(w.call("POST", path, `{"reason":"host is moved"}`, ops), 200, "quiet",
		`"worker":"`+name+`"`, `"sessions":1`, `"actor":"ops"`, `"reason":"host is moved"`)
	w.refused(404, "not_found", "POST", "/v1/workers/nobody/quiet", `{"reason":"r"}`, ops)
	read := w.token("see", daybook.ScopeRead)
	w.hold(w.call("GET", "/v1/sessions", "", read), 200, "sessions", `"quiet":true`, `"at":"`)
}
