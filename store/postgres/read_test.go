package postgres

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/daybookdev/daybook"
)

// reads are the questions that a large book answers from a few rows.
func reads(b *dayBook, id daybook.ID) map[string]func(v daybook.View) error {
	ctx := b.Context()
	list := func(f daybook.Filter) func(daybook.View) error {
		f.Limit = 10
		return func(v daybook.View) error {
			page, err := v.Jobs(ctx, f)
			if err == nil && page.Cursor != "" {
				f := f
				f.Cursor = page.Cursor
				_, err = v.Jobs(ctx, f)
			}
			return err
		}
	}
	find := func(q daybook.Finding) func(daybook.View) error {
		return func(v daybook.View) error {
			q := q
			q.Limit = 10
			if q.Cutoff == 0 {
				q.Cutoff = v.Now()
			}
			_, err := v.Find(ctx, q)
			return err
		}
	}
	return map[string]func(v daybook.View) error{
		"a job":      func(v daybook.View) error { _, _, err := v.Job(ctx, id); return err },
		"a key":      func(v daybook.View) error { _, _, err := v.Key(ctx, "k7"); return err },
		"an attempt": func(v daybook.View) error { _, _, err := v.AttemptOf(ctx, daybook.Job{Ref: 7}, 1); return err },
		"a history":  func(v daybook.View) error { _, err := v.History(ctx, daybook.Job{Ref: 7, Key: "k7"}); return err },
		"effects": func(v daybook.View) error {
			_, err := v.Effects(ctx, daybook.EffectFilter{Open: true, Limit: 10})
			return err
		},
		"queues":           func(v daybook.View) error { _, err := v.Queues(ctx, false); return err },
		"newest jobs":      list(daybook.Filter{}),
		"waiting jobs":     list(daybook.Filter{State: daybook.Waiting}),
		"those of a queue": list(daybook.Filter{State: daybook.Waiting, Queue: "q7"}),
		"held jobs":        list(daybook.Filter{Held: true}),
		"running jobs":     list(daybook.Filter{State: daybook.Running}),
		"succeeded jobs":   list(daybook.Filter{State: daybook.Succeeded}),
		"set-aside jobs":   list(daybook.Filter{State: daybook.SetAside}),
		"cancelled jobs":   list(daybook.Filter{State: daybook.Cancelled}),
		"by key":           list(daybook.Filter{Key: "k7"}),
		"lost claims":      find(daybook.Finding{What: daybook.FindOfEndedSessions}),
		"overdue claims":   find(daybook.Finding{What: daybook.FindPastRunLimit}),
		"expired jobs":     find(daybook.Finding{What: daybook.FindPastExpiry}),
		"old jobs":         find(daybook.Finding{What: daybook.FindPastRetention, Cutoff: 1}),
		"set-aside matches": find(daybook.Finding{What: daybook.FindMatching,
			Filter: daybook.Filter{State: daybook.SetAside}}),
		"set aside in a queue": find(daybook.Finding{What: daybook.FindMatching,
			Filter: daybook.Filter{State: daybook.SetAside, Queue: "q9"}}),
		"running matches": find(daybook.Finding{What: daybook.FindMatching,
			Filter: daybook.Filter{State: daybook.Running}}),
	}
}

