package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/internal/pgtest"
	"github.com/daybookdev/daybook/reconcile"
	"github.com/daybookdev/daybook/worker"
)

// TestL15_ReconcilersAndARestart: two recoverers and a restart of the database
// in the middle of a recovery of 250 jobs: all of them finish, and each body
// runs once per generation.
func TestL15_ReconcilersAndARestart(t *testing.T) {
	t.Parallel() // it waits more than it works
	server := ownServer(t, pgtest.Options{})
	book := fresh(t, server.URL("postgres"), Options{})
	enqueued(t, book, 250)
	if got := claimed(t, book, session(t, book, time.Second), 250); len(got) != 250 {
		t.Fatalf("claimed %d", len(got))
	}
	var ran sync.Map
	var twice atomic.Int64
	w := worker.New(book, worker.Config{Queues: []string{"q"}, Concurrency: 20, Lease: 5 * time.Second,
		Poll: 100 * time.Millisecond})
	worker.Handle(w, "k", func(_ context.Context, c *worker.Claim[json.RawMessage]) error {
		if _, again := ran.LoadOrStore(fmt.Sprint(c.Job().ID, c.Generation()), true); again {
			twice.Add(1)
		}
		return nil
	})
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var all sync.WaitGroup
	all.Go(func() { w.Run(ctx) })
	for range 2 {
		all.Go(func() {
			r := reconcile.New(book, reconcile.Options{Log: quiet()})
			for ctx.Err() == nil {
				r.Pass(ctx, daybook.AtOnce)
			}
		})
	}
	until(t, "some of them recovered", func() bool { return succeeded(t, book) > 0 })
	ok(t, server.Restart())
	until(t, "all of them", func() bool {
		_, backlog, err := book.Backlog(ctx)
		return err == nil && len(backlog) == 1 && backlog[0].Succeeded == 250
	})
	stop()
	all.Wait()
	if twice.Load() != 0 {
		t.Errorf("%d bodies ran twice in one generation", twice.Load())
	}
}

// TestL17_ConnectionsOfAWorkerKilled: ownership is the lease and not a
// connection: with all connections of a worker killed nobody else claims, and
// the worker completes.
func TestL17_ConnectionsOfAWorkerKilled(t *testing.T) {
	plain := pgtest.SharedURL(t)
	book := fresh(t, dsn(plain, "application_name=daybook-l17"), Options{})
	other := openBook(t, plain, book.Store().(*Store).Schema(), Options{})
	enqueued(t, book, 1)
	mine := claimed(t, book, session(t, book, time.Minute), 1)
	killed := psql(t, plain, `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
		WHERE application_name = 'daybook-l17'`)
	if strings.TrimSpace(killed) == "0" {
		t.Fatal("no connection was there to be killed")
	}
	_, _, err := other.EndExpiredSessions(t.Context(), daybook.AtOnce)
	ok(t, err)
	if got := claimed(t, other, session(t, other, time.Minute), 1); len(got) != 0 {
		t.Fatal("a second claim before the lease was over")
	}
	complete(t, book, mine[0])
}

// TestL38_LowerNumberCommitsLater: who folds counting rows takes what is there,
// so one that was written earlier and committed later isn't skipped.
func TestL38_LowerNumberCommitsLater(t *testing.T) {
	plain := pgtest.SharedURL(t)
	book := fresh(t, plain, Options{})
	s := book.Store().(*Store)
	conn, err := pgx.Connect(t.Context(), plain)
	ok(t, err)
	defer conn.Close(context.Background())
	tx, err := conn.Begin(t.Context())
	ok(t, err)
	_, err = In(s.Schema()).EnqueueTx(t.Context(), tx, daybook.Request{Queue: "q", Kind: "k"})
	ok(t, err)
	_, err = book.Enqueue(t.Context(), daybook.Request{Queue: "r", Kind: "k"}) // later, and committed first
	ok(t, err)
	fold := func() {
		ok(t, s.Write(t.Context(), "folding", func(tx daybook.Tx) error {
			_, err := tx.Sweep(t.Context(), daybook.Cutoffs{Counting: tx.Now() + 1}, 1000)
			return err
		}))
	}
	fold()
	ok(t, tx.Commit(t.Context()))
	fold()
	_, backlog, err := book.Backlog(t.Context())
	ok(t, err)
	for _, b := range backlog {
		if b.Accepted != 1 || b.Waiting != 1 {
			t.Errorf("queue %s: accepted %d, waiting %d", b.Queue, b.Accepted, b.Waiting)
		}
	}
	if got := claimed(t, book, session(t, book, time.Minute), 5); len(got) != 1 {
		t.Errorf("claimed %d of the job that committed later", len(got))
	}
}

