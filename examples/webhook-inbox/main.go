// Command webhook-inbox takes GitHub's webhook deliveries over HTTP, keeps them
// in the book, and counts them per repository in a table of its own.
//
//	go run ./examples/webhook-inbox -listen 127.0.0.1:8080 -secret "$SECRET"
//
// GitHub redelivers what it wasn't answered for; the delivery's id is the
// request key, so the same delivery is the same job. The count is written in
// the transaction that completes the job, so it is right whatever crashes.
package main

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"time"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/bell/local"
	"github.com/daybookdev/daybook/store/sqlite"
	"github.com/daybookdev/daybook/worker"
)

func main() {
	path := flag.String("db", "inbox.db", "the book's file")
	listen := flag.String("listen", "127.0.0.1:8080", "address to take deliveries on, at /github")
	secret := flag.String("secret", "", "the webhook's secret; none trusts everybody")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *path, *listen, *secret); err != nil {
		fmt.Fprintln(os.Stderr, "webhook-inbox:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, path, listen, secret string) error {
	book, err := sqlite.Open(ctx, path, sqlite.Options{Book: daybook.Options{Bell: local.New()}})
	if err != nil {
		return err
	}
	defer book.Close()
	ln, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	fmt.Printf("taking deliveries on http://%s/github\n", ln.Addr())
	return serve(ctx, book, ln, secret)
}

// serve takes deliveries and works on them until ctx ends.
func serve(ctx context.Context, book *daybook.Book, ln net.Listener, secret string) error {
	server := &http.Server{Handler: inbox{book, secret}, ReadHeaderTimeout: 5 * time.Second}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ln) }()
	err := newWorker(book).Run(ctx)
	server.Close()
	if served := <-ended; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}

// newWorker counts deliveries.
func newWorker(book *daybook.Book) *worker.Worker {
	w := worker.New(book, worker.Config{Queues: []string{"github"}})
	worker.Handle(w, "delivery", func(ctx context.Context, c *worker.Claim[Delivery]) error {
		return sqlite.ClaimTx(ctx, c, func(tx *sql.Tx) error {
			return count(ctx, tx, c.Args)
		})
	})
	return w
}

// count adds a delivery to its repository's number. It runs in the transaction
// that completes the job.
func count(ctx context.Context, tx *sql.Tx, d Delivery) error {
	const table = `CREATE TABLE IF NOT EXISTS inbox_count (
		repository TEXT, event TEXT, n INTEGER NOT NULL, PRIMARY KEY (repository, event))`
	if _, err := tx.ExecContext(ctx, table); err != nil {
		return err
	}
	const add = `INSERT INTO inbox_count VALUES (?, ?, 1)
		ON CONFLICT (repository, event) DO UPDATE SET n = n + 1`
	_, err := tx.ExecContext(ctx, add, d.repository(), d.Event)
	return err
}
