package sqlite

import (
	"context"
	"time"

	"github.com/daybookdev/daybook"
)

// Watch calls changed soon after another connection, of this process or any
// other, committed to the book's file, until ctx ends. It is how processes on
// one file hear of each other: looking costs a read of shared memory and no
// disk. every is how often it looks; a change is reported once however many
// commits it was. On a book in memory it returns at once: nobody else is there.
func Watch(ctx context.Context, book *daybook.Book, every time.Duration, changed func()) error {
	s, err := of(book)
	if err != nil || s.path == Memory {
		return err
	}
	c, err := connect(ctx, connector{s.dsn(false, "deferred", s.busy)})
	if err != nil {
		return s.friendly("watching the book", err)
	}
	defer c.close()
	tick := time.NewTicker(every)
	defer tick.Stop()
	var last int64
	for {
		v, err := one(c, "PRAGMA data_version")
		if err != nil {
			return s.friendly("watching the book", err)
		}
		if n := num(v); n != last {
			if last != 0 {
				changed()
			}
			last = n
		}
		select {
		case <-ctx.Done():
			return nil
		case <-s.closed:
			return nil
		case <-tick.C:
		}
	}
}
