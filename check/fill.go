package check

import (
	"context"
	"encoding/json"
	"time"

	"github.com/daybookdev/daybook"
)

// Fill puts jobs in every state that a book can lead to by itself into a
// scratch book, each story in a queue named after it and, where somebody owned
// the job, with a session of its own.
func Fill(ctx context.Context, book *daybook.Book) error {
	for _, story := range []struct {
		queue string
		asks  daybook.Request
		then  func(f *filler, id daybook.ID) error
	}{
		{queue: "waiting"},
		{queue: "later", asks: daybook.Request{In: time.Hour}},
		{queue: "keyed", asks: daybook.Request{Key: "selftest"}},
		{queue: "running", then: (*filler).start},
		{queue: "succeeded", then: (*filler).succeed},
		{queue: "failed", asks: daybook.Request{MaxFailures: 1}, then: (*filler).fail},
		{queue: "retried", then: (*filler).fail},
		{queue: "snoozed", then: (*filler).snooze},
		{queue: "lost", asks: daybook.Request{OnLost: daybook.LostSetAside}, then: (*filler).lose},
		{queue: "cancelled", then: (*filler).cancel},
		{queue: "revived", asks: daybook.Request{MaxFailures: 1}, then: (*filler).revive},
		{queue: "expired", asks: daybook.Request{ExpiresAt: time.Unix(1, 0)}, then: (*filler).expire},
	} {
		f := &filler{ctx: ctx, book: book, queue: story.queue}
		story.asks.Queue, story.asks.Kind = story.queue, "selftest"
		receipt, err := book.Enqueue(ctx, story.asks)
		if err == nil && story.then != nil {
			err = story.then(f, receipt.ID)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

var byTest = daybook.By{Actor: "selftest", Reason: "a scratch book"}

// filler tells one story.
type filler struct {
	ctx   context.Context
	book  *daybook.Book
	queue string
}

func (f *filler) claim() (daybook.Owner, error) {
	got, err := f.book.Claim(f.ctx, daybook.ClaimRequest{Queues: []string{f.queue},
		SessionRequest: daybook.SessionRequest{Worker: "selftest", Lease: time.Hour}})
	if err == nil && len(got.Jobs) != 1 {
		err = daybook.Fail(daybook.CodeInternal, "queue %s of the scratch book gave %d jobs, want one",
			f.queue, len(got.Jobs))
	}
	if err != nil {
		return daybook.Owner{}, err
	}
	return daybook.Owner{Session: got.Session.ID, Generation: got.Jobs[0].Generation}, nil
}

func (f *filler) succeed(id daybook.ID) error {
	owner, err := f.claim()
	if err == nil {
		_, err = f.book.Complete(f.ctx, id, owner, json.RawMessage(`{"done":true}`))
	}
	return err
}

func (f *filler) fail(id daybook.ID) error {
	owner, err := f.claim()
	if err == nil {
		again := time.Duration(0)
		failure := daybook.Failure{Problem: daybook.NewProblem("it failed on purpose", "", "")}
		_, err = f.book.Fail(f.ctx, id, owner, failure, &again)
	}
	return err
}

func (f *filler) snooze(id daybook.ID) error {
	owner, err := f.claim()
	if err == nil {
		_, err = f.book.Release(f.ctx, id, owner, time.Hour)
	}
	return err
}

// lose has the claim taken away by a person, as a lost session's would be: it
// leaves the effect that nobody knows the end of.
func (f *filler) lose(id daybook.ID) error {
	if _, err := f.claim(); err != nil {
		return err
	}
	_, err := f.book.Cancel(f.ctx, id, byTest, true)
	return err
}

func (f *filler) start(daybook.ID) error {
	_, err := f.claim()
	return err
}

func (f *filler) cancel(id daybook.ID) error {
	_, err := f.book.Cancel(f.ctx, id, byTest, false)
	return err
}

func (f *filler) revive(id daybook.ID) error {
	err := f.fail(id)
	if err == nil {
		_, err = f.book.Revive(f.ctx, id, byTest)
	}
	return err
}

func (f *filler) expire(daybook.ID) error {
	_, err := f.book.ExpireWaiting(f.ctx)
	return err
}
