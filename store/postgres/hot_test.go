package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/internal/pgtest"
)

// hot is a book for tests of the fast path.
type hot struct {
	*testing.T
	book  *daybook.Book
	store *Store
	conn  *pgx.Conn // beside the book
}

func newHot(t *testing.T, o Options) *hot {
	t.Helper()
	return hotAt(t, pgtest.SharedURL(t), o)
}

// hotAt is newHot with settings of the address that leads to the same database.
func hotAt(t *testing.T, url string, o Options) *hot {
	t.Helper()
	h := &hot{T: t, book: fresh(t, url, o), conn: dial(t, pgtest.SharedURL(t))}
	h.store = h.book.Store().(*Store)
	return h
}

// write runs fn in one transaction of the store.
func (h *hot) write(fn func(t *tx) error) {
	h.Helper()
	ok(h.T, h.store.Write(h.Context(), "a test", func(x daybook.Tx) error { return fn(x.(*tx)) }))
}

func (h *hot) prepare(requests ...daybook.Request) []daybook.NewJob {
	h.Helper()
	jobs := make([]daybook.NewJob, len(requests))
	for i, r := range requests {
		if r.Queue == "" {
			r.Queue = "q"
		}
		if r.Kind == "" {
			r.Kind = "k"
		}
		n, err := r.Prepare()
		ok(h.T, err)
		jobs[i] = n
	}
	return jobs
}

// claim takes up to limit jobs for a session.
func (h *hot) claim(s daybook.Session, limit int, queues ...string) []daybook.Job {
	h.Helper()
	got, err := h.book.Claim(h.Context(), daybook.ClaimRequest{Session: s.ID, Queues: queues, Limit: limit})
	ok(h.T, err)
	return got.Jobs
}

// finish completes jobs as one call.
func (h *hot) finish(jobs []daybook.Job, result string) {
	h.Helper()
	outcomes := make([]daybook.Outcome, len(jobs))
	for i, j := range jobs {
		outcomes[i] = daybook.Outcome{Job: j.ID, Owner: ownerOf(j), Kind: daybook.OutcomeSucceeded,
			Result: json.RawMessage(result)}
	}
	answers, err := h.book.Finish(h.Context(), outcomes)
	ok(h.T, err)
	for _, a := range answers {
		if a.Err != nil || a.State != daybook.Succeeded {
			h.Fatalf("job %s: %s, %v", a.Job, a.State, a.Err)
		}
	}
}

// one reads a single value of the book's schema.
func (h *hot) one(query string, args ...any) (v any) {
	h.Helper()
	ok(h.T, h.conn.QueryRow(h.Context(), h.store.schema.in(query), args...).Scan(&v))
	return v
}

// waitFor polls until the condition holds.
func (h *hot) waitFor(what string, condition func() bool) {
	h.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(time.Minute); !condition(); <-tick.C {
		if time.Now().After(end) {
			h.Fatalf("still not: %s", what)
		}
	}
}

// blocked reports whether somebody waits for a lock that this test's
// connection's transaction holds.
func (h *hot) blockedBy(conn *pgx.Conn) func() bool {
	pid := conn.PgConn().PID()
	return func() bool {
		var n int
		ok(h.T, h.conn.QueryRow(h.Context(),
			"SELECT count(*) FROM pg_stat_activity WHERE $1::int = ANY (pg_blocking_pids(pid))",
			int32(pid)).Scan(&n))
		return n > 0
	}
}

