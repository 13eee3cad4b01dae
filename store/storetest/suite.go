// Package storetest holds every store to the contract of [daybook.Store], in
// one call. A store's own test is ten lines:
//
//	func TestStore(t *testing.T) {
//		storetest.Run(t, func(t *testing.T, o storetest.Options) *daybook.Book {
//			… open a book, with a t.Cleanup that closes it …
//		})
//	}
//
// The parts, each a subtest of its own:
//
//   - scenarios: stories that anyone can read, in testdata (-rewrite writes
//     what the book answers into them; read the difference before you keep it)
//   - contract: one subtest per sentence of store.go
//   - cases: faults from the field, named after their row (L1, L2, …)
//   - model: random moves against the pure moves of package daybook
//   - race: many claimers, owners, people and reconcilers on the same jobs
//   - interleave: the orders of events that broke earlier designs
//   - faults: the k-th call of the database failing, for every k, before and
//     after it took hold
//   - portable: what databases like to change: order, precision, bytes
//   - relay: what lies in the outbox is rung, once at least, and lost never
//
// The checker runs when each test ends, and a violation fails the test.
package storetest

import (
	"context"
	"database/sql/driver"
	"path/filepath"
	"testing"
	"time"

	"github.com/daybookdev/daybook"
)

// Options are what the suite wants of the book that it asks for.
type Options struct {
	// Now is the only clock that the store may look at.
	Now func() time.Time
	// Hook and Bell go into daybook.Options.
	Hook daybook.Hook
	Bell daybook.Bell
	// Path names the book: two opens of one path are two processes on one
	// database. It is a file that doesn't exist yet, in a directory that does;
	// a store that keeps no files uses it as a name. Empty is a fresh book of
	// the store's choice, in memory if it has that.
	Path string
	// Wrap wraps the driver of a store that stands on database/sql, and Fault
	// is called around each round trip of one that doesn't: with the call's
	// name before it, and then with did after it. An error that Fault returns
	// is what the call must fail with: before, without reaching the database;
	// after, although it took hold. A store takes one of the two; the suite
	// fails when it takes neither.
	Wrap  func(driver.Connector) driver.Connector
	Fault func(call string, did bool) error
}

type opener func(t *testing.T, o Options) *daybook.Book

// Run runs the whole suite. open makes a book and sees to its closing when the
// test ends; it fails the test itself when it can't.
func Run(t *testing.T, open func(t *testing.T, o Options) *daybook.Book) {
	for _, part := range []struct {
		name string
		run  func(*testing.T, opener)
	}{
		{"scenarios", runScenarios},
		{"contract", runContract},
		{"cases", runCases},
		{"model", runModel},
		{"race", runRace},
		{"interleave", runInterleave},
		{"faults", runFaults},
		{"portable", runPortable},
		{"relay", runRelay},
	} {
		t.Run(part.name, func(t *testing.T) { part.run(t, open) })
	}
}

// test is one subtest on a book of its own.
type test struct {
	name string
	run  func(w *world)
}

// each runs the tests, each on a fresh book in memory.
func each(t *testing.T, open opener, tests []test) {
	for _, c := range tests {
		t.Run(c.name, func(t *testing.T) { c.run(newWorld(t, open, Options{})) })
	}
}

// eachOnFile runs the tests, each on a fresh book that a second process could
// open too.
func eachOnFile(t *testing.T, open opener, tests []test) {
	for _, c := range tests {
		t.Run(c.name, func(t *testing.T) {
			c.run(newWorld(t, open, Options{Path: filepath.Join(t.TempDir(), "book.db")}))
		})
	}
}

// newWorld opens a book at the suite's own time and has it checked when the
// test ends.
func newWorld(t *testing.T, open opener, o Options) *world {
	t.Helper()
	w := &world{tb: t, t: t, ctx: t.Context(), clock: newClock(), open: open, opts: o}
	w.opts.Now = w.clock.now
	w.book = open(t, w.opts)
	t.Cleanup(func() {
		// t.Context is over by now.
		verify(context.WithoutCancel(w.ctx), t, w.book, w.broken...)
	})
	return w
}

// again opens the same book as another process would.
func (w *world) again() *world {
	w.Helper()
	if w.opts.Path == "" {
		w.Fatal("a book without a path can't be opened twice")
	}
	other := *w
	other.book = w.open(w.t, w.opts)
	return &other
}
