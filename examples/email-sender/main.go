// Command email-sender welcomes people by mail: it puts a job for each into
// the book and works them off.
//
//	go run ./examples/email-sender -outbox outbox ada@example.org eve@example.org
//
// Run it again with the same people: the request key makes it the same job, so
// nobody is welcomed twice. Kill it in the middle and run it again: the effect
// key makes the post office take a mail once, however often it is handed over.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/store/sqlite"
	"github.com/daybookdev/daybook/worker"
)

// Welcome is the args of a job of kind welcome.
type Welcome struct {
	To string `json:"to"`
}

// postOffice stands for a mail provider that takes an idempotency key with
// each mail: a folder with one file per key.
type postOffice struct{ dir string }

// Send hands a mail over, and prints that it went out. The same key again is
// the same mail, and prints nothing.
func (p postOffice) Send(ctx context.Context, to, key string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := os.MkdirAll(p.dir, 0o755); err != nil {
		return err
	}
	mail := "To: " + to + "\r\nSubject: Welcome\r\n\r\nGood to have you.\r\n"
	f, err := os.OpenFile(filepath.Join(p.dir, key+".eml"), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return nil // it has this one
	}
	if err != nil {
		return err
	}
	_, err = f.WriteString(mail)
	if err = errors.Join(err, f.Close()); err == nil {
		fmt.Println("welcomed", to)
	}
	return err
}

func main() {
	path := flag.String("db", "mail.db", "the book's file")
	outbox := flag.String("outbox", "outbox", "folder that stands for the mail provider")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *path, postOffice{*outbox}, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "email-sender:", err)
		os.Exit(1)
	}
}

// run accepts a job for each person, and works until nothing is left to do.
func run(ctx context.Context, path string, post postOffice, people []string) error {
	book, err := sqlite.Open(ctx, path, sqlite.Options{})
	if err != nil {
		return err
	}
	defer book.Close()

	for _, person := range people {
		args, err := json.Marshal(Welcome{To: person})
		if err != nil {
			return err
		}
		_, err = book.Enqueue(ctx, daybook.Request{
			Queue: "mail", Kind: "welcome", Key: "welcome:" + person, Args: args,
		})
		if err != nil {
			return err
		}
	}

	w := worker.New(book, worker.Config{Queues: []string{"mail"}})
	worker.Handle(w, "welcome", func(ctx context.Context, c *worker.Claim[Welcome]) error {
		return post.Send(ctx, c.Args.To, c.EffectKey("mail")) // the same key in every attempt
	})
	return w.Drain(ctx) // a service calls Run, which goes on until ctx ends
}