// randomRequest is one with anything that a job may have.
func randomRequest(r *rand.Rand, now time.Time, i int) daybook.Request {
	q := daybook.Request{Queue: fmt.Sprint("q", r.IntN(3)), Kind: fmt.Sprint("k", r.IntN(3)),
		Args: json.RawMessage(fmt.Sprintf(`{"i": %d.0}`, i))}
	if r.IntN(3) == 0 {
		q.Priority = r.IntN(5) - 2
	}
	switch r.IntN(6) {
	case 0:
		q.RunAt = now.Add(time.Duration(r.IntN(7200)-3600) * time.Second)
	case 1:
		q.In = time.Duration(1 + r.Int64N(int64(time.Hour)))
	case 2:
		q.In = daybook.DelayMax
	}
	if r.IntN(4) == 0 {
		q.ExpiresAt = now.Add(200 * 365 * 24 * time.Hour)
	}
	if r.IntN(4) == 0 {
		q.MaxFailures = 1 + r.IntN(daybook.MaxFailuresMax)
	}
	if r.IntN(4) == 0 {
		q.OnLost = daybook.LostSetAside
	}
	if r.IntN(4) == 0 {
		q.Timeout = time.Duration(1+r.IntN(1e6)) * time.Millisecond
	}
	if r.IntN(8) == 0 {
		q.Key = fmt.Sprint("key ", i)
	}
	return q
}

// TestEnqueueIsPure holds what is stored to NewJob.Enqueue, row by row, in calls
// of every size: one statement, several, and a copy.
func TestEnqueueIsPure(t *testing.T) {
	now := time.Now().Truncate(time.Microsecond)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for _, n := range []int{1, 1, 1, 1, 7, bulk - 1, 2 * bulk} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			h := newHot(t, Options{Now: func() time.Time { return now }})
			requests := make([]daybook.Request, n)
			for i := range requests {
				requests[i] = randomRequest(r, now, i)
			}
			h.enqueueIsPure(h.prepare(requests...), daybook.At(now))
		})
	}
}

func (h *hot) enqueueIsPure(jobs []daybook.NewJob, now daybook.Time) {
	ids := make([]daybook.ID, len(jobs))
	for i := range jobs {
		ids[i] = jobs[i].Job.ID
	}
	h.write(func(t *tx) error {
		receipts, err := t.Enqueue(h.Context(), jobs)
		for i, r := range receipts {
			if r != (daybook.Receipt{ID: ids[i]}) {
				h.Fatalf("receipt %d: %+v", i, r)
			}
		}
		return err
	})
	last := int64(0)
	counts := map[string]int64{}
	h.write(func(t *tx) error {
		stored, err := t.Lock(h.Context(), ids)
		for i, got := range stored {
			want := jobs[i].Enqueue(now)
			want.Args = nil
			if got.Ref <= last {
				h.Fatalf("job %d has number %d, the one before %d", i, got.Ref, last)
			}
			last, want.Ref = got.Ref, got.Ref
			if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
				h.Fatalf("job %d:\n got %+v\nwant %+v", i, got, want)
			}
			counts[got.Queue]++
		}
		return err
	})
	for queue, n := range counts {
		rows := h.one(`SELECT sum(o.accepted) * 1000000 + sum(o.waiting) FROM daybook.outbox o JOIN daybook.queue q ON q.n =
			o.queue
			WHERE q.name = $1`, queue)
		if fmt.Sprint(num(text(fmt.Sprint(rows)))) != fmt.Sprint(n*1000000+n) {
			h.Errorf("queue %s: counted %v, want %d", queue, rows, n)
		}
	}
}

// empty leaves nothing to be checked: the book isn't whole any more, or large.
func (h *hot) empty() {
	h.sql("TRUNCATE daybook.job, daybook.ready, daybook.outbox")
}

// TestEnqueueHundredThousand is the largest call that the book takes.
func TestEnqueueHundredThousand(t *testing.T) {
	h := newHot(t, Options{})
	defer h.empty()
	requests := make([]daybook.Request, 100_000)
	for i := range requests {
		requests[i] = daybook.Request{Queue: "q", Kind: "k"}
	}
	jobs := h.prepare(requests...)
	h.write(func(t *tx) error {
		_, err := t.Enqueue(h.Context(), jobs)
		return err
	})
	if n := h.one("SELECT count(*) FROM daybook.ready"); n != int64(len(jobs)) {
		t.Fatalf("%v jobs wait", n)
	}
	// A second call with the same ids, as after a lost answer, stores nothing.
	for i := range jobs {
		var err error
		jobs[i].Known = true
		jobs[i].Fingerprint, err = daybook.FingerprintOf("q", "k", jobs[i].Job.Args)
		ok(t, err)
	}
	h.write(func(t *tx) error {
		receipts, err := t.Enqueue(h.Context(), jobs)
		for i, r := range receipts {
			if !r.Replayed || r.ID != jobs[i].Job.ID {
				h.Fatalf("receipt %d: %+v", i, r)
			}
		}
		return err
	})
}

