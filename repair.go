package daybook

import (
	"context"
	"slices"
	"time"
)

// Repair is one step of the reconciler: each finds rows that want a move,
// locks them in small batches, lets the pure moves decide and saves. A row
// that somebody moved meanwhile, or that refuses, is skipped and stops nothing.
// None needs to know a handler.

// repairBatch bounds the rows of one repairing transaction, decideBatch those of
// one that carries out a person's decision about many: a set of a thousand costs a
// fifth less than five of two hundred.
const (
	repairBatch = 200
	decideBatch = 1000
)

// decidePace is the least time for each job that a person's decision about many
// moves: so ten thousand take two seconds, and leave workers most of the machine.
const decidePace = 190 * time.Microsecond

// sessionsMax bounds the sessions of one. They are one a process; those that
// are marked and not yet old enough must not hide the others.
const sessionsMax = 10_000

// EndExpiredSessions ends sessions whose lease is past, or marks them when the
// pass can't be sure. It returns how many it ended and marked.
func (b *Book) EndExpiredSessions(ctx context.Context, c Certainty) (ended, marked int, err error) {
	for {
		var e, m int
		err = b.write(ctx, "ending expired sessions", func(tx Tx) (err error) {
			e, m, err = endExpired(ctx, tx, c)
			return err
		})
		ended, marked = ended+e, marked+m
		if err != nil || e < sessionsMax {
			return ended, marked, err
		}
	}
}

func endExpired(ctx context.Context, tx Tx, c Certainty) (ended, marked int, err error) {
	sessions, err := tx.Sessions(ctx, SessionFilter{Expired: tx.Now(), Limit: sessionsMax})
	if err != nil {
		return 0, 0, err
	}
	for _, s := range sessions {
		next, changed := s.Expiry(tx.Now(), c)
		if !changed {
			continue
		}
		if _, err := tx.SaveSession(ctx, next); err != nil {
			return 0, 0, err
		}
		if next.Live() {
			marked++
		} else {
			ended++
		}
	}
	return ended, marked, nil
}

// decision decides about one locked job of a repair.
type decision func(tx Tx, j Job) (Change, error)

// mending is one repair: what it looks for, and what is done about it.
type mending struct {
	doing string
	find  Finding
	move  decision
	set   func(ctx context.Context, tx Tx, q Finding) (RevivedSet, bool, error) // as Reviver has it; nil is job by job
	after func(batch)                                                           // hears of what was committed; may be nil
}

// batch is what one transaction of a repair did.
type batch struct {
	found   int
	moved   int
	last    int64   // Job.Ref
	refused []error // of a person's decision
	left    []ID    // by a set, for transactions of their own: somebody may hold one of them
	rings   ringer
}

// repair walks everything a finding answers, a batch a transaction, and returns how
// many it moved.
func (b *Book) repair(ctx context.Context, m mending) (int, error) {
	total := 0
	decides := m.find.What == FindMatching
	m.find.Limit = repairBatch
	if decides {
		m.find.Limit = decideBatch
	}
	for {
		begun := time.Now()
		var did batch
		err := b.write(ctx, m.doing, func(tx Tx) (err error) {
			did, err = b.mend(ctx, tx, m)
			return err
		})
		if decides && CodeOf(err) == CodeBusy {
			did, err = b.leave(ctx, m)
		}
		if err == nil {
			b.ring(ctx, did.rings)
			err = b.mendLeft(ctx, m, &did)
		}
		total += did.moved
		if err != nil {
			if m.after != nil && did.moved > 0 {
				m.after(did)
			}
			return total, err
		}
		if m.after != nil {
			m.after(did)
		}
		if did.found < m.find.Limit {
			return total, nil
		}
		m.find.After = did.last
		if decides && !pause(ctx, time.Duration(did.moved)*decidePace-time.Since(begun)) {
			return total, ctx.Err()
		}
	}
}

// mend is one batch: what the store can do as a set, and then one by one what that
// left. The move decides about each locked job; its refusal skips the job.
func (b *Book) mend(ctx context.Context, tx Tx, m mending) (did batch, err error) {
	ids, err := did.begin(ctx, tx, m)
	if err != nil || len(ids) == 0 {
		return did, err
	}
	return did, b.mendThese(ctx, tx, m, ids, &did)
}

