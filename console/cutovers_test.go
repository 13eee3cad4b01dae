package console

import (
	"strings"
	"testing"

	"github.com/daybookdev/daybook"
)

// The board of a cutover says who may claim, what wants a person and what comes
// next, and claims nothing of the old store, which it doesn't ask.
func TestCutovers(t *testing.T) {
	s := newStage(t)
	s.want(200, "/cutovers", "No queue is on its way", "daybook cutover inventory")
	s.want(404, "/cutover/none")
	s.playCutover("legacy")
	s.console.forget()
	s.want(200, "/cutovers", "legacy", "sidekiq default", "settle", "nobody")
	html := s.want(200, "/cutover/legacy", "<strong>Nobody may claim</strong>", "daybook cutover run legacy",
		"daybook cutover rollback legacy --reason", "A rollback condition is met: open is 4, above 1",
		"0, 21 from firing at 21", "only the old store knows", "<strong>70</strong> seen before the gate",
		"<strong>2</strong> arrived after it", "a known id with another body", "owner lost with <bdi>host-1:4711</bdi>",
		"it looks good", "by <bdi>grace</bdi>", "Still open: <bdi>a worker started by hand", "1 copy of a job",
		"Who owns the jobs that are in progress at the gate?", "redis.internal",
		"<bdi>host-3:8</bdi> died, and may have had it", "Old workers that died", "host-1:4711</bdi></th>",
		`Open because of it">2</td>`, `Open because of it">1</td>`, "Found open 2 times", "jid-7</bdi></li>")
	job := between(t, html, `<ul class="opens"><li><a href="`, `"`)
	s.want(200, job, "HardWorker", "set aside")
	id, err := daybook.ParseID(strings.TrimPrefix(job, "/job/"))
	s.ok(err)
	_, err = s.book.Settle(t.Context(), id, "handler", daybook.Verdict{Happened: true}, ada)
	s.ok(err)
	s.console.forget()
	html = s.want(200, "/cutover/legacy", `To decide <span class="badge">3</span>`, ">Decided</h3>", "open is 4, above 1")
	if decided := between(t, html, ">Decided</h3>", "</ul>"); !strings.Contains(decided, job) ||
		!strings.Contains(decided, "<small>succeeded</small>") {
		t.Errorf("what was decided isn't there: %s", decided)
	}
	held := between(t, s.want(200, "/jobs?queue=legacy&state=waiting"), `href="/job/`, `"`)
	s.want(200, "/job/"+held, `href="/cutover/legacy">cutover legacy`)
	s.want(200, "/cutover/legacy?term=open", "jid-20", "again, 1")
	html = s.want(200, "/cutover/legacy?term=moved")
	if n := strings.Count(html, `<tr id="i-`); n != itemsShown {
		t.Errorf("%d items on a page, want %d", n, itemsShown)
	}
	next := strings.ReplaceAll(between(t, html, `data-next href="`, "#"), "&amp;", "&")
	html = s.want(200, next, "To the beginning")
	if n := strings.Count(html, `<tr id="i-`); n != 61-itemsShown {
		t.Errorf("%d items on the second page", n)
	}
	s.want(422, "/cutover/legacy?term=eaten", "wants one of")
	s.want(422, "/cutover/legacy?cursor=!")
	s.want(200, "/", "Queue legacy moves in: phase settle", "nobody may claim")
	s.want(200, "/queues", `href="/cutover/legacy"`)
	for _, phase := range []daybook.Phase{daybook.PhaseReturning, daybook.PhaseReturned} {
		_, err := s.book.AdvanceCutover(t.Context(), "legacy", phase, ada)
		s.ok(err)
	}
	s.console.forget()
	html = s.want(200, "/cutover/legacy", "<strong>The old system may claim</strong>", "It is over")
	if strings.Contains(html, "reconcile</strong>") {
		t.Error("a cutover that went back shows phases that it never came to")
	}
}

// A plan without its answers says so before it names the next phase.
func TestCutoverUnanswered(t *testing.T) {
	s := newStage(t)
	_, err := s.book.PlanCutover(t.Context(), daybook.Cutover{Name: "mail", System: hostile, Store: hostile,
		OldQueue: hostile, Queue: "mail"}, daybook.By{Actor: hostile, Reason: hostile})
	s.ok(err)
	_, err = s.book.SeeOld(t.Context(), "mail", []daybook.OldJob{{ID: hostile, Class: hostile, Owner: hostile,
		State: daybook.OldOwned}}, 0, false)
	s.ok(err)
	html := s.want(200, "/cutover/mail", "daybook cutover plan mail", "4 without an answer", "No answer.",
		"No inventory was taken", "1</td>", "&lt;img src=x onerror=alert(1)&gt;")
	if strings.Contains(html, "<img") {
		t.Error("markup of the old system came through")
	}
}