// TestEnqueueTangled has calls that name keys and ids twice.
func TestEnqueueTangled(t *testing.T) {
	h := newHot(t, Options{})
	x, y := daybook.NewID(), daybook.NewID()
	first, err := h.book.Enqueue(t.Context(), daybook.Request{Queue: "q", Kind: "k", Key: "old"})
	ok(t, err)
	receipts, err := h.book.EnqueueMany(t.Context(), []daybook.Request{
		{ID: x, Queue: "q", Kind: "k", Key: "old"},
		{ID: x, Queue: "q", Kind: "k", Key: "new"},
		{ID: x, Queue: "q", Kind: "k", Key: "new"},
		{ID: y, Queue: "q", Kind: "k"},
		{ID: y, Queue: "q", Kind: "k"},
	})
	ok(t, err)
	for i, want := range []daybook.Receipt{{ID: first.ID, Replayed: true}, {ID: x}, {ID: x, Replayed: true}, {ID: y},
		{ID: y, Replayed: true}} {
		if receipts[i] != want {
			t.Errorf("receipt %d: got %+v, want %+v", i, receipts[i], want)
		}
	}
	record, err := h.book.Key(t.Context(), "new")
	ok(t, err)
	if record.Job != x || record.Replays != 1 {
		t.Errorf("key new: job %s, %d replays", record.Job, record.Replays)
	}
	_, err = h.book.EnqueueMany(t.Context(), []daybook.Request{
		{ID: daybook.NewID(), Queue: "q", Kind: "k", Key: "unbound"},
		{ID: y, Queue: "q", Kind: "k", Key: "of its own"},
		{ID: y, Queue: "q", Kind: "k", Key: "of its own"},
	})
	if daybook.CodeOf(err) != daybook.CodeKeyConflict || daybook.BatchIndex(err) != 1 {
		t.Errorf("an id with another key: %v at %d", err, daybook.BatchIndex(err))
	}
	if _, err := h.book.Key(t.Context(), "unbound"); !errors.Is(err, daybook.ErrNotFound) {
		t.Errorf("a key of a refused call: %v", err)
	}
}

// TestEnqueueRival has a rival with the same key or id whose transaction is
// open: the second waits, and what the first comes to decides.
func TestEnqueueRival(t *testing.T) {
	h := newHot(t, Options{})
	for _, c := range []struct {
		name    string
		request daybook.Request
		commits bool
	}{
		{"a key, rolled back", daybook.Request{Key: "a"}, false},
		{"a key, committed", daybook.Request{Key: "b"}, true},
		{"an id, rolled back", daybook.Request{ID: daybook.NewID()}, false},
		{"an id, committed", daybook.Request{ID: daybook.NewID()}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := c.request
			r.Queue, r.Kind = "q", "k"
			rival := dial(t, pgtest.SharedURL(t))
			open, err := rival.Begin(t.Context())
			ok(t, err)
			in := In(h.store.Schema())
			first, err := in.EnqueueTx(t.Context(), open, r)
			ok(t, err)
			second := h.enqueueApart(r)
			h.waitFor("the second waits", h.blockedBy(rival))
			if c.commits {
				ok(t, open.Commit(t.Context()))
			} else {
				ok(t, open.Rollback(t.Context()))
			}
			got := <-second
			ok(t, got.err)
			if got.Replayed != c.commits || c.commits && got.ID != first[0].ID {
				t.Errorf("the second got %+v, the first %+v", got.Receipt, first[0])
			}
			if _, err := h.book.Job(t.Context(), got.ID); err != nil {
				t.Errorf("the job of the receipt: %v", err)
			}
		})
	}
}

