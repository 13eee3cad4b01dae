package redis

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/internal/ring"
)

func (b *Bell) rungKey() string             { return "{" + b.name + "}:rung" }
func (b *Bell) listPrefix() string          { return "{" + b.name + "}:ring:" }
func (b *Bell) listKey(queue string) string { return b.listPrefix() + queue }

// send leaves a batch of rings in Redis, in one call.
func (b *Bell) send(ctx context.Context, rings []daybook.Ring) error {
	if len(rings) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := b.leave(ctx, b.client, rings...); err != nil {
		return unavailable("taking rings", err)
	}
	if b.failing.Swap(false) {
		b.log.Info("the bell takes rings again", "bell", b.where)
	}
	return nil
}

// failed is told of each batch that Redis didn't take.
func (b *Bell) failed(rings int, err error) {
	if !b.failing.Swap(true) && b.ctx.Err() == nil {
		b.log.Warn("the bell takes no rings; work is found by polling meanwhile", "bell", b.where,
			"rings", rings, "error", err, "cause", causeOf(err))
	}
}

// causeOf is an error of the driver for the log.
func causeOf(err error) string {
	return ring.Cause(err, func(err error) (string, bool) {
		said, ok := errors.AsType[redis.Error](err)
		if !ok {
			return "", false
		}
		return "the server says: " + said.Error(), true
	})
}

// leave runs the script for some rings.
func (b *Bell) leave(ctx context.Context, to redis.Scripter, rings ...daybook.Ring) error {
	keys, args := b.leaving(rings)
	return ringScript.Run(ctx, to, keys, args...).Err()
}

func (b *Bell) leaving(rings []daybook.Ring) (keys []string, args []any) {
	keys, args = make([]string, 1, 1+len(rings)), make([]any, 2, 2+2*len(rings))
	keys[0], args[0], args[1] = b.rungKey(), ringsMost, int(keep.Seconds())
	for _, r := range rings {
		job := ""
		if !r.Job.IsZero() {
			job = r.Job.String()
		}
		keys, args = append(keys, b.listKey(r.Queue)), append(args, r.Queue, job)
	}
	return keys, args
}

// ringOf is the ring behind a list's element. What isn't an id is somebody
// else's, and still a ring.
func ringOf(queue, job string) daybook.Ring {
	r := daybook.Ring{Queue: queue}
	if id, err := daybook.ParseID(job); err == nil {
		r.Job = id
	}
	return r
}

// Depth says how many rings lie in Redis, by queue: of the first 10,000 queues
// that have some. A ring that nobody hears lies there for an hour.
func (b *Bell) Depth(ctx context.Context) (map[string]int64, error) {
	queues, err := b.rung(ctx, listMost)
	if err != nil {
		return nil, err
	}
	sizes := make([]*redis.IntCmd, len(queues))
	_, err = b.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, q := range queues {
			sizes[i] = p.LLen(ctx, b.listKey(q))
		}
		return nil
	})
	if err != nil {
		return nil, unavailable("counting rings", err)
	}
	depth := map[string]int64{}
	for i, q := range queues {
		if n := sizes[i].Val(); n > 0 {
			depth[q] = n
		}
	}
	return depth, nil
}

// Peek reads up to most rings, 10,000 at most, and leaves them where they are.
func (b *Bell) Peek(ctx context.Context, most int) ([]daybook.Ring, error) {
	most = min(most, listMost)
	if most <= 0 {
		return nil, nil
	}
	queues, err := b.rung(ctx, listMost)
	if err != nil {
		return nil, err
	}
	var rings []daybook.Ring
	const part = 500
	for len(queues) > 0 && len(rings) < most {
		some := queues[:min(part, len(queues))]
		queues = queues[len(some):]
		lists := make([]*redis.StringSliceCmd, len(some))
		_, err := b.client.Pipelined(ctx, func(p redis.Pipeliner) error {
			for i, q := range some {
				lists[i] = p.LRange(ctx, b.listKey(q), 0, int64(ringsMost-1))
			}
			return nil
		})
		if err != nil {
			return nil, unavailable("reading rings", err)
		}
		for i, q := range some {
			for _, job := range lists[i].Val() {
				rings = append(rings, ringOf(q, job))
			}
		}
	}
	return rings[:min(most, len(rings))], nil
}

// rung are the queues that may have rings, the oldest first.
func (b *Bell) rung(ctx context.Context, most int) ([]string, error) {
	if b.ctx.Err() != nil {
		return nil, fmt.Errorf("redis: %w", daybook.Fail(daybook.CodeUnavailable, "the bell is closed; open it again"))
	}
	queues, err := b.client.ZRange(ctx, b.rungKey(), 0, int64(most-1)).Result()
	if err != nil {
		return nil, unavailable("listing queues with rings", err)
	}
	return queues, nil
}
