package postgres

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/internal/pgtest"
)

// bothClaims runs a test with claimFew, and with claim_jobs alone.
func bothClaims(t *testing.T, test func(t *testing.T, o Options)) {
	t.Run("few", func(t *testing.T) { test(t, Options{}) })
	t.Run("whole", func(t *testing.T) { test(t, Options{wholeClaims: true}) })
}

// few makes one call of claimFew; no header is that it did nothing.
func (h *hot) few(s daybook.Session, limit int, kinds []string, queues ...string) (a answer) {
	h.Helper()
	h.write(func(t *tx) (err error) {
		a, err = t.claimFew(claiming{session: s.ID, call: daybook.NewID().String(), queues: queues, kinds: kinds,
			limit: limit, last: true})
		return err
	})
	return a
}

// TestClaimFew: it takes what is eligible, all of it or nothing.
func TestClaimFew(t *testing.T) {
	h := newHot(t, Options{})
	s := session(t, h.book, time.Minute)
	same(t, "of no queue", len(h.few(s, 9, nil, "q", "nobody").jobs), 0)
	h.jobsOf("due", "expired", "other", "later", "last")
	mine := []string{"due", "expired", "later", "last"}
	if a := h.few(s, 1, mine, "q"); a.head != nil {
		t.Errorf("of two jobs, one was wanted: %d came", len(a.jobs))
	}
	a := h.few(s, 2, mine, "nobody", "q")
	if a.head == nil || len(a.jobs) != 2 || a.jobs[0].Kind != "due" || a.jobs[1].Kind != "last" {
		t.Fatalf("got %+v", a.jobs)
	}
	j, err := h.book.Job(t.Context(), a.jobs[0].ID)
	ok(t, err)
	if j.Generation != 1 || j.Session != s.ID || j.State != daybook.Running || j.ClaimedAt != daybook.Time(a.head.Now) ||
		j.LeaseUntil != s.ExpiresAt || a.jobs[0].LeaseUntil != s.ExpiresAt || a.jobs[0].Worker != "w" {
		t.Errorf("%+v", j)
	}
	got, err := a.head.session(s.ID)
	ok(t, err)
	same(t, "session", fmt.Sprint(got), fmt.Sprint(s))
	h.finish(a.jobs, "")
	for _, odd := range []string{"suspect", "ledger"} {
		h.jobsOf("plain", "odd")
		h.sql("UPDATE daybook.ready SET " + odd + " = true WHERE kind = 'odd'")
		if a := h.few(s, 9, []string{"plain", "odd"}, "q"); a.head != nil {
			t.Errorf("%s: %d jobs", odd, len(a.jobs))
		}
		h.sql("UPDATE daybook.ready SET " + odd + " = false")
		same(t, "not odd any more", len(h.few(s, 9, []string{"plain", "odd"}, "q").jobs), 2)
	}
	enqueued(t, h.book, fewMost)
	if a := h.few(s, 1000, []string{"k"}, "q"); a.head != nil {
		t.Errorf("of many: %d came", len(a.jobs))
	}
}

// TestClaimFewOrder: jobs come queue by queue as they were asked for, and by
// priority.
func TestClaimFewOrder(t *testing.T) {
	h := newHot(t, Options{})
	s := session(t, h.book, time.Minute)
	for _, r := range []daybook.Request{{Queue: "a"}, {Queue: "b", Priority: -3}, {Queue: "b"}, {Queue: "b", Priority: 7},
		{Queue: "a", Priority: 1}} {
		r.Kind = "k"
		_, err := h.book.Enqueue(t.Context(), r)
		ok(t, err)
	}
	var got string
	for _, j := range h.few(s, 5, nil, "b", "a").jobs {
		got += fmt.Sprint(j.Queue, j.Priority, " ")
	}
	same(t, "order", got, "b7 b0 b-3 a1 a0 ")
}

// TestClaimFewSkips: it takes what nobody holds, and waits for nobody.
func TestClaimFewSkips(t *testing.T) {
	h := newHot(t, Options{Patience: 10 * time.Second})
	ids := enqueued(t, h.book, 2)
	s := session(t, h.book, time.Minute)
	h.holds("SELECT FROM daybook.ready WHERE seq = (SELECT seq FROM daybook.job WHERE id = $1) FOR UPDATE",
		ids[0].String())
	a := h.few(s, 9, nil, "q")
	if len(a.jobs) != 1 || a.jobs[0].ID != ids[1] {
		t.Errorf("claimed %v, want %v", idsOf(a.jobs), ids[1])
	}
	same(t, "all are held", len(h.few(s, 9, nil, "q").jobs), 0)
}

// TestClaimFewPause: a claim that began after a pause waits for it, and then
// sees it, whatever the isolation is that the database's address asks for.
func TestClaimFewPause(t *testing.T) {
	url := pgtest.SharedURL(t)
	t.Run("plain", func(t *testing.T) { claimFewPause(t, url) })
	t.Run("serializable", func(t *testing.T) { claimFewPause(t, dsn(url, isolation+"=serializable")) })
}

