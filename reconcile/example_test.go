package reconcile_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"time"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/reconcile"
	"github.com/daybookdev/daybook/store/sqlite"
)

// One pass by a person's order. Workers run the reconciler by themselves.
func Example() {
	ctx := context.Background()
	clock := time.Now()
	book, err := sqlite.Open(ctx, sqlite.Memory, sqlite.Options{
		Book: daybook.Options{Log: slog.New(slog.DiscardHandler)},
		Now:  func() time.Time { return clock }})
	if err != nil {
		log.Fatal(err)
	}
	defer book.Close()
	if _, err := book.Enqueue(ctx, daybook.Request{Queue: "mail", Kind: "welcome"}); err != nil {
		log.Fatal(err)
	}
	if _, err := book.Claim(ctx, daybook.ClaimRequest{Queues: []string{"mail"}}); err != nil {
		log.Fatal(err)
	}
	clock = clock.Add(time.Minute) // and nobody renews

	report, err := reconcile.New(book, reconcile.Options{}).Pass(ctx, daybook.AtOnce)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(report.Ended, "session ended,", report.Lost, "claim revoked")
	// Output: 1 session ended, 1 claim revoked
}
