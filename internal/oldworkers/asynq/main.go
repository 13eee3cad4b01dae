// Command asynq is a producer and a server of Asynq, for tests of cutovers. It is
// a module of its own, so that nobody else's program has Asynq in it.
//
//	asynq produce   reads lines of ID STATE, enqueues each, and answers with a line
//	asynq work N    works with N goroutines until SIGTERM
//	asynq orders    reads lines of [number, how, seconds]
//	asynq serve     works on those, and writes how far they came to the file RUNS
//
// OLD_ADDR is Redis; RUN_LOG is the file to which a job that is done appends its
// id.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/hibiken/asynq"
)

const queue = "mail"

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	redis := asynq.RedisClientOpt{Addr: os.Getenv("OLD_ADDR")}
	switch {
	case len(os.Args) > 1 && os.Args[1] == "orders":
		return takeOrders()
	case len(os.Args) > 1 && os.Args[1] == "serve":
		return serveOrders(os.Args[2:])
	case len(os.Args) == 2 && os.Args[1] == "produce":
		return produce(redis)
	case len(os.Args) == 3 && os.Args[1] == "work":
		n, err := strconv.Atoi(os.Args[2])
		if err != nil {
			return err
		}
		return work(redis, n)
	}
	return errors.New("usage: asynq produce | asynq work N")
}

func produce(redis asynq.RedisClientOpt) error {
	client := asynq.NewClient(redis)
	defer client.Close()
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		id, state, _ := strings.Cut(in.Text(), " ")
		options := []asynq.Option{asynq.TaskID(id), asynq.Queue(queue), asynq.MaxRetry(5)}
		do := "ok"
		switch state {
		case "later":
			options = append(options, asynq.ProcessIn(24*time.Hour))
		case "retrying":
			do = "fail"
		case "dead":
			do, options = "fail", append(options, asynq.MaxRetry(0))
		case "hang":
			do = "hang"
		case "blocked":
			options = append(options, asynq.Group("digest"))
		}
		_, err := client.Enqueue(asynq.NewTask("mail:send", []byte(`{"do":"`+do+`"}`)), options...)
		switch {
		case errors.Is(err, asynq.ErrTaskIDConflict):
			fmt.Println("conflict")
		case err != nil:
			return err
		default:
			fmt.Println(id)
		}
	}
	return in.Err()
}

func work(redis asynq.RedisClientOpt, threads int) error {
	log, err := os.OpenFile(os.Getenv("RUN_LOG"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	server := asynq.NewServer(redis, asynq.Config{
		Concurrency: threads, Queues: map[string]int{queue: 1}, ShutdownTimeout: time.Second,
		RetryDelayFunc: func(int, error, *asynq.Task) time.Duration { return time.Hour },
	})
	mux := asynq.NewServeMux()
	mux.HandleFunc("mail:send", func(_ context.Context, t *asynq.Task) error {
		switch text := string(t.Payload()); {
		case strings.Contains(text, "fail"):
			return errors.New("boom")
		case strings.Contains(text, "hang"):
			select {}
		}
		time.Sleep(10 * time.Millisecond)
		_, err := fmt.Fprintln(log, t.ResultWriter().TaskID())
		return err
	})
	return server.Run(mux)
}
