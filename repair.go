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

// repair walks everything a finding answers, a batch a transaction. move
// decides about one locked job; its refusal skips the job.
func (b *Book) repair(ctx context.Context, doing string, q Finding, move decision) (int, error) {
	total := 0
	q.Limit = repairBatch
	if q.What == FindMatching {
		q.Limit = decideBatch
	}
	for {
		found, moved, begun := 0, 0, time.Now()
		var after int64
		rings := ringer{}
		err := b.write(ctx, doing, func(tx Tx) error {
			moved = 0
			q := q
			if q.Cutoff == 0 {
				q.Cutoff = tx.Now()
			}
			ids, err := tx.Find(ctx, q)
			if err != nil {
				return err
			}
			found = len(ids)
			jobs, err := tx.Lock(ctx, ids)
			if err != nil {
				return err
			}
			var changes []Change
			for _, j := range jobs {
				after = max(after, j.Ref)
				if j.ID.IsZero() {
					continue
				}
				c, err := move(tx, j)
				if err != nil && !isRefusal(err) {
					return err
				}
				if err != nil {
					b.skipped(doing, q.What, j, err)
					continue
				}
				changes = append(changes, c)
			}
			moved = len(changes)
			rings.changes(changes, tx.Now())
			return tx.Save(ctx, changes)
		})
		if err != nil {
			return total, err
		}
		b.ring(ctx, rings)
		total += moved
		if found < q.Limit {
			return total, nil
		}
		q.After = after
		if q.What == FindMatching && !pause(ctx, time.Duration(moved)*decidePace-time.Since(begun)) {
			return total, ctx.Err()
		}
	}
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

// skipped notes a job that somebody moved since it was found: a race lost, and
// nothing done. What refuses a person's decision is counted there instead.
func (b *Book) skipped(doing string, what What, j Job, why error) {
	if what != FindMatching {
		b.opts.Log.Info("lost race", "doing", doing, "job", j.ID, "why", why)
	}
}

// RevokeLost takes back the claims of sessions that ended or that nobody
// knows. It returns how many.
func (b *Book) RevokeLost(ctx context.Context) (int, error) {
	starts := map[ID]bool{}
	lost := Finding{What: FindOfEndedSessions}
	return b.repair(ctx, "revoking lost claims", lost, func(tx Tx, j Job) (Change, error) {
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
	})
}

// RevokeOverdue takes back claims that ran past their run limit.
func (b *Book) RevokeOverdue(ctx context.Context) (int, error) {
	overdue := Finding{What: FindPastRunLimit}
	return b.repair(ctx, "revoking overdue claims", overdue, func(tx Tx, j Job) (Change, error) {
		if j.State != Running || j.Deadline() > tx.Now() {
			return Change{}, j.refuse("is within its run limit")
		}
		return j.Lose(Loss{Cause: LossTimeout, Owner: Owner{j.Session, j.Generation}}, tx.Now())
	})
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
	return b.repair(ctx, "expiring jobs", Finding{What: FindPastExpiry}, func(tx Tx, j Job) (Change, error) {
		return j.Expire(tx.Now())
	})
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
