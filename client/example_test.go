package client_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/client"
	"github.com/daybookdev/daybook/worker"
)

// A program puts a job in at a server, and can repeat the call: one key is one
// job.
func Example() {
	jobs, err := client.New("http://127.0.0.1:7373", client.Options{Token: os.Getenv("DAYBOOK_TOKEN")})
	if err != nil {
		log.Fatal(err)
	}
	defer jobs.Close()
	receipt, err := jobs.Enqueue(context.Background(), daybook.Request{Queue: "mail", Kind: "welcome",
		Args: []byte(`{"to":"ada@example.org"}`), Key: "signup-4711"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(receipt.ID, receipt.Replayed)
}

// A worker works for a server: it hears of jobs, claims them, and says how they
// ended. The server has the loops that a book needs.
func ExampleClient_Bell() {
	jobs, err := client.New("https://jobs.example.org", client.Options{Token: os.Getenv("DAYBOOK_TOKEN")})
	if err != nil {
		log.Fatal(err)
	}
	defer jobs.Close()
	w := worker.New(jobs, worker.Config{Queues: []string{"mail"}})
	worker.Handle(w, "welcome", func(ctx context.Context, c *worker.Claim[struct{ To string }]) error {
		fmt.Println("writing to", c.Args.To)
		return nil
	})
	if err := w.Run(context.Background()); err != nil {
		log.Fatal(err)
	}
}
