package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/hibiken/asynq"
)

const kind = "MailJob"

func ordersRedis() (asynq.RedisConnOpt, error) { return asynq.ParseRedisURI(os.Getenv("OLD_URL")) }

// takeOrders enqueues what standard input asks for.
func takeOrders() error {
	redis, err := ordersRedis()
	if err != nil {
		return err
	}
	client := asynq.NewClient(redis)
	defer client.Close()
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		var order [3]any
		if err := json.Unmarshal(in.Bytes(), &order); err != nil {
			return err
		}
		payload, err := json.Marshal(order[:2])
		if err != nil {
			return err
		}
		options := []asynq.Option{asynq.Queue(queue), asynq.MaxRetry(5)}
		if id, ok := strings.CutPrefix(order[1].(string), "id="); ok {
			options = append(options, asynq.TaskID(id))
		}
		if seconds := order[2].(float64); seconds > 0 {
			options = append(options, asynq.ProcessIn(time.Duration(seconds)*time.Second))
		}
		if _, err := client.Enqueue(asynq.NewTask(kind, payload), options...); err != nil {
			return err
		}
	}
	return in.Err()
}

// serveOrders works on them; "-c", "1" makes it one at a time.
func serveOrders(args []string) error {
	redis, err := ordersRedis()
	if err != nil {
		return err
	}
	log, err := os.OpenFile(os.Getenv("RUNS"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	pace, err := time.ParseDuration(os.Getenv("WORK") + "s")
	if err != nil {
		return err
	}
	threads := 3
	if slices.Contains(args, "1") {
		threads = 1
	}
	server := asynq.NewServer(redis, asynq.Config{Concurrency: threads, Queues: map[string]int{queue: 1},
		ShutdownTimeout: time.Second, RetryDelayFunc: func(int, error, *asynq.Task) time.Duration { return time.Hour }})
	mux := asynq.NewServeMux()
	mux.HandleFunc(kind, func(_ context.Context, t *asynq.Task) error {
		var order [2]any
		if err := json.Unmarshal(t.Payload(), &order); err != nil {
			return err
		}
		number := strings.TrimSuffix(fmt.Sprint(order[0]), ".0")
		fmt.Fprintf(log, "start %s\n", number)
		switch order[1] {
		case "fail":
			return errors.New("boom")
		case "slow":
			time.Sleep(10 * time.Minute)
		case "late":
			for !exists(os.Getenv("RUNS") + ".go") {
				time.Sleep(100 * time.Millisecond)
			}
		}
		time.Sleep(pace)
		_, err = fmt.Fprintf(log, "done %s\n", number)
		return err
	})
	return server.Run(mux)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
