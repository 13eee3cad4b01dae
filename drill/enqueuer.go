package drill

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/examples/effects"
	"github.com/daybookdev/daybook/httpapi"
)

// loadEvery is how often an enqueuer of the load puts a few jobs in.
const loadEvery = 60 * time.Millisecond

// enqueuer puts jobs in, each under an id of its own choosing, so that a lost
// answer is asked for again; and it writes each id down once it was answered, in
// a file of its own: what was accepted is known without the book.
func (c *child) enqueuer(book *daybook.Book) (func(context.Context) error, error) {
	var accepted io.Writer = io.Discard
	if c.Accepted != "" {
		f, err := os.OpenFile(c.Accepted, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
		if err != nil {
			return nil, daybook.Fail(daybook.CodeInternal, "an enqueuer can't write to %s", c.Accepted)
		}
		accepted = f
	}
	put := func(ctx context.Context, r request) (replayed bool, err error) {
		receipt, err := book.Enqueue(ctx, daybook.Request{ID: r.ID, Queue: r.Queue, Kind: "charge", Args: r.Args})
		return receipt.Replayed, err
	}
	if c.Server != "" {
		put = c.post
	}
	answered := func(r request) {
		fmt.Fprintln(accepted, r.ID)
		c.sent.Add(1)
	}
	return func(ctx context.Context) error {
		if c.Load {
			c.load(ctx, put, answered)
			return nil
		}
		for {
			select {
			case <-ctx.Done():
				return nil
			case r := <-c.sends:
				c.gate.reached(gapReceived, r.ID)
				replayed, err := put(ctx, r)
				if err != nil {
					_ = c.out.Write(report{Sent: &sent{ID: r.ID, Error: err.Error()}}) // the parent is gone
					continue
				}
				answered(r)
				_ = c.out.Write(report{Sent: &sent{ID: r.ID, Replayed: replayed}})
			}
		}
	}, nil
}

// load puts jobs in until ctx ends. What isn't answered is asked for again with
// the same id, for as long as it takes.
func (c *child) load(ctx context.Context, put func(context.Context, request) (bool, error), answered func(request)) {
	for sleep(ctx, loadEvery) {
		id := c.newID()
		args, err := json.Marshal(effects.Order{Number: loadOrder + id.String(), Value: "9.00"})
		if err != nil {
			continue // of two strings: can't be
		}
		r := request{ID: id, Queue: c.Queue, Args: args}
		for {
			// One that was sent is seen through: it may be in the book.
			if _, err := put(context.WithoutCancel(ctx), r); err == nil {
				answered(r)
				break
			}
			if !sleep(ctx, loadEvery) {
				return
			}
		}
	}
}

// loadOrder begins the order numbers of the load's jobs; their ids follow.
const loadOrder = "load-"

// newID is one by this process's wall clock, which its first 48 bits tell.
func (c *child) newID() daybook.ID {
	id := daybook.NewID()
	if c.Clock != 0 {
		ms := uint64(time.Now().Add(c.Clock).UnixMilli())
		for i := range 6 {
			id[i] = byte(ms >> (40 - 8*i))
		}
	}
	return id
}

func sleep(ctx context.Context, d time.Duration) bool {
	pause(ctx, d)
	return ctx.Err() == nil
}

// post puts a job in through a server.
func (c *child) post(ctx context.Context, r request) (replayed bool, err error) {
	ctx, stop := context.WithTimeout(ctx, parting)
	defer stop()
	body, err := json.Marshal(map[string]any{"id": r.ID, "queue": r.Queue, "kind": "charge",
		"args": json.RawMessage(r.Args)})
	if err != nil {
		return false, err
	}
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+c.Server+"/v1/jobs", bytes.NewReader(body))
	if err != nil {
		return false, err
	}
	q.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(q)
	if err != nil {
		return false, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, 64<<10))
	if err != nil {
		return false, err
	}
	if answer.StatusCode != http.StatusCreated && answer.StatusCode != http.StatusOK {
		return false, fmt.Errorf("the server answered %s: %.200s", answer.Status, text)
	}
	return answer.Header.Get("Idempotency-Replayed") != "", nil
}

// server serves the book over HTTP, with relay and reconciler beside it.
func (c *child) server(book *daybook.Book) (func(context.Context) error, error) {
	api, err := httpapi.New(book, httpapi.Options{Loopback: true})
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", c.Server)
	if err != nil {
		return nil, daybook.Fail(daybook.CodeInternal, "the drill's server can't listen on %s", c.Server)
	}
	server := &http.Server{Handler: api, ReadHeaderTimeout: 10 * time.Second}
	return func(ctx context.Context) error {
		go func() { _ = server.Serve(listener) }() // until it is closed
		err := runLoops(ctx, book)
		api.Close()
		ending, stop := context.WithTimeout(context.WithoutCancel(ctx), parting/2)
		defer stop()
		if server.Shutdown(ending) != nil {
			_ = server.Close() // some calls were not finished
		}
		return err
	}, nil
}
