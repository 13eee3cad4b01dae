package worker_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/daybooktest"
	"github.com/daybookdev/daybook/store/sqlite"
	"github.com/daybookdev/daybook/worker"
)

// contribsys/faktory #99: a job that kills its worker was delivered for ever,
// and took the jobs beside it along.
func TestL19_PoisonJobIsSetAsideAlone(t *testing.T) {
	inBubble(t, func(t *testing.T, book *daybooktest.Book) {
		reconciling(t, book)
		poison := enqueue(t, book, daybook.Request{Kind: "poison"})
		ids := make([]daybook.ID, 49)
		for i := range ids {
			ids[i] = enqueue(t, book, daybook.Request{})
		}
		hang := make(chan struct{})
		kills := 0
		for stateOf(t, book, poison) != daybook.SetAside && kills < 20 {
			p := newProcess(t, book, worker.Config{Concurrency: 50, NoLoops: true})
			killed := make(chan struct{})
			worker.Handle(p.Worker, "job", func(context.Context, *worker.Claim[none]) error {
				time.Sleep(time.Second)
				return nil
			})
			worker.Handle(p.Worker, "poison", func(context.Context, *worker.Claim[none]) error {
				p.cut() // dead for the world, with all that it holds
				close(killed)
				<-hang
				return nil
			})
			p.start(t)
			select {
			case <-killed:
				kills++
			case <-time.After(10 * time.Minute):
			}
			p.Stop()
			p.end(t)
			after(time.Minute)
		}
		last := newProcess(t, book, worker.Config{})
		worker.Handle(last.Worker, "job", func(context.Context, *worker.Claim[none]) error { return nil })
		last.start(t)
		after(10 * time.Minute)
		j := book.RequireState(poison, daybook.SetAside)
		if j.Reason != daybook.ReasonCrashes || kills != daybook.CrashesMax {
			t.Errorf("set aside for %s after %d crashes, want crashes after %d", j.Reason, kills, daybook.CrashesMax)
		}
		for _, id := range ids {
			if j := book.RequireState(id, daybook.Succeeded); j.Crashes > 2 {
				t.Errorf("job %s beside the poison is blamed for %d crashes", id, j.Crashes)
			}
		}
		close(hang)
	})
}

// Starts are recorded for jobs whose loss a person must judge, and only when
// their handlers begin: what waited for a slot is simply eligible again.
func TestStartsAreRecordedBeforeHandlersBegin(t *testing.T) {
	inBubble(t, func(t *testing.T, book *daybooktest.Book) {
		reconciling(t, book)
		p := newProcess(t, book, worker.Config{Concurrency: 1, NoLoops: true})
		hang := make(chan struct{})
		worker.Handle(p.Worker, "fast", func(context.Context, *worker.Claim[none]) error { return nil })
		worker.Handle(p.Worker, "slow", func(_ context.Context, c *worker.Claim[none]) error {
			list, err := book.Timeline(context.Background(), c.Job().ID)
			if err != nil || !slices.ContainsFunc(list, func(e daybook.Event) bool { return e.What == "started" }) {
				t.Errorf("the handler runs and no start is recorded: %v, %v", list, err)
			}
			p.cut()
			<-hang
			return nil
		})
		for range 50 {
			enqueue(t, book, daybook.Request{Kind: "fast", Priority: 1})
		}
		ids := make([]daybook.ID, 5)
		for i := range ids {
			ids[i] = enqueue(t, book, daybook.Request{Kind: "slow", OnLost: daybook.LostSetAside})
		}
		p.start(t)
		after(time.Second)
		for _, id := range ids {
			book.RequireState(id, daybook.Running)
		}
		after(2 * time.Minute)
		if j := book.RequireState(ids[0], daybook.SetAside); j.Reason != daybook.ReasonLost || j.Crashes != 1 {
			t.Errorf("the one that began: %s, %d crashes; want lost and 1", j.Reason, j.Crashes)
		}
		for _, id := range ids[1:] {
			if j := book.RequireState(id, daybook.Waiting); j.Crashes != 0 {
				t.Errorf("job %s never began and is blamed for %d crashes", id, j.Crashes)
			}
		}
		close(hang)
	})
}

func TestStartsAreRecordedInBatches(t *testing.T) {
	inBubble(t, func(t *testing.T, book *daybooktest.Book) {
		p := newProcess(t, book, worker.Config{Concurrency: 100})
		p.set(func(context.Context, string) error { time.Sleep(time.Millisecond); return nil }, nil)
		worker.Handle(p.Worker, "job", func(context.Context, *worker.Claim[none]) error { return nil })
		for range 100 {
			enqueue(t, book, daybook.Request{OnLost: daybook.LostSetAside})
		}
		if err := p.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		p.bell.Close()
		if got := p.Stats().Succeeded; got != 100 {
			t.Errorf("%d succeeded, want 100", got)
		}
		if got := p.count("recording starts"); got == 0 || got > 10 {
			t.Errorf("%d writes for 100 starts, want a few", got)
		}
	})
}

