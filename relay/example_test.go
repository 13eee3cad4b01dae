package relay_test

import (
	"context"
	"fmt"
	"log"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/relay"
	"github.com/daybookdev/daybook/store/sqlite"
)

// What lies in the outbox is published by a person's order. Workers run the
// relay by themselves, where the bell is one that other processes hear.
func Example() {
	ctx := context.Background()
	book, err := sqlite.Open(ctx, sqlite.Memory, sqlite.Options{Book: daybook.Options{Bell: &wire{}}})
	if err != nil {
		log.Fatal(err)
	}
	defer book.Close()
	if _, err := book.Enqueue(ctx, daybook.Request{Queue: "mail", Kind: "welcome"}); err != nil {
		log.Fatal(err)
	}
	report, err := relay.New(book, relay.Options{}).Pass(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(report.Rows, "row,", report.Rung, "queue rung")
	// Output: 1 row, 1 queue rung
}
