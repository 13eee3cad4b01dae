package main

import (
	"context"

	"github.com/daybookdev/daybook"
)

// watch lets a worker hear of what other processes put into its book, where its
// bell is one that they don't ring. Without it, or without a bell, the poll finds
// everything.
func watch(ctx context.Context, db database, book *daybook.Book) {
	if book.Bell() == nil || book.Outside() != nil {
		return
	}
	if err := db.watch(ctx, book); err != nil && ctx.Err() == nil {
		book.Log().Warn("other processes' jobs are found by the poll alone", "error", err)
	}
}