// busyMost is how many jobs a decision about many waits for that somebody else holds,
// each for as long as a decision about one does, before it ends there.
const busyMost = 5

// leave is a batch of which nothing was done, since somebody holds one of its jobs.
func (b *Book) leave(ctx context.Context, m mending) (did batch, err error) {
	err = b.read(ctx, m.doing, func(v View) error {
		did = batch{rings: ringer{}}
		if did.left, err = v.Find(ctx, m.find); err != nil || len(did.left) == 0 {
			return err
		}
		did.found = len(did.left)
		last, _, err := v.Job(ctx, did.left[did.found-1])
		did.last = last.Ref
		return err
	})
	return did, err
}

// mendLeft goes one by one through what is left: all in one transaction, and where
// somebody holds one of them in smaller and smaller ones. Who is held refuses.
func (b *Book) mendLeft(ctx context.Context, m mending, did *batch) error {
	some := func(ids []ID) (one batch, err error) {
		err = b.write(ctx, m.doing, func(tx Tx) error {
			one = batch{rings: ringer{}}
			return b.mendThese(ctx, tx, m, ids, &one)
		})
		return one, err
	}
	parts := [][]ID{did.left}
	busy := 0
	for len(parts) > 0 && len(parts[0]) > 0 {
		ids := parts[0]
		parts = parts[1:]
		one, err := some(ids)
		switch {
		case err == nil:
			b.ring(ctx, one.rings)
			did.moved, did.refused = did.moved+one.moved, append(did.refused, one.refused...)
		case CodeOf(err) != CodeBusy:
			return err
		case len(ids) > 1:
			parts = append(slices.Collect(slices.Chunk(ids, max(1, len(ids)/20))), parts...)
		case busy == busyMost:
			return err
		default:
			busy++
			did.refused = append(did.refused, Fail(CodeBusy, "job %s is held by somebody else just now; try again", ids[0]))
		}
	}
	return nil
}

// mendThese decides about each of these jobs, under its lock.
func (b *Book) mendThese(ctx context.Context, tx Tx, m mending, ids []ID, did *batch) error {
	jobs, err := tx.Lock(ctx, ids)
	if err != nil {
		return err
	}
	var changes []Change
	for _, j := range jobs {
		did.last = max(did.last, j.Ref)
		if j.ID.IsZero() {
			continue
		}
		c, err := m.move(tx, j)
		switch {
		case err == nil:
			changes = append(changes, c)
		case !isRefusal(err):
			return err
		case m.find.What == FindMatching:
			did.refused = append(did.refused, err)
		default: // somebody moved it since it was found: a race lost, and nothing done
			b.opts.Log.Info("lost race", "doing", m.doing, "job", j.ID, "why", err)
		}
	}
	did.moved += len(changes)
	did.rings.changes(changes, tx.Now())
	return tx.Save(ctx, changes)
}

// begin carries out what the store can as a set, and answers which jobs are left to
// be looked at one by one: without a set all.
func (did *batch) begin(ctx context.Context, tx Tx, m mending) ([]ID, error) {
	did.rings = ringer{}
	q := m.find
	if m.set != nil {
		set, plain, err := m.set(ctx, tx, q)
		if err != nil {
			return nil, err
		}
		if plain {
			did.found, did.moved, did.last = set.Found, set.Moved, set.Last
			for _, queue := range set.Ring {
				did.rings.add(queue)
			}
			did.left, err = did.open(tx, m, set)
			return nil, err
		}
	}
	if q.Cutoff == 0 {
		q.Cutoff = tx.Now()
	}
	ids, err := tx.Find(ctx, q)
	did.found = len(ids)
	return ids, err
}

// open counts what the move says of the jobs of a set with an open effect. One that
// it doesn't refuse is left, too.
func (did *batch) open(tx Tx, m mending, set RevivedSet) ([]ID, error) {
	left := set.Left
	for _, j := range set.Open {
		switch _, err := m.move(tx, j); {
		case err == nil:
			left = append(left, j.ID)
		case !isRefusal(err):
			return nil, err
		default:
			did.refused = append(did.refused, err)
		}
	}
	return left, nil
}

// isRefusal tells a job that doesn't want the move from a database that failed
// while looking.
func isRefusal(err error) bool {
	switch CodeOf(err) {
	case CodeRefused, CodeFenced, CodeEffectOpen, CodeInvalid:
		return true
	}
	return false
}