// large are many jobs in every place, loaded past all statistics.
const large = `
	INSERT INTO daybook.queue (name) SELECT 'q' || n FROM generate_series(1, 50) n;
	INSERT INTO daybook.job (enqueued_at, id, queue, rank, kind, args, key, state, ended_at, reason, held_by)
		SELECT {now}, gen_random_uuid(), 1 + n % 50, -1, 'k', '{}', 'k' || n, CASE WHEN n % 10 < 8 THEN 0 ELSE n % 10 - 4 END,
			CASE WHEN n % 10 >= 8 THEN {now} END, CASE WHEN n % 10 = 8 THEN 'failures' END, CASE WHEN n % 1000 = 1 THEN 'x' END
		FROM generate_series(1, 60000) n;
	INSERT INTO daybook.ready (lane, rank, run_at, seq, kind, expires_at)
		SELECT CASE WHEN held_by IS NULL THEN queue ELSE -queue END, rank, enqueued_at, seq, kind,
			CASE WHEN seq % 5 = 0 THEN {now} + 1000000000 END FROM daybook.job WHERE state = 0 AND seq % 10 < 4;
	INSERT INTO daybook.ended (filed_at, seq, generation, session, claimed_at, outcome)
		SELECT {now} - (60000 - seq) * 100000, seq, 1, 7, enqueued_at, 1 FROM daybook.job WHERE state = 0 AND seq % 10 >= 4;
	INSERT INTO daybook.request (key, job, fingerprint, created_at) SELECT key, id, sha256('x'), {now} FROM daybook.job;
	INSERT INTO daybook.effect (seq, name, policy, state, generation, key, begun_at) SELECT seq, 'e', 'ask',
		CASE WHEN seq % 1000 = 8 THEN 'open' ELSE 'done' END, 1, 'k', {now} FROM daybook.job;
	INSERT INTO daybook.event (seq, at, what) SELECT seq, {now}, 'seen' FROM daybook.job;
	INSERT INTO daybook.refusal (seq, generation, session, operation, at)
		SELECT seq, 1, id, 'complete', {now} FROM daybook.job;
	INSERT INTO daybook.progress (seq, generation, progress) SELECT seq, 1, '1' FROM daybook.job`

