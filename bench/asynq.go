package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hibiken/asynq"

	"github.com/daybookdev/daybook/bench/raw"
)

// The settings with which Asynq was fastest. From 10 workers to 1,000 its
// rates differ by less than rounds; an empty queue is asked again after 5 ms
// and not after its default of a second.
const (
	asynqWorkers = 100
	asynqPoll    = 5 * time.Millisecond
	asynqFillers = 32 // it has no bulk enqueue
	asynqQueue   = "default"
)

// asynqPeer is Asynq on Redis.
type asynqPeer struct {
	redis     asynq.RedisClientOpt
	client    *asynq.Client
	inspector *asynq.Inspector
}

func openAsynq(_ context.Context, address string) (peer, error) {
	redis := asynq.RedisClientOpt{Addr: address, PoolSize: 2 * asynqFillers}
	return &asynqPeer{redis, asynq.NewClient(redis), asynq.NewInspector(redis)}, nil
}

func (*asynqPeer) migrate(context.Context) error { return nil }

func (a *asynqPeer) enqueue(ctx context.Context, args string) error {
	_, err := a.client.EnqueueContext(ctx, asynq.NewTask(kind, []byte(args)))
	return err
}

func (a *asynqPeer) enqueueMany(ctx context.Context, n int) error {
	errs := make([]error, asynqFillers)
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() {
			for job := i; job < n && errs[i] == nil; job += asynqFillers {
				errs[i] = a.enqueue(ctx, raw.Args)
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

func (a *asynqPeer) run(ctx context.Context, handle func(args []byte)) error {
	server := asynq.NewServer(a.redis, asynq.Config{Concurrency: asynqWorkers, TaskCheckInterval: asynqPoll,
		LogLevel: asynq.FatalLevel})
	err := server.Start(asynq.HandlerFunc(func(_ context.Context, t *asynq.Task) error {
		handle(t.Payload()) // so Asynq on GitHub calls args
		return nil
	}))
	if err != nil {
		return err
	}
	<-ctx.Done()
	return context.Cause(ctx)
}

func (a *asynqPeer) left(context.Context) (int, error) {
	info, err := a.inspector.GetQueueInfo(asynqQueue)
	if err != nil {
		return 0, err
	}
	if info.Failed > 0 {
		return 0, fmt.Errorf("%d jobs failed", info.Failed)
	}
	return info.Size, nil
}