// RevokeLost takes back the claims of sessions that ended or that nobody
// knows. It returns how many.
func (b *Book) RevokeLost(ctx context.Context) (int, error) {
	starts := map[ID]bool{}
	lost := Finding{What: FindOfEndedSessions}
	return b.repair(ctx, mending{doing: "revoking lost claims", find: lost, move: func(tx Tx, j Job) (Change, error) {
		if _, known := starts[j.Session]; !known {
			found, err := tx.Sessions(ctx, SessionFilter{ID: j.Session})
			if err != nil {
				return Change{}, err
			}
			if len(found) == 1 && found[0].Live() {
				return Change{}, j.refuse("belongs to a live session")
			}
			starts[j.Session] = len(found) == 1 && found[0].Starts
		}
		return j.Lose(Loss{Cause: LossSession, Owner: Owner{j.Session, j.Generation}, Starts: starts[j.Session]},
			tx.Now())
	}})
}

// RevokeOverdue takes back claims that ran past their run limit.
func (b *Book) RevokeOverdue(ctx context.Context) (int, error) {
	late := Finding{What: FindPastRunLimit}
	return b.repair(ctx, mending{doing: "revoking overdue claims", find: late, move: func(tx Tx, j Job) (Change, error) {
		if j.State != Running || j.Deadline() > tx.Now() {
			return Change{}, j.refuse("is within its run limit")
		}
		return j.Lose(Loss{Cause: LossTimeout, Owner: Owner{j.Session, j.Generation}}, tx.Now())
	}})
}

// revoke takes back the claims given, as read in this transaction.
func revoke(ctx context.Context, tx Tx, jobs []Job, cause LossCause, starts bool) ([]Change, error) {
	ids := make([]ID, len(jobs))
	for i, j := range jobs {
		ids[i] = j.ID
	}
	locked, err := tx.Lock(ctx, ids)
	if err != nil {
		return nil, err
	}
	var changes []Change
	for i, j := range locked {
		c, err := j.Lose(Loss{Cause: cause, Owner: Owner{jobs[i].Session, jobs[i].Generation}, Starts: starts},
			tx.Now())
		if err == nil {
			changes = append(changes, c)
		}
	}
	return changes, tx.Save(ctx, changes)
}

// ExpireWaiting ends waiting jobs past their expires_at.
func (b *Book) ExpireWaiting(ctx context.Context) (int, error) {
	past := Finding{What: FindPastExpiry}
	return b.repair(ctx, mending{doing: "expiring jobs", find: past, move: func(tx Tx, j Job) (Change, error) {
		return j.Expire(tx.Now())
	}})
}

// PruneOptions say what retention takes.
type PruneOptions struct {
	Keep   time.Duration // finished jobs stay this long; 0 is RetentionDefault, less than RetentionMin is refused
	DryRun bool          // only count, up to the first 1,000
}

func (o *PruneOptions) check() error {
	if o.Keep == 0 {
		o.Keep = RetentionDefault
	}
	return checkDuration("keep", o.Keep, RetentionMin, DelayMax)
}

// Prune removes final jobs past retention with their rows, never set-aside
// ones nor one with an open effect. The keys' records stay, with the end in
// them. It returns how many jobs went.
func (b *Book) Prune(ctx context.Context, o PruneOptions) (int, error) {
	if err := o.check(); err != nil {
		return 0, err
	}
	if o.DryRun {
		n := 0
		err := b.read(ctx, "counting old jobs", func(v View) error {
			ids, err := v.Find(ctx, Finding{What: FindPastRetention, Cutoff: v.Now().Add(-o.Keep), Limit: ListMax})
			n = len(ids)
			return err
		})
		return n, err
	}
	total := 0
	for {
		n := 0
		err := b.write(ctx, "removing old jobs", func(tx Tx) error {
			cutoff := tx.Now().Add(-o.Keep)
			ids, err := tx.Find(ctx, Finding{What: FindPastRetention, Cutoff: cutoff, Limit: repairBatch})
			if err != nil {
				return err
			}
			jobs, err := tx.Lock(ctx, ids)
			if err != nil {
				return err
			}
			old := jobs[:0]
			for _, j := range jobs {
				if j.Prunable(cutoff) {
					old = append(old, j)
				}
			}
			n = len(old)
			return tx.Prune(ctx, old)
		})
		total += n
		if err != nil || n < repairBatch {
			return total, err
		}
	}
}

