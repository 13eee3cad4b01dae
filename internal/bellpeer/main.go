// Command bellpeer is Daybook with one of its bells, as bench drives a peer: one
// step in a process of its own. It is here and not there since bench has none of
// the brokers' clients. Whoever enqueues and whoever works have books and ends
// of the bell of their own, as two processes have.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/bell/nats"
	bellpg "github.com/daybookdev/daybook/bell/postgres"
	"github.com/daybookdev/daybook/bell/rabbitmq"
	"github.com/daybookdev/daybook/bell/redis"
	"github.com/daybookdev/daybook/store/postgres"
)

// order is what it is told to do: its one argument, as JSON.
type order struct {
	Step    string  `json:"step"`     // migrate, single or latency
	Place   string  `json:"place"`    // the address of the database
	Bell    string  `json:"bell"`     // the address of the bell; "" is none
	OneBook bool    `json:"one_book"` // whoever enqueues and whoever works share one, and an end of the bell
	Jobs    int     `json:"jobs"`
	Seconds float64 `json:"seconds"` // of single
	Clients int     `json:"clients"` // of single
	Args    string  `json:"args"`
}

// report is what it answers.
type report struct {
	PerSecond float64   `json:"per_second"`
	Millis    []float64 `json:"millis"` // from enqueue's return to the handler
	Whole     []float64 `json:"whole"`  // from enqueue's call to the handler
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) (err error) {
	if len(args) != 1 {
		return errors.New("bellpeer wants one argument, an order as JSON")
	}
	var o order
	if err := json.Unmarshal([]byte(args[0]), &o); err != nil {
		return err
	}
	var r report
	switch o.Step {
	case "migrate":
		_, err = postgres.Up(ctx, o.Place, postgres.Options{}, nil)
	case "single":
		r.PerSecond, err = o.single(ctx)
	case "latency":
		r.Millis, r.Whole, err = o.latency(ctx)
	default:
		err = fmt.Errorf("there is no step %q", o.Step)
	}
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(r)
}

// end opens an end of the bell; nil is none.
func (o order) end(ctx context.Context) (bell daybook.Bell, err error) {
	_, name, _ := strings.Cut(o.Place[len("postgres://"):], "/")
	name, _, _ = strings.Cut(name, "?") // the database's: each has rings of its own
	log := slog.New(slog.DiscardHandler)
	switch scheme, _, _ := strings.Cut(o.Bell, ":"); scheme {
	case "":
		return daybook.NoBell{}, nil
	case "postgres":
		return bellpg.Open(ctx, o.Bell, bellpg.Options{Log: log})
	case "redis":
		return redis.Open(o.Bell, redis.Options{Name: name, Log: log})
	case "nats":
		return nats.Open(o.Bell, nats.Options{Name: name, Log: log})
	case "amqp":
		return rabbitmq.Open(o.Bell, rabbitmq.Options{Name: name, Log: log})
	default:
		return nil, fmt.Errorf("there is no bell %q", scheme)
	}
}

func (o order) open(ctx context.Context) (*daybook.Book, daybook.Bell, error) {
	bell, err := o.end(ctx)
	if err != nil {
		return nil, nil, err
	}
	book, err := postgres.Open(ctx, o.Place,
		postgres.Options{Book: daybook.Options{Bell: bell, Log: slog.New(slog.DiscardHandler)}})
	return book, bell, err
}

const queue, kind = "mail", "welcome"

func request(args string) daybook.Request {
	return daybook.Request{Queue: queue, Kind: kind, Args: json.RawMessage(args)}
}

// single enqueues one by one from several clients until the time is over, while
// somebody hears the rings and does nothing about them.
func (o order) single(ctx context.Context) (perSecond float64, err error) {
	book, bell, err := o.open(ctx)
	if err != nil {
		return 0, err
	}
	defer book.Close()
	defer bell.Close()
	ear, err := o.end(ctx)
	if err != nil {
		return 0, err
	}
	defer ear.Close()
	rings, err := ear.Listen(ctx, []string{queue})
	if err != nil {
		return 0, err
	}
	go func() {
		for r := range rings {
			r.Finish(true)
		}
	}()
	begun := time.Now()
	until := begun.Add(time.Duration(o.Seconds * float64(time.Second)))
	var done atomic.Int64
	errs := make([]error, o.Clients)
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() {
			for errs[i] == nil && time.Now().Before(until) {
				_, errs[i] = book.Enqueue(ctx, request(o.Args))
				done.Add(1)
			}
		})
	}
	all.Wait()
	return float64(done.Load()) / time.Since(begun).Seconds(), errors.Join(errs...)
}
