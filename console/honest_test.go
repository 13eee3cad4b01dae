package console

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/daybookdev/daybook"
)

// A queue that somebody paused meanwhile is not paused again: the book would keep
// neither the second name nor the second reason, so the page must not say that it did.
func TestQueueDecidedTwice(t *testing.T) {
	s := newStage(t)
	s.play()
	for _, move := range []string{"pause", "resume"} {
		if status, html, _ := s.post("/queue/mail/"+move, "reason", "the first"); status != 200 ||
			!strings.Contains(html, `class="said"`) {
			t.Errorf("%s: %d %s", move, status, plainText(html))
		}
		status, html, _ := s.post("/queue/mail/"+move, "reason", "the second")
		if status != 409 || !strings.Contains(html, "the reason is not recorded") ||
			strings.Contains(html, `<button class="main"`) {
			t.Errorf("%s again: %d %s", move, status, plainText(html))
		}
	}
	s.want(200, "/queue/mail/resume", "It isn’t paused.")
	s.want(200, "/queue/unheard/pause", "The book knows no queue of this name")
}

// What was just done is not said by an address of which it doesn't hold any more.
func TestSaidHolds(t *testing.T) {
	s := newStage(t)
	c := s.play()
	job := "/job/" + c.waiting.String()
	for _, path := range []string{job + "?done=cancel", job + "?done=asked", job + "?done=settle", job + "?done=pause",
		"/job/" + c.cancelled.String() + "?done=revive", "/job/" + c.held.String() + "?done=unhold",
		"/queues?done=pause&queue=mail", "/queues?done=pause", "/queues?done=resume&queue=exports", "/check?done=check",
		"/aside?done=cancel", "/effects?done=settle", "/workers?done=pause"} {
		if html := s.want(200, path); strings.Contains(html, `class="said"`) {
			t.Errorf("%s says what isn't so", path)
		}
	}
	s.want(200, "/job/"+c.cancelled.String()+"?done=cancel", `class="said"`)
	s.want(200, "/queues?done=pause&queue=exports", "Paused queue exports")
}

// An empty list of a filter says nothing of the book.
func TestAsideFilterWithoutJobs(t *testing.T) {
	s := newStage(t)
	s.play()
	html := s.want(200, "/aside?queue=nowhere", "No job that is set aside matches", "19 jobs set aside")
	if strings.Contains(html, "Nothing is set aside") {
		t.Error("a filter that nothing matches reads as if nothing were set aside")
	}
}

// A worker that doesn't say what it takes is not one that takes a queue.
func TestNobodySaysThatTheyTakeIt(t *testing.T) {
	s := newStage(t)
	s.enqueue(daybook.Request{Queue: "mail", Kind: "k"})
	s.want(200, "/", "No worker takes queue mail")
	id := s.enqueue(daybook.Request{Queue: "other", Kind: "k"})
	_, err := s.book.Claim(t.Context(), daybook.ClaimRequest{Job: id,
		SessionRequest: daybook.SessionRequest{Worker: "by hand"}})
	s.ok(err)
	s.console.forget()
	s.want(200, "/", "No worker says that it takes queue mail")
}

// A queue whose workers take other kinds is not served.
func TestNobodyTakesTheKind(t *testing.T) {
	s := newStage(t)
	id := s.enqueue(daybook.Request{Queue: "mail", Kind: "letter"})
	s.enqueue(daybook.Request{Queue: "mail", Kind: "welcome"})
	session, err := s.book.StartSession(t.Context(), daybook.SessionRequest{Worker: "w", Queues: []string{"mail"},
		Kinds: []string{"welcome"}})
	s.ok(err)
	s.want(200, "/", "No worker takes kind letter of queue mail", "1 job ready")
	s.want(200, "/queues", "nobody takes kind letter")
	s.want(200, "/job/"+id.String(), "no live worker takes kind letter from queue mail")
	_, err = s.book.StartSession(t.Context(), daybook.SessionRequest{Worker: "mute", Kinds: []string{"letter"}})
	s.ok(err)
	s.console.forget()
	s.want(200, "/", "No worker says that it takes kind letter of queue mail")
	s.want(200, "/queues", "nobody says to take kind letter")
	s.want(200, "/job/"+id.String(), "no live worker says that it takes kind letter from queue mail")
	_, err = s.book.StartSession(t.Context(), daybook.SessionRequest{Worker: "all", Queues: []string{"mail"}})
	s.ok(err)
	s.console.forget()
	for _, path := range []string{"/", "/queues"} {
		if html := s.want(200, path); strings.Contains(html, "says to take") || strings.Contains(html, "No worker") {
			t.Errorf("%s says that nobody takes what somebody takes", path)
		}
	}
	s.want(200, "/job/"+id.String(), "a worker will claim it")
	s.ok(s.book.EndSession(t.Context(), session.ID))
}

// Every page names its book, to those who are let in.
func TestPagesNameTheirBook(t *testing.T) {
	const name = "/srv/a-long-way-down/to/the/books/of/mail.db"
	s := newStage(t, func(o *Options) { o.Book = name })
	for _, path := range []string{"/", "/jobs", "/keys", "/no-such-page"} {
		_, html, _ := s.get(path)
		for _, want := range []string{" · …-way-down/to/the/books/of/mail.db · Daybook</title>", `title="` + name + `"`} {
			if !strings.Contains(html, want) {
				t.Errorf("%s doesn't say %q:\n%s", path, want, html[:min(len(html), 1500)])
			}
		}
	}
	s.token("ada", daybook.ScopeRead)
	if _, html, _ := s.get("/login"); strings.Contains(html, "mail.db") {
		t.Error("the login tells strangers which book it is")
	}
}

// A page of a job that is gone doesn't say that the book can't be read.
func TestLiveOfWhatIsGone(t *testing.T) {
	s := newStage(t)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	s.stream(ctx, "/job/01a22d6c-a192-7764-b82d-1f1f61eca3d6", func(name, data string) bool {
		if name == statePart && strings.TrimSpace(data) != "not live: the book has this no more" {
			t.Errorf("it said %q", data)
		}
		return name == statePart
	})
}

// Selected text stays as it is while the book goes on, the page says that it waits,
// and what came meanwhile is there as soon as nothing is selected.
func TestBrowserSelection(t *testing.T) {
	if !browserWanted(t) {
		return
	}
	s := newStage(t)
	c := s.play()
	b := s.tab(1280, 800)
	b.open("/job/" + c.waiting.String() + "?done=unhold")
	b.sees(".live", "live")
	if at := js[string](b, "location.search"); at != "" {
		t.Errorf("the address keeps %q", at)
	}
	b.click("[data-copy]", c.waiting.String())
	_, err := s.book.Cancel(t.Context(), c.waiting, ada, false)
	s.ok(err)
	s.console.forget()
	b.sees(".live.off", "not live while text is selected")
	if at := js[float64](b, `document.querySelector(".live").getBoundingClientRect().bottom`); at > 800 {
		t.Errorf("that the page is not live stands %v pixels down, out of sight", at)
	}
	if !b.has("h1", "waiting") {
		t.Error("what is selected changed")
	}
	js[string](b, `(getSelection().removeAllRanges(), "")`)
	b.sees("h1", "cancelled")
	b.sees(".live.on", "live")
}