// Sweep folds counting rows and drops records past their time: keys, sessions
// and calls. It returns how many rows it took. Where the bell is one outside,
// rows that still ask for a ring become one per queue that does.
func (b *Book) Sweep(ctx context.Context) (int, error) {
	total := 0
	for {
		n := 0
		err := b.write(ctx, "sweeping", func(tx Tx) (err error) {
			now := tx.Now()
			n, err = tx.Sweep(ctx, Cutoffs{Counting: now.Add(-FoldAge), Keys: now.Add(-KeyRetention),
				Sessions: now.Add(-RetentionMin), KeepRings: b.Outside() != nil}, sweepBatch)
			return err
		})
		total += n
		if err != nil || n < sweepBatch {
			return total, err
		}
	}
}

const sweepBatch = 2000

// Upkeep has the store do what upkeep of its own it has, for history that is
// kept so long; 0 is RetentionDefault. Calling it twice is harmless.
func (b *Book) Upkeep(ctx context.Context, keep time.Duration) error {
	o := PruneOptions{Keep: keep}
	if err := o.check(); err != nil {
		return err
	}
	if u, ok := b.store.(Upkeeper); ok {
		return u.Upkeep(ctx, o.Keep)
	}
	return nil
}

// TakePass makes this caller the one that reconciles now: true when nobody did
// since the pause began. A thousand processes that ask cost about one pass: all
// but one read that it isn't time, and write nothing.
func (b *Book) TakePass(ctx context.Context, every time.Duration) (bool, error) {
	mine := false
	err := b.read(ctx, "looking for the reconciler's pass", func(v View) error {
		last, now, err := peek(ctx, v, SettingPass)
		mine = passDue(last, now, every)
		return err
	})
	if err != nil || !mine {
		return false, err
	}
	err = b.write(ctx, "taking the reconciler's pass", func(tx Tx) error {
		last, err := tx.Setting(ctx, SettingPass)
		if err != nil {
			return err
		}
		if mine = passDue(last, tx.Now(), every); mine {
			mine, err = tx.SaveSetting(ctx, SettingPass, last, tx.Now().String())
		}
		return err
	})
	return mine, err
}

// passDue reports whether the pause since the last pass is over. What can't be
// read, or lies ahead of the clock, was no pass.
func passDue(last string, now Time, every time.Duration) bool {
	at, err := ParseTime("pass", last)
	return err != nil || at > now || now.Sub(at) >= every
}

// RingEligible rings every queue that has eligible work, or a job that becomes
// eligible before idle workers poll again, once each, and returns how many. Who
// hears the ring too early learns when to look (see [Book.NextDue]). A queue that
// was claimed from a moment ago is rung too: that claim may have been one for
// other kinds, and whoever can take the rest may have missed its ring.
func (b *Book) RingEligible(ctx context.Context) (int, error) {
	rings := ringer{}
	err := b.read(ctx, "looking for eligible work", func(v View) error {
		queues, err := v.Queues(ctx, false)
		for _, q := range queues {
			soon := q.NextLater != 0 && q.NextLater.Sub(v.Now()) <= PollDefault
			if (q.Ready || soon) && !q.Paused {
				rings.add(q.Name)
			}
		}
		return err
	})
	if err != nil {
		return 0, err
	}
	return b.ringAll(ctx, rings), nil
}

// NextDue tells when the earliest waiting job of these queues becomes eligible,
// or became so, and the database's time at which that holds; 0 is none. Paused
// queues don't count, nor do held jobs. passed is the time of the look before:
// a job that was eligible then and wasn't claimed since is one that the caller
// can't take, so it is passed over for the next that becomes eligible. 0 passes
// over none.
func (b *Book) NextDue(ctx context.Context, queues []string, passed Time) (due, now Time, err error) {
	err = b.read(ctx, "looking for the next due job", func(v View) error {
		var list []Queue
		list, now, err = queuesAhead(ctx, v, queues)
		due = 0
		for _, q := range list {
			if q.Paused || !slices.Contains(queues, q.Name) {
				continue
			}
			next := q.Next
			if next <= passed {
				next = q.NextLater
			}
			if next != 0 && (due == 0 || next < due) {
				due = next
			}
		}
		return err
	})
	return due, now, err
}