func claimFewPause(t *testing.T, url string) {
	h := hotAt(t, url, Options{Patience: 10 * time.Second})
	s := session(t, h.book, time.Minute)
	for range 8 { // by then the server keeps the plan
		enqueued(t, h.book, 1)
		same(t, "claimed before", len(h.claim(s, 9, "q")), 1)
	}
	enqueued(t, h.book, 2)
	open := h.holds("SELECT daybook.claims_exclusive()")
	_, err := open.Exec(t.Context(), h.store.schema.in("UPDATE daybook.queue SET paused_at = daybook.clock()"))
	ok(t, err)
	claim := inBackground(func() error {
		got, err := h.book.Claim(t.Context(), daybook.ClaimRequest{Session: s.ID, Queues: []string{"q"}, Limit: 9})
		if len(got.Jobs) > 0 {
			t.Errorf("claimed %d of a paused queue", len(got.Jobs))
		}
		return err
	})
	waits(h, "the claim", open.Conn(), claim)
	ok(t, open.Commit(t.Context()))
	ok(t, <-claim)
}

// TestPauseWaitsForLooks: a claim that has looked at the queue before a pause, and
// waits for its session, ends before the pause does.
func TestPauseWaitsForLooks(t *testing.T) { bothClaims(t, pauseWaitsForLooks) }

func pauseWaitsForLooks(t *testing.T, o Options) {
	o.Patience = 10 * time.Second
	h := newHot(t, o)
	enqueued(t, h.book, 1)
	s := session(t, h.book, time.Minute)
	open := h.holds("SELECT FROM daybook.session WHERE id = $1 FOR UPDATE", s.ID.String())
	claimed := make(chan []daybook.Job, 1)
	claim := inBackground(func() error {
		got, err := h.book.Claim(t.Context(), daybook.ClaimRequest{Session: s.ID, Queues: []string{"q"}, Limit: 9})
		claimed <- got.Jobs
		return err
	})
	waits(h, "the claim", open.Conn(), claim)
	paused := inBackground(func() error { return h.book.Pause(t.Context(), "q", someone) })
	h.waitFor("the pause waits", func() bool { return len(paused) > 0 || h.waiting() == 2 })
	if len(paused) > 0 {
		t.Fatal("the pause did not wait")
	}
	ok(t, open.Commit(t.Context()))
	ok(t, <-claim)
	ok(t, <-paused)
	same(t, "claimed before the pause", len(<-claimed), 1)
	enqueued(t, h.book, 1)
	same(t, "claimed of a paused queue", len(h.claim(s, 9, "q")), 0)
}

// waiting is how many wait for a lock.
func (h *hot) waiting() int64 {
	return h.one(`SELECT count(*) FROM pg_stat_activity
		WHERE wait_event_type = 'Lock' AND datname = current_database()`).(int64)
}

// TestClaimCallMeanwhile: a call that is repeated while it waits gives the same
// claims.
func TestClaimCallMeanwhile(t *testing.T) { bothClaims(t, claimCallMeanwhile) }

func claimCallMeanwhile(t *testing.T, o Options) {
	o.Patience = 10 * time.Second
	h := newHot(t, o)
	ids := enqueued(t, h.book, 3)
	s := session(t, h.book, time.Minute)
	open := h.holds("SELECT FROM daybook.session WHERE id = $1 FOR UPDATE", s.ID.String())
	r := daybook.ClaimRequest{Session: s.ID, Queues: []string{"q"}, Limit: 3, Call: daybook.NewID()}
	answers := make(chan []daybook.Job, 2)
	for n := range cap(answers) {
		go func() {
			got, err := h.book.Claim(h.Context(), r)
			if err != nil {
				h.Errorf("claim: %v", err)
			}
			answers <- got.Jobs
		}()
		h.waitFor("the call waits", func() bool { return h.waiting() > int64(n) })
	}
	ok(t, open.Commit(t.Context()))
	for range cap(answers) {
		jobs := <-answers
		slices.SortFunc(jobs, func(a, b daybook.Job) int { return int(a.Ref - b.Ref) })
		same(t, "claimed by the call", fmt.Sprint(idsOf(jobs)), fmt.Sprint(ids))
	}
}

// TestClaimGenerations: each claim raises the generation, and above those of
// commits that were lost.
func TestClaimGenerations(t *testing.T) { bothClaims(t, claimGenerations) }

func claimGenerations(t *testing.T, o Options) {
	h := newHot(t, o)
	enqueued(t, h.book, 1)
	s := session(t, h.book, time.Minute)
	for _, step := range []struct {
		sql  string
		want int64
	}{
		{"SELECT 1", 1}, {"SELECT 1", 2}, {"INSERT INTO daybook.setting VALUES ('incarnation', '3')", 3 << 32},
		{"SELECT 1", 3<<32 + 1}, {"UPDATE daybook.setting SET value = 'FFFFFFFF' WHERE name = 'timeline'", 4 << 32},
	} {
		h.sql(step.sql)
		jobs := h.claim(s, 5, "q")
		if len(jobs) != 1 || jobs[0].Generation != step.want {
			t.Fatalf("%s: %d jobs, want generation %d", step.sql, len(jobs), step.want)
		}
		_, err := h.book.Release(t.Context(), jobs[0].ID, ownerOf(jobs[0]), 0)
		ok(t, err)
	}
}
