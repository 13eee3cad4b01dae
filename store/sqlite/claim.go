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

// suspectsWaiting names its index: by the table's key it would walk the backlog.
const suspectsWaiting = "SELECT 1 FROM ready r INDEXED BY ready_suspect WHERE r.suspect <> 0 AND r.lane = +? LIMIT 1"

const suspectsHeld = "SELECT count(*) FROM owned WHERE session = +? AND suspect <> 0"

// claiming is one claim call under way.
type claiming struct {
	*tx
	daybook.Claiming
	grant    daybook.Grant
	jobs     []daybook.Job
	queue    string       // the one at hand
	suspects driver.Value // nil when it has no suspect waiting
}

// save carries claims out, all of the queue at hand. Those found in one run of
// ready, with nothing passed over but expired rows, leave it as one range.
func (k *claiming) save(jobs []daybook.Job, run bool) error {
	if len(jobs) == 0 {
		return nil
	}
	claims := make([]*daybook.Job, len(jobs))
	for i := range jobs {
		claims[i] = &jobs[i]
		if jobs[i].Suspect() {
			k.grant.Suspects++
		}
	}
	queue, err := k.queueNumber(k.queue)
	if err != nil {
		return err
	}
	counts := claimedOne
	for _, n := range counts.Fields() {
		*n *= int64(len(jobs))
	}
	k.count(queue, counts, false)
	// A claim changes nothing of a job that ready has a column of.
	if run && len(claims) >= rangeLeast {
		err = k.unreadyRun(claims)
	} else {
		err = k.unreadyAll(claims)
	}
	if err != nil {
		return err
	}
	if k.jobs == nil {
		k.jobs = jobs
	} else {
		k.jobs = append(k.jobs, jobs...)
	}
	k.remember(queue, jobs)
	return k.saveClaims(claims)
}

// claimedOne counts one claim.
var claimedOne = daybook.Change{Move: daybook.MoveClaim, Was: daybook.Job{State: daybook.Waiting},
	Now: daybook.Job{State: daybook.Running}}.Delta()

// unreadyRun takes a run away in one statement; the count tells when something
// else stood in it.
func (k *claiming) unreadyRun(claims []*daybook.Job) error {
	first, err := k.readyKey(claims[0])
	if err != nil {
		return err
	}
	last := claims[len(claims)-1]
	n, err := k.q.exec(deleteRange+" AND (expires_at IS NULL OR expires_at > ?)",
		append(first, int64(last.RunAt), last.Ref, int64(k.now))...)
	if err != nil {
		return err
	}
	return sure(n, int64(len(claims)), "waiting jobs")
}

// fromQueue takes up to most jobs from one queue, by priority, then by when
// they became eligible.
func (k *claiming) fromQueue(name string, most int) error {
	queue, err := k.queueNumber(name)
	if err != nil || queue == 0 || most <= 0 {
		return err
	}
	k.queue = name
	paused, err := one(k.q, "SELECT paused_at FROM queue WHERE n = ?", queue)
	if err != nil || paused != nil {
		return err
	}
	if k.suspects, err = one(k.q, suspectsWaiting, queue); err != nil {
		return err
	}
	if k.Oldest {
		return k.oldest(queue, most)
	}
	return k.ranks(queue, func(rank int64) (bool, error) {
		jobs, err := k.atRank(queue, rank, most)
		if err != nil {
			return false, err
		}
		most -= len(jobs)
		return most > 0, k.save(jobs, k.suspects == nil && len(k.Kinds) == 0)
	})
}

// atRank finds the oldest of one priority. A suspect is among them in its own
// place, if the queue has one and the session may have it.
func (k *claiming) atRank(queue, rank int64, most int) ([]daybook.Job, error) {
	jobs, err := k.find(eligibleIn, most, queue, rank)
	if err != nil || k.suspects == nil || k.grant.Suspects > 0 {
		return jobs, err
	}
	suspects, err := k.find(suspectsIn, min(1, most), queue, rank)
	jobs = append(jobs, suspects...)
	slices.SortFunc(jobs, ahead)
	return jobs[:min(most, len(jobs))], err
}

// ahead orders jobs by when they became eligible, then by arrival.
func ahead(a, b daybook.Job) int {
	return cmp.Or(cmp.Compare(a.RunAt, b.RunAt), cmp.Compare(a.Ref, b.Ref))
}

// oldest takes by age alone: the heads of all priorities, merged, with one
// suspect at most.
func (k *claiming) oldest(queue int64, most int) error {
	var all []daybook.Job
	err := k.ranks(queue, func(rank int64) (bool, error) {
		jobs, err := k.atRank(queue, rank, most)
		all = append(all, jobs...)
		return true, err
	})
	if err != nil {
		return err
	}
	slices.SortFunc(all, ahead)
	suspects := 0
	all = slices.DeleteFunc(all, func(j daybook.Job) bool {
		if j.Suspect() {
			suspects++
		}
		return j.Suspect() && suspects > 1
	})
	return k.save(all[:min(most, len(all))], false)
}

// find gives the candidates of a query to the session, up to most: the pure
// move decides about each.
func (k *claiming) find(query string, most int, queue, rank int64) ([]daybook.Job, error) {
	if most <= 0 {
		return nil, nil
	}
	args := []driver.Value{queue, rank, int64(k.now), int64(k.now)}
	if len(k.Kinds) > 0 {
		query += "AND j.kind IN (" + marks(len(k.Kinds)) + ") "
		for _, kind := range k.Kinds {
			args = append(args, kind)
		}
	}
	jobs, err := k.candidates(query+inOrder, append(args, int64(most)), priority(rank), most)
	if err != nil {
		return nil, err
	}
	for i := range jobs {
		c, err := jobs[i].Claim(k.grant, k.now)
		if err != nil {
			return nil, fmt.Errorf("a ready row that can't be claimed: %w", err)
		}
		jobs[i] = c.Now
	}
	return jobs, nil
}