// A database that is away for two leases costs nobody's work: the sessions live
// on when it is back, and what handlers did is recorded.
func TestDatabaseAwayForTwoLeasesLosesNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, book *daybooktest.Book) {
		fleet := make([]*process, 5)
		for i := range fleet {
			p := newProcess(t, book, worker.Config{Concurrency: 4})
			worker.Handle(p.Worker, "job", func(context.Context, *worker.Claim[none]) error {
				time.Sleep(90 * time.Second)
				return nil
			})
			fleet[i] = p
		}
		ids := make([]daybook.ID, 20)
		for i := range ids {
			ids[i] = enqueue(t, book, daybook.Request{})
		}
		for _, p := range fleet {
			p.start(t)
		}
		after(20 * time.Second)
		for _, p := range fleet {
			p.cut()
		}
		after(2 * daybook.LeaseDefault)
		for _, p := range fleet {
			p.mend()
		}
		after(5 * time.Minute)
		for _, id := range ids {
			if j := book.RequireState(id, daybook.Succeeded); j.Generation != 1 {
				t.Errorf("job %s has generation %d, want 1", id, j.Generation)
			}
		}
		for i, p := range fleet {
			if s := p.Stats(); s.Sessions != 1 || s.Lost != 0 || s.Fenced != 0 {
				t.Errorf("worker %d: %+v; want one session, nothing lost or fenced", i, s)
			}
		}
	})
}

// A claim's answer that comes too late to be trusted is asked for again.
func TestLateClaimAnswerStartsNothingTwice(t *testing.T) {
	inBubble(t, func(t *testing.T, book *daybooktest.Book) {
		p := newProcess(t, book, worker.Config{})
		var late atomic.Bool
		p.set(nil, func(doing string) error {
			if doing == "claiming" && !late.Swap(true) {
				time.Sleep(25 * time.Second)
			}
			return nil
		})
		var runs atomic.Int32
		worker.Handle(p.Worker, "job", func(context.Context, *worker.Claim[none]) error { runs.Add(1); return nil })
		id := enqueue(t, book, daybook.Request{})
		p.start(t)
		after(2 * time.Minute)
		j := book.RequireState(id, daybook.Succeeded)
		if s := p.Stats(); runs.Load() != 1 || s.Fenced != 0 || j.Failures+j.Crashes != 0 {
			t.Errorf("%d runs, stats %+v, %d failures, %d crashes; want one run and no blame", runs.Load(), s, j.Failures, j.Crashes)
		}
	})
}

// poisonTx fails whatever touches one job, like a row that a database can't
// write.
type poisonTx struct {
	daybook.Tx
	job daybook.ID
}

func (p poisonTx) Lock(ctx context.Context, ids []daybook.ID) ([]daybook.Job, error) {
	if slices.Contains(ids, p.job) {
		return nil, errors.New("disk is full of eels")
	}
	return p.Tx.Lock(ctx, ids)
}

// poisonStore writes outcomes through poisonTx.
type poisonStore struct {
	daybook.Store
	job atomic.Pointer[daybook.ID]
}

func (p *poisonStore) Write(ctx context.Context, doing string, fn func(daybook.Tx) error) error {
	id := p.job.Load()
	if id == nil || doing != "recording outcomes" {
		return p.Store.Write(ctx, doing, fn)
	}
	return p.Store.Write(ctx, doing, func(tx daybook.Tx) error {
		if err := fn(poisonTx{tx, *id}); err != nil {
			return daybook.Fail(daybook.CodeInternal, "can't write")
		}
		return nil
	})
}

