package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/internal/pgtest"
	"github.com/daybookdev/daybook/relay"
)

// letters is a bell outside that keeps the names of queues.
type letters struct {
	daybook.NoBell
	mu   sync.Mutex
	rung []string
}

func (l *letters) Publish(_ context.Context, rings []daybook.Ring) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range rings {
		l.rung = append(l.rung, r.Queue)
	}
	return nil
}

func (l *letters) Depth(context.Context) (map[string]int64, error)   { return nil, nil }
func (l *letters) Peek(context.Context, int) ([]daybook.Ring, error) { return nil, nil }
func (l *letters) Stats() daybook.BellStats                          { return daybook.BellStats{} }

func (l *letters) has(queue string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Contains(l.rung, queue)
}

// TestOutboxPlans holds the plans of the relay, on an empty outbox and on one
// that is large, whether or not it was analysed: a look from the mark, and taking
// rows out, may not look at more rows than are there.
func TestOutboxPlans(t *testing.T) {
	h := newHot(t, Options{})
	p := h.planner()
	h.sql("SELECT daybook.make_queues(ARRAY['q'])", "ALTER TABLE daybook.outbox SET (autovacuum_enabled = false)")
	for _, size := range []struct {
		name string
		more []string
	}{
		{"empty", nil},
		{"large", []string{`INSERT INTO daybook.outbox (at, queue, ring, waiting)
			SELECT daybook.clock() - n * 1000, 1, n % 1000 = 0, 0 FROM generate_series(1, 100000) n`}},
		{"analysed", []string{"ANALYZE daybook.outbox"}},
		{"all asking", []string{`INSERT INTO daybook.outbox (at, queue, ring, waiting)
			SELECT daybook.clock() - n * 1000, 1, true, 0 FROM generate_series(1, 100000) n`}},
	} {
		t.Run(size.name, func(t *testing.T) {
			h.sql(size.more...)
			rows := p.some("SELECT ctid::text || ' ' || xmin::text FROM daybook.outbox WHERE ring LIMIT 40")
			p.looks(t, readRings, []any{block(1 << 20), int64(50)}, 51)
			places, writers := parts(rows)
			p.looks(t, dropRings, []any{places, writers}, 50)
		})
	}
	h.sql("TRUNCATE daybook.outbox")
}

// looks runs a query as the relay does, undoes it, and looks at its plan.
func (p *planner) looks(t *testing.T, query string, args []any, rows float64) {
	t.Helper()
	p.plans = nil
	open, err := p.conn.Begin(t.Context())
	ok(t, err)
	for _, s := range byIndex {
		_, err := open.Exec(t.Context(), "SET LOCAL "+s)
		ok(t, err)
	}
	found, err := open.Query(t.Context(), p.store.schema.in(query), args...)
	ok(t, err)
	found.Close()
	ok(t, found.Err())
	ok(t, open.Rollback(t.Context()))
	for _, heard := range p.plans {
		heard.walk(heard.Plan, func(n node) {
			if wrong := n.wrong(rows); wrong != "" {
				t.Errorf("%s in the plan of\n%s", wrong, heard.Query)
			}
		})
	}
	if len(p.plans) == 0 {
		t.Errorf("heard of no plan of\n%s", query)
	}
}

// TestRelayUnderAnOldSnapshot: rows that were taken out while somebody holds an
// old snapshot stay in the way; a look from the mark begins behind them.
func TestRelayUnderAnOldSnapshot(t *testing.T) {
	h := newHot(t, Options{})
	old := dial(t, pgtest.SharedURL(t))
	_, err := old.Exec(t.Context(), "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1")
	ok(t, err)
	h.sql("SELECT daybook.make_queues(ARRAY['q'])", `INSERT INTO daybook.outbox (at, queue, ring)
		SELECT daybook.clock() - 600000000 + n, 1, true FROM generate_series(1, 200000) n`, "DELETE FROM daybook.outbox")
	enqueued(t, h.book, 1)
	batch, err := h.book.Outbox(t.Context(), 0)
	ok(t, err)
	if len(batch.Rows) != 1 {
		t.Fatalf("got %d rows, want 1", len(batch.Rows))
	}
	all, few := h.blocks(readRings, "'"+block(0)+"'", 10), h.blocks(readRings, "'"+block(batch.Next)+"'", 10)
	t.Logf("a look at all reads %d blocks, one from the mark %d", all, few)
	if all < 1000 {
		t.Errorf("a look at all reads %d blocks: nothing is in its way", all)
	}
	if few > 50 {
		t.Errorf("a look from the mark reads %d blocks", few)
	}
}

