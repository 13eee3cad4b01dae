package client

import (
	"context"
	"time"

	"github.com/daybookdev/daybook"
)

const (
	// listenFor is how long one call waits for a ring: less than what stands between
	// client and server may cut off as idle.
	listenFor = 45 * time.Second
	// listenPause is between two tries while the server can't be reached.
	listenPause = 2 * time.Second
)

// Bell is the server's bell as far as it can be heard from here: calls that wait
// for a ring. It also rings for jobs that become due. Losing it costs latency and
// no work, as with every bell.
func (c *Client) Bell() daybook.Bell { return bell{c} }

type bell struct{ c *Client }

// Ring does nothing: who changes the book rings, and that is the server.
func (b bell) Ring(context.Context, string) {}

// Close does nothing: a listening ends with its context.
func (b bell) Close() error { return nil }

// Listen hears rings of the queues until ctx ends. Only a list that is empty or
// too long never works.
func (b bell) Listen(ctx context.Context, queues []string) (<-chan daybook.Heard, error) {
	if len(queues) == 0 || len(queues) > daybook.QueuesMax {
		return nil, daybook.Invalid("queues", "wants 1…%d, got %d", daybook.QueuesMax, len(queues))
	}
	rings := make(chan daybook.Heard)
	go b.listen(ctx, queues, rings)
	return rings, nil
}

func (b bell) listen(ctx context.Context, queues []string, rings chan<- daybook.Heard) {
	defer close(rings)
	missed := false // rings, while the server was away
	for ctx.Err() == nil {
		began := time.Now()
		rung, queue, err := b.c.Listen(ctx, queues, listenFor)
		if err != nil {
			if ctx.Err() == nil && !missed {
				b.c.opts.Log.Warn("the server's bell can't be heard; work is found by looking", "error", err)
			}
			missed = true
			sleep(ctx, listenPause)
			continue
		}
		if missed {
			rung, queue, missed = true, "", false
		}
		if !rung {
			if time.Since(began) < time.Second { // a server that stops doesn't wait
				sleep(ctx, time.Second)
			}
			continue
		}
		select {
		case <-ctx.Done():
		case rings <- daybook.Heard{Ring: daybook.Ring{Queue: queue}}:
		}
	}
}

// Listen waits until somebody rings for one of the queues, or a job of theirs
// becomes due, a minute at most. It is a hint: rings may be lost, and who is told
// of one looks with Claim. queue is where, or "" for any of them.
func (c *Client) Listen(ctx context.Context, queues []string, wait time.Duration) (rung bool, queue string,
	err error) {
	k := post("/v1/listen", new(object).field("queues", queues).span("wait_seconds", wait).done())
	k.within = c.opts.Timeout + wait
	var heard struct {
		Rung  bool   `json:"rung"`
		Queue string `json:"queue"`
	}
	err = c.do(ctx, k, &heard)
	return heard.Rung, heard.Queue, err
}
