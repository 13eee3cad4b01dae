package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/internal/pgtest"
)

// TestPlans holds the plans of the fast path on an empty book, on a young one
// that was never analysed, and on a large one: none may read a table from end to
// end, sort or hash what grows with the book, or look at more rows than it takes.
func TestPlans(t *testing.T) {
	h := &hot{T: t, book: openBook(t, pgtest.SharedURL(t), bookName(""), Options{}), conn: dial(t, pgtest.SharedURL(t))}
	h.store = h.book.Store().(*Store)
	s := session(t, h.book, daybook.LeaseMax)
	t.Run("planned while the tables were empty", func(t *testing.T) {
		h := *h
		h.T = t
		h.grow(0)
		h.sql("VACUUM (ANALYZE) daybook.job, daybook.ready, daybook.owned, daybook.ended, daybook.request")
		p := h.planner()
		for _, full := range []bool{false, true} {
			if full {
				h.grow(1000)
				h.sql(fmt.Sprintf("UPDATE daybook.owned SET session = %d", s.Ref))
			}
			for _, c := range p.calls(s, full) {
				t.Run(c.name, func(t *testing.T) { p.check(t, c) })
			}
		}
		h.sql("DELETE FROM daybook.job", "DELETE FROM daybook.ready", "DELETE FROM daybook.owned",
			"DELETE FROM daybook.ended", "DELETE FROM daybook.request")
	})
	for _, size := range []struct {
		name string
		rows int
		more []string
	}{
		{"empty", 0, nil},
		{"young", 1000, nil},
		{"large", 300_000, []string{"ANALYZE daybook.job, daybook.ready, daybook.owned, daybook.ended, daybook.request"}},
	} {
		t.Run(size.name, func(t *testing.T) {
			h := *h
			h.T = t
			h.grow(size.rows)
			h.sql(size.more...)
			p := h.planner()
			for _, c := range p.calls(s, size.rows > 0) {
				t.Run(c.name, func(t *testing.T) { p.check(t, c) })
			}
		})
	}
}

// grow adds jobs in all their places, without the book.
func (h *hot) grow(n int) {
	h.Helper()
	h.sql("SELECT daybook.make_queues(ARRAY(SELECT 'q' || i FROM generate_series(1, 21) i))")
	const one = "SELECT daybook.insert_one(NULL, 'q21', gen_random_uuid(), 'k', '{}', -1, NULL, NULL, NULL, NULL, NULL, " +
		"NULL, NULL, NULL)" // q21 has few
	h.sql(one, one)
	for _, place := range []string{
		`INSERT INTO daybook.ready (run_at, seq, lane, rank, kind, suspect) SELECT j.enqueued_at
			+ CASE WHEN j.seq / 20 % 5 = 0 THEN 3600000000 ELSE 0 END, j.seq, j.queue, j.rank, j.kind, false FROM j`,
		`INSERT INTO daybook.owned (id, seq, generation, session, claimed_at, queue, granted)
			SELECT j.id, j.seq, 1, 1, j.enqueued_at, j.queue, 0 FROM j`,
		`INSERT INTO daybook.ended (filed_at, seq, generation, session, claimed_at, outcome)
			SELECT j.enqueued_at, j.seq, 1, 1, j.enqueued_at, 1 FROM j`,
		`INSERT INTO daybook.request (key, job, fingerprint, created_at) SELECT j.id::text, j.id, '\x00', j.enqueued_at FROM
			j`,
	} {
		rows := n
		if !strings.Contains(place, "ready") {
			rows = n / 6
		}
		h.sql(fmt.Sprintf(`WITH j AS (INSERT INTO daybook.job (enqueued_at, id, queue, rank, kind, args, run_at)
			SELECT daybook.clock(), gen_random_uuid(), (SELECT n FROM daybook.queue WHERE name = 'q' || (1 + i %% 20)), i %% 3 -
				2, 'k' || i %% 4,
			'{}', NULL FROM generate_series(1, %d) i RETURNING *) %s`, rows, place))
	}
}

// planner is a connection whose functions plan anew, and which hears of every
// plan that is used.
type planner struct {
	*hot
	conn  *pgx.Conn
	plans []plan
}

// plan is what auto_explain tells of one statement.
type plan struct {
	Query string `json:"Query Text"`
	Plan  node   `json:"Plan"`
}

type node struct {
	Type    string  `json:"Node Type"`
	Table   string  `json:"Relation Name"`
	Index   string  `json:"Index Name"`
	Rows    float64 `json:"Actual Rows"`
	Loops   float64 `json:"Actual Loops"`
	Removed float64 `json:"Rows Removed by Filter"`
	Plans   []node  `json:"Plans"`
}

