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
func (t *tx) Claim(_ context.Context, c daybook.Claiming) ([]daybook.Job, error) {
	suspects, err := one(t.q, suspectsHeld, c.Session.Ref)
	if err != nil {
		return nil, err
	}
	k := &claiming{tx: t, Claiming: c, grant: daybook.Grant{Session: c.Session, Incarnation: c.Incarnation,
		Suspects: int(num(suspects))}}
	// A fair share of each queue first, then whatever there is.
	share := (c.Limit + len(c.Queues) - 1) / max(1, len(c.Queues))
	for _, most := range []int{share, c.Limit} {
		for _, queue := range c.Queues {
			if err := k.fromQueue(queue, min(most, c.Limit-len(k.jobs))); err != nil {
				return nil, err
			}
		}
		if len(k.jobs) == c.Limit || share == c.Limit {
			break
		}
	}
	return k.jobs, nil
}

const suspectsHeld = "SELECT count(*) FROM owned WHERE session = ? AND suspect <> 0"

// claiming is one claim call under way.
type claiming struct {
	*tx
	daybook.Claiming
	grant    daybook.Grant
	jobs     []daybook.Job
	suspects driver.Value // nil when the queue at hand has none waiting
}

// save carries claims out.
func (k *claiming) save(changes []daybook.Change) error {
	for _, c := range changes {
		k.jobs = append(k.jobs, c.Now)
		if c.Now.Suspect() {
			k.grant.Suspects++
		}
	}
	return k.tx.save(changes)
}

// fromQueue takes up to most jobs from one queue, by priority, then by when
// they became eligible.
func (k *claiming) fromQueue(name string, most int) error {
	queue, err := k.queueNumber(name)
	if err != nil || queue == 0 || most <= 0 {
		return err
	}
	paused, err := one(k.q, "SELECT paused_at FROM queue WHERE n = ?", queue)
	if err != nil || paused != nil {
		return err
	}
	if k.suspects, err = one(k.q, "SELECT 1 FROM ready WHERE suspect <> 0 AND lane = ? LIMIT 1", queue); err != nil {
		return err
	}
	if k.Oldest {
		return k.oldest(queue, most)
	}
	return k.ranks(queue, func(rank int64) (bool, error) {
		changes, err := k.atRank(queue, rank, most)
		if err != nil {
			return false, err
		}
		most -= len(changes)
		return most > 0, k.save(changes)
	})
}

// atRank finds the oldest of one priority. A suspect is among them in its own
// place, if the queue has one and the session may have it.
func (k *claiming) atRank(queue, rank int64, most int) ([]daybook.Change, error) {
	changes, err := k.find(eligibleIn, most, queue, rank, int64(k.now), int64(k.now))
	if err != nil || k.suspects == nil || k.grant.Suspects > 0 {
		return changes, err
	}
	suspects, err := k.find(suspectsIn, min(1, most), queue, rank, int64(k.now), int64(k.now))
	changes = append(changes, suspects...)
	slices.SortFunc(changes, ahead)
	return changes[:min(most, len(changes))], err
}

// ahead orders jobs by when they became eligible, then by arrival.
func ahead(a, b daybook.Change) int {
	return cmp.Or(cmp.Compare(a.Was.RunAt, b.Was.RunAt), cmp.Compare(a.Was.Ref, b.Was.Ref))
}

// oldest takes by age alone: the heads of all priorities, merged, with one
// suspect at most.
func (k *claiming) oldest(queue int64, most int) error {
	var all []daybook.Change
	err := k.ranks(queue, func(rank int64) (bool, error) {
		changes, err := k.atRank(queue, rank, most)
		all = append(all, changes...)
		return true, err
	})
	if err != nil {
		return err
	}
	slices.SortFunc(all, ahead)
	suspects := 0
	all = slices.DeleteFunc(all, func(c daybook.Change) bool {
		if c.Was.Suspect() {
			suspects++
		}
		return c.Was.Suspect() && suspects > 1
	})
	return k.save(all[:min(most, len(all))])
}

const (
	candidate  = "SELECT " + jobColumns + `, j.args FROM ready r CROSS JOIN job j ON j.seq = r.seq WHERE r.lane = ? `
	due        = `AND r.run_at <= ? AND (r.expires_at IS NULL OR r.expires_at > ?) `
	inOrder    = `ORDER BY r.run_at, r.seq LIMIT ?`
	eligibleIn = candidate + `AND r.rank = ? ` + due + `AND r.suspect = 0 `
	suspectsIn = "SELECT " + jobColumns + `, j.args FROM ready r INDEXED BY ready_suspect CROSS JOIN job j ON j.seq = r.seq
		WHERE r.suspect <> 0 AND r.lane = ? AND r.rank = ? ` + due
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