// TestL41_AnswersLost: the answer of the database is dropped once in each call,
// for enqueue, claim and complete: the repeat gives the same job, the same
// claim, "already". The conformance suite does it for every round trip.
func TestL41_AnswersLost(t *testing.T) {
	plain := pgtest.SharedURL(t)
	book := fresh(t, plain, Options{})
	behind, p := through(t, plain)
	spoilt := openBook(t, behind, book.Store().(*Store).Schema(), Options{})
	s := session(t, book, time.Minute)
	for n := range 3 {
		before := p.Dropped()
		_, _, err := spoilt.Backlog(t.Context()) // a connection that stands
		ok(t, err)
		p.DropAnswers(1)
		receipt, err := spoilt.Enqueue(t.Context(), daybook.Request{Queue: "q", Kind: "k", Key: fmt.Sprint("k", n)})
		ok(t, err)
		p.DropAnswers(1)
		got, err := spoilt.Claim(t.Context(), daybook.ClaimRequest{Session: s.ID, Queues: []string{"q"}, Limit: 5})
		ok(t, err)
		if len(got.Jobs) != 1 || got.Jobs[0].ID != receipt.ID || got.Jobs[0].Generation != 1 {
			t.Fatalf("got %v, want the one job at generation 1", got.Jobs)
		}
		p.DropAnswers(1)
		complete(t, spoilt, got.Jobs[0])
		if p.Dropped()-before != 3 {
			t.Fatalf("%d answers were dropped, want 3", p.Dropped()-before)
		}
	}
	if n := succeeded(t, book); n != 3 {
		t.Errorf("%d succeeded, want 3", n)
	}
}

// TestL45_ReadOnlyNode: the node becomes one that takes no writes, and one that
// does again: the book heals without a restart, and what was to be reported is.
func TestL45_ReadOnlyNode(t *testing.T) {
	t.Parallel() // it waits more than it works
	server := ownServer(t, pgtest.Options{})
	url := server.URL("postgres")
	book := fresh(t, url, Options{})
	enqueued(t, book, 1)
	mine := claimed(t, book, session(t, book, time.Minute), 1)
	psql(t, url, "ALTER SYSTEM SET default_transaction_read_only = on")
	psql(t, url, "SELECT pg_reload_conf()")
	until(t, "a refused write", func() bool {
		_, err := book.Enqueue(t.Context(), daybook.Request{Queue: "q", Kind: "k"})
		if err != nil && daybook.CodeOf(err) != daybook.CodeUnavailable {
			t.Fatalf("got %v (%s), want unavailable", err, daybook.CodeOf(err))
		}
		return err != nil
	})
	writing := dsn(url, "options=-c%20default_transaction_read_only%3Doff")
	psql(t, writing, "ALTER SYSTEM RESET default_transaction_read_only")
	psql(t, writing, "SELECT pg_reload_conf()")
	until(t, "the late completion", func() bool {
		_, err := book.Complete(t.Context(), mine[0].ID, ownerOf(mine[0]), nil)
		return err == nil
	})
}

