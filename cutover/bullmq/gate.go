package bullmq

import (
	"context"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/daybookdev/daybook/cutover"
	"github.com/daybookdev/daybook/internal/oldredis"
)

var closeScript = oldredis.Fenced(`return redis.call('HSET', KEYS[1], 'paused', 1)`)

// CloseGate pauses the queue, which BullMQ's script for taking a job looks at
// each time. A queue that was paused already stays so.
func (s *Source) CloseGate(ctx context.Context) error {
	_, err := s.held.Run(ctx, "pausing the queue", closeScript, []string{s.key("meta")})
	return err
}

// openScript ends the pause. What BullMQ 5 put aside meanwhile goes behind what
// waits, and workers that wait are told. KEYS are meta, wait, paused, prioritized
// and marker; ARGV how many jobs to move. It answers how many are left aside.
var openScript = oldredis.Fenced(`
for i = 1, tonumber(ARGV[1]) do
	local id = redis.call('LINDEX', KEYS[3], -1)
	if not id then break end
	redis.call('LPUSH', KEYS[2], id)
	redis.call('RPOP', KEYS[3])
end
local left = redis.call('LLEN', KEYS[3])
if left == 0 then
	redis.call('HDEL', KEYS[1], 'paused')
	if redis.call('EXISTS', KEYS[2]) == 1 or redis.call('EXISTS', KEYS[4]) == 1 then
		redis.call('ZADD', KEYS[5], 0, '0')
	end
end
return left
`)

// OpenGate ends the pause. A queue that isn't paused stays as it is.
func (s *Source) OpenGate(ctx context.Context) error {
	paused, err := s.store.HExists(ctx, s.key("meta"), "paused").Result()
	if err != nil || !paused {
		return s.store.Err("looking at the gate", err)
	}
	keys := []string{s.key("meta"), s.key("wait"), s.key("paused"), s.key("prioritized"), s.key("marker")}
	for {
		left, err := s.held.RunInt(ctx, "ending the queue's pause", openScript, keys, 1000)
		if err != nil || left == 0 {
			return err
		}
	}
}

// GateState looks at the pause and at workers that are connected, by the names
// that their connections have.
func (s *Source) GateState(ctx context.Context) (cutover.GateState, error) {
	paused, err := s.store.HExists(ctx, s.key("meta"), "paused").Result()
	if err != nil {
		return cutover.GateState{}, s.store.Err("looking at the gate", err)
	}
	now, err := s.store.Now(ctx)
	if err != nil {
		return cutover.GateState{}, err
	}
	g := cutover.GateState{Closed: paused, How: "open"}
	if paused {
		g.How = "the queue is paused (" + s.key("meta") + "), which each worker looks at when it takes a job"
	}
	clients, err := s.store.ClientList(ctx).Result()
	if err != nil {
		return g, s.store.Err("listing workers", err)
	}
	for line := range strings.Lines(clients) {
		var name, addr string
		for _, word := range strings.Fields(line) {
			if v, ok := strings.CutPrefix(word, "name="); ok {
				name = v
			}
			if v, ok := strings.CutPrefix(word, "addr="); ok {
				addr = v
			}
		}
		if name == s.clientName() || strings.HasPrefix(name, s.clientName()+":") {
			g.Claimants = append(g.Claimants, cutover.Claimant{Name: strings.TrimPrefix(name, s.clientName()) + "@" + addr,
				Seen: now})
		}
	}
	if paused && len(g.Claimants) > 0 {
		g.Leaks = []string{"a worker still puts jobs whose locks ran out back to the waiting list, and moves due ones there"}
	}
	return g, nil
}

// LongestTake: a take is one script that looks at the pause.
func (s *Source) LongestTake() time.Duration { return 2 * time.Second }

// canaryScript lays a canary at the taking end, unless it lies there. KEYS are
// the list, its hash, and the canaries; ARGV its id, then the hash.
var canaryScript = oldredis.Fenced(`
redis.call('SADD', KEYS[3], ARGV[1])
if redis.call('LPOS', KEYS[1], ARGV[1], 'RANK', -1) then return 0 end
local hash = {}
for i = 2, #ARGV do hash[#hash + 1] = ARGV[i] end
redis.call('HSET', KEYS[2], unpack(hash))
redis.call('RPUSH', KEYS[1], ARGV[1])
return 1
`)

// PutCanary lays a job there that a worker fails before it runs it.
func (s *Source) PutCanary(ctx context.Context, id string) error {
	_, err := s.held.Run(ctx, "laying the canary", canaryScript, []string{s.key("wait"), s.key(id), s.canaries()}, id,
		"name", cutover.CanaryClass, "data", "{}", "opts", `{"attempts":1}`, "timestamp", stamp(), "delay", 0, "priority", 0,
		"defa", "the gate of a cutover isn't closed")
	return err
}

// CanaryThere reports whether nobody has taken it.
func (s *Source) CanaryThere(ctx context.Context, id string) (bool, error) {
	err := s.store.LPos(ctx, s.key("wait"), id, redis.LPosArgs{Rank: -1}).Err()
	if err == redis.Nil {
		return false, nil
	}
	return err == nil, s.store.Err("looking for the canary", err)
}

// DropCanary takes it away, wherever a worker may have brought it.
func (s *Source) DropCanary(ctx context.Context, id string) error {
	_, err := s.store.TxPipelined(ctx, func(p redis.Pipeliner) error {
		for _, place := range places {
			if place.kind == oldredis.Sorted {
				p.ZRem(ctx, s.key(place.from), id)
			} else {
				p.LRem(ctx, s.key(place.from), -1, id)
			}
		}
		p.Del(ctx, s.key(id))
		p.SRem(ctx, s.canaries(), id)
		return nil
	})
	return s.store.Err("taking the canary away", err)
}
