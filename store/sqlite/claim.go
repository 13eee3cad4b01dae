package sqlite

import (
	"cmp"
	"context"
	"database/sql/driver"
	"fmt"
	"slices"

	"github.com/daybookdev/daybook"
)

// Claim finds eligible jobs and gives them to the session.
func (t *tx) Claim(ctx context.Context, c daybook.Claiming) ([]daybook.Job, error) {
	suspects, err := one(t.q, "SELECT count(*) FROM owned WHERE session = ? AND suspect <> 0", c.Session.Ref)
	if err != nil {
		return nil, err
	}
	k := &claiming{tx: t, Claiming: c, grant: daybook.Grant{Session: c.Session, Incarnation: c.Incarnation,
		Suspects: int(num(suspects))}}
	// A fair share of each queue first, then whatever there is.
	share := (c.Limit + len(c.Queues) - 1) / max(1, len(c.Queues))
	for _, most := range []int{share, c.Limit} {
		for _, queue := range c.Queues {
			if err := k.fromQueue(ctx, queue, min(most, c.Limit-len(k.jobs))); err != nil {
				return nil, err
			}
		}
		if len(k.jobs) == c.Limit || share == c.Limit {
			break
		}
	}
	return k.jobs, nil
}

// claiming is one claim call under way.
type claiming struct {
	*tx
	daybook.Claiming
	grant daybook.Grant
	jobs  []daybook.Job
}

// save carries claims out.
func (k *claiming) save(ctx context.Context, changes []daybook.Change) error {
	for _, c := range changes {
		k.jobs = append(k.jobs, c.Now)
		if c.Now.Suspect() {
			k.grant.Suspects++
		}
	}
	return k.Save(ctx, changes)
}

// fromQueue takes up to most jobs from one queue: a suspect first, if the
// session may have one, then by priority, then by when they became eligible.
func (k *claiming) fromQueue(ctx context.Context, name string, most int) error {
	queue, err := k.queueNumber(name)
	if err != nil || queue == 0 || most <= 0 {
		return err
	}
	paused, err := one(k.q, "SELECT paused_at FROM queue WHERE n = ?", queue)
	if err != nil || paused != nil {
		return err
	}
	if k.grant.Suspects == 0 {
		changes, err := k.find(suspectsIn, 1, queue, int64(k.now), int64(k.now))
		if err == nil {
			err = k.save(ctx, changes)
		}
		if err != nil {
			return err
		}
		most -= len(changes)
	}
	if k.Oldest {
		return k.oldest(ctx, queue, most)
	}
	return k.ranks(queue, func(rank int64) (bool, error) {
		if most <= 0 {
			return false, nil
		}
		changes, err := k.find(eligibleIn, most, queue, rank, int64(k.now), int64(k.now))
		if err != nil {
			return false, err
		}
		most -= len(changes)
		return most > 0, k.save(ctx, changes)
	})
}

// oldest takes by age alone: the heads of all priorities, merged.
func (k *claiming) oldest(ctx context.Context, queue int64, most int) error {
	var all []daybook.Change
	err := k.ranks(queue, func(rank int64) (bool, error) {
		changes, err := k.find(eligibleIn, most, queue, rank, int64(k.now), int64(k.now))
		all = append(all, changes...)
		return true, err
	})
	if err != nil {
		return err
	}
	slices.SortStableFunc(all, func(a, b daybook.Change) int { return cmp.Compare(a.Was.RunAt, b.Was.RunAt) })
	return k.save(ctx, all[:min(most, len(all))])
}

const (
	candidate  = "SELECT " + jobColumns + `, j.args FROM ready r CROSS JOIN job j ON j.seq = r.seq WHERE r.lane = ? `
	due        = `AND r.run_at <= ? AND (r.expires_at IS NULL OR r.expires_at > ?) `
	inOrder    = `ORDER BY r.run_at, r.seq LIMIT ?`
	eligibleIn = candidate + `AND r.rank = ? ` + due + `AND r.suspect = 0 `
	suspectsIn = "SELECT " + jobColumns + `, j.args FROM ready r INDEXED BY ready_suspect CROSS JOIN job j ON j.seq = r.seq
		WHERE r.suspect <> 0 AND r.lane = ? ` + due
)

// find lets the pure move decide about each candidate of a query, up to most.
func (k *claiming) find(query string, most int, args ...driver.Value) ([]daybook.Change, error) {
	if most <= 0 {
		return nil, nil
	}
	if len(k.Kinds) > 0 {
		query += "AND j.kind IN (" + marks(len(k.Kinds)) + ") "
		for _, kind := range k.Kinds {
			args = append(args, kind)
		}
	}
	changes := make([]daybook.Change, 0, min(most, 256))
	err := k.q.rows(query+inOrder, append(args, int64(most)), func(row []driver.Value) error {
		j, err := k.scanJob(row)
		if err != nil {
			return err
		}
		j.Args = raw(row[jobWidth])
		c, err := j.Claim(k.grant, k.now)
		if err != nil {
			return fmt.Errorf("a ready row that can't be claimed: %w", err)
		}
		changes = append(changes, c)
		return nil
	})
	return changes, err
}
