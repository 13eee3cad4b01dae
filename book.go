package daybook

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"time"
)

// Book is what programs hold: the moves of this package carried out on a
// store. Its methods may be called from many goroutines. Each write is durable
// when it returns, and each can be repeated: what took hold once is answered
// from the record.
type Book struct {
	store    Store
	opts     Options
	standing standings
}

// Options of a book. The zero value works.
type Options struct {
	Bell   Bell           // rung after commits; nil is the store's default, NoBell rings nobody
	Log    *slog.Logger   // nil is slog.Default
	Hook   Hook           // called in the gaps; nil in production
	Tracer Tracer         // makes spans of enqueues; nil makes none
	Random func() float64 // in [0,1), for retry jitter and queue order; nil is math/rand
}

// New makes a book on a store. The packages store/sqlite and store/postgres do
// this in their Open.
func New(store Store, opts Options) *Book {
	if opts.Log == nil {
		opts.Log = slog.Default()
	}
	if opts.Random == nil {
		opts.Random = rand.Float64
	}
	if _, none := opts.Bell.(NoBell); none {
		opts.Bell = nil
	}
	return &Book{store: store, opts: opts}
}

// Store is the store under the book, for packages that need its own powers.
func (b *Book) Store() Store { return b.store }

// Bell is the bell that the book rings, or nil.
func (b *Book) Bell() Bell { return b.opts.Bell }

// Log is the book's logger.
func (b *Book) Log() *slog.Logger { return b.opts.Log }

// Close lets go of the database. Twice is harmless.
func (b *Book) Close() error { return b.store.Close() }

// Reached marks that the process stands in a gap. Costs one comparison when no
// hook is set.
func (b *Book) Reached(gap string, job ID) {
	if b.opts.Hook != nil {
		b.opts.Hook(gap, job)
	}
}

// repeats is how often a write whose answer was lost is sent again before the
// caller is told that the database is away.
const repeats = 3

// repeatFor bounds repeating by time: a database that took this long to fail
// is away, and the caller should know.
const repeatFor = 5 * time.Second

// write runs fn, and runs it again when the answer was lost: every write is
// made so that a repeat finds what the first one did.
func (b *Book) write(ctx context.Context, doing string, fn func(Tx) error) error {
	var err error
	began := time.Now()
	for n := range repeats {
		if n > 0 && !pause(ctx, time.Duration(n)*50*time.Millisecond) {
			return err
		}
		err = b.store.Write(ctx, doing, fn)
		if !errors.Is(err, ErrUnavailable) || ctx.Err() != nil || time.Since(began) > repeatFor {
			return err
		}
	}
	return err
}

// pause waits d, or less when ctx ends; then it is false.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

func (b *Book) read(ctx context.Context, doing string, fn func(View) error) error {
	return b.store.Read(ctx, doing, fn)
}

// ringer collects queues to ring after a commit: once each, whatever happened
// in them.
type ringer map[string]bool

func (r ringer) add(queue string) { r[queue] = true }

func (b *Book) ring(ctx context.Context, r ringer) {
	if b.opts.Bell == nil {
		return
	}
	for queue := range r {
		b.opts.Bell.Ring(ctx, queue)
	}
}

// ringChanges rings the queues in which changes made a job eligible.
func (r ringer) changes(changes []Change, now Time) {
	for _, c := range changes {
		if c.Eligible(now) {
			r.add(c.Now.Queue)
		}
	}
}

func settingInt(ctx context.Context, v View, name string) (int64, error) {
	text, err := v.Setting(ctx, name)
	if err != nil || text == "" {
		return 0, err
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, Fail(CodeInternal, "setting %s of the book is not a number", name)
	}
	return n, nil
}
