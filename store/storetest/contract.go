package storetest

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/daybookdev/daybook"
)

// runContract holds the store to the sentences of store.go, one subtest each.
// A subtest's name is its method and what it must do.
func runContract(t *testing.T, open opener) {
	eachOnFile(t, open, []test{
		{"Write is durable before it returns", writeIsDurable},
		{"Write undoes only what failed", writeUndoesAlone},
		{"Write gives back the error of fn", writeKeepsErrors},
		{"Write sees its own writes", writeSeesItself},
		{"Now is fixed in a transaction", nowIsFixed},
		{"Read is one snapshot", readIsSnapshot},
		{"Close twice is harmless and ends writes", closeEnds},
		{"Lock takes its locks in one order", lockOrder},
	})
	each(t, open, contractOfJobs)
	each(t, open, contractOfTraces)
	each(t, open, contractOfSave)
	each(t, open, contractOfComplete)
	each(t, open, contractOfRows)
	each(t, open, contractOfEffects)
	each(t, open, contractOfUpkeep)
	each(t, open, contractOfLists)
	each(t, open, contractOfViews)
	each(t, open, contractOfReview)
	each(t, open, contractOfRevive)
	each(t, open, contractOfStanding)
	each(t, open, contractOfCutovers)
}

func writeIsDurable(w *world) {
	id := w.enqueue(daybook.Request{})
	j := w.claimed(w.session("w"))
	w.complete(j)
	other := w.again()
	got := other.stands(id, daybook.Succeeded)
	same(w, "result in the other process", string(got.Result), `"done"`)
	if w.book.Store().Describe() == "" {
		w.Error("Describe says nothing")
	}
}

// writeUndoesAlone has many writers that are likely to share commits; every
// other one refuses after it wrote.
func writeUndoesAlone(w *world) {
	const writers = 64
	ids := make([]daybook.ID, writers)
	errs := make([]error, writers)
	var all sync.WaitGroup
	for i := range writers {
		all.Go(func() {
			n, err := request(daybook.Request{Key: fmt.Sprint("key ", i)}).Prepare()
			if err != nil {
				errs[i] = err
				return
			}
			ids[i] = n.Job.ID
			errs[i] = w.book.Store().Write(w.ctx, "a test", func(tx daybook.Tx) error {
				_, err := tx.Enqueue(w.ctx, []daybook.NewJob{n})
				if err == nil && i%2 == 1 {
					err = daybook.Fail(daybook.CodeRefused, "number %d refuses", i)
				}
				return err
			})
		})
	}
	all.Wait()
	w.read(func(v daybook.View) error {
		for i, id := range ids {
			want := daybook.Code("")
			if i%2 == 1 {
				want = daybook.CodeRefused
			}
			w.refused(errs[i], want)
			_, found, err := v.Job(w.ctx, id)
			if err != nil {
				return err
			}
			same(w, fmt.Sprint("job ", i, " is there"), found, i%2 == 0)
			_, found, err = v.Key(w.ctx, fmt.Sprint("key ", i))
			if err != nil {
				return err
			}
			same(w, fmt.Sprint("key ", i, " is there"), found, i%2 == 0)
		}
		return nil
	})
	same(w, "accepted", w.counts().Accepted, writers/2)
}

func writeKeepsErrors(w *world) {
	mine := daybook.Fail(daybook.CodeBusy, "mine")
	err := w.book.Store().Write(w.ctx, "a test", func(daybook.Tx) error { return mine })
	if !errors.Is(err, mine) {
		w.Errorf("Write: got %v, want the error of fn", err)
	}
	err = w.book.Store().Read(w.ctx, "a test", func(daybook.View) error { return mine })
	if !errors.Is(err, mine) {
		w.Errorf("Read: got %v, want the error of fn", err)
	}
}

func writeSeesItself(w *world) {
	n, err := request(daybook.Request{Key: "k1"}).Prepare()
	w.ok(err)
	w.write(func(tx daybook.Tx) error {
		if _, err := tx.Enqueue(w.ctx, []daybook.NewJob{n}); err != nil {
			return err
		}
		_, found, err := tx.Job(w.ctx, n.Job.ID)
		same(w, "the new job is there", found, true)
		if err != nil {
			return err
		}
		_, found, err = tx.Key(w.ctx, "k1")
		same(w, "its key is there", found, true)
		if err != nil {
			return err
		}
		page, err := tx.Jobs(w.ctx, daybook.Filter{State: daybook.Waiting, Limit: 10})
		same(w, "waiting jobs in the list", len(page.Items), 1)
		return err
	})
}

func nowIsFixed(w *world) {
	check := func(v daybook.View) error {
		first := v.Now()
		same(w, "now", first, w.clock.time())
		w.clock.advance(1)
		w.clock.advance(1e9)
		same(w, "now, later in the same transaction", v.Now(), first)
		return nil
	}
	w.write(func(tx daybook.Tx) error { return check(tx) })
	w.read(check)
}

// readIsSnapshot changes the book while somebody reads it.
func readIsSnapshot(w *world) {
	id := w.enqueue(daybook.Request{})
	s := w.session("w")
	w.read(func(v daybook.View) error {
		before, _, err := v.Job(w.ctx, id)
		if err != nil {
			return err
		}
		w.complete(w.claimed(s))
		later := w.enqueue(daybook.Request{})
		after, _, err := v.Job(w.ctx, id)
		if err != nil {
			return err
		}
		same(w, "the state before", before.State, daybook.Waiting)
		same(w, "the state in the same snapshot", after.State, daybook.Waiting)
		_, found, err := v.Job(w.ctx, later)
		same(w, "a later job is in the snapshot", found, false)
		return err
	})
	w.stands(id, daybook.Succeeded)
	w.complete(w.claimed(s))
}

func closeEnds(w *world) {
	other := w.again()
	w.ok(other.book.Close())
	w.ok(other.book.Close())
	err := other.book.Store().Write(w.ctx, "a test", func(daybook.Tx) error { return nil })
	w.refused(err, daybook.CodeUnavailable)
	err = other.book.Store().Read(w.ctx, "a test", func(daybook.View) error { return nil })
	w.refused(err, daybook.CodeUnavailable)
	// The file isn't closed for the others.
	w.enqueue(daybook.Request{})
}

// lockOrder has two processes lock the same jobs in opposite orders.
func lockOrder(w *world) {
	ids := w.many(20)
	back := make([]daybook.ID, len(ids))
	for i, id := range ids {
		back[len(ids)-1-i] = id
	}
	locks := func(of *world, ids []daybook.ID) error {
		for range 50 {
			err := of.book.Store().Write(of.ctx, "a test", func(tx daybook.Tx) error {
				jobs, err := tx.Lock(of.ctx, ids)
				for i, j := range jobs {
					if j.ID != ids[i] {
						return daybook.Fail(daybook.CodeInternal, "the answer isn't parallel to the ids")
					}
				}
				return err
			})
			if err != nil {
				return err
			}
		}
		return nil
	}
	other := w.again()
	failed := make(chan error)
	go func() { failed <- locks(w, ids) }()
	go func() { failed <- locks(other, back) }()
	w.ok(errors.Join(<-failed, <-failed))
}
