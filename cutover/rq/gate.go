package rq

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/daybookdev/daybook/cutover"
	"github.com/daybookdev/daybook/internal/oldredis"
)

var (
	closeScript = oldredis.Fenced(`redis.call('SET', KEYS[1], '1') return 1`)
	openScript  = oldredis.Fenced(`return redis.call('DEL', KEYS[1])`)
)

// CloseGate suspends RQ's workers, those of all queues: RQ has no other way. A
// worker looks at it before it waits for a job, so one that waits already takes
// one more job, or none when its wait ends before.
func (s *Source) CloseGate(ctx context.Context) error {
	_, err := s.held.Run(ctx, "suspending the workers", closeScript, []string{suspended})
	return err
}

// OpenGate lets them go on.
func (s *Source) OpenGate(ctx context.Context) error {
	_, err := s.held.Run(ctx, "resuming the workers", openScript, []string{suspended})
	return err
}

// GateState looks at the gate; see cutover.Gate. It is closed when workers are
// suspended and none waits for a job any more.
func (s *Source) GateState(ctx context.Context) (cutover.GateState, error) {
	n, err := s.store.Exists(ctx, suspended).Result()
	if err != nil {
		return cutover.GateState{}, s.store.Err("looking at the gate", err)
	}
	workers, err := s.workers(ctx)
	if err != nil {
		return cutover.GateState{}, err
	}
	g := cutover.GateState{Closed: n > 0, How: "open"}
	if n > 0 {
		g.How = "all workers are suspended (" + suspended + "), which each looks at before it waits for a job"
	}
	waiting := 0
	for _, w := range workers {
		c := cutover.Claimant{Name: w.name, Seen: stamp(w.fields["last_heartbeat"])}
		switch w.fields["state"] {
		case "busy":
			c.Busy, c.Quiet = 1, n > 0 // it looks at the gate when its job has ended
		case "suspended":
			c.Quiet = true
		}
		if !c.Quiet {
			waiting++
		}
		g.Claimants = append(g.Claimants, c)
	}
	if n > 0 && waiting > 0 {
		g.Closed = false
		g.Leaks = append(g.Leaks, fmt.Sprintf("%d workers wait for a job since before the gate, for up to %s: each takes "+
			"one more that comes; restart them, or wait", waiting, s.LongestTake()))
	}
	if n > 0 && len(workers) > 0 {
		g.Leaks = append(g.Leaks, "workers of RQ's other queues are suspended too",
			"a worker with a scheduler still moves due jobs to the waiting list")
	}
	return g, nil
}

// LongestTake is how long an idle worker waits for a job.
func (s *Source) LongestTake() time.Duration {
	return max(time.Second, s.o.WorkerTTL-15*time.Second) + 2*time.Second
}

// canaryScript lays a canary at the taking end, unless it lies there. KEYS are
// the list, its hash, and the canaries; ARGV its id, then the hash.
var canaryScript = oldredis.Fenced(`
redis.call('SADD', KEYS[3], ARGV[1])
if redis.call('LPOS', KEYS[1], ARGV[1]) then return 0 end
local hash = {}
for i = 2, #ARGV do hash[#hash + 1] = ARGV[i] end
redis.call('HSET', KEYS[2], unpack(hash))
redis.call('LPUSH', KEYS[1], ARGV[1])
return 1
`)

// PutCanary lays a job there whose function no worker has.
func (s *Source) PutCanary(ctx context.Context, id string) error {
	data, err := json.Marshal([]any{cutover.CanaryClass, nil, []any{}, map[string]any{}})
	if err != nil {
		return err
	}
	_, err = s.held.Run(ctx, "laying the canary", canaryScript, []string{s.queue(), s.body(id), s.canaries()}, id,
		"data", data, "origin", s.o.Queue, "status", "queued", "created_at", "2000-01-01T00:00:00.000000Z",
		"description", cutover.CanaryClass+"()", "timeout", seconds(time.Minute))
	return err
}

// CanaryThere reports whether nobody has taken it.
func (s *Source) CanaryThere(ctx context.Context, id string) (bool, error) {
	err := s.store.LPos(ctx, s.queue(), id, redis.LPosArgs{}).Err()
	if err == redis.Nil {
		return false, nil
	}
	return err == nil, s.store.Err("looking for the canary", err)
}

// DropCanary takes it away, wherever a worker may have brought it.
func (s *Source) DropCanary(ctx context.Context, id string) error {
	_, err := s.store.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.LRem(ctx, s.queue(), 1, id)
		for _, set := range sets {
			p.ZRem(ctx, s.set(set.from), id)
		}
		p.Del(ctx, s.body(id), s.results(id))
		p.SRem(ctx, s.canaries(), id)
		return nil
	})
	return s.store.Err("taking the canary away", err)
}