func (h *hot) planner() *planner {
	h.Helper()
	p := &planner{hot: h}
	config, err := pgx.ParseConfig(pgtest.SharedURL(h))
	ok(h.T, err)
	config.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) { p.hear(n.Message) }
	p.conn, err = pgx.ConnectConfig(h.Context(), config)
	ok(h.T, err)
	h.Cleanup(func() { p.conn.Close(context.Background()) })
	for _, setup := range []string{"LOAD 'auto_explain'", "SET auto_explain.log_min_duration = 0",
		"SET auto_explain.log_nested_statements = on", "SET auto_explain.log_analyze = on",
		"SET auto_explain.log_timing = off",
		"SET auto_explain.log_format = json", "SET client_min_messages = log"} {
		if _, err := p.conn.Exec(h.Context(), setup); err != nil {
			h.Fatalf("%s: %v (install PostgreSQL's contrib modules)", setup, err)
		}
	}
	return p
}

func (p *planner) hear(message string) {
	_, text, found := strings.Cut(message, "plan:\n")
	if !found {
		return
	}
	var heard plan
	if err := json.Unmarshal([]byte(text), &heard); err != nil {
		p.Errorf("a plan that can't be read: %v", err)
	}
	p.plans = append(p.plans, heard)
}

// call is one call of the fast path.
type call struct {
	name  string
	query string
	args  []any
	rows  float64  // of a table that it may look at, in any one scan
	wants []string // scans that it must have
}

const claimedAtOnce = 50

// calls are the calls of the fast path; full is that the book has what they ask
// for.
func (p *planner) calls(s daybook.Session, full bool) []call {
	p.Helper()
	claim := func(name, queues string, kinds any, oldest bool, marks bool) call {
		args := []any{s.ID.String(), daybook.NewID().String(), nil, queues, kinds, claimedAtOnce, oldest, nil, nil, nil,
			nil, nil, true, true}
		if marks {
			args = append(args[:8], []int64{2}, []int64{-2, -1}, []int64{1, 1}, []int64{0, 0}, true, true)
		}
		c := call{name: name, query: claimJobs, args: args, rows: 4*claimedAtOnce + 10}
		if full {
			c.wants = []string{"Index Scan ready", "Tid Scan ready", "Index Scan job", "Index Scan session"}
		}
		return c
	}
	few := func(name, queues string) call {
		return call{name: name, query: fewClaims[strings.Count(queues, ",")+1], rows: 3*fewMost + 10,
			args:  []any{nil, s.ID.String(), daybook.NewID().String(), queues, nil, fewMost},
			wants: []string{"Index Scan session"}}
	}
	ids, generations, keys := p.some("SELECT id::text, 1 FROM daybook.owned LIMIT 40"), make([]int64, 40),
		p.some("SELECT key, 1 FROM daybook.request LIMIT 40")
	for i := range generations {
		generations[i] = 1
	}
	known := p.some("SELECT id::text, 1 FROM daybook.job ORDER BY seq LIMIT 40")
	jobs := p.prepare(daybook.Request{}, daybook.Request{Queue: "q7"}, daybook.Request{Priority: 3})
	list := []any{nil, []string{"q", "q7"}, []int64{1, 2, 1}, idList([]daybook.ID{jobs[0].Job.ID, jobs[1].Job.ID,
		jobs[2].Job.ID}),
		[]string{"k", "k", "k"}, []string{"{}", "{}", "{}"}, []int64{-1, -1, -4}, nil, nil, nil, nil, nil, nil, nil,
		nil}
	calls := []call{
		{name: "enqueue", query: insertJobs, args: list, rows: 10},
		{name: "enqueue into a known queue", query: insertKnown, args: []any{nil, "q7", daybook.NewID().String(), "k",
			"{}", int64(-1), nil, nil, nil, nil, nil, nil, nil, nil}, rows: 10},
		{name: "enqueue one", query: insertOneJob, args: []any{nil, "q7", daybook.NewID().String(), "k", "{}", int64(-1),
			nil, nil, nil, nil, nil, nil, nil, nil}, rows: 10},
		claim("claim", "{q1}", nil, false, false),
		claim("claim of many", "{q1,q2,q3,q4,q5,q6,q7,q8,q9,nobody}", nil, false, false),
		claim("claim by marks", "{q1}", nil, false, true),
		claim("claim of a kind", "{q1}", []string{"k0", "k2"}, false, false),
		claim("claim of the oldest", "{q1,q2}", nil, true, false),
		few("claim of few", "{q21}"), few("claim of few of many", "{q1,q2,nobody}"),
		{name: "look ahead", query: fewAheads[2], args: []any{nil, "{q1,q21}"}, rows: 200},
		{name: "look for queues", query: "SELECT * FROM daybook.due_queues(0, 10, NULL)", rows: 10},
		{name: "bind keys", query: "SELECT * FROM daybook.bind_keys(NULL, $1::text[], $2::text[]::uuid[], $3::text[])",
			args: []any{append(slices.Clone(keys), "new"), texts(fewIDs(len(keys) + 1)), slices.Repeat([]string{"00"},
				len(keys)+1)}, rows: 100},
		{name: "count replays", query: "SELECT daybook.count_replays(NULL, $1::text[], $2::int[])",
			args: []any{keys, slices.Repeat([]int64{1}, len(keys))}, rows: 100},
		{name: "known jobs", query: "SELECT * FROM daybook.known_jobs($1::text[]::uuid[])", args: []any{known}, rows: 100},
	}
	for _, result := range []any{nil, slices.Repeat([]string{`"x"`}, len(ids))} {
		c := call{name: fmt.Sprint("complete, result ", result != nil),
			query: `SELECT * FROM daybook.complete_jobs($1::text::uuid, $2::uuid[], $3::bigint[],
				$4::text[], true, NULL)`,
			args: []any{s.ID.String(), "{" + strings.Join(ids, ",") + "}", generations[:len(ids)], result}, rows: 100}
		if full {
			c.wants = []string{"Index Scan owned", "Tid Scan owned"}
		}
		calls = append(calls, c)
	}
	p.sql(fmt.Sprintf("UPDATE daybook.owned SET session = %d WHERE id = ANY ('{%s}')", s.Ref, strings.Join(ids, ",")))
	return calls
}

