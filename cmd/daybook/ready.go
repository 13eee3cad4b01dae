package main

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/daybookdev/daybook"
)

// readiness says whether a server can do its work: the tables are those of this
// program, and the book takes what is written.
type readiness struct {
	db   database
	book *daybook.Book

	mu     sync.Mutex
	looked time.Time // when it was written last
	err    error     // and what came of it
}

// A write is tried once in roomEvery, however many ask: it costs a flush of the
// disk. It is given up after roomWithin.
const (
	roomEvery  = 2 * time.Second
	roomWithin = 2 * time.Second
)

func (r *readiness) check(ctx context.Context) error {
	state, err := r.db.state(ctx, r.book)
	switch {
	case err != nil:
		return err
	case !state.serves:
		return daybook.Fail(daybook.CodeUnavailable, "the schema has another version than this program wants")
	}
	return r.room(ctx)
}

// room tries a write. A full disk, or a node that only reads, is told by nothing
// else: all that is read is answered there.
func (r *readiness) room(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.looked.IsZero() && time.Since(r.looked) < roomEvery {
		return r.err
	}
	// Others are told by this look too, so it doesn't end with the call that began it.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), roomWithin)
	defer cancel()
	r.err = takesMore(ctx, r.book)
	r.looked = time.Now()
	return r.err
}

// probe is the setting that is put in and taken out again.
const probe = "probe"

// takesMore puts a few pages into the book and takes them out again, in one
// commit.
func takesMore(ctx context.Context, book *daybook.Book) error {
	pages := strings.Repeat("x", 16<<10)
	return book.Store().Write(ctx, "looking whether there is room", func(tx daybook.Tx) error {
		if _, err := tx.SaveSetting(ctx, probe, "", pages); err != nil {
			return err
		}
		_, err := tx.SaveSetting(ctx, probe, pages, "")
		return err
	})
}