// TestRefusedLogin: a server that lets nobody in for a while, or takes no writes, says
// nothing about what was to be recorded, and no word of the driver's comes out.
func TestRefusedLogin(t *testing.T) {
	t.Parallel()
	server := ownServer(t, pgtest.Options{})
	admin := server.URL("postgres")
	psql(t, admin, "CREATE ROLE barred LOGIN SUPERUSER")
	url := strings.Replace(admin, "postgres@", "barred@", 1)
	if url == admin {
		t.Fatalf("%s names no user to replace", admin)
	}
	book := fresh(t, url, Options{})
	enqueued(t, book, 1)
	mine := claimed(t, book, session(t, book, time.Minute), 1)
	for _, bar := range [][2]string{
		{"ALTER ROLE barred NOLOGIN", "ALTER ROLE barred LOGIN"},
		{"ALTER ROLE barred CONNECTION LIMIT 0 NOSUPERUSER", "ALTER ROLE barred CONNECTION LIMIT -1 SUPERUSER"},
		{"ALTER ROLE barred SET default_transaction_read_only = on", "ALTER ROLE barred RESET ALL"},
	} {
		psql(t, admin, bar[0])
		psql(t, admin, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'barred'")
		for n := 0; n < 3; { // the first may meet the connection's end
			_, err := book.Complete(t.Context(), mine[0].ID, ownerOf(mine[0]), nil)
			if err == nil {
				t.Fatalf("%s: it let us in", bar[0])
			}
			if text := err.Error(); daybook.CodeOf(err) != daybook.CodeUnavailable || strings.ContainsAny(text, "\n`") {
				t.Fatalf("%s: got %q (%s), want unavailable in one line", bar[0], text, daybook.CodeOf(err))
			}
			n++
		}
		psql(t, admin, bar[1])
		until(t, "a look", func() bool { _, err := book.Job(t.Context(), mine[0].ID); return err == nil })
	}
	_, err := book.Complete(t.Context(), mine[0].ID, ownerOf(mine[0]), nil)
	ok(t, err)
}

// TestReadOnlyConnections: connections to what takes no writes any more are left
// at the first refusal, all of them.
func TestReadOnlyConnections(t *testing.T) {
	book := fresh(t, pgtest.SharedURL(t), Options{Conns: 5})
	pool := book.Store().(*Store).pool
	var held []*pgxpool.Conn
	for range 5 {
		conn, err := pool.Acquire(t.Context())
		ok(t, err)
		_, err = conn.Exec(t.Context(), "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY")
		ok(t, err)
		held = append(held, conn)
	}
	for _, conn := range held {
		conn.Release()
	}
	refused := 0
	for ; refused < 5; refused++ {
		if _, err := book.Enqueue(t.Context(), daybook.Request{Queue: "q", Kind: "k"}); err == nil {
			break
		} else if daybook.CodeOf(err) != daybook.CodeUnavailable {
			t.Fatalf("got %v (%s), want unavailable", err, daybook.CodeOf(err))
		}
	}
	if refused > 1 {
		t.Errorf("%d writes were refused before the connections were left", refused)
	}
}

// TestL46_SchemaChangesUnderAWorker: tables gain columns and functions are
// replaced while a program of the version before works: it goes on.
func TestL46_SchemaChangesUnderAWorker(t *testing.T) {
	plain := pgtest.SharedURL(t)
	book := fresh(t, plain, Options{})
	store := book.Store().(*Store)
	s := session(t, book, time.Minute)
	for n := range 3 {
		ids := enqueued(t, book, 5)
		for _, j := range claimed(t, book, s, 5) {
			complete(t, book, j)
		}
		_, err := book.Job(t.Context(), ids[0])
		ok(t, err)
		for _, table := range []string{"job", "ready", "owned", "ended", "session", "queue"} {
			psql(t, plain, store.schema.in(fmt.Sprintf("ALTER TABLE daybook.%s ADD COLUMN later%d int", table, n)))
		}
		script, err := store.script(Version)
		ok(t, err)
		_, functions, _ := strings.Cut(script, "CREATE OR REPLACE")
		psql(t, plain, "SET check_function_bodies = off; CREATE OR REPLACE"+functions)
	}
	if n := succeeded(t, book); n != 15 {
		t.Errorf("%d succeeded, want 15", n)
	}
}

// TestL48_NoDeadlocks: eight claimers that end what they got in the opposite
// order, a person and a reconciler on the same hundred rows: nobody sees a
// deadlock.
func TestL48_NoDeadlocks(t *testing.T) {
	plain := pgtest.SharedURL(t)
	book := fresh(t, plain, Options{Conns: 20})
	ids := enqueued(t, book, 100)
	var all sync.WaitGroup
	var turns atomic.Int64
	run := func(doing string, fn func() error) {
		all.Go(func() {
			for turns.Load() < 1000 {
				err := fn()
				switch daybook.CodeOf(err) {
				case "", daybook.CodeFenced, daybook.CodeRefused, daybook.CodeBusy:
				default:
					t.Errorf("%s: %v (%s)", doing, err, daybook.CodeOf(err))
					return
				}
				turns.Add(1)
			}
		})
	}
	for range 8 {
		s := session(t, book, time.Minute)
		run("claiming and ending", func() error { return claimAndEnd(t.Context(), book, s) })
	}
	by := daybook.By{Actor: "ada", Reason: "a test"}
	run("cancelling and reviving", func() error {
		for _, id := range ids {
			if _, err := book.Cancel(t.Context(), id, by, true); err == nil {
				book.Revive(t.Context(), id, by)
			}
		}
		return nil
	})
	run("reconciling", func() error {
		_, err := reconcile.New(book, reconcile.Options{Log: quiet()}).Pass(t.Context(), daybook.AtOnce)
		return err
	})
	all.Wait()
	t.Logf("deadlocks that the server broke, and the book repeated: %s", psql(t, plain,
		"SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"))
}

func claimAndEnd(ctx context.Context, book *daybook.Book, s daybook.Session) error {
	got, err := book.Claim(ctx, daybook.ClaimRequest{Session: s.ID, Queues: []string{"q"}, Limit: 20})
	if err != nil {
		return err
	}
	outcomes := make([]daybook.Outcome, len(got.Jobs))
	for i, j := range got.Jobs {
		o := &outcomes[len(outcomes)-1-i]
		*o = daybook.Outcome{Job: j.ID, Owner: ownerOf(j), Kind: daybook.OutcomeReleased}
		if i%5 == 0 {
			o.Kind = daybook.OutcomeSucceeded
		}
	}
	_, err = book.Finish(ctx, outcomes)
	return err
}

// TestL65_OldSnapshot: doctor names the process that holds an old snapshot, and
// claims go on under it. (How fast is shown by the bench.)
func TestL65_OldSnapshot(t *testing.T) {
	plain := pgtest.SharedURL(t)
	book := fresh(t, plain, Options{})
	holder, err := pgx.Connect(t.Context(), plain)
	ok(t, err)
	defer holder.Close(context.Background())
	_, err = holder.Exec(t.Context(), "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT pg_current_xact_id()",
		pgx.QueryExecModeSimpleProtocol)
	ok(t, err)
	s := session(t, book, time.Minute)
	for range 20 {
		enqueued(t, book, 100)
		jobs := claimed(t, book, s, 100)
		if len(jobs) != 100 {
			t.Fatalf("claimed %d of 100", len(jobs))
		}
		for _, j := range jobs[:5] {
			complete(t, book, j)
		}
	}
	findings, err := Doctor(t.Context(), book)
	ok(t, err)
	if said := fmt.Sprint(findings); !strings.Contains(said, fmt.Sprint("pid ", holder.PgConn().PID())) {
		t.Errorf("doctor doesn't name pid %d: %s", holder.PgConn().PID(), said)
	}
}

// TestL69_HandlersUseUpTheirConnections: with every connection for handlers'
// transactions taken, renewals and completions go on; a pool too small for them
// is refused.
func TestL69_HandlersUseUpTheirConnections(t *testing.T) {
	plain := pgtest.SharedURL(t)
	if _, err := Open(t.Context(), plain, Options{Conns: 1}); daybook.CodeOf(err) != daybook.CodeInvalid {
		t.Fatalf("one connection: got %v", err)
	}
	book := fresh(t, plain, Options{TxConns: 2})
	enqueued(t, book, 4)
	s := session(t, book, time.Minute)
	jobs := claimed(t, book, s, 4)
	hold, inside := make(chan struct{}), make(chan struct{}, 2)
	var all sync.WaitGroup
	for _, j := range jobs[:2] {
		all.Go(func() {
			err := ClaimTx(t.Context(), claimFor(book, j), func(pgx.Tx) error {
				inside <- struct{}{}
				<-hold
				return nil
			})
			if err != nil {
				t.Errorf("ClaimTx: %v", err)
			}
		})
	}
	<-inside
	<-inside
	for range 20 {
		_, err := book.Renew(t.Context(), s.ID, nil)
		ok(t, err)
	}
	complete(t, book, jobs[2])
	complete(t, book, jobs[3])
	close(hold)
	all.Wait()
}

// TestL73_DatabaseThatNeverAnswers: a server that takes connections and bytes
// and never answers holds nobody up for longer than the patience, and when it
// answers again the book does too.
func TestL73_DatabaseThatNeverAnswers(t *testing.T) {
	t.Parallel() // it waits more than it works
	plain := pgtest.SharedURL(t)
	book := fresh(t, plain, Options{})
	behind, p := through(t, plain)
	stuck := openBook(t, behind, book.Store().(*Store).Schema(), Options{Patience: 2 * time.Second})
	enqueued(t, stuck, 1)
	once := func() error {
		_, err := stuck.Enqueue(t.Context(), daybook.Request{Queue: "q", Kind: "k", Key: "once"})
		return err
	}
	p.Stall(true)
	for _, call := range []func() error{once,
		func() error { _, _, err := stuck.Backlog(t.Context()); return err },
		func() error { _, err := stuck.Sweep(t.Context()); return err },
	} {
		if err := call(); daybook.CodeOf(err) != daybook.CodeUnavailable {
			t.Fatalf("got %v (%s), want unavailable", err, daybook.CodeOf(err))
		}
	}
	p.Stall(false)
	until(t, "an answer", func() bool { return once() == nil })
	if got := claimed(t, book, session(t, book, time.Minute), 10); len(got) != 2 {
		t.Errorf("%d jobs, want the first and the one of the key", len(got))
	}
}

// TestL77_StricterIsolation: the database's default isolation is serializable,
// and nobody sees a serialization failure.
func TestL77_StricterIsolation(t *testing.T) {
	book := fresh(t, serializable(t), Options{})
	var all sync.WaitGroup
	for range 8 {
		s := session(t, book, time.Minute)
		all.Go(func() {
			for range 20 {
				_, err := book.EnqueueMany(t.Context(), []daybook.Request{{Queue: "q", Kind: "k"}, {Queue: "q", Kind: "k"}})
				if err != nil {
					t.Errorf("enqueueing: %v", err)
				}
				if err := claimAndEnd(t.Context(), book, s); err != nil {
					t.Errorf("claiming and ending: %v", err)
				}
			}
		})
	}
	all.Wait()
}
