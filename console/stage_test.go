package console

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/daybookdev/daybook"
	inside "github.com/daybookdev/daybook/bell/local"
	"github.com/daybookdev/daybook/check"
	"github.com/daybookdev/daybook/cutover"
	"github.com/daybookdev/daybook/store/sqlite"
)

// stage is a console on a book of its own, whose clock the test moves on, and a
// browser without scripts.
type stage struct {
	*testing.T
	book    *daybook.Book
	console *Console
	url     string
	http    *http.Client
	log     *bytes.Buffer
	base    string

	mu    sync.Mutex
	ahead time.Duration // of the book's clock
	begun time.Time
}

func (s *stage) now() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.begun.Add(s.ahead + time.Since(s.begun))
}

func (s *stage) advance(d time.Duration) {
	s.mu.Lock()
	s.ahead += d
	s.mu.Unlock()
}

// newStage serves a book in memory to everybody on this machine.
func newStage(t *testing.T, change ...func(*Options)) *stage {
	t.Helper()
	s := &stage{T: t, log: &bytes.Buffer{}, begun: time.Now(), ahead: -6 * time.Hour}
	bell := inside.New()
	book, err := sqlite.Open(t.Context(), sqlite.Memory, sqlite.Options{Now: s.now,
		Book: daybook.Options{Bell: bell, Log: slog.New(slog.DiscardHandler)}})
	if err != nil {
		t.Fatal(err)
	}
	s.book = book
	s.serve(change...)
	t.Cleanup(func() {
		bell.Close()
		book.Close()
	})
	return s
}

// serve serves the stage's book, until the test ends.
func (s *stage) serve(change ...func(*Options)) {
	s.Helper()
	o := Options{Loopback: true, Version: "1.0", Book: "shop.daybook at db.example",
		Log: slog.New(slog.NewTextHandler(s.log, nil)),
		Check: func(ctx context.Context, full bool, seen func(int64)) (CheckReport, error) {
			report, err := check.Run(ctx, s.book, check.Options{Full: full})
			out := CheckReport{Violations: report.Violations, Full: report.Full}
			for _, r := range report.Invariants {
				seen(r.Walked)
				out.Invariants = append(out.Invariants, CheckResult{r.Name, r.Sentence, r.Rows, r.Walked, r.Found})
			}
			return out, err
		},
		Repairs: func() Repairs { return Repairs{Since: s.begun, Passes: 4321, Lost: 3, Ended: 2, Rung: 17} }}
	for _, c := range change {
		c(&o)
	}
	s.console = New(s.book, o)
	s.base = s.console.base
	server := httptest.NewServer(s.console)
	s.url = server.URL + s.base
	jar, _ := cookiejar.New(nil)
	s.http = &http.Client{Jar: jar, Transport: &http.Transport{}}
	s.Cleanup(func() {
		s.console.Close()
		s.http.CloseIdleConnections()
		server.Close()
	})
}

