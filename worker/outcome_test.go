package worker_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/daybooktest"
	"github.com/daybookdev/daybook/worker"
)

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

// barredStore refuses to record anything, as a database does whose user may not
// write any more.
type barredStore struct {
	daybook.Store
	barred atomic.Int64 // calls that it refuses
}

func (b *barredStore) Write(ctx context.Context, doing string, fn func(daybook.Tx) error) error {
	if doing == "recording outcomes" && b.barred.Add(-1) >= 0 {
		return daybook.Fail(daybook.CodeRefused, "the database's user may not do this")
	}
	return b.Store.Write(ctx, doing, fn)
}

// A worker whose user may not write for a while says what came of an attempt when
// it may again: nothing runs twice, and nothing failed.
func TestOutcomesOutliveARefusedUser(t *testing.T) {
	inBubble(t, func(t *testing.T, book *daybooktest.Book) {
		store := &barredStore{Store: book.Store()}
		store.barred.Store(8)
		own := daybook.New(store, daybook.Options{Log: slog.New(slog.DiscardHandler)})
		w := worker.New(own, worker.Config{Queues: []string{"q"}, Concurrency: 10})
		runs := 0
		worker.Handle(w, "job", func(context.Context, *worker.Claim[none]) error {
			runs++
			return nil
		})
		id := enqueue(t, book, daybook.Request{})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- w.Run(ctx) }()
		after(2 * time.Minute)
		book.RequireState(id, daybook.Succeeded)
		if left := store.barred.Load(); runs != 1 || left >= 0 {
			t.Errorf("the job ran %d times, want once; %d refusals were left", runs, left)
		}
		stop()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

// One outcome that can't be recorded holds up no other, and not the worker.
func TestOutcomeThatCantBeRecordedIsLeftToTheLease(t *testing.T) {
	inBubble(t, func(t *testing.T, book *daybooktest.Book) {
		store := &poisonStore{Store: book.Store()}
		own := daybook.New(store, daybook.Options{Log: slog.New(slog.DiscardHandler)})
		w := worker.New(own, worker.Config{Queues: []string{"q"}, Concurrency: 10})
		worker.Handle(w, "job", func(context.Context, *worker.Claim[none]) error {
			time.Sleep(time.Second)
			return nil
		})
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

// Error texts of sensitive kinds stay out of the logs.
func TestSensitiveKindsStayOutOfTheLogs(t *testing.T) {
	for _, sensitive := range []bool{false, true} {
		inBubble(t, func(t *testing.T, book *daybooktest.Book) {
			var log bytes.Buffer
			w := worker.New(book.Book, worker.Config{Queues: []string{"q"},
				Log: slog.New(slog.NewTextHandler(&log, nil))})
			worker.Handle(w, "job", func(context.Context, *worker.Claim[none]) error {
				return errors.New("card 4711")
			}, worker.KindOptions{Sensitive: sensitive})
			enqueue(t, book, daybook.Request{})
			book.RunUntilIdle(t.Context(), w)
			said := log.String()
			if strings.Contains(said, "4711") == sensitive || !strings.Contains(said, "an attempt failed") {
				t.Errorf("sensitive %v: the log says %s", sensitive, log.String())
			}
		})
	}
}