type apart struct {
	daybook.Receipt
	err error
}

// enqueueApart enqueues in a transaction that waits for as long as it takes.
func (h *hot) enqueueApart(r daybook.Request) <-chan apart {
	answer := make(chan apart, 1)
	conn := dial(h.T, pgtest.SharedURL(h.T))
	go func() {
		open, err := conn.Begin(h.Context())
		if err != nil {
			answer <- apart{err: err}
			return
		}
		receipts, err := In(h.store.Schema()).EnqueueTx(h.Context(), open, r)
		if err == nil {
			err = open.Commit(h.Context())
		}
		if err != nil {
			receipts = make([]daybook.Receipt, 1)
		}
		answer <- apart{receipts[0], err}
	}()
	return answer
}

// TestEveryMode carries the fast path through each way in which a driver may
// send it.
func TestEveryMode(t *testing.T) {
	for _, mode := range []string{"cache_statement", "cache_describe", "describe_exec", "exec", "simple_protocol"} {
		t.Run(mode, func(t *testing.T) {
			h := newHot(t, Options{})
			url := dsn(pgtest.SharedURL(t), "default_query_exec_mode="+mode)
			book := openBook(t, url, h.store.Schema(), Options{})
			h.book, h.store = book, book.Store().(*Store)
			r := rand.New(rand.NewPCG(1, 2))
			var requests []daybook.Request
			for i := range bulk + 10 {
				q := randomRequest(r, time.Now(), i)
				q.RunAt, q.In, q.Priority = time.Time{}, 0, i%3
				requests = append(requests, q)
			}
			for _, part := range [][]daybook.Request{requests[:10], requests[10:]} {
				_, err := book.EnqueueMany(t.Context(), part)
				ok(t, err)
			}
			replayed, err := book.EnqueueMany(t.Context(), requests[:10])
			ok(t, err)
			for i, r := range replayed {
				if r.Replayed != (requests[i].Key != "") {
					t.Errorf("receipt %d: %+v", i, r)
				}
			}
			s := session(t, book, time.Minute)
			for range 2 { // with and without marks
				jobs := h.claim(s, 100, "q0", "q1", "q2")
				if len(jobs) != 100 {
					t.Fatalf("claimed %d", len(jobs))
				}
				h.finish(jobs[:50], "")
				h.finish(jobs[50:], `{"a":"\"\\"}`)
				h.useMarks()
			}
			j, err := book.Job(t.Context(), h.claim(s, 1, "q1")[0].ID)
			ok(t, err)
			if j.State != daybook.Running {
				t.Errorf("job %s is %s", j.ID, j.State)
			}
		})
	}
}

// TestClaimNothing wants a claim that finds nothing to write nothing: a poll
// must not cost a commit that waits for the disk.
func TestClaimNothing(t *testing.T) {
	h := newHot(t, Options{})
	enqueued(t, h.book, 1)
	s := session(t, h.book, time.Minute)
	h.claim(s, 1, "q")
	h.write(func(t *tx) error {
		got, plain, err := t.ClaimSet(h.Context(), daybook.ClaimRequest{Session: s.ID, Call: daybook.NewID(),
			Queues: []string{"q"},
			Limit:  1})
		if err != nil || !plain || len(got.Jobs) != 0 {
			h.Fatalf("%d jobs, plain %v, %v", len(got.Jobs), plain, err)
		}
		number, err := t.one("SELECT pg_current_xact_id_if_assigned()::text")
		if number != nil {
			h.Errorf("the transaction has number %v", number)
		}
		return err
	})
}

// TestClaimCallTwice makes one call from several connections at once: all get
// the same claims.
func TestClaimCallTwice(t *testing.T) { bothClaims(t, claimCallTwice) }

