package oldredis

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// Run runs a script.
func (s *Store) Run(ctx context.Context, doing string, script *redis.Script, keys []string, args ...any) (any, error) {
	answer, err := script.Run(ctx, s.Client, keys, args...).Result()
	if err != nil && err != redis.Nil {
		return nil, s.Err(doing, err)
	}
	return answer, nil
}

// RunInt runs a script that answers a number.
func (s *Store) RunInt(ctx context.Context, doing string, script *redis.Script, keys []string, args ...any) (
	int64, error) {
	answer, err := s.Run(ctx, doing, script, keys, args...)
	n, _ := answer.(int64)
	return n, err
}

// TakeUpTo asks take again and again for what is missing to n, in portions, until
// there is no more. Each call takes at most what it is asked for; one that takes
// nothing ends it.
func TakeUpTo(ctx context.Context, n int, take func(ctx context.Context, n int) ([][]byte, error)) ([][]byte, error) {
	var all [][]byte
	for bytes := 0; len(all) < n && bytes < 64<<20; {
		some, err := take(ctx, min(n-len(all), TakeMost))
		for _, e := range some {
			bytes += len(e)
		}
		all = append(all, some...)
		if err != nil || len(some) == 0 {
			return all, err
		}
	}
	return all, nil
}
