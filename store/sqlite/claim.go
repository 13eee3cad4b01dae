package sqlite

import (
	"cmp"
	"context"
	"database/sql/driver"
	"fmt"
	"slices"
	"time"

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
const suspectsWaiting = "SELECT 1 FROM ready r INDEXED BY ready_suspect WHERE r.suspect <> 0 AND r.lane = ? LIMIT 1"

const suspectsHeld = "SELECT count(*) FROM owned WHERE session = ? AND suspect <> 0"

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
func (k *claiming) save(changes []daybook.Change, run bool) error {
	if len(changes) == 0 {
		return nil
	}
	claims := make([]*daybook.Change, len(changes))
	for i := range changes {
		c := &changes[i]
		claims[i] = c
		k.jobs = append(k.jobs, c.Now)
		if c.Now.Suspect() {
			k.grant.Suspects++
		}
	}
	queue, err := k.queueNumber(k.queue)
	if err != nil {
		return err
	}
	counts := changes[0].Delta()
	for _, n := range counts.Fields() {
		*n *= int64(len(changes))
	}
	k.count(queue, counts, false)
	if run && len(claims) >= rangeLeast {
		err = k.unreadyRun(claims)
	} else {
		err = k.unreadyAll(claims)
	}
	if err != nil {
		return err
	}
	return k.saveClaims(claims)
}

// unreadyRun takes a run away in one statement; the count tells when something
// else stood in it.
func (k *claiming) unreadyRun(claims []*daybook.Change) error {
	first, err := k.readyKey(claims[0].Was)
	if err != nil {
		return err
	}
	last := claims[len(claims)-1].Was
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
		changes, err := k.atRank(queue, rank, most)
		if err != nil {
			return false, err
		}
		most -= len(changes)
		return most > 0, k.save(changes, k.suspects == nil && len(k.Kinds) == 0)
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
	return k.save(all[:min(most, len(all))], false)
}

// candidateColumns are what most waiting jobs are made of. The last tells those
// that have more to them (attempts, an expiry, an origin): they are loaded in
// full. Reading a column costs as much as finding a row, so a claim reads few.
const candidateColumns = `j.seq, j.id, j.kind, j.args, j.rank, j.run_at, j.max_failures, j.set_aside_lost, j.timeout, j.enqueued_at,
	j.key, CASE WHEN j.generation = 0 AND j.first_claimed_at IS NULL AND j.expires_at IS NULL AND j.origin IS NULL
		AND j.failures = 0 AND j.crashes = 0 THEN NULL ELSE 1 END`

const (
	due        = `AND r.run_at <= ? AND (r.expires_at IS NULL OR r.expires_at > ?) `
	inOrder    = `ORDER BY r.run_at, r.seq LIMIT ?`
	eligibleIn = "SELECT " + candidateColumns + ` FROM ready r CROSS JOIN job j ON j.seq = r.seq
		WHERE r.lane = ? AND r.rank = ? ` + due + `AND r.suspect = 0 `
	suspectsIn = "SELECT " + candidateColumns + ` FROM ready r INDEXED BY ready_suspect CROSS JOIN job j ON j.seq = r.seq
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
	jobs := make([]daybook.Job, 0, min(most, 256))
	var more []int
	err := k.q.rows(query+inOrder, append(args, int64(most)), func(row []driver.Value) error {
		if row[11] != nil {
			more = append(more, len(jobs))
		}
		jobs = append(jobs, scanCandidate(k.queue, row))
		return nil
	})
	if err == nil && len(more) > 0 {
		err = k.loadMore(jobs, more)
	}
	changes := make([]daybook.Change, len(jobs))
	for i, j := range jobs {
		if err != nil {
			return nil, err
		}
		if changes[i], err = j.Claim(k.grant, k.now); err != nil {
			err = fmt.Errorf("a ready row that can't be claimed: %w", err)
		}
	}
	return changes, err
}

func scanCandidate(queue string, row []driver.Value) daybook.Job {
	j := daybook.Job{Ref: num(row[0]), ID: id(row[1]), Queue: queue, Kind: text(row[2]), Args: raw(row[3]),
		State: daybook.Waiting, Priority: priority(num(row[4])), RunAt: at(row[5]), MaxFailures: int(num(row[6])),
		OnLost: daybook.LostRetry, Timeout: time.Duration(num(row[8])) * time.Microsecond, EnqueuedAt: at(row[9]),
		Key: text(row[10])}
	if num(row[7]) != 0 {
		j.OnLost = daybook.LostSetAside
	}
	return j
}

// loadMore loads the jobs at these places in full.
func (k *claiming) loadMore(jobs []daybook.Job, places []int) error {
	ids := make([]daybook.ID, len(places))
	for n, i := range places {
		ids[n] = jobs[i].ID
	}
	full, err := k.lock(ids)
	if err != nil {
		return err
	}
	for n, i := range places {
		args := jobs[i].Args
		jobs[i] = full[n]
		jobs[i].Args = args
	}
	return nil
}