func claimCallTwice(t *testing.T, o Options) {
	h := newHot(t, o)
	s := session(t, h.book, time.Minute)
	for round := range 10 {
		enqueued(t, h.book, 3)
		h.store.rests = rests{}
		if round%2 == 1 { // the session wants to be renewed first
			h.sql("UPDATE daybook.session SET renewed_at = renewed_at - 40000000, expires_at = expires_at - 40000000")
		}
		r := daybook.ClaimRequest{Session: s.ID, Queues: []string{"q"}, Limit: 3, Call: daybook.NewID()}
		answers := make(chan []daybook.Job, 4)
		for range cap(answers) {
			go func() {
				got, err := h.book.Claim(h.Context(), r)
				if err != nil {
					h.Errorf("claim: %v", err)
				}
				answers <- got.Jobs
			}()
		}
		var first []daybook.Job
		for n := range cap(answers) {
			jobs := <-answers
			slices.SortFunc(jobs, func(a, b daybook.Job) int { return int(a.Ref - b.Ref) })
			if n == 0 {
				first = jobs
			}
			if fmt.Sprint(idsOf(jobs)) != fmt.Sprint(idsOf(first)) || len(jobs) != 3 {
				t.Fatalf("one call got %v and %v", idsOf(first), idsOf(jobs))
			}
		}
	}
}

func idsOf(jobs []daybook.Job) []daybook.ID {
	ids := make([]daybook.ID, len(jobs))
	for i := range jobs {
		ids[i] = jobs[i].ID
	}
	return ids
}

// TestClaimSessionEnds ends a session between a claim's first look at it and its
// lock: the claim gets nothing, and the jobs wait on.
func TestClaimSessionEnds(t *testing.T) { bothClaims(t, claimSessionEnds) }

func claimSessionEnds(t *testing.T, o Options) {
	h := newHot(t, o)
	enqueued(t, h.book, 3)
	s := session(t, h.book, time.Minute)
	ender := dial(t, pgtest.SharedURL(t))
	open, err := ender.Begin(t.Context())
	ok(t, err)
	_, err = open.Exec(t.Context(), h.store.schema.in("UPDATE daybook.session SET ended_at = renewed_at WHERE n = $1"),
		s.Ref)
	ok(t, err)
	claim := make(chan error, 1)
	go func() {
		_, err := h.book.Claim(h.Context(), daybook.ClaimRequest{Session: s.ID, Queues: []string{"q"}, Limit: 3})
		claim <- err
	}()
	waits(h, "the claim", ender, claim)
	ok(t, open.Commit(t.Context()))
	if err := <-claim; !errors.Is(err, daybook.ErrFenced) {
		t.Errorf("the claim of an ended session: %v", err)
	}
	if got := h.claim(session(t, h.book, time.Minute), 10, "q"); len(got) != 3 {
		t.Errorf("%d jobs wait", len(got))
	}
}

// TestClaimSuspectsAtOnce has one session claim twice at once: it gets one
// suspect.
func TestClaimSuspectsAtOnce(t *testing.T) {
	h := newHot(t, Options{})
	enqueued(t, h.book, 2)
	h.sql("UPDATE daybook.job SET crashes = 2", "UPDATE daybook.ready SET suspect = true")
	s := session(t, h.book, time.Minute)
	r := daybook.ClaimRequest{Session: s.ID, Queues: []string{"q"}, Limit: 1}
	second := make(chan int, 1)
	h.write(func(t *tx) error {
		got, err := t.claimFrom(claiming{session: s.ID, call: daybook.NewID().String(), queues: r.Queues, limit: 1})
		if err != nil || len(got.jobs) != 1 {
			h.Fatalf("%d jobs, %v", len(got.jobs), err)
		}
		pid, err := t.one("SELECT pg_backend_pid()")
		go func() {
			got, err := h.book.Claim(h.Context(), r)
			if err != nil {
				h.Errorf("the second claim: %v", err)
			}
			second <- len(got.Jobs)
		}()
		h.waitFor("the second claim waits", func() bool {
			return len(second) > 0 || h.one(
				"SELECT count(*) FROM pg_stat_activity WHERE $1::int = ANY (pg_blocking_pids(pid))", num(pid)) != int64(0)
		})
		same(h.T, "answers before the first claim ended", len(second), 0)
		return err
	})
	if n := <-second; n != 0 {
		t.Errorf("the second claim got %d suspects", n)
	}
}