func (s *stage) ok(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// get loads a page.
func (s *stage) get(path string) (status int, html string, h http.Header) {
	s.Helper()
	answer, err := s.http.Get(s.url + path)
	s.ok(err)
	defer answer.Body.Close()
	all, err := io.ReadAll(answer.Body)
	s.ok(err)
	return answer.StatusCode, string(all), answer.Header
}

// want loads a page and wants texts in it.
func (s *stage) want(status int, path string, texts ...string) string {
	s.Helper()
	got, html, _ := s.get(path)
	if got != status {
		s.Errorf("%s: status %d, want %d", path, got, status)
	}
	for _, text := range texts {
		if !strings.Contains(html, text) {
			s.Errorf("%s doesn't say %q:\n%s", path, text, plainText(html))
		}
	}
	return html
}

var formKeyIn = regexp.MustCompile(`name="form" value="([^"]+)"`)

// formKey is the key of the session's forms, as a page has it.
func (s *stage) formKey() string {
	s.Helper()
	_, html, _ := s.get("/keys")
	m := formKeyIn.FindStringSubmatch(html)
	if m == nil {
		s.Fatalf("no form on the page:\n%s", plainText(html))
	}
	return m[1]
}

// post sends a form as its page would, and follows the answer.
func (s *stage) post(path string, pairs ...string) (status int, html, at string) {
	s.Helper()
	form := url.Values{"form": {s.formKey()}}
	for i := 0; i < len(pairs); i += 2 {
		form.Set(pairs[i], pairs[i+1])
	}
	answer, err := s.http.PostForm(s.url+path, form)
	s.ok(err)
	defer answer.Body.Close()
	all, err := io.ReadAll(answer.Body)
	s.ok(err)
	return answer.StatusCode, string(all), answer.Request.URL.Path
}

var tags, blanks = regexp.MustCompile(`<[^>]*>`), regexp.MustCompile(`\s+`)

// plainText is what a page says.
func plainText(html string) string {
	return blanks.ReplaceAllString(tags.ReplaceAllString(html, " "), " ")
}

func (s *stage) enqueue(r daybook.Request) daybook.ID {
	s.Helper()
	receipt, err := s.book.Enqueue(s.Context(), r)
	s.ok(err)
	return receipt.ID
}

// claim claims jobs of a queue for a worker of its own session.
func (s *stage) claim(worker, queue string, n int) daybook.Claimed {
	s.Helper()
	claimed, err := s.book.Claim(s.Context(), daybook.ClaimRequest{Queues: []string{queue}, Limit: n,
		SessionRequest: daybook.SessionRequest{Worker: worker, Queues: []string{queue}, Lease: time.Minute}})
	s.ok(err)
	return claimed
}

func owner(j daybook.Job) daybook.Owner {
	return daybook.Owner{Session: j.Session, Generation: j.Generation}
}

func (s *stage) fail(j daybook.Job, f daybook.Failure) {
	s.Helper()
	wait := 30 * time.Second
	_, err := s.book.Fail(s.Context(), j.ID, owner(j), f, &wait)
	s.ok(err)
}

func (s *stage) complete(j daybook.Job, result string) {
	s.Helper()
	_, err := s.book.Complete(s.Context(), j.ID, owner(j), json.RawMessage(result))
	s.ok(err)
}

// lapse lets every session lapse and has its claims taken back.
func (s *stage) lapse() {
	s.Helper()
	s.advance(2 * time.Minute)
	_, _, err := s.book.EndExpiredSessions(s.Context(), daybook.AtOnce)
	s.ok(err)
	_, err = s.book.RevokeLost(s.Context())
	s.ok(err)
}

var ada = daybook.By{Actor: "ada", Reason: "the address was corrected"}

// cast is a book with a job in every state, and the ids of those that tests ask
// for.
type cast struct {
	open, failed, held, running, done, cancelled, expired, waiting, fenced daybook.ID
}

// play fills the book with something of everything that may want a person.
func (s *stage) play() (c cast) {
	s.Helper()
	c.fenced = s.playFenced()
	c.open = s.playOpen()
	c.failed = s.playFailed()
	c.held = s.playHeld()
	c.expired = s.enqueue(daybook.Request{Queue: "reports", Kind: "daily", ExpiresAt: s.now().Add(time.Minute)})
	s.advance(2 * time.Minute)
	_, err := s.book.ExpireWaiting(s.Context())
	s.ok(err)
	c.cancelled = s.enqueue(daybook.Request{Queue: "reports", Kind: "yearly"})
	_, err = s.book.Cancel(s.Context(), c.cancelled, ada, false)
	s.ok(err)
	for i := range 7 {
		s.enqueue(daybook.Request{Queue: "exports", Kind: "csv", Args: json.RawMessage(fmt.Sprintf(`{"part":%d}`, i))})
	}
	s.ok(s.book.Pause(s.Context(), "exports", daybook.By{Actor: "grace", Reason: "the disk of the archive is full"}))
	s.advance(18 * time.Minute)
	c.waiting = s.enqueue(daybook.Request{Queue: "reports", Kind: "weekly", Args: json.RawMessage(`{"week":48}`)})
	for i := range 5 {
		s.enqueue(daybook.Request{Queue: "reports", Kind: "weekly", In: time.Duration(i+1) * time.Hour})
	}
	c.done = s.enqueue(daybook.Request{Queue: "mail", Kind: "welcome", Key: "welcome:ada@example.org",
		Args: json.RawMessage(`{"to":"ada@example.org","n":9007199254740993,"rate":1.10}`)})
	for _, j := range s.claim("mailer-1", "mail", 50).Jobs {
		s.advance(40 * time.Millisecond)
		s.complete(j, `{"message":"20261130.4711"}`)
	}
	for i := range 9 {
		s.enqueue(daybook.Request{Queue: "mail", Kind: "newsletter", Args: json.RawMessage(fmt.Sprintf(`{"list":%d}`, i))})
	}
	running := s.claim("mailer-2", "mail", 3).Jobs
	c.running = running[0].ID
	return c
}

// evening is flow for the charts, in virtual time: 330 steps are almost two hours.
func (s *stage) evening(steps int) {
	s.Helper()
	random := rand.New(rand.NewPCG(7, 7))
	mailer := s.session("mailer-1", "mail")
	hooks := s.session("hooks-1", "webhooks")
	for step := range steps {
		s.advance(sampleEvery)
		wave := 6 + 5*float64(step%110)/110 + random.Float64()*4
		var requests []daybook.Request
		for range int(wave) {
			requests = append(requests, daybook.Request{Queue: "mail", Kind: "welcome"})
		}
		for range int(wave/2 + random.Float64()*2) {
			requests = append(requests, daybook.Request{Queue: "webhooks", Kind: "deliver"})
		}
		_, err := s.book.EnqueueMany(s.Context(), requests)
		s.ok(err)
		s.work(mailer, "mail", int(wave)+random.IntN(5)-1)
		if step < 250 || step > 290 { // a while without hooks
			s.work(hooks, "webhooks", 14)
		}
		at, queues, err := s.book.Backlog(s.Context())
		s.ok(err)
		s.console.flows.note(backlog{At: at, Queues: queues, Total: totalOf(queues)})
	}
}

func (s *stage) session(worker, queue string) daybook.Session {
	s.Helper()
	session, err := s.book.StartSession(s.Context(), daybook.SessionRequest{Worker: worker, Queues: []string{queue},
		Lease: 30 * time.Minute})
	s.ok(err)
	return session
}

func (s *stage) work(session daybook.Session, queue string, n int) {
	s.Helper()
	if n <= 0 {
		return
	}
	claimed, err := s.book.Claim(s.Context(), daybook.ClaimRequest{Session: session.ID, Queues: []string{queue}, Limit: n})
	s.ok(err)
	var outcomes []daybook.Outcome
	for _, j := range claimed.Jobs {
		outcomes = append(outcomes, daybook.Outcome{Job: j.ID, Owner: owner(j), Kind: daybook.OutcomeSucceeded})
	}
	if len(outcomes) > 0 {
		_, err = s.book.Finish(s.Context(), outcomes)
		s.ok(err)
	}
	_, err = s.book.Renew(s.Context(), session.ID, nil)
	s.ok(err)
}

// playFenced is a job that an owner came back for too late.
func (s *stage) playFenced() daybook.ID {
	s.Helper()
	id := s.enqueue(daybook.Request{Queue: "imports", Kind: "catalogue", Args: json.RawMessage(`{"file":"autumn.csv"}`)})
	first := s.claim("importer-1", "imports", 1).Jobs[0]
	s.lapse()
	second := s.claim("importer-2", "imports", 1).Jobs[0]
	s.advance(3 * time.Second)
	s.fail(second, daybook.Failure{Problem: daybook.NewProblem("connection reset by peer", "timeout", "")})
	s.advance(31 * time.Second)
	third := s.claim("importer-2", "imports", 1).Jobs[0]
	s.advance(4 * time.Second)
	s.complete(third, `{"rows":1812}`)
	s.advance(time.Second)
	if _, err := s.book.Complete(s.Context(), id, owner(first), json.RawMessage(`{"rows":1790}`)); err == nil {
		s.Fatal("a replaced owner wasn't fenced")
	}
	return id
}

// playOpen is a charge that nobody knows the end of.
func (s *stage) playOpen() daybook.ID {
	s.Helper()
	id := s.enqueue(daybook.Request{Queue: "pay", Kind: "charge", Key: "order-4711",
		Args: json.RawMessage(`{"order":4711,"cents":129900,"currency":"EUR"}`)})
	for range 2 {
		j := s.claim("payer-1", "pay", 1).Jobs[0]
		_, err := s.book.BeginEffect(s.Context(), id, owner(j), daybook.Begin{Name: "bank", Policy: daybook.PolicyAsk})
		if daybook.CodeOf(err) == daybook.CodeInternal {
			s.Fatal(err)
		}
		s.lapse()
	}
	return id
}

// playFailed are jobs that failed for good, of two sorts.
func (s *stage) playFailed() (id daybook.ID) {
	s.Helper()
	for n := range 14 {
		id = s.enqueue(daybook.Request{Queue: "webhooks", Kind: "deliver", MaxFailures: 3,
			Args: json.RawMessage(fmt.Sprintf(`{"to":"https://shop-%d.example/hook","event":"order.paid"}`, n))})
	}
	for range 3 {
		s.advance(31 * time.Second)
		for _, j := range s.claim("hooks-1", "webhooks", 400).Jobs {
			if j.MaxFailures != 3 {
				s.complete(j, "null")
				continue
			}
			s.advance(90 * time.Millisecond)
			s.fail(j, daybook.Failure{Problem: daybook.NewProblem(fmt.Sprintf(
				"POST https://shop-%d.example/hook: 503 Service Unavailable after 10.%d s", j.Ref%14, j.Ref%9), "HTTP",
				"deliver.go:88\nworker.go:213")})
		}
	}
	for n := range 4 {
		s.enqueue(daybook.Request{Queue: "reports", Kind: "daily", Args: json.RawMessage(fmt.Sprintf(`{"day":%d}`, n))})
	}
	for _, j := range s.claim("reporter-1", "reports", 4).Jobs {
		s.fail(j, daybook.Failure{Permanent: true, Problem: daybook.NewProblem("no such template: \"daily-v2\"", "", "")})
	}
	return id
}

// playHeld is a job that was held by a cutover.
func (s *stage) playHeld() daybook.ID {
	s.Helper()
	prepared, err := daybook.Request{Queue: "imports", Kind: "legacy", Args: json.RawMessage(`{"id":17}`)}.Prepare()
	s.ok(err)
	err = s.book.Store().Write(s.Context(), "importing", func(tx daybook.Tx) error {
		return tx.Save(s.Context(), []daybook.Change{prepared.Import(daybook.Arrival{HeldBy: "cutover sidekiq",
			Origin: daybook.Origin{System: "sidekiq", Store: "redis", Queue: "default", ID: "a1"}}, tx.Now())})
	})
	s.ok(err)
	return prepared.Job.ID
}

// playCutover moves a queue of another system in, as far as settling: jobs of which
// nobody knows, one dead, some left there, one that came late, a condition that is
// met.
func (s *stage) playCutover(name string) {
	s.Helper()
	grace := func(reason string) daybook.By { return daybook.By{Actor: "grace", Reason: reason} }
	plan := cutover.Plan{Intake: cutover.IntakeDeploy, Owners: cutover.OwnersAsk, Wait: cutover.Seconds(10 * time.Minute),
		Rollback: []cutover.Condition{{Measure: "open", Above: 1}, {Measure: "set_aside", Above: 20, Fires: true},
			{Measure: "held_in_old", Above: 0}}}
	record, err := s.book.PlanCutover(s.Context(), daybook.Cutover{Name: name, System: "sidekiq", Version: "8",
		Store: "redis://redis.internal:6379/0", OldQueue: "default", Queue: name,
		Plan: must(json.Marshal(plan))}, grace("Redis goes away"))
	s.ok(err)
	var jobs []daybook.OldJob
	for n := range 70 {
		o := daybook.OldJob{ID: fmt.Sprintf("jid-%d", n), Class: "HardWorker", Body: []byte{byte(n)},
			State: daybook.OldWaiting, Args: json.RawMessage(fmt.Sprintf("[%d]", n))}
		switch {
		case n < 3:
			o.State, o.Owner, o.Error = daybook.OldOwnerLost, "host-1:4711", "it was killed"
		case n < 5:
			o.State, o.Error = daybook.OldDead, "no such shop"
		case n < 8:
			o.State, o.Owner = daybook.OldOwned, "host-2:99"
		}
		jobs = append(jobs, o)
	}
	_, err = s.book.SeeOld(s.Context(), name, jobs, 0, false)
	s.ok(err)
	s.advance(time.Hour)
	for _, phase := range []daybook.Phase{daybook.PhaseShadow, daybook.PhaseGate, daybook.PhaseMove, daybook.PhaseSettle} {
		record, err = s.book.AdvanceCutover(s.Context(), name, phase, grace("it looks good"))
		s.ok(err)
		s.advance(7 * time.Minute)
	}
	var arriving []daybook.Arriving
	for _, o := range append(jobs[:5:5], jobs[10:]...) {
		a := cutover.Mapping{}.Arrive(record, o)
		arriving = append(arriving, a)
	}
	items, err := s.book.ItemsOf(s.Context(), name, []string{"jid-0", "jid-1", "jid-2"})
	s.ok(err)
	for k := range items {
		items[k].Died = []string{"host-1:4711", "host-1:4711", "host-3:8"}[k]
	}
	s.ok(s.book.JudgeOld(s.Context(), name, items, slices.Repeat([]daybook.Fate{daybook.FateLost}, 3), ""))
	_, err = s.book.ImportOld(s.Context(), name, arriving)
	s.ok(err)
	again := jobs[20]
	again.Body, again.ID = []byte("another"), "jid-20"
	late := daybook.OldJob{ID: "jid-late", Class: "HardWorker", Body: []byte("late"), State: daybook.OldWaiting,
		Args: json.RawMessage("[71]")}
	_, err = s.book.ImportOld(s.Context(), name, []daybook.Arriving{cutover.Mapping{}.Arrive(record, again),
		cutover.Mapping{}.Arrive(record, late),
		cutover.Mapping{}.Arrive(record, jobs[30])})
	s.ok(err)
	inventory := func(waiting int64) *cutover.OldInventory {
		return &cutover.OldInventory{At: daybook.At(s.now()), Jobs: waiting + 8, States: map[daybook.OldState]int64{
			daybook.OldWaiting: waiting, daybook.OldOwnerLost: 3, daybook.OldDead: 2, daybook.OldOwned: 3}}
	}
	_, err = s.book.NoteCutover(s.Context(), name, func(c *daybook.Cutover) error {
		c.Notes = must(json.Marshal(cutover.Notes{Before: inventory(62), Inventory: inventory(2), Late: 0,
			Deaths: []daybook.Death{{Worker: "host-3:8", Found: daybook.At(s.now())},
				{Worker: "host-1:4711", Seen: daybook.At(s.now().Add(-time.Minute)), Found: daybook.At(s.now())}},
			Gate: &cutover.GateProof{Closed: daybook.At(s.now()), Proved: daybook.At(s.now()), Leaks: 1,
				Took: []string{"jid-7"}, Opened: 2, OpenedAt: daybook.At(s.now()),
				How: "the queue's name was taken out of the set of queues", Ways: []string{"a worker started by hand"}}}))
		return nil
	})
	s.ok(err)
}

// linesOf reads a stream line by line.
func linesOf(r io.Reader) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		lines := bufio.NewScanner(r)
		lines.Buffer(nil, 4<<20)
		for lines.Scan() && yield(lines.Text()) {
		}
	}
}
