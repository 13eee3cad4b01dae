package asynq

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/internal/oldredis"
)

// Left counts what is left; see cutover.Mover. Places without jobs aren't named.
func (s *Source) Left(ctx context.Context) (map[string]int64, error) {
	left := map[string]int64{}
	counts := map[string]*redis.IntCmd{}
	var mine *redis.StringSliceCmd
	groups, err := s.groups(ctx)
	if err != nil {
		return nil, err
	}
	_, err = s.store.TxPipelined(ctx, func(p redis.Pipeliner) error {
		counts[inPending], counts[inActive] = p.LLen(ctx, s.key(inPending)), p.LLen(ctx, s.key(inActive))
		counts[markHeld] = p.LLen(ctx, s.held.List)
		for _, set := range sets {
			if set.state != daybook.OldDone {
				counts[set.from] = p.ZCard(ctx, s.key(set.from))
			}
		}
		for _, key := range groups {
			counts[key] = p.ZCard(ctx, key)
		}
		mine = p.SMembers(ctx, s.canaries())
		return nil
	})
	if err != nil {
		return nil, s.store.Err("counting the queue", err)
	}
	for _, key := range groups {
		left[inGroup] += counts[key].Val()
		delete(counts, key)
	}
	for from, count := range counts {
		left[from] = count.Val()
	}
	for _, id := range mine.Val() {
		if there, err := s.CanaryThere(ctx, id); err != nil {
			return nil, err
		} else if there {
			left[inPending]--
		}
	}
	for from, n := range left {
		if n <= 0 {
			delete(left, from)
		}
	}
	return left, nil
}

// groups are the keys of what waits to be grouped.
func (s *Source) groups(ctx context.Context) ([]string, error) {
	names, err := s.store.SMembers(ctx, s.key("groups")).Result()
	if err != nil {
		return nil, s.store.Err("listing groups", err)
	}
	keys, err := s.store.ZRange(ctx, s.key(ofBatches), 0, -1).Result()
	for _, name := range names {
		keys = append(keys, s.group(name))
	}
	return keys, s.store.Err("listing groups", err)
}

// forgetScript removes hashes of moved jobs, and locks that are theirs still.
// ARGV are the prefix of hashes, and ids.
var forgetScript = redis.NewScript(`
for i = 2, #ARGV do
	local hash = ARGV[1] .. ARGV[i]
	if redis.call('HGET', hash, 'state') == 'moved' then
		local lock = redis.call('HGET', hash, 'unique_key')
		if lock and redis.call('GET', lock) == ARGV[i] then redis.call('DEL', lock) end
		redis.call('DEL', hash)
	end
end
return 1
`)

// Forget takes away what the cutover left: hashes of moved jobs, with the locks
// that would keep their work from being enqueued again, canaries, and its own
// keys. The pause stays as it is. It is refused while jobs are held.
func (s *Source) Forget(ctx context.Context) error {
	n, err := s.held.Count(ctx)
	if err != nil {
		return err
	}
	if n > 0 {
		return daybook.Fail(daybook.CodeRefused, "%d jobs are held in %s: move or return them before what the cutover left "+
			"is forgotten", n, s.store.Name())
	}
	canaries, err := s.store.SMembers(ctx, s.canaries()).Result()
	if err != nil {
		return s.store.Err("looking for canaries", err)
	}
	for _, id := range canaries {
		if err := s.DropCanary(ctx, id); err != nil {
			return err
		}
	}
	pattern := oldredis.Glob(s.body("")) + "*"
	for cursor := uint64(0); ; {
		keys, next, err := s.store.Client.Scan(ctx, cursor, pattern, 1000).Result()
		if err != nil {
			return s.store.Err("looking for moved jobs", err)
		}
		args := []any{s.body("")}
		for _, key := range keys {
			args = append(args, key[len(s.body("")):])
		}
		if len(keys) > 0 {
			if _, err := s.store.Run(ctx, "forgetting moved jobs", forgetScript, nil, args...); err != nil {
				return err
			}
		}
		if cursor = next; cursor == 0 {
			break
		}
	}
	return s.store.Err("forgetting the cutover", s.store.Del(ctx, s.canaries(), s.held.Counter, s.held.Fence()).Err())
}
