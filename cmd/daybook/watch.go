package main

import (
	"context"
	"time"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/store/sqlite"
)

// watchEvery is how often a worker looks whether another process wrote to the
// book's file: a read of shared memory.
const watchEvery = 50 * time.Millisecond

// watch rings this process's bell for what other processes on the same file
// put in, so that work starts well before the next poll. Without it, or
// without a bell, the poll finds everything.
func watch(ctx context.Context, book *daybook.Book) {
	if book.Bell() == nil {
		return
	}
	err := sqlite.Watch(ctx, book, watchEvery, func() {
		if _, err := book.RingEligible(ctx); err != nil && ctx.Err() == nil {
			book.Log().Debug("looking for other processes' jobs", "error", err)
		}
	})
	if err != nil && ctx.Err() == nil {
		book.Log().Warn("other processes' jobs are found by the poll alone", "error", err)
	}
}