// sql runs statements beside the book.
func (h *hot) sql(statements ...string) {
	h.Helper()
	for _, s := range statements {
		_, err := h.conn.Exec(h.Context(), h.store.schema.in(s))
		ok(h.T, err)
	}
}

// TestClaimManyQueues claims from more queues than one call asks: nothing is
// missed, and nobody waits for the first ones to be empty.
func TestClaimManyQueues(t *testing.T) {
	const queues, each = 700, 3
	h := newHot(t, Options{})
	var names []string
	var requests []daybook.Request
	for q := range queues {
		names = append(names, fmt.Sprintf("q%03d", q))
		for range each {
			requests = append(requests, daybook.Request{Queue: names[q], Kind: "k"})
		}
	}
	_, err := h.book.EnqueueMany(t.Context(), requests)
	ok(t, err)
	s := session(t, h.book, time.Minute)
	seen := map[daybook.ID]bool{}
	asked := map[string]bool{}
	for calls := 0; len(seen) < len(requests); calls++ {
		jobs := h.claim(s, 100, names...)
		if len(jobs) == 0 {
			t.Fatalf("nothing left after %d of %d jobs", len(seen), len(requests))
		}
		for _, j := range jobs {
			if seen[j.ID] {
				t.Fatalf("job %s was given twice", j.ID)
			}
			seen[j.ID], asked[j.Queue] = true, true
		}
		if calls == 20 && len(asked) < queues {
			t.Errorf("%d claims came to %d queues", calls, len(asked))
		}
	}
	if jobs := h.claim(s, 100, names...); len(jobs) != 0 {
		t.Errorf("%d jobs too many", len(jobs))
	}
	_, err = h.book.Enqueue(t.Context(), daybook.Request{Queue: names[queues-1], Kind: "k"})
	ok(t, err)
	if jobs := h.claim(s, 100, names...); len(jobs) != 1 {
		t.Errorf("of a queue that was empty: %d jobs", len(jobs))
	}
}

// TestDueQueues looks for queues page by page, past held, later and gone jobs.
func TestDueQueues(t *testing.T) {
	h := newHot(t, Options{})
	defer h.empty()
	var requests []daybook.Request
	for q := range 30 {
		r := daybook.Request{Queue: fmt.Sprintf("q%02d", q), Kind: "k"}
		if q%3 == 0 {
			r.In = time.Hour
		}
		requests = append(requests, r)
		if q%6 == 0 { // due in another priority
			requests = append(requests, daybook.Request{Queue: r.Queue, Kind: "k", Priority: -1})
		}
	}
	_, err := h.book.EnqueueMany(t.Context(), requests)
	ok(t, err)
	h.sql("DELETE FROM daybook.ready WHERE lane % 7 = 0", "UPDATE daybook.ready SET lane = -lane WHERE lane = 2")
	var found []string
	for after, pages := int64(0), 0; pages == 0 || after != 0; pages++ {
		h.write(func(t *tx) error {
			return t.rows("SELECT lane, name FROM daybook.due_queues($1::int, 4, NULL)", []any{after}, func(row []any) error {
				if row[1] == nil {
					after = num(row[0])
				} else {
					found = append(found, text(row[1]))
				}
				return nil
			})
		})
	}
	due := h.one(`SELECT string_agg(DISTINCT q.name, ' ' ORDER BY q.name) FROM daybook.ready r JOIN daybook.queue q ON q.n
		= r.lane
		WHERE r.run_at <= daybook.clock()`)
	slices.Sort(found)
	if strings.Join(found, " ") != due {
		t.Errorf("got  %s\nwant %s", strings.Join(found, " "), due)
	}
}

