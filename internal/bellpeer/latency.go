package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/worker"
)

// numbered are the args of a job whose latency is measured; before it counts
// they are less than 0.
type numbered struct {
	N   int    `json:"n"`
	Pad string `json:"pad"`
}

const (
	rate = 200 // jobs a second
	warm = 10  // jobs before it counts: by then the worker listens
)

// latency measures how soon after enqueue's return, and its call, a handler begins when the
// worker, at its defaults, is idle.
func (o order) latency(ctx context.Context) (millis, whole []float64, err error) {
	book, bell, err := o.open(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer book.Close()
	defer bell.Close()
	begun, began := make([]time.Time, o.Jobs), make(chan int, o.Jobs+warm)
	stop, err := o.work(ctx, book, func(n int) {
		if n >= 0 {
			begun[n] = time.Now()
		}
		began <- n
	})
	if err != nil {
		return nil, nil, err
	}
	defer stop()
	enqueue := func(n int) error {
		_, err := book.Enqueue(ctx, request(fmt.Sprintf(`{"n": %d, "pad": "%s"}`, n, strings.Repeat("x", 80))))
		return err
	}
	for range warm {
		if err := errors.Join(enqueue(-1), await(ctx, began)); err != nil {
			return nil, nil, err
		}
	}
	asked, sent, first := make([]time.Time, o.Jobs), make([]time.Time, o.Jobs), time.Now()
	for n := range sent {
		<-time.After(time.Until(first.Add(time.Duration(n) * time.Second / rate)))
		asked[n] = time.Now()
		if err := enqueue(n); err != nil {
			return nil, nil, err
		}
		sent[n] = time.Now()
	}
	for n := range sent {
		if err := await(ctx, began); err != nil {
			return nil, nil, fmt.Errorf("%d of %d jobs began: %w", n, o.Jobs, err)
		}
	}
	for n := range sent { // a handler can begin before enqueue has returned
		millis = append(millis, float64(max(0, begun[n].Sub(sent[n])).Microseconds())/1000)
		whole = append(whole, float64(begun[n].Sub(asked[n]).Microseconds())/1000)
	}
	return millis, whole, nil
}

const patience = 30 * time.Second

func await(ctx context.Context, began <-chan int) error {
	select {
	case <-began:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(patience):
		return errors.New("no handler begins")
	}
}

// work runs a worker until it is stopped: with a book and an end of the bell of
// its own, unless it is to share those of whoever enqueues.
func (o order) work(ctx context.Context, book *daybook.Book, handle func(n int)) (stop func(), err error) {
	leave := func() {}
	if !o.OneBook {
		own, bell, err := o.open(ctx)
		if err != nil {
			return nil, err
		}
		book, leave = own, func() {
			bell.Close()
			own.Close()
		}
	}
	w := worker.New(book, worker.Config{Queues: []string{queue}})
	worker.Handle(w, kind, func(_ context.Context, c *worker.Claim[numbered]) error {
		handle(c.Args.N)
		return nil
	})
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	return func() {
		cancel()
		<-ended
		leave()
	}, nil
}