// blocks is how many blocks a query reads.
func (h *hot) blocks(query string, args ...any) int {
	h.Helper()
	for i, a := range args {
		query = strings.ReplaceAll(query, fmt.Sprintf("$%d", i+1), fmt.Sprint(a))
	}
	tx, err := h.conn.Begin(h.Context())
	ok(h.T, err)
	defer tx.Rollback(h.Context())
	_, err = tx.Exec(h.Context(), "SET LOCAL enable_seqscan = off")
	ok(h.T, err)
	var plans []struct {
		Plan struct {
			Hit  int `json:"Shared Hit Blocks"`
			Read int `json:"Shared Read Blocks"`
		}
	}
	var doc []byte
	ok(h.T, tx.QueryRow(h.Context(), h.store.schema.in("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) "+query)).Scan(&doc))
	ok(h.T, json.Unmarshal(doc, &plans))
	return plans[0].Plan.Hit + plans[0].Plan.Read
}

// TestL39_RowOfALongTransaction: a transaction that was under way for an hour
// commits an enqueue. The relay looked at everything in between, and rings it.
func TestL39_RowOfALongTransaction(t *testing.T) {
	bell := &letters{}
	ahead := func() time.Time { return time.Now().Add(time.Hour) }
	h := newHot(t, Options{Now: ahead, Book: daybook.Options{Bell: bell}})
	tx, err := h.conn.Begin(t.Context())
	ok(t, err)
	_, err = In(h.store.Schema()).EnqueueTx(t.Context(), tx, daybook.Request{Queue: "late", Kind: "k"})
	ok(t, err)
	// So many rows lie behind it that a look from the mark doesn't come to it.
	_, err = h.book.Enqueue(t.Context(), daybook.Request{Queue: "q", Kind: "k"})
	ok(t, err)
	h.sql(`INSERT INTO daybook.outbox (at, queue, ring)
		SELECT 1, q.n, false FROM daybook.queue q, generate_series(1, 9000)`)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- relay.New(h.book, relay.Options{Every: time.Millisecond}).Run(ctx) }()
	for n := range 10 {
		queue := fmt.Sprint("q", n)
		_, err := h.book.Enqueue(t.Context(), daybook.Request{Queue: queue, Kind: "k"})
		ok(t, err)
		h.waitFor("rung: "+queue, func() bool { return bell.has(queue) })
	}
	if bell.has("late") {
		t.Error("rung before it was committed")
	}
	ok(t, tx.Commit(t.Context()))
	h.waitFor("rung: late", func() bool { return bell.has("late") })
	stop()
	ok(t, <-done)
}

// TestRelaysPassByEachOther: rows that one relay is taking out hold no other up.
func TestRelaysPassByEachOther(t *testing.T) {
	h := newHot(t, Options{})
	enqueued(t, h.book, 1)
	batch, err := h.book.Outbox(t.Context(), 0)
	ok(t, err)
	tx, err := h.conn.Begin(t.Context())
	ok(t, err)
	_, err = tx.Exec(t.Context(), h.store.schema.in("SELECT FROM daybook.outbox FOR UPDATE"))
	ok(t, err)
	n, err := h.book.Rung(t.Context(), batch.Rows)
	if err != nil || n != 0 {
		t.Errorf("took %d rows that another relay holds, %v", n, err)
	}
	ok(t, tx.Rollback(t.Context()))
	n, err = h.book.Rung(t.Context(), batch.Rows)
	if err != nil || n != 1 {
		t.Errorf("took %d rows, %v", n, err)
	}
}

// TestRowInThePlaceOfAnother: a row is known by who wrote it too, so that one
// that was written into the place of one that is gone isn't taken for it.
func TestRowInThePlaceOfAnother(t *testing.T) {
	h := newHot(t, Options{})
	enqueued(t, h.book, 1)
	batch, err := h.book.Outbox(t.Context(), 0)
	ok(t, err)
	place, _, _ := strings.Cut(batch.Rows[0].Row, " ")
	n, err := h.book.Rung(t.Context(), []daybook.RingRow{{Row: place + " 3"}})
	if err != nil || n != 0 {
		t.Errorf("took %d rows of another transaction, %v", n, err)
	}
}