// TestCompleteSet completes from SQL as anybody may: some, all, or nothing.
func TestCompleteSet(t *testing.T) {
	h := newHot(t, Options{})
	enqueued(t, h.book, 5)
	s := session(t, h.book, time.Minute)
	jobs := h.claim(s, 5, "q")
	complete := func(partial bool, result any, jobs ...daybook.Job) string {
		generations := make([]int64, len(jobs))
		for i, j := range jobs {
			generations[i] = j.Generation
		}
		v := h.one(`SELECT coalesce(missing::text, 'none') FROM daybook.complete_jobs($1::text::uuid, $2::text[]::uuid[],
			$3::bigint[],
			$4::text[], $5::boolean, NULL)`, s.ID.String(), texts(idsOf(jobs)), generations, result, partial)
		return fmt.Sprint(v)
	}
	old := jobs[0]
	old.Generation++
	for _, c := range []struct{ got, want string }{
		{complete(false, nil, jobs[1], old), "{2}"},
		{complete(true, nil, jobs[1], old), "{2}"},
		{complete(true, nil, jobs[1], jobs[2]), "{1}"},
		{complete(false, []string{`"x"`, `"y"`}, jobs[4], jobs[3]), "none"},
		{complete(true, nil, jobs[4]), "{1}"},
	} {
		if c.got != c.want {
			t.Errorf("got %s, want %s", c.got, c.want)
		}
	}
	for i, want := range []string{"", "", "", `"y"`, `"x"`} {
		j, err := h.book.Job(t.Context(), jobs[i].ID)
		ok(t, err)
		if string(j.Result) != want || (j.State == daybook.Succeeded) != (i > 0) {
			t.Errorf("job %d is %s, result %s", i, j.State, j.Result)
		}
	}
	for _, results := range []any{nil, []string{"1", "2"}} {
		_, err := h.conn.Exec(t.Context(), h.store.schema.in(
			"SELECT daybook.complete_jobs($1::text::uuid, $2::text[]::uuid[], '{1,1}', $3::text[], true, NULL)"),
			s.ID.String(), texts(idsOf([]daybook.Job{jobs[0], jobs[0]})), results)
		if stateOf(err) != stateInvalid {
			t.Errorf("a job twice in one set: %v", err)
		}
	}
	complete2 := h.one("SELECT count(*) FROM daybook.owned")
	if complete2 != int64(1) {
		t.Errorf("%v jobs run", complete2)
	}
	h.finish(jobs[:1], "")
}

// dial connects beside the book.
func dial(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	ok(t, err)
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

// TestEnqueueIntoAForgottenQueue: a queue that this process knows is gone, as
// after a restore, and is made anew; single jobs go into known queues by a
// statement of their own.
func TestEnqueueIntoAForgottenQueue(t *testing.T) {
	h := newHot(t, Options{})
	enqueued(t, h.book, 1)
	h.sql("DELETE FROM daybook.ready", "DELETE FROM daybook.job", "DELETE FROM daybook.outbox",
		"DELETE FROM daybook.queue")
	receipt, err := h.book.Enqueue(t.Context(), daybook.Request{Queue: "q", Kind: "k", Priority: 3, In: time.Hour})
	ok(t, err)
	again, err := h.book.Enqueue(t.Context(), daybook.Request{Queue: "q", Kind: "k", Priority: 3, In: time.Hour})
	ok(t, err)
	for _, id := range []daybook.ID{receipt.ID, again.ID} {
		j, err := h.book.Job(t.Context(), id)
		if err != nil || j.Priority != 3 || j.RunAt.Sub(j.EnqueuedAt) != time.Hour || j.Queue != "q" {
			t.Errorf("%+v, %v", j, err)
		}
	}
}