// One outcome that can't be recorded holds up no other, and not the worker.
func TestOutcomeThatCantBeRecordedIsLeftToTheLease(t *testing.T) {
	inBubble(t, func(t *testing.T, book *daybooktest.Book) {
		store := &poisonStore{Store: book.Store()}
		own := daybook.New(store, daybook.Options{Log: slog.New(slog.DiscardHandler)})
		w := worker.New(own, worker.Config{Queues: []string{"q"}, Concurrency: 10})
		worker.Handle(w, "job", func(context.Context, *worker.Claim[none]) error { time.Sleep(time.Second); return nil })
		ids := make([]daybook.ID, 10)
		for i := range ids {
			ids[i] = enqueue(t, book, daybook.Request{})
		}
		store.job.Store(&ids[3])
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- w.Run(ctx) }()
		after(10 * time.Second)
		for i, id := range ids {
			if i != 3 {
				book.RequireState(id, daybook.Succeeded)
			}
		}
		store.job.Store(nil)
		after(2 * time.Minute) // two renewals don't list it: given back
		book.RequireState(ids[3], daybook.Succeeded)
		stop()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

// A ring wakes an idle worker at once, and one ring wakes one worker.
func TestOneRingWakesOneWorker(t *testing.T) {
	inBubble(t, func(t *testing.T, book *daybooktest.Book) {
		fleet := make([]*process, 50)
		for i := range fleet {
			p := newProcess(t, book, worker.Config{Poll: -1, NoLoops: true})
			p.bell.Close()
			own := daybook.New(p.cable, daybook.Options{Bell: book.Bell(), Log: book.Log()})
			p.Worker = worker.New(own, worker.Config{Queues: []string{"q"}, Poll: -1, NoLoops: true})
			worker.Handle(p.Worker, "job", func(context.Context, *worker.Claim[none]) error { return nil })
			p.start(t)
			fleet[i] = p
		}
		calls := func() (n int) {
			synctest.Wait()
			for _, p := range fleet {
				n += p.count("claiming")
			}
			return n
		}
		before := calls()
		begun := time.Now()
		id := enqueue(t, book, daybook.Request{})
		got := calls() - before
		book.RequireState(id, daybook.Succeeded)
		if got != 1 || time.Since(begun) != 0 {
			t.Errorf("%d claim calls after %s for one ring to 50 workers, want one at once", got, time.Since(begun))
		}
	})
}

// One ring for many jobs wakes the fleet: a full claim rings once more.
func TestFullClaimRingsOn(t *testing.T) {
	inBubble(t, func(t *testing.T, book *daybooktest.Book) {
		var mu sync.Mutex
		by := map[string]int{}
		for _, name := range []string{"w1", "w2", "w3", "w4"} {
			w := worker.New(book.Book, worker.Config{Queues: []string{"q"}, Name: name, Concurrency: 5, Poll: -1, NoLoops: true})
			worker.Handle(w, "job", func(ctx context.Context, _ *worker.Claim[none]) error {
				mu.Lock()
				by[name]++
				mu.Unlock()
				<-ctx.Done()
				return ctx.Err()
			})
			ctx, stop := context.WithCancel(t.Context())
			done := make(chan error)
			go func() { done <- w.Run(ctx) }()
			t.Cleanup(func() { stop(); <-done })
		}
		synctest.Wait()
		requests := make([]daybook.Request, 20)
		for i := range requests {
			requests[i] = daybook.Request{Queue: "q", Kind: "job"}
		}
		if _, err := book.EnqueueMany(t.Context(), requests); err != nil {
			t.Fatal(err)
		}
		after(time.Second)
		mu.Lock()
		defer mu.Unlock()
		for name, n := range by {
			if n != 5 || len(by) != 4 {
				t.Errorf("worker %s of %d runs %d of 20 jobs, want 5 each of 4", name, len(by), n)
			}
		}
	})
}

// Without a bell the poll floor finds the work, jittered.
func TestPollFloor(t *testing.T) {
	inBubble(t, func(t *testing.T, book *daybooktest.Book) {
		p := newProcess(t, book, worker.Config{Poll: 10 * time.Second, NoLoops: true})
		worker.Handle(p.Worker, "job", func(context.Context, *worker.Claim[none]) error { return nil })
		p.start(t)
		after(10 * time.Minute)
		if got := p.count("claiming"); got < 50 || got > 76 {
			t.Errorf("%d looks in 10 minutes, want one every 8 to 12s", got)
		}
		id := enqueue(t, book, daybook.Request{})
		after(12 * time.Second)
		book.RequireState(id, daybook.Succeeded)
	})
}

// Claims come in batches: a thousand jobs must not cost a thousand calls.
func TestClaimsComeInBatches(t *testing.T) {
	inBubble(t, func(t *testing.T, book *daybooktest.Book) {
		requests := make([]daybook.Request, 2000)
		for i := range requests {
			requests[i] = daybook.Request{Queue: "q", Kind: "job"}
		}
		if _, err := book.EnqueueMany(t.Context(), requests); err != nil {
			t.Fatal(err)
		}
		p := newProcess(t, book, worker.Config{Concurrency: 100})
		p.bell.Close()
		var running, most atomic.Int32
		worker.Handle(p.Worker, "job", func(context.Context, *worker.Claim[none]) error {
			n := running.Add(1)
			for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
			}
			time.Sleep(time.Millisecond)
			running.Add(-1)
			return nil
		})
		if err := p.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := p.count("claiming"); got > 40 {
			t.Errorf("%d claim calls for 2000 jobs in 100 slots", got)
		}
		if most.Load() != 100 {
			t.Errorf("%d handlers ran at once, want all 100 slots", most.Load())
		}
	})
}

// The gaps of the worker are marked in order.
func TestGapsAreMarked(t *testing.T) {
	inBubble(t, func(t *testing.T, book *daybooktest.Book) {
		p := newProcess(t, book, worker.Config{})
		p.bell.Close()
		id := enqueue(t, book, daybook.Request{})
		var mu sync.Mutex
		var gaps []string
		p.onGap(func(gap string, job daybook.ID) {
			mu.Lock()
			defer mu.Unlock()
			if job == id {
				gaps = append(gaps, gap)
			} else if gap == daybook.GapClaim && len(gaps) == 0 {
				gaps = append(gaps, gap)
			}
		})
		worker.Handle(p.Worker, "job", func(context.Context, *worker.Claim[none]) error { return nil })
		if err := p.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		want := []string{daybook.GapClaim, daybook.GapGrant, daybook.GapStart, daybook.GapPause, daybook.GapComplete, daybook.GapReply}
		if !slices.Equal(gaps, want) {
			t.Errorf("gaps %v, want %v", gaps, want)
		}
	})
}

// Error texts of sensitive kinds stay out of the logs.
func TestSensitiveKindsStayOutOfTheLogs(t *testing.T) {
	for _, sensitive := range []bool{false, true} {
		inBubble(t, func(t *testing.T, book *daybooktest.Book) {
			var log bytes.Buffer
			w := worker.New(book.Book, worker.Config{Queues: []string{"q"}, Log: slog.New(slog.NewTextHandler(&log, nil))})
			worker.Handle(w, "job", func(context.Context, *worker.Claim[none]) error { return errors.New("card 4711") },
				worker.KindOptions{Sensitive: sensitive})
			enqueue(t, book, daybook.Request{})
			book.RunUntilIdle(t.Context(), w)
			if told := strings.Contains(log.String(), "4711"); told == sensitive || !strings.Contains(log.String(), "an attempt failed") {
				t.Errorf("sensitive %v: the log says %s", sensitive, log.String())
			}
		})
	}
}

// A handler's own writes and the completion in one transaction.
func TestClaimTx(t *testing.T) {
	for _, c := range []struct {
		name  string
		end   error // of the handler, after its transaction
		roll  bool  // the transaction fails
		rows  int
		state daybook.State
	}{
		{"completes", nil, false, 1, daybook.Succeeded},
		{"stays completed", errors.New("afterwards"), false, 1, daybook.Succeeded},
		{"rolls back", nil, true, 0, daybook.SetAside},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "book.db")
			book, err := sqlite.Open(t.Context(), path,
				sqlite.Options{Book: daybook.Options{Log: slog.New(slog.DiscardHandler)}})
			if err != nil {
				t.Fatal(err)
			}
			defer book.Close()
			db, err := sql.Open("sqlite", path)
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			if _, err := db.Exec("CREATE TABLE mine (n INTEGER)"); err != nil {
				t.Fatal(err)
			}
			receipt, err := book.Enqueue(t.Context(), daybook.Request{Queue: "q", Kind: "job"})
			if err != nil {
				t.Fatal(err)
			}
			w := worker.New(book, worker.Config{Queues: []string{"q"}, NoLoops: true})
			worker.Handle(w, "job", func(ctx context.Context, claim *worker.Claim[none]) error {
				if err := claim.SetResult("in one"); err != nil {
					return err
				}
				err := sqlite.ClaimTx(ctx, claim, func(tx *sql.Tx) error {
					if err := claim.Progress(ctx, 1); !errors.Is(err, daybook.ErrRefused) {
						t.Errorf("Progress inside the transaction: %v, want refused", err)
					}
					if _, err := claim.EnterTx(); !errors.Is(err, daybook.ErrRefused) {
						t.Errorf("a second transaction inside: %v, want refused", err)
					}
					if _, err := tx.Exec("INSERT INTO mine VALUES (1)"); err != nil || !c.roll {
						return err
					}
					return worker.Permanent(errors.New("rolled back"))
				})
				if err != nil {
					return err
				}
				return c.end
			})
			if err := w.Drain(t.Context()); err != nil {
				t.Fatal(err)
			}
			j, err := book.Job(t.Context(), receipt.ID)
			if err != nil || j.State != c.state {
				t.Fatalf("job is %s, %v; want %s", j.State, err, c.state)
			}
			if c.state == daybook.Succeeded && string(j.Result) != `"in one"` {
				t.Errorf("result %s", j.Result)
			}
			rows := 0
			if err := db.QueryRow("SELECT count(*) FROM mine").Scan(&rows); err != nil || rows != c.rows {
				t.Errorf("%d rows, %v; want %d", rows, err, c.rows)
			}
			if s := w.Stats(); s.Fenced != 0 {
				t.Errorf("stats %+v; want nothing fenced", s)
			}
		})
	}
}
