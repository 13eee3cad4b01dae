package console

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/daybookdev/daybook"
)

// Decisions ask for a reason, are carried out, and stand in the timeline with
// whoever made them.
func TestDecide(t *testing.T) {
	s := newStage(t)
	c := s.play()
	job := "/job/" + c.open.String()
	if status, html, _ := s.post(job + "/settle/bank"); status != 422 || !strings.Contains(html, "reason: is missing") {
		t.Errorf("settled without a reason: %d", status)
	}
	status, html, _ := s.post(job+"/revive", "reason", "x")
	if status != 409 || !strings.Contains(html, "settle it first") {
		t.Errorf("revived over an open effect: %d", status)
	}
	status, html, at := s.post(job+"/settle/bank", "reason", "seen <b>in</b> the account", "outcome", "happened",
		"result", `{"paid":1.50}`, "generation", "1")
	if status != 200 || at != s.base+job || !strings.Contains(html, "Settled.") {
		t.Fatalf("settle: %d at %s: %s", status, at, plainText(html))
	}
	s.want(200, job, "seen &lt;b&gt;in&lt;/b&gt; the account", "by <bdi>local</bdi>", "bank happened", "1.50")
	s.decideJob(c.failed, "revive", daybook.Waiting)
	s.decideJob(c.cancelled, "revive", daybook.Waiting)
	s.decideJob(c.waiting, "cancel", daybook.Cancelled)
	s.decideJob(c.held, "unhold", daybook.Waiting)
	s.decideJob(c.running, "cancel", daybook.Running)
	status, html, _ = s.post("/job/"+c.done.String()+"/cancel", "reason", "x")
	if status != 409 || !strings.Contains(html, "succeeded") {
		t.Errorf("cancelled what succeeded: %d", status)
	}
	if _, html, at := s.post("/queue/mail/pause", "reason", "the relay is down"); at != s.base+"/queues" {
		t.Errorf("pause led to %s: %s", at, plainText(html))
	}
	s.want(200, "/queues", "the relay is down")
	s.post("/queue/mail/resume", "reason", "it is back")
	if html := s.want(200, "/queues"); strings.Contains(html, "the relay is down") {
		t.Error("the queue stays paused")
	}
	s.post("/quiet", "worker", "mailer-2", "reason", "its host is moved")
	s.want(200, "/workers", `w-quiet`)
	if status, _, _ := s.post("/quiet", "worker", "", "reason", "all"); status != 422 {
		t.Errorf("quieted nobody by name: %d", status)
	}
}

func (s *stage) decideJob(id daybook.ID, move string, want daybook.State) {
	s.Helper()
	status, html, _ := s.post("/job/"+id.String()+"/"+move, "reason", "because of "+move)
	j, err := s.book.Job(s.Context(), id)
	s.ok(err)
	if status != 200 || j.State != want {
		s.Errorf("%s: %d, job is %s, want %s: %s", move, status, j.State, want, plainText(html))
	}
	s.want(200, "/job/"+id.String(), "because of "+move)
}

// Batches: a whole filter, and those of one error.
func TestBatch(t *testing.T) {
	s := newStage(t)
	s.play()
	page := s.want(200, "/aside")
	mark := regexp.MustCompile(`alike=([0-9a-f]+)`).FindStringSubmatch(page)[1]
	s.want(200, "/batch?move=revive&state=set_aside&reason=failures&alike="+mark, "14 jobs with this error now")
	status, html, _ := s.post("/batch", "move", "revive", "state", "set_aside", "aside_reason", "failures", "alike", mark)
	if status != 422 || !strings.Contains(html, "reason: is missing") ||
		!strings.Contains(html, `name="alike" value="`+mark) {
		t.Errorf("a batch without a reason: %d %s", status, plainText(html))
	}
	_, html, at := s.post("/batch", "move", "revive", "state", "set_aside", "aside_reason", "failures", "alike", mark,
		"reason", "the shop is back")
	if at != s.base+"/batch/1" || !strings.Contains(html, "14 jobs done") {
		t.Fatalf("%s: %s", at, plainText(html))
	}
	_, html, _ = s.post("/batch", "move", "revive", "state", "set_aside", "reason", "templates are there")
	if !strings.Contains(html, "4 jobs done") || !strings.Contains(html, "effect open") {
		t.Errorf("got %s", plainText(html))
	}
	_, html, _ = s.post("/batch", "move", "cancel", "state", "waiting", "queue", "exports", "reason", "not wanted")
	if !strings.Contains(html, "7 jobs done") {
		t.Errorf("got %s", plainText(html))
	}
	for _, bad := range []string{"move=eat&state=waiting", "move=cancel", "move=revive&state=waiting",
		"move=cancel&state=no"} {
		s.want(422, "/batch?"+bad)
	}
	s.want(404, "/batch/99")
}

// A check is run by who may decide, one at a time, and says what it found.
func TestCheckPage(t *testing.T) {
	s := newStage(t)
	s.play()
	s.want(200, "/check", "No clean check is on record", "not asked here")
	if status, _, _ := s.post("/check/run"); status != 422 {
		t.Errorf("a check without a reason: %d", status)
	}
	if _, _, at := s.post("/check/run", "reason", "the disk was full"); at != s.base+"/check" {
		t.Errorf("led to %s", at)
	}
	s.until(func() bool { return !s.console.check.last().Going })
	s.want(200, "/check", "All held", "the disk was full", "The last clean check", fmt.Sprint(len(daybook.Invariants)))
	s.console.check.change(func(run *checkRun) { run.Going = true })
	if _, html, _ := s.post("/check/run", "reason", "again"); !strings.Contains(html, "A check runs already") {
		t.Errorf("a second check: %s", plainText(html))
	}
}

// until polls a condition with a deadline.
func (s *stage) until(holds func() bool) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), 30*time.Second)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-ctx.Done():
			s.Fatal("it never came to that")
		case <-tick.C:
		}
	}
}
