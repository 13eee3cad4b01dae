// Command transfer moves money between two accounts in PostgreSQL: the entry in
// its own table and the job's completion are one transaction, so each transfer is
// booked once, whatever is killed at whichever moment. This is the one place where
// once means once: both are in the same database.
//
//	go run ./examples/transfer -db postgres://localhost/app -from ada -to eve -cents 500 -key order-17
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/store/postgres"
	"github.com/daybookdev/daybook/worker"
)

// Transfer is the args of a job of kind transfer.
type Transfer struct {
	From  string `json:"from"`
	To    string `json:"to"`
	Cents int64  `json:"cents"`
}

// Tables are the program's own, beside the book.
const Tables = `CREATE TABLE IF NOT EXISTS account (name text PRIMARY KEY, cents bigint NOT NULL DEFAULT 0);
	CREATE TABLE IF NOT EXISTS entry (job uuid NOT NULL, account text NOT NULL, cents bigint NOT NULL)`

// bank books transfers. step is told where it stands; tests die there.
type bank struct{ step func(where string) }

// Handle books a transfer and completes its job in one transaction, which first
// locks the claim and checks that it is still ours. When it is repeated after its
// commit's answer was lost, it finds its own completion and books nothing.
func (b bank) Handle(ctx context.Context, c *worker.Claim[Transfer]) error {
	b.step("before the transaction")
	err := postgres.ClaimTx(ctx, c, func(tx pgx.Tx) error {
		b.step("claim locked")
		change := map[string]int64{c.Args.From: -c.Args.Cents, c.Args.To: c.Args.Cents}
		for _, account := range slices.Sorted(maps.Keys(change)) { // in one order, so that no two wait for each other
			if err := b.book(ctx, tx, c.Job().ID, account, change[account]); err != nil {
				return err
			}
		}
		return nil
	})
	b.step("after the transaction")
	return err
}

// book writes one entry and changes its account.
func (b bank) book(ctx context.Context, tx pgx.Tx, job daybook.ID, account string, cents int64) error {
	_, err := tx.Exec(ctx, "INSERT INTO entry (job, account, cents) VALUES ($1::text::uuid, $2, $3)", job.String(),
		account, cents)
	if err != nil {
		return err
	}
	b.step("entry written")
	_, err = tx.Exec(ctx, `INSERT INTO account (name, cents) VALUES ($1, $2)
		ON CONFLICT (name) DO UPDATE SET cents = account.cents + excluded.cents`, account, cents)
	b.step("account changed")
	return err
}

func main() {
	url := flag.String("db", "postgres://localhost/postgres", "the database of the accounts and of the book")
	var t Transfer
	flag.StringVar(&t.From, "from", "ada", "the account that pays")
	flag.StringVar(&t.To, "to", "eve", "the account that is paid")
	flag.Int64Var(&t.Cents, "cents", 500, "how much")
	key := flag.String("key", "", "the request key: the same key is the same transfer")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *url, t, *key); err != nil {
		fmt.Fprintln(os.Stderr, "transfer:", err)
		os.Exit(1)
	}
}

// run accepts a transfer and works until nothing is left to do.
func run(ctx context.Context, url string, t Transfer, key string) error {
	if err := prepare(ctx, url); err != nil {
		return err
	}
	book, err := postgres.Open(ctx, url, postgres.Options{})
	if err != nil {
		return err
	}
	defer book.Close()
	args, err := json.Marshal(t)
	if err != nil {
		return err
	}
	_, err = book.Enqueue(ctx, daybook.Request{Queue: "money", Kind: "transfer", Key: key, Args: args})
	if err != nil {
		return err
	}
	w := worker.New(book, worker.Config{Queues: []string{"money"}})
	worker.Handle(w, "transfer", bank{step: func(string) {}}.Handle)
	return w.Drain(ctx)
}

// prepare makes the book's schema and the program's own tables.
func prepare(ctx context.Context, url string) error {
	if _, err := postgres.Up(ctx, url, postgres.Options{}, nil); err != nil {
		return err
	}
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, Tables)
	return err
}