// TestReadsOfALargeBook: no read walks a large table because it was planned
// when that was empty, nor because nothing was analyzed since.
func TestReadsOfALargeBook(t *testing.T) {
	b := rawDayBook(t)
	b.upkeep()
	big := []string{"job", "ready", "ended_22000101", "request", "effect", "event", "refusal", "progress"}
	for _, table := range big {
		b.sql("ALTER TABLE daybook." + table + " SET (autovacuum_enabled = false)")
	}
	b.sql("VACUUM ANALYZE daybook.job, daybook.ready, daybook.ended_22000101")
	all := reads(b, daybook.NewID())
	for range 10 { // a plan is kept after the fifth
		for name, read := range all {
			if err := b.s.Read(t.Context(), name, read); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
	}
	b.sql(replaceNow(large, b.time()))
	b.upkeep()
	id, err := daybook.ParseID(b.sql("SELECT id::text FROM daybook.job WHERE seq = 7")[0])
	b.ok(err)
	for name, read := range reads(b, id) {
		before := b.rowsRead(big)
		if err := b.s.Read(t.Context(), name, read); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for i, n := range b.rowsRead(big) {
			most := int64(12_000) // half of the smallest
			if name == "set aside in a queue" {
				most = 1000 // of 6,000 that are set aside: a bulk decision asks so for every few
			}
			if n -= before[i]; n > most {
				t.Errorf("%s: read %d rows of %s", name, n, big[i])
			}
		}
	}
}

func replaceNow(query string, now daybook.Time) string {
	return strings.ReplaceAll(query, "{now}", strconv.FormatInt(int64(now), 10))
}

// rowsRead tells how many rows of each table were ever read.
func (b *dayBook) rowsRead(tables []string) (rows []int64) {
	b.Helper()
	b.sql("SELECT pg_stat_force_next_flush()::text")
	for _, table := range tables {
		text := b.sql(`SELECT (seq_tup_read + coalesce(idx_tup_fetch, 0))::text FROM pg_stat_user_tables
			WHERE relname = '` + table + `' AND schemaname = (daybook.history_place()).place`)[0]
		n, err := strconv.ParseInt(text, 10, 64)
		b.ok(err)
		rows = append(rows, n)
	}
	return rows
}

// TestSucceededAcrossDays: pages of successes go back through the days, past
// what was removed already.
func TestSucceededAcrossDays(t *testing.T) {
	b := newDayBook(t)
	var all []daybook.ID
	var old daybook.Time
	for day := range 6 {
		if day != 2 { // whose day is made by Up, or is in the rest
			b.upkeep()
		}
		for i := range 5 {
			if i%2 == 0 {
				b.pass(time.Duration(i*i*i) * time.Minute)
			}
			all = append(all, b.done())
		}
		if day == 0 {
			old = b.time()
		}
		b.pass(oneDay)
	}
	slices.Reverse(all)
	b.listed("before anything was removed", all, 30)
	b.now.Store(int64(old.Add(daybook.RetentionDefault)))
	b.prune(5)
	b.listed("after the first day was", all, 25)
	b.pass(12 * time.Hour)
	b.prune(0)
	b.upkeep()
	b.listed("after it was dropped", all, 25)
}

// listed wants the successes to be the first n of all.
func (b *dayBook) listed(when string, all []daybook.ID, n int) {
	b.Helper()
	for _, limit := range []int{1, 4, 25, 100} {
		var got []int
		f := daybook.Filter{State: daybook.Succeeded, Limit: limit}
		for {
			page, err := b.Jobs(b.Context(), f)
			b.ok(err)
			for _, j := range page.Items {
				got = append(got, slices.Index(all, j.ID))
			}
			if f.Cursor = page.Cursor; f.Cursor == "" {
				break
			}
		}
		if len(got) != n || !slices.IsSorted(got) || got[0] != 0 || got[n-1] != n-1 {
			b.Errorf("%s, by %d: got %v, want 0 to %d", when, limit, got, n-1)
		}
	}
}

// TestRepairsPassByWhatIsHeld: a claim, or a waiting job, that another
// transaction holds is found by nobody who would wait for it.
func TestRepairsPassByWhatIsHeld(t *testing.T) {
	for _, c := range []struct {
		what daybook.What
		hold string
	}{
		{daybook.FindOfEndedSessions, "SELECT 1 FROM daybook.owned WHERE id = $1 FOR UPDATE"},
		{daybook.FindOfEndedSessions, "SELECT 1 FROM daybook.job WHERE id = $1 FOR UPDATE"},
		{daybook.FindPastRunLimit, "SELECT 1 FROM daybook.owned WHERE id = $1 FOR UPDATE"},
		{daybook.FindPastRunLimit, "SELECT 1 FROM daybook.job WHERE id = $1 FOR SHARE"},
		{daybook.FindPastExpiry, "SELECT 1 FROM daybook.job WHERE id = $1 FOR UPDATE"},
		{daybook.FindPastExpiry,
			"SELECT 1 FROM daybook.ready WHERE seq = (SELECT seq FROM daybook.job WHERE id = $1) FOR UPDATE"},
	} {
		t.Run(fmt.Sprint(c.what, " ", c.hold), func(t *testing.T) {
			b := newDayBook(t)
			var ids []daybook.ID
			for range 3 {
				if c.what == daybook.FindPastExpiry {
					r, err := b.Enqueue(t.Context(), daybook.Request{Queue: "q", Kind: "k",
						ExpiresAt: b.time().Std().Add(time.Minute)})
					b.ok(err)
					ids = append(ids, r.ID)
				} else {
					ids = append(ids, b.claimed().ID)
				}
			}
			b.pass(25 * time.Hour)
			_, _, err := b.EndExpiredSessions(t.Context(), daybook.AtOnce)
			b.ok(err)
			holder, err := b.s.txs.Begin(t.Context())
			b.ok(err)
			defer holder.Rollback(context.WithoutCancel(t.Context()))
			_, err = holder.Exec(t.Context(), b.s.schema.in(c.hold), ids[1].String())
			b.ok(err)
			b.ok(b.s.Write(t.Context(), "a test", func(tx daybook.Tx) error { return b.finds(tx, c.what, ids[0], ids[2]) }))
			b.ok(b.s.Read(t.Context(), "a test", func(v daybook.View) error { return b.finds(v, c.what, ids...) }))
		})
	}
}

// finds wants just these found.
func (b *dayBook) finds(v daybook.View, what daybook.What, want ...daybook.ID) error {
	b.Helper()
	got, err := v.Find(b.Context(), daybook.Finding{What: what, Cutoff: v.Now(), Limit: 10})
	if err == nil && !slices.Equal(got, want) {
		b.Errorf("found %v, want %v", got, want)
	}
	return err
}
