package check

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/daybookdev/daybook"
)

// Selftest checks the checker: for each invariant it opens a scratch book with
// jobs in every state, finds it as it should be, has breakIt put one row
// against that invariant, and looks whether the check fires. open makes a fresh
// book, best in memory; Selftest closes it. A table goes to w as it grows. The
// error names the invariants that didn't fire, or whose scratch book was found
// broken before it was.
func Selftest(ctx context.Context, open func() (*daybook.Book, error),
	breakIt func(ctx context.Context, book *daybook.Book, invariant string) error, w io.Writer) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "\tINVARIANT\tROWS\tFIRED TOO")
	var silent []string
	for _, invariant := range daybook.Invariants {
		rows, others, err := breakOne(ctx, open, breakIt, invariant.Name)
		if err != nil {
			return err
		}
		mark := "ok"
		if rows == 0 {
			mark = "SILENT"
			silent = append(silent, invariant.Name)
		}
		fmt.Fprintf(table, "%s\t%s\t%d\t%s\n", mark, invariant.Name, rows, strings.Join(others, ", "))
	}
	if err := table.Flush(); err != nil {
		return &daybook.Error{Code: daybook.CodeInternal, Text: "the table could not be written", Err: err}
	}
	if len(silent) > 0 {
		return daybook.Fail(daybook.CodeInternal, "%d of %d invariants didn't fire on a book that breaks them: %s",
			len(silent), len(daybook.Invariants), strings.Join(silent, ", "))
	}
	return nil
}

// breakOne says how many rows the check found against the invariant that was
// broken, and what else it found.
func breakOne(ctx context.Context, open func() (*daybook.Book, error),
	breakIt func(context.Context, *daybook.Book, string) error, name string) (rows int, others []string, err error) {
	book, err := open()
	if err != nil {
		return 0, nil, err
	}
	defer book.Close()
	if err := Fill(ctx, book); err != nil {
		return 0, nil, err
	}
	before, err := Run(ctx, book, Options{Full: true, hasty: true})
	if err != nil {
		return 0, nil, err
	}
	if before.Violations > 0 {
		return 0, nil, daybook.Fail(daybook.CodeInternal, "a healthy scratch book has %d violations: %s",
			before.Violations, first(before))
	}
	if err := breakIt(ctx, book, name); err != nil {
		return 0, nil, err
	}
	after, err := Run(ctx, book, Options{Full: true, hasty: true})
	for _, r := range after.Invariants {
		switch {
		case r.Name == name:
			rows = r.Rows
		case r.Rows > 0:
			others = append(others, r.Name)
		}
	}
	return rows, others, err
}

func first(r Report) string {
	for _, i := range r.Invariants {
		for _, v := range i.Found {
			return v.Invariant + ": " + v.Subject + " " + v.Detail
		}
	}
	return ""
}

// Fill puts jobs in every state that a book can lead to by itself into a
// scratch book, each story in a queue named after it and, where somebody owned
// the job, with a session of its own.
func Fill(ctx context.Context, book *daybook.Book) error {
	by := daybook.By{Actor: "selftest", Reason: "a scratch book"}
	for _, story := range []struct {
		queue string
		asks  daybook.Request
		then  func(f *filler, id daybook.ID) error
	}{
		{queue: "waiting"},
		{queue: "later", asks: daybook.Request{In: time.Hour}},
		{queue: "keyed", asks: daybook.Request{Key: "selftest"}},
		{queue: "running", then: func(f *filler, _ daybook.ID) error { _, err := f.claim(); return err }},
		{queue: "succeeded", then: (*filler).succeed},
		{queue: "failed", asks: daybook.Request{MaxFailures: 1}, then: (*filler).fail},
		{queue: "retried", then: (*filler).fail},
		{queue: "snoozed", then: (*filler).snooze},
		{queue: "lost", asks: daybook.Request{OnLost: daybook.LostSetAside}, then: (*filler).lose},
		{queue: "cancelled", then: func(f *filler, id daybook.ID) error {
			_, err := f.book.Cancel(f.ctx, id, by, false)
			return err
		}},
		{queue: "revived", asks: daybook.Request{MaxFailures: 1}, then: func(f *filler, id daybook.ID) error {
			if err := f.fail(id); err != nil {
				return err
			}
			_, err := f.book.Revive(f.ctx, id, by)
			return err
		}},
		{queue: "expired", asks: daybook.Request{ExpiresAt: time.Unix(1, 0)}, then: func(f *filler, _ daybook.ID) error {
			_, err := f.book.ExpireWaiting(f.ctx)
			return err
		}},
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
		err = daybook.Fail(daybook.CodeInternal, "queue %s of the scratch book gave %d jobs", f.queue, len(got.Jobs))
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
		_, err = f.book.Fail(f.ctx, id, owner, daybook.Failure{Problem: daybook.NewProblem("selftest", "", "")}, &again)
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
	_, err := f.book.Cancel(f.ctx, id, daybook.By{Actor: "selftest", Reason: "its owner is gone"}, true)
	return err
}
