package sidekiq

import (
	"context"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/internal/oldredis"
)

// Left counts what is left; see cutover.Mover. Places without jobs aren't named.
func (s *Source) Left(ctx context.Context) (map[string]int64, error) {
	left := map[string]int64{}
	_, err := s.Scan(ctx, 0, func(job daybook.OldJob) error {
		e, err := oldredis.ParseEnvelope(job.Raw)
		left[e.From]++
		return err
	})
	if err != nil {
		return nil, err
	}
	n, err := s.held.Count(ctx)
	if n > 0 {
		left["held"] = n
	}
	return left, err
}

// Forget takes away what the cutover left. It is refused while jobs are held or
// set aside.
func (s *Source) Forget(ctx context.Context) error {
	n, err := s.held.Count(ctx)
	if err != nil {
		return err
	}
	aside, err := s.store.LLen(ctx, s.aside()).Result()
	if err != nil {
		return s.store.Err("counting what is set aside", err)
	}
	if n > 0 || aside > 0 {
		return daybook.Fail(daybook.CodeRefused, "%d jobs are held in %s and %d set aside there: move or return them, and "+
			"open the gate, before what the cutover left is forgotten", n, s.store.Name(), aside)
	}
	canaries, err := s.store.HKeys(ctx, s.canaries()).Result()
	if err != nil {
		return s.store.Err("looking for canaries", err)
	}
	for _, id := range canaries {
		if err := s.DropCanary(ctx, id); err != nil {
			return err
		}
	}
	if err := s.giveRights(ctx); err != nil {
		return err
	}
	keys := []string{s.gate(), s.canaries(), s.back(), s.held.Counter, s.held.Fence()}
	return s.store.Err("forgetting the cutover", s.store.Del(ctx, keys...).Err())
}
