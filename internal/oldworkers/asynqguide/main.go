// Command asynqguide has the programs of docs/cutover/asynq.md: what stands between
// "guide:" and "guide: end" is in the guide word for word. It is a module of its
// own, so that nobody else's program has Asynq in it.
//
//	asynqguide old|deploy|double   puts one job in
//	asynqguide serve               works until SIGTERM, and writes the ids of jobs it
//	                               does into the file RUNS
package main

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"time"

	"github.com/google/uuid"
	"github.com/hibiken/asynq"
	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/store/postgres"
)

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	redis, err := asynq.ParseRedisURI(os.Getenv("OLD_URL"))
	if err != nil {
		return err
	}
	if os.Args[1] == "serve" {
		return serve(redis)
	}
	book, err := postgres.Open(ctx, os.Getenv("DATABASE_URL"), postgres.Options{})
	if err != nil {
		return err
	}
	defer book.Close()
	client := asynq.NewClient(redis)
	defer client.Close()
	doc := []byte(`{"user":7}`)
	switch os.Args[1] {
	case "old":
		_, err := client.Enqueue(asynq.NewTask("email:welcome", doc), asynq.Queue("mail"))
		return err
	case "deploy":
		return deploy(ctx, book, doc)
	}
	return double(ctx, book, client, doc)
}

func deploy(ctx context.Context, book *daybook.Book, doc []byte) error {
	// guide: Switched by deploy
	// was: client.Enqueue(asynq.NewTask("email:welcome", doc), asynq.Queue("mail"))
	_, err := book.Enqueue(ctx, daybook.Request{Queue: "mail", Kind: "welcome", Args: doc})
	// guide: end
	return err
}

func double(ctx context.Context, book *daybook.Book, client *asynq.Client, doc []byte) error {
	// guide: Written to both
	id := uuid.NewString()
	_, err := book.Enqueue(ctx, daybook.Request{Queue: "mail", Kind: "welcome", Args: doc, Key: id})
	if err != nil {
		return err
	}
	_, err = client.Enqueue(asynq.NewTask("email:welcome", doc), asynq.Queue("mail"), asynq.TaskID(id))
	// guide: end
	return err
}

func serve(redis asynq.RedisConnOpt) error {
	db, err := sql.Open("pgx", os.Getenv("DATABASE_URL"))
	if err != nil {
		return err
	}
	defer db.Close()
	mux := asynq.NewServeMux()
	mux.HandleFunc("email:welcome", func(_ context.Context, t *asynq.Task) error {
		runs, err := os.OpenFile(os.Getenv("RUNS"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		defer runs.Close()
		_, err = fmt.Fprintln(runs, t.ResultWriter().TaskID())
		return err
	})
	// guide: Old handlers that still may start
	mux.Use(func(next asynq.Handler) asynq.Handler {
		return asynq.HandlerFunc(func(ctx context.Context, t *asynq.Task) error {
			id, _ := asynq.GetTaskID(ctx)
			var ours bool
			err := db.QueryRowContext(ctx, `SELECT EXISTS (SELECT FROM daybook.cutover_item
				WHERE cutover = 'mail' AND id = $1 AND term NOT IN ('still', 'finished', 'returned'))`, id).Scan(&ours)
			if err != nil || ours {
				return err // nil: the book has it
			}
			return next.ProcessTask(ctx, t)
		})
	})
	// guide: end
	server := asynq.NewServer(redis, asynq.Config{Concurrency: 1, Queues: map[string]int{"mail": 1},
		ShutdownTimeout: time.Second})
	return server.Run(mux)
}
