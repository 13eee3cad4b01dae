package asynq

import (
	"context"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/daybookdev/daybook/cutover"
	"github.com/daybookdev/daybook/internal/oldredis"

	"google.golang.org/protobuf/encoding/protowire"
)

var (
	closeScript = oldredis.Fenced(`redis.call('SET', KEYS[1], ARGV[1], 'NX') return 1`)
	openScript  = oldredis.Fenced(`return redis.call('DEL', KEYS[1])`)
)

// CloseGate pauses the queue, which Asynq's script for taking a job looks at each
// time. A queue that was paused already stays so.
func (s *Source) CloseGate(ctx context.Context) error {
	_, err := s.held.Run(ctx, "pausing the queue", closeScript, []string{s.key("paused")}, time.Now().Unix())
	return err
}

// OpenGate ends the pause.
func (s *Source) OpenGate(ctx context.Context) error {
	_, err := s.held.Run(ctx, "ending the queue's pause", openScript, []string{s.key("paused")})
	return err
}

// GateState looks at the pause and at the servers that take from the queue.
func (s *Source) GateState(ctx context.Context) (cutover.GateState, error) {
	n, err := s.store.Exists(ctx, s.key("paused")).Result()
	if err != nil {
		return cutover.GateState{}, s.store.Err("looking at the gate", err)
	}
	g := cutover.GateState{Closed: n > 0, How: "open"}
	if g.Closed {
		g.How = "the queue is paused (" + s.key("paused") + "), which every server looks at each time it takes a job"
	}
	names, err := s.store.ZRangeWithScores(ctx, serversKey, 0, -1).Result()
	if err != nil {
		return cutover.GateState{}, s.store.Err("listing servers", err)
	}
	for _, z := range names {
		key, _ := z.Member.(string)
		raw, err := s.store.Get(ctx, key).Bytes()
		if err != nil && err != redis.Nil {
			return cutover.GateState{}, s.store.Err("listing servers", err)
		}
		is, err := readServer(raw)
		if err != nil || !slices.Contains(is.queues, s.o.Queue) {
			continue // its report has ended, or it serves other queues
		}
		g.Claimants = append(g.Claimants, cutover.Claimant{Name: is.name, Quiet: is.status != "active", Busy: is.busy,
			Seen: oldredis.Seconds(z.Score).Add(-reportLife)})
	}
	if g.Closed && len(g.Claimants) > 0 {
		g.Leaks = []string{"a server still moves due jobs to the waiting list, and jobs of lost owners to the retry set",
			"a server that shuts down puts what it runs back into the waiting list"}
	}
	return g, nil
}

// LongestTake: a take is one script that looks at the pause.
func (s *Source) LongestTake() time.Duration { return 2 * time.Second }

// canaryScript lays a canary at the taking end, unless it lies there. KEYS are
// the list, its hash, and the canaries; ARGV its id and message.
var canaryScript = oldredis.Fenced(`
redis.call('SADD', KEYS[3], ARGV[1])
if redis.call('LPOS', KEYS[1], ARGV[1], 'RANK', -1) then return 0 end
redis.call('HSET', KEYS[2], 'msg', ARGV[2], 'state', 'pending')
redis.call('RPUSH', KEYS[1], ARGV[1])
return 1
`)

// PutCanary lays a job there whose type no server knows.
func (s *Source) PutCanary(ctx context.Context, id string) error {
	var m []byte
	for i, text := range []string{fieldType: cutover.CanaryClass, fieldID: id, fieldQueue: s.o.Queue} {
		if text != "" {
			m = protowire.AppendTag(m, protowire.Number(i), protowire.BytesType)
			m = protowire.AppendString(m, text)
		}
	}
	_, err := s.held.Run(ctx, "laying the canary", canaryScript,
		[]string{s.key(inPending), s.body(id), s.canaries()}, id, m)
	return err
}

// CanaryThere reports whether nobody has taken it.
func (s *Source) CanaryThere(ctx context.Context, id string) (bool, error) {
	err := s.store.LPos(ctx, s.key(inPending), id, redis.LPosArgs{Rank: -1}).Err()
	if err == redis.Nil {
		return false, nil
	}
	return err == nil, s.store.Err("looking for the canary", err)
}

// DropCanary takes it away, wherever a server may have brought it.
func (s *Source) DropCanary(ctx context.Context, id string) error {
	_, err := s.store.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.LRem(ctx, s.key(inPending), -1, id)
		for _, set := range sets {
			p.ZRem(ctx, s.key(set.from), id)
		}
		p.Del(ctx, s.body(id))
		p.SRem(ctx, s.canaries(), id)
		return nil
	})
	return s.store.Err("taking the canary away", err)
}
