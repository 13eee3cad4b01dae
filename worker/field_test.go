package worker_test

import (
	"context"
	"database/sql"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/bell/local"
	"github.com/daybookdev/daybook/daybooktest"
	"github.com/daybookdev/daybook/store/sqlite"
	"github.com/daybookdev/daybook/worker"
)

// fleetOf starts idle workers that share a bell, each with a cable of its own.
func fleetOf(t *testing.T, book *daybooktest.Book, n int) []*process {
	t.Helper()
	fleet := make([]*process, n)
	for i := range fleet {
		p := newProcess(t, book, worker.Config{})
		p.bell.Close()
		own := daybook.New(p.cable, daybook.Options{Bell: book.Bell(), Log: book.Log()})
		p.Worker = worker.New(own, worker.Config{Queues: []string{"q"}})
		worker.Handle(p.Worker, "job", succeeds)
		p.start(t)
		fleet[i] = p
	}
	return fleet
}

// L72 (riverqueue/river PR 1150): 300 idle workers at their defaults, and one
// enqueue wakes one of them, not the fleet.
func TestL72OneEnqueueAmong300IdleWorkers(t *testing.T) {
	inBubble(t, func(t *testing.T, book *daybooktest.Book) {
		fleet := fleetOf(t, book, 300)
		looks := func() (n int) {
			for _, p := range fleet {
				n += p.count("claiming")
			}
			return n
		}
		after(time.Minute) // so that the polls are spread
		const window, rounds = 200 * time.Millisecond, 100
		before := looks()
		after(rounds * window)
		polls := looks() - before
		if most := rounds * 300 * int(window/time.Millisecond) / 4000; polls > most {
			t.Errorf("%d looks of idle workers in %s, want %d at most", polls, rounds*window, most)
		}
		before = looks()
		for range rounds {
			id := enqueue(t, book, daybook.Request{})
			synctest.Wait()
			book.RequireState(id, daybook.Succeeded) // at once
			after(window)
		}
		// The polls' jitter gives and takes a few: three times their spread.
		if more := looks() - before - polls; more > 3*rounds+100 {
			t.Errorf("%d enqueues made %d looks beyond the %d of the poll, want 3 each at most", rounds, more, polls)
		}
	})
}

// L40 (sidekiq 5239): a bell that rings before the commit makes nothing seen, and
// what rolls back never was.
func TestL40EarlyRing(t *testing.T) {
	path, bell := filepath.Join(t.TempDir(), "shop.db"), local.New()
	defer bell.Close()
	asks, acted := make(chan struct{}, 1000), make(chan struct{}, 1000)
	hook := func(gap string, _ daybook.ID) {
		switch gap {
		case daybook.GapClaim:
			asks <- struct{}{}
		case daybook.GapAck:
			acted <- struct{}{}
		}
	}
	book, err := sqlite.Open(t.Context(), path, sqlite.Options{Book: daybook.Options{Bell: bell, Hook: hook}})
	if err != nil {
		t.Fatal(err)
	}
	defer book.Close()
	defer daybooktest.Check(t, book)
	db, err := sql.Open("sqlite", "file:"+path+"?_txlock=immediate&_pragma=busy_timeout(5000)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var ended atomic.Bool
	ran := make(chan daybook.ID, 10)
	w := worker.New(book, worker.Config{Queues: []string{"q"}, Poll: -1, NoLoops: true})
	worker.Handle(w, "job", func(_ context.Context, c *worker.Claim[none]) error {
		if !ended.Load() {
			t.Errorf("job %s runs before its transaction has ended", c.Job().ID)
		}
		ran <- c.Job().ID
		return nil
	})
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- w.Run(ctx) }()
	defer func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	}()
	<-asks // and so it listens
	for _, commit := range []bool{false, true} {
		ended.Store(false)
		bell.Ring(t.Context(), "q")
		<-acted // an idle worker
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		receipts, err := sqlite.EnqueueSQL(t.Context(), tx, daybook.Request{Queue: "q", Kind: "job"})
		if err != nil {
			t.Fatal(err)
		}
		for len(asks) > 0 {
			<-asks
		}
		bell.Ring(t.Context(), "q")
		<-asks // the early ring is heard
		ended.Store(true)
		if !commit {
			if err := tx.Rollback(); err != nil {
				t.Fatal(err)
			}
			<-acted
			continue
		}
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
		if got := <-ran; got != receipts[0].ID {
			t.Errorf("ran job %s, want %s", got, receipts[0].ID)
		}
	}
	if s := w.Stats(); s.Claimed != 1 {
		t.Errorf("%d claims, want the one of the job that was committed", s.Claimed)
	}
}
