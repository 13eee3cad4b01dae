package sqlite

import (
	"database/sql/driver"
	"fmt"
	"strings"

	"github.com/daybookdev/daybook"
)

// view reads one snapshot.
type view struct {
	q        querier
	names    *names
	now      daybook.Time
	named    map[string]int64          // queues that this transaction made or read
	sessions map[int64]daybook.Session // as of this transaction
	brief    bool                      // while a brief list is read
}

// tx is a write transaction: a view that also writes, and that counts.
type tx struct {
	view
	deltas  map[int64]*delta
	refs    *refs
	claimed []claimedRef // by this transaction
}

// delta is what the transaction did to one queue's counts.
type delta struct {
	counts daybook.Counts
	ring   bool
}

var (
	_ daybook.Store     = (*Store)(nil)
	_ daybook.Inspector = (*Store)(nil)
	_ daybook.Tx        = (*tx)(nil)
	_ daybook.View      = (*view)(nil)
)

func newTx(s *Store, q querier) *tx {
	return &tx{view: view{q: q, names: s.names, now: s.clock(), named: map[string]int64{},
		sessions: map[int64]daybook.Session{}}, deltas: map[int64]*delta{}, refs: s.refs}
}

// Now is the book's clock, fixed for the transaction.
func (v *view) Now() daybook.Time { return v.now }

// mark and reset undo the transaction's memory when one write is undone.
func (t *tx) mark() map[int64]delta {
	marked := make(map[int64]delta, len(t.deltas))
	for q, d := range t.deltas {
		marked[q] = *d
	}
	return marked
}

func (t *tx) reset(marked map[int64]delta) {
	clear(t.deltas)
	for q, d := range marked {
		t.deltas[q] = &d
	}
	clear(t.named) // a queue made by the undone write may be gone
	clear(t.sessions)
	t.claimed = nil // as may a job
}

// remember notes the rows of claimed jobs for when the claims are committed.
func (t *tx) remember(queue int64, jobs []daybook.Job) {
	for i := range jobs {
		t.claimed = append(t.claimed, claimedRef{jobs[i].ID, ref{jobs[i].Ref, queue}})
	}
}

// count notes what a change did to its queue.
func (t *tx) count(queue int64, counts daybook.Counts, ring bool) {
	d := t.deltas[queue]
	if d == nil {
		d = &delta{}
		t.deltas[queue] = d
	}
	d.counts.Add(counts)
	d.ring = d.ring || ring
}

var insertOutbox = "INSERT INTO outbox (queue, at, ring, " + strings.Join(daybook.CountNames, ", ") + ") VALUES (?, ?, ?" +
	strings.Repeat(", ?", len(daybook.CountNames)) + ")"

// flush writes one row per queue: the transaction's counts and its ring.
func (t *tx) flush() error {
	for queue, d := range t.deltas {
		if d.counts == (daybook.Counts{}) && !d.ring {
			continue
		}
		args := []driver.Value{queue, int64(t.now), flag(d.ring)}
		for _, n := range d.counts.Fields() {
			args = append(args, *n)
		}
		if _, err := t.q.exec(insertOutbox, args...); err != nil {
			return err
		}
	}
	return nil
}

// queueNumber finds a queue by name; not found is 0.
func (v *view) queueNumber(name string) (int64, error) {
	if n, ok := v.names.number(name); ok {
		return n, nil
	}
	if n, ok := v.named[name]; ok {
		return n, nil
	}
	found, err := one(v.q, "SELECT n FROM queue WHERE name = ?", name)
	if err != nil || found == nil {
		return 0, err
	}
	if v.named != nil {
		v.named[name] = num(found)
	}
	return num(found), nil
}

// queueName finds a queue's name by its number.
func (v *view) queueName(n int64) (string, error) {
	if name, ok := v.names.name(n); ok {
		return name, nil
	}
	name, err := one(v.q, "SELECT name FROM queue WHERE n = ?", n)
	if err == nil && name == nil {
		err = fmt.Errorf("no queue %d", n)
	}
	if err == nil && v.named != nil {
		v.named[text(name)] = n
	}
	return text(name), err
}

// makeQueue finds a queue or makes it.
func (t *tx) makeQueue(name string) (int64, error) {
	n, err := t.queueNumber(name)
	if err != nil || n != 0 {
		return n, err
	}
	if _, err := t.q.exec("INSERT INTO queue (name) VALUES (?)", name); err != nil {
		return 0, err
	}
	return t.queueNumber(name)
}

// chunk sizes of multi-row statements: few distinct texts, so that each is
// prepared once.
var chunks = []int{500, 100, 20, 5, 1}

// inChunks cuts n rows into the sizes that statements are prepared for.
func inChunks(n int, do func(from, size int) error) error {
	for from := 0; from < n; {
		size := 1
		for _, c := range chunks {
			if n-from >= c {
				size = c
				break
			}
		}
		if err := do(from, size); err != nil {
			return err
		}
		from += size
	}
	return nil
}

// texts holds statements of many rows, built once per size.
type texts struct {
	head, row, tail string
}

// sized repeats the row n times.
func (s texts) sized(n int) string {
	return s.head + strings.Repeat(s.row+", ", n-1) + s.row + s.tail
}

// cached is texts for the chunk sizes.
type cached map[int]string

func (s texts) cache() cached {
	c := cached{}
	for _, n := range chunks {
		c[n] = s.sized(n)
	}
	return c
}

// sure turns a count of changed rows that isn't the wanted one into an answer
// with a name: the rows are not what the caller read.
func sure(changed, want int64, what string) error {
	if changed == want {
		return nil
	}
	return daybook.Fail(daybook.CodeFenced, "%d of %d rows of %s are not as they were read", want-changed, want, what)
}
