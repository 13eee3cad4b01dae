package sqlite

import (
	"context"
	"database/sql/driver"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/check"
)

// scratchStore is a book in memory with a job in every state.
func scratchStore(t *testing.T) (*daybook.Book, *Store) {
	t.Helper()
	book, err := Open(t.Context(), Memory, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { book.Close() })
	if err := check.Fill(t.Context(), book); err != nil {
		t.Fatal(err)
	}
	return book, book.Store().(*Store)
}

// force runs statements past every rule of the store.
func (s *Store) force(t *testing.T, sql string) {
	t.Helper()
	err := s.alone(t.Context(), "forcing", func() error {
		fill := strings.NewReplacer("{now}", fmt.Sprint(int64(s.clock())), "{pass}", s.clock().String(),
			"{hour}", micros(time.Hour))
		return script(s.own, fill.Replace(pick.Replace(sql))+";\n")
	})
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// violations walks one invariant by chunks of the given size.
func (s *Store) violations(t *testing.T, name string, since daybook.Time, size int64) (
	found []daybook.Violation, chunks int) {
	t.Helper()
	i := slices.IndexFunc(daybook.Invariants, func(i daybook.Invariant) bool { return i.Name == name })
	in := daybook.Inspection{Invariant: daybook.Invariants[i], Since: since, Chunk: size}
	for chunks = 1; ; chunks++ {
		out, err := s.Inspect(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		if out.Walked > size {
			t.Fatalf("a chunk of %d rows, want at most %d", out.Walked, size)
		}
		if found = append(found, out.Violations...); out.Done {
			return found, chunks
		}
		in.After = out.Next
	}
}

// Each of the ways is found by a full walk and, unless it is none of its
// business, by a walk of the live rows.
func TestInspectFindsEveryWay(t *testing.T) {
	for _, c := range everyWay {
		t.Run(c.invariant+"/"+c.what, func(t *testing.T) {
			_, s := scratchStore(t)
			if found, _ := s.violations(t, c.invariant, 0, 10); len(found) != 0 {
				t.Fatalf("before: got %v, want nothing", found)
			}
			s.force(t, c.sql)
			full, _ := s.violations(t, c.invariant, 0, 10)
			if rows := distinctRows(full); len(rows) != 1 {
				t.Fatalf("a full walk: got %v, want one row", full)
			}
			if live, _ := s.violations(t, c.invariant, 1, 10); len(live) == 0 && !c.fullOnly {
				t.Error("a walk of live rows found nothing")
			}
			again := daybook.Inspection{Invariant: daybook.Invariant{Name: c.invariant}, Only: distinctRows(full)}
			out, err := s.Inspect(t.Context(), again)
			if err != nil || len(out.Violations) != 1 || !out.Done || out.Violations[0] != full[0] {
				t.Errorf("the second look: got %+v, %v; want %v", out, err, full[0])
			}
		})
	}
}

func distinctRows(found []daybook.Violation) (rows []string) {
	for _, v := range found {
		rows = append(rows, v.At)
	}
	slices.Sort(rows)
	return slices.Compact(rows)
}

// What looks wrong at first and isn't: somebody did it, or another invariant's
// query is the one to tell.
func TestInspectAllows(t *testing.T) {
	const snoozed = "UPDATE job SET first_claimed_at = first_claimed_at - 744 * {hour} WHERE seq = {snoozed}"
	for _, c := range []struct{ invariant, what, sql string }{
		{"snooze-limit", "a hold moved its time", snoozed + `;
INSERT INTO event (seq, at, what) VALUES ({snoozed}, {now}, 'unheld')`},
		{"snooze-limit", "a person sent it on", snoozed + `;
INSERT INTO event (seq, at, what) VALUES ({snoozed}, {now}, 'settled')`},
		{"final-stays", "expired, judged and waiting", `INSERT INTO event (seq, at, what)
			VALUES ({waiting}, {now}, 'expired'), ({waiting}, {now}, 'settled')`},
		{"final-stays", "cancelled and revived", `INSERT INTO event (seq, at, what)
			VALUES ({waiting}, {now}, 'cancelled'), ({waiting}, {now}, 'revived')`},
		{"cancel-kept", "asked, cancelled and revived", `INSERT INTO event (seq, at, what)
			VALUES ({running}, {now}, 'cancel asked'), ({running}, {now}, 'revived')`},
		{"key-fingerprint", "the key of another job",
			"UPDATE job SET key = (SELECT key FROM job WHERE seq = {keyed}) WHERE seq = {waiting}"},
		{"claim-after-end", "the clock was set back a little", `UPDATE session
			SET ended_at = (SELECT claimed_at FROM owned WHERE seq = {running}) - 900000 WHERE n = {its session}`},
		{"counts-true", "pruned", "DELETE FROM job WHERE seq = {done};\nDELETE FROM ended WHERE seq = {done}"},
	} {
		_, s := scratchStore(t)
		s.force(t, c.sql)
		if found, _ := s.violations(t, c.invariant, 0, 100); len(found) != 0 {
			t.Errorf("%s, %s: got %v, want nothing", c.invariant, c.what, found)
		}
	}
}

// A reconciler that didn't come by can't be blamed: a book that nobody opened
// for a day is healthy.
func TestInspectWaitsForThePasses(t *testing.T) {
	for _, c := range []struct {
		invariant, sql string
		want           int
	}{
		{"lost-revoked", "UPDATE session SET ended_at = {now} - {hour} WHERE n = {its session}", 0},
		{"run-limit", "UPDATE owned SET deadline = {now} - {hour} WHERE seq = {running}", 0},
		{"lost-revoked", "{passed};\nUPDATE session SET ended_at = {now} - {hour} / 60 WHERE n = {its session}", 0},
		{"run-limit", "{passed};\nUPDATE owned SET deadline = {now} - {hour} / 60 WHERE seq = {running}", 0},
		{"lost-revoked", `{passed};
UPDATE session SET expires_at = {now} - {hour}, marked_at = {now} WHERE n = {its session}`, 0},
		{"lost-revoked", "{passed};\nUPDATE session SET ended_at = {now} - {hour} WHERE n = {its session}", 1},
		{"run-limit", "{passed};\nUPDATE owned SET deadline = {now} - {hour} WHERE seq = {running}", 1},
	} {
		_, s := scratchStore(t)
		s.force(t, c.sql)
		if got, _ := s.violations(t, c.invariant, 0, 10); len(got) != c.want {
			t.Errorf("%s after %s: got %v, want %d", c.invariant, c.sql, got, c.want)
		}
	}
}

// Whatever the size of a chunk, a walk sees every row, once.
func TestInspectWalksEveryRow(t *testing.T) {
	_, s := scratchStore(t)
	s.force(t, "UPDATE job SET args = '{', held_by = NULL")
	jobs := int64(0)
	s.look(t.Context(), "counting", func(v *view) error {
		n, err := one(v.q, "SELECT count(*) FROM job")
		jobs = num(n)
		return err
	})
	for _, since := range []daybook.Time{0, 1} {
		for _, size := range []int64{1, 2, 3, jobs, jobs + 1} {
			found, chunks := s.violations(t, "args-json", since, size)
			if got := int64(len(distinctRows(found))); got != jobs {
				t.Errorf("since %d, chunks of %d: got %d rows, want %d", since, size, got, jobs)
			}
			if since == 0 && int64(len(found)) != jobs {
				t.Errorf("chunks of %d: got %d violations, want %d", size, len(found), jobs)
			}
			if want := int(jobs / size); chunks < want {
				t.Errorf("chunks of %d: got %d chunks, want %d at least", size, chunks, want)
			}
		}
	}
}

// Between two chunks no snapshot stays open, however long the caller takes:
// the write-ahead log can be emptied. A snapshot that is open keeps it.
func TestInspectKeepsNoSnapshot(t *testing.T) {
	path := filepath.Join(t.TempDir(), "book.db")
	book, err := Open(t.Context(), path, Options{Busy: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer book.Close()
	if err := check.Fill(t.Context(), book); err != nil {
		t.Fatal(err)
	}
	s := book.Store().(*Store)
	emptied := func() bool {
		if _, err := book.Enqueue(t.Context(), daybook.Request{Queue: "q", Kind: "k"}); err != nil {
			t.Fatal(err)
		}
		busy := int64(0)
		err := s.alone(t.Context(), "emptying the log", func() error {
			return s.own.rows("PRAGMA wal_checkpoint(TRUNCATE)", nil, func(row []driver.Value) error {
				busy = num(row[0])
				return nil
			})
		})
		if err != nil {
			t.Fatal(err)
		}
		return busy == 0
	}
	err = s.Read(t.Context(), "keeping a snapshot", func(v daybook.View) error {
		if _, err := v.Setting(t.Context(), daybook.SettingSchema); err != nil {
			return err
		}
		if emptied() {
			t.Error("the log was emptied under an open snapshot, so this test shows nothing")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	in := daybook.Inspection{Invariant: daybook.Invariants[0], Chunk: 1}
	for chunks := 0; ; chunks++ {
		out, err := s.Inspect(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		if !emptied() {
			t.Fatalf("after chunk %d a snapshot is open", chunks)
		}
		if in.After = out.Next; chunks == 10 {
			return
		}
	}
}

func TestInspectRefuses(t *testing.T) {
	_, s := scratchStore(t)
	for _, in := range []daybook.Inspection{
		{Invariant: daybook.Invariant{Name: "no-such"}},
		{Invariant: daybook.Invariants[0], After: "x"},
		{Invariant: daybook.Invariants[0], After: "[]"},
		{Invariant: daybook.Invariants[0], After: `["0",1]`},
		{Invariant: daybook.Invariants[0], After: `[-1,1]`},
		{Invariant: daybook.Invariants[0], After: `[0,1.5]`},
	} {
		if _, err := s.Inspect(t.Context(), in); daybook.CodeOf(err) != daybook.CodeInvalid {
			t.Errorf("%+v: got %v, want invalid", in, err)
		}
	}
}

// What a broken book holds must not steer a terminal.
func TestInspectPrintsSafely(t *testing.T) {
	_, s := scratchStore(t)
	s.force(t, `UPDATE job SET held_by = 'x' || char(27) || '[31m' || char(10) || hex(zeroblob(500))
		WHERE seq = {running}`)
	found, _ := s.violations(t, "held-claim", 0, 10)
	if len(found) != 1 {
		t.Fatalf("got %v, want one violation", found)
	}
	detail := found[0].Detail
	if strings.ContainsFunc(detail, func(r rune) bool { return r < ' ' || r > '~' }) || len(detail) > 220 {
		t.Errorf("got detail %q", detail)
	}
	if _, err := daybook.ParseID(found[0].Subject); err != nil {
		t.Errorf("got subject %q, want a job id", found[0].Subject)
	}
}

// Every invariant has its query, and no query is for none.
func TestInspectKnowsEveryInvariant(t *testing.T) {
	for _, i := range daybook.Invariants {
		if r, ok := rules[i.Name]; !ok || len(r.full) == 0 {
			t.Errorf("no rule for %s", i.Name)
		}
		if breaks[i.Name] == "" {
			t.Errorf("nothing breaks %s", i.Name)
		}
	}
	if len(rules) != len(daybook.Invariants) || len(breaks) != len(daybook.Invariants) {
		t.Errorf("%d rules and %d breaks for %d invariants", len(rules), len(breaks), len(daybook.Invariants))
	}
}

// A chunk costs its rows: no query of a rule scans a table that grows, but for
// those that add a queue's rows up.
func TestInspectPlans(t *testing.T) {
	_, s := scratchStore(t)
	grows := []string{"job", "j", "ready", "r", "ended", "e", "d", "event", "x", "effect", "f", "request",
		"session", "s", "owned", "o"}
	for name, r := range rules {
		queries := []string{chunk + r.query}
		for _, source := range slices.Concat(r.full, r.live) {
			queries = append(queries, source.query)
		}
		if name == "counts-true" || name == "conservation" {
			queries = queries[1:]
		}
		for _, query := range queries {
			args := make([]driver.Value, 5)
			err := s.alone(context.Background(), "explaining", func() error {
				return s.own.rows("EXPLAIN QUERY PLAN "+query, args, func(row []driver.Value) error {
					step := strings.Fields(text(row[3]))
					if step[0] == "SCAN" && slices.Contains(grows, step[1]) && !slices.Contains(step, "INDEX") {
						t.Errorf("%s: the plan has %q", name, text(row[3]))
					}
					return nil
				})
			})
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

func TestBreakRefuses(t *testing.T) {
	file, err := Open(t.Context(), filepath.Join(t.TempDir(), "book.db"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := Break(t.Context(), file, "one-place"); daybook.CodeOf(err) != daybook.CodeRefused {
		t.Errorf("a file: got %v, want refused", err)
	}
	empty, err := Open(t.Context(), Memory, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer empty.Close()
	if err := Break(t.Context(), empty, "one-place"); daybook.CodeOf(err) != daybook.CodeRefused {
		t.Errorf("an empty book: got %v, want refused", err)
	}
	if err := Break(t.Context(), empty, "no-such"); daybook.CodeOf(err) != daybook.CodeInvalid {
		t.Errorf("an unknown invariant: got %v, want invalid", err)
	}
}