func fewIDs(n int) []daybook.ID {
	ids := make([]daybook.ID, n)
	for i := range ids {
		ids[i] = daybook.NewID()
	}
	return ids
}

// some reads the first column of a few rows.
func (p *planner) some(query string) (list []string) {
	p.Helper()
	list = []string{}
	rows, err := p.hot.conn.Query(p.Context(), p.store.schema.in(query))
	ok(p.T, err)
	for rows.Next() {
		values, err := rows.Values()
		ok(p.T, err)
		list = append(list, text(values[0]))
	}
	ok(p.T, rows.Err())
	return list
}

// check makes the call, undoes it, and looks at the plans that it used.
func (p *planner) check(t *testing.T, c call) {
	p.plans = nil
	open, err := p.conn.Begin(t.Context())
	ok(t, err)
	plans := 2 // the call's, and one in the function
	if c.query == insertKnown || slices.Contains(fewClaims[:], c.query) || slices.Contains(fewAheads[:], c.query) {
		plans = 1
		for name, value := range steady {
			_, err := open.Exec(t.Context(), "SET LOCAL "+name+" = '"+value+"'")
			ok(t, err)
		}
	}
	rows, err := open.Query(t.Context(), p.store.schema.in(c.query), c.args...)
	ok(t, err)
	rows.Close()
	ok(t, rows.Err())
	ok(t, open.Rollback(t.Context()))
	if len(p.plans) < plans {
		t.Fatalf("heard of %d plans", len(p.plans))
	}
	scans := map[string]bool{}
	for _, heard := range p.plans {
		heard.walk(heard.Plan, func(n node) {
			scans[n.Type+" "+n.Table] = true
			if wrong := n.wrong(c.rows); wrong != "" {
				t.Errorf("%s in the plan of\n%s", wrong, heard.Query)
			}
		})
	}
	for _, want := range c.wants {
		if !scans[want] {
			t.Errorf("no %s in %v", want, scans)
		}
	}
}

func (p plan) walk(n node, visit func(node)) {
	visit(n)
	for _, below := range n.Plans {
		p.walk(below, visit)
	}
}

// wrong tells what a step of a plan does that would get slow.
func (n node) wrong(most float64) string {
	switch n.Type {
	case "Seq Scan", "Bitmap Heap Scan", "Hash Join", "Merge Join", "Materialize":
		return n.Type + " " + n.Table
	}
	if looked := (n.Rows + n.Removed) * n.Loops; n.Table != "" && looked > most {
		return fmt.Sprintf("%s %s by %s looks at %.0f rows", n.Type, n.Table, n.Index, looked)
	}
	if n.Type == "Sort" && n.Rows*n.Loops > most {
		return fmt.Sprintf("a sort of %.0f rows", n.Rows*n.Loops)
	}
	return ""
}
