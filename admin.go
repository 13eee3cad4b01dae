package daybook

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
)

// What a person may do, once: the command line, the API and the console call
// these and have no query of their own.

// personMove is one person's decision about one job.
type personMove func(j Job, now Time) (Change, error)

func (b *Book) person(ctx context.Context, doing string, id ID, by By, move personMove) (Job, error) {
	if err := CheckBy(by); err != nil {
		return Job{}, err
	}
	var out Job
	var earlier Change // by a run whose answer was lost
	rings := ringer{}
	err := b.write(ctx, doing, func(tx Tx) error {
		jobs, err := tx.Lock(ctx, []ID{id})
		if err != nil {
			return err
		}
		if jobs[0].ID.IsZero() {
			return Fail(CodeNotFound, "no job %s", id)
		}
		if earlier.tookHold(jobs[0]) {
			out = jobs[0]
			return nil
		}
		c, err := move(jobs[0], tx.Now())
		if err != nil {
			return err
		}
		out, earlier = c.Now, c
		rings.changes([]Change{c}, tx.Now())
		return tx.Save(ctx, []Change{c})
	})
	if err == nil {
		b.ring(ctx, rings)
	}
	return out, err
}

// Cancel ends a job, or asks its owner to stop when it runs; force revokes a
// running claim at once. Cancelling a job that was asked already is harmless.
func (b *Book) Cancel(ctx context.Context, id ID, by By, force bool) (Job, error) {
	return b.person(ctx, "cancelling", id, by, func(j Job, now Time) (Change, error) {
		return j.Cancel(by, force, now)
	})
}

// Revive sends a set-aside, cancelled or expired job back to waiting: the same
// id, its failures forgiven, its history kept.
func (b *Book) Revive(ctx context.Context, id ID, by By) (Job, error) {
	return b.person(ctx, "reviving", id, by, func(j Job, now Time) (Change, error) {
		return j.Revive(by, now)
	})
}

// ReviveUnsafe is Revive of a job whose work happened, as a person said, too:
// running it again does the work again.
func (b *Book) ReviveUnsafe(ctx context.Context, id ID, by By) (Job, error) {
	return b.person(ctx, "reviving", id, by, func(j Job, now Time) (Change, error) {
		return j.ReviveUnsafe(by, now)
	})
}

// Unhold lets claims see a held job again.
func (b *Book) Unhold(ctx context.Context, id ID, by By) (Job, error) {
	return b.person(ctx, "releasing a hold", id, by, func(j Job, now Time) (Change, error) {
		return j.Unhold(by, now)
	})
}

// Settle records what a person found out about an open effect.
func (b *Book) Settle(ctx context.Context, id ID, name string, v Verdict, by By) (Job, error) {
	if len(v.Result) > 0 {
		if len(v.Result) > ResultMax {
			return Job{}, tooLarge("result", ResultMax, len(v.Result))
		}
		if err := CheckJSON("result", v.Result); err != nil {
			return Job{}, err
		}
	}
	if err := CheckBy(by); err != nil {
		return Job{}, err
	}
	var out Job
	var earlier Effect // as judged by a run whose answer was lost
	rings := ringer{}
	err := b.write(ctx, "settling an effect", func(tx Tx) error {
		jobs, err := tx.Lock(ctx, []ID{id})
		if err != nil {
			return err
		}
		if jobs[0].ID.IsZero() {
			return Fail(CodeNotFound, "no job %s", id)
		}
		effect, more, err := ledgerOf(ctx, tx, jobs[0], name)
		if err != nil {
			return err
		}
		if earlier.Name != "" && earlier.State == effect.State && earlier.EndedAt == effect.EndedAt {
			out = jobs[0]
			return nil
		}
		v.More = more
		c, err := jobs[0].Settle(effect, v, by, tx.Now())
		if err != nil {
			return err
		}
		out, earlier = c.Now, *c.Effect
		rings.changes([]Change{c}, tx.Now())
		return tx.Save(ctx, []Change{c})
	})
	if err == nil {
		b.ring(ctx, rings)
	}
	return out, err
}

// ledgerOf finds a job's effect by name, and whether another one is open too.
func ledgerOf(ctx context.Context, v View, j Job, name string) (found Effect, more bool, err error) {
	h, err := v.History(ctx, j)
	if err != nil {
		return found, false, err
	}
	for _, e := range h.Effects {
		if e.Name == name {
			found = e
		} else if e.State == EffectIsOpen {
			more = true
		}
	}
	if found.Name == "" {
		return found, false, Fail(CodeNotFound, "job %s has no effect %s", j.ID, quote(name))
	}
	return found, more, nil
}

// Bulk is one decision about every job that a filter matches.
type Bulk struct {
	Move   Move // MoveCancel, MoveRevive or MoveUnhold
	Filter Filter
	By     By
	Force  bool          // of a cancel
	Unsafe bool          // revive also what is not safe to retry; never what has an open effect
	Seen   func(n int64) // called after each batch, with the jobs decided about so far; may be nil
}

// BulkAnswer says what came of it.
type BulkAnswer struct {
	Matched int64          `json:"matched"`
	Done    int64          `json:"done"`
	Refused map[Code]int64 `json:"refused,omitempty"`
	First   string         `json:"first_refusal,omitempty"`
}

// Count counts the jobs that a filter matches, by walking them.
func (b *Book) Count(ctx context.Context, f Filter) (int64, error) {
	if err := f.Check(); err != nil {
		return 0, err
	}
	var n int64
	q := Finding{What: FindMatching, Filter: f, Limit: ListMax}
	for {
		var ids []ID
		err := b.read(ctx, "counting", func(v View) (err error) {
			if ids, err = v.Find(ctx, q); err != nil || len(ids) == 0 {
				return err
			}
			last, found, err := v.Job(ctx, ids[len(ids)-1])
			if found {
				q.After = last.Ref
			}
			return err
		})
		n += int64(len(ids))
		if err != nil || len(ids) < q.Limit {
			return n, err
		}
	}
}

// Decide carries a bulk decision out, in small transactions. Jobs that refuse
// it are counted and stop nothing; of a revive those too that are not safe to
// retry, unless told otherwise (see Review).
func (b *Book) Decide(ctx context.Context, k Bulk) (BulkAnswer, error) {
	f := k.Filter // whose limit is no page's
	if err := cmp.Or(CheckBy(k.By), f.Check()); err != nil {
		return BulkAnswer{}, err
	}
	answer := BulkAnswer{Refused: map[Code]int64{}}
	_, err := b.repair(ctx, mending{doing: "deciding about many jobs", find: Finding{What: FindMatching, Filter: k.Filter},
		move:  func(tx Tx, j Job) (Change, error) { return k.move(j, tx.Now()) },
		set:   k.set,
		after: func(did batch) { k.count(&answer, did) }})
	if err != nil && answer.Done > 0 {
		err = &Error{Code: CodeOf(err), Err: err,
			Text: fmt.Sprintf("%d jobs were decided about, and then: %s", answer.Done, err)}
	}
	return answer, err
}

// count adds what a batch did to the answer, and tells how far the decision is.
func (k Bulk) count(answer *BulkAnswer, did batch) {
	answer.Done += int64(did.moved)
	answer.Matched += int64(did.moved + len(did.refused))
	for _, err := range did.refused {
		answer.Refused[CodeOf(err)]++
		answer.First = cmp.Or(answer.First, err.Error())
	}
	if k.Seen != nil && did.moved+len(did.refused) > 0 {
		k.Seen(answer.Matched)
	}
}

// set revives as a set where the store can.
func (k Bulk) set(ctx context.Context, tx Tx, q Finding) (RevivedSet, bool, error) {
	reviver, ok := tx.(Reviver)
	if !ok || k.Move != MoveRevive {
		return RevivedSet{}, false, nil
	}
	return reviver.ReviveSet(ctx, q, k.By)
}

func (k Bulk) move(j Job, now Time) (Change, error) {
	switch k.Move {
	case MoveCancel:
		return j.Cancel(k.By, k.Force, now)
	case MoveRevive:
		if k.Unsafe {
			return j.ReviveUnsafe(k.By, now)
		}
		return j.Revive(k.By, now)
	case MoveUnhold:
		return j.Unhold(k.By, now)
	}
	return Change{}, Invalid("move", "wants cancel, revive or unhold")
}

// Preview is one job as a decision would leave it now, or the refusal that the
// decision would get. Nothing is written. Of k it reads what isn't the filter.
func (b *Book) Preview(ctx context.Context, id ID, k Bulk) (Job, error) {
	var out Job
	err := b.read(ctx, "previewing a decision", func(v View) error {
		j, err := jobOf(ctx, v, id)
		if err != nil {
			return err
		}
		c, err := k.move(j, v.Now())
		out = c.Now
		return err
	})
	return out, err
}

// Pause stops claims from a queue, known or yet to come. When it returns, every
// claim that began before has ended; running jobs run on. Pausing a paused
// queue is harmless and keeps who paused it and why.
func (b *Book) Pause(ctx context.Context, queue string, by By) error {
	return b.setPaused(ctx, queue, by, true)
}

// Resume lets claims take from the queue again. Resuming one that isn't paused
// is harmless; one that the book doesn't know is ErrNotFound.
func (b *Book) Resume(ctx context.Context, queue string, by By) error {
	return b.setPaused(ctx, queue, by, false)
}

func (b *Book) setPaused(ctx context.Context, name string, by By, pause bool) error {
	if err := errors.Join(CheckName("queue", name), CheckBy(by)); err != nil {
		return err
	}
	err := b.write(ctx, "pausing or resuming a queue", func(tx Tx) error {
		was, known, err := tx.Queue(ctx, name)
		switch {
		case err != nil:
			return err
		case !known && !pause:
			return Fail(CodeNotFound, "no queue %s", quote(name))
		case known && was.Paused == pause:
			return nil
		}
		if !pause {
			if c, closed, err := closing(ctx, tx, name); err != nil || closed {
				return cmp.Or(err, error(Fail(CodeRefused, "queue %s is closed by cutover %s, which is in phase %s: "+
					"run it or roll it back", name, c.Name, c.Phase)))
			}
		}
		q := Queue{Name: name}
		if pause {
			q.Paused, q.PausedAt, q.PausedBy, q.PausedReason = true, tx.Now(), by.Actor, by.Reason
		}
		return tx.SaveQueue(ctx, q)
	})
	if err == nil && !pause {
		b.ring(ctx, ringer{name: true})
	}
	return err
}

// Quieted says what came of asking a worker to claim no more.
type Quieted struct {
	Worker   string `json:"worker"`
	Sessions int    `json:"sessions"` // that were asked
	Actor    string `json:"actor"`
	Reason   string `json:"reason,omitempty"`
}

// Quiet asks every live session of a worker name to claim no more; what runs
// runs on. A session has no history that would keep who asked, and why: the log
// does. No live session is ErrNotFound. Twice is harmless.
func (b *Book) Quiet(ctx context.Context, worker string, by By) (Quieted, error) {
	out := Quieted{Worker: worker, Actor: by.Actor, Reason: by.Reason}
	if worker == "" { // which a search takes for all of them
		return out, Invalid("worker", "is empty; name the worker")
	}
	if err := cmp.Or(CheckBy(by), checkText("worker", worker)); err != nil {
		return out, err
	}
	err := b.write(ctx, "quieting a worker", func(tx Tx) error {
		out.Sessions = 0
		sessions, err := tx.Sessions(ctx, SessionFilter{Worker: worker})
		if err != nil {
			return err
		}
		for _, s := range sessions {
			s.Quiet = true
			if _, err := tx.SaveSession(ctx, s); err != nil {
				return err
			}
			out.Sessions++
		}
		return nil
	})
	switch {
	case err == nil && out.Sessions == 0:
		err = Fail(CodeNotFound, "no live worker %s", quote(worker))
	case err == nil:
		b.opts.Log.Info("asked to claim no more", "worker", worker, "sessions", out.Sessions, "actor", by.Actor,
			"reason", by.Reason)
	}
	return out, err
}

// Job loads one job as people see it.
func (b *Book) Job(ctx context.Context, id ID) (Job, error) {
	var j Job
	err := b.read(ctx, "reading a job", func(v View) (err error) {
		j, err = jobOf(ctx, v, id)
		return err
	})
	return j, err
}

func jobOf(ctx context.Context, v View, id ID) (Job, error) {
	j, found, err := v.Job(ctx, id)
	if err == nil && !found {
		err = Fail(CodeNotFound, "no job %s", id)
	}
	return j, err
}

// Check holds a filter to its limits and defaults.
func (f *Filter) Check() error {
	if f.Limit == 0 {
		f.Limit = ListDefault
	}
	if f.Limit < 1 || f.Limit > ListMax {
		return Invalid("limit", "wants 1…%d, got %d", ListMax, f.Limit)
	}
	if f.State != "" && !f.State.Valid() {
		return Invalid("state", "wants one of %v, got %s", States, quote(string(f.State)))
	}
	// What nothing can be called matches nothing, and no store takes it.
	return checkTexts([2]string{"queue", f.Queue}, [2]string{"kind", f.Kind}, [2]string{"key", f.Key},
		[2]string{"reason", string(f.Reason)}, [2]string{"held", f.HeldBy})
}

// Jobs lists a page of jobs: those waiting in the order in which they would
// run, those succeeded by when they ended, else the newest first.
func (b *Book) Jobs(ctx context.Context, f Filter) (page Page[Job], err error) {
	if err := f.Check(); err != nil {
		return page, err
	}
	err = b.read(ctx, "listing jobs", func(v View) (err error) {
		page, err = v.Jobs(ctx, f)
		return err
	})
	return page, err
}

// Attempts lists a job's attempts, the oldest first; runs of releases are
// folded into one line.
func (b *Book) Attempts(ctx context.Context, id ID) (attempts []Attempt, err error) {
	_, h, err := b.history(ctx, id)
	return h.Attempts, err
}

func (b *Book) history(ctx context.Context, id ID) (j Job, h History, err error) {
	err = b.read(ctx, "reading a job's history", func(v View) (err error) {
		if j, err = jobOf(ctx, v, id); err != nil {
			return err
		}
		h, err = v.History(ctx, j)
		return err
	})
	return j, h, err
}

// Queues lists the queues in name order; counted, with their numbers.
func (b *Book) Queues(ctx context.Context, counted bool) (queues []Queue, err error) {
	err = b.read(ctx, "listing queues", func(v View) (err error) {
		queues, err = v.Queues(ctx, counted)
		return err
	})
	return queues, err
}

// Sessions lists live sessions, and ended ones if asked.
func (b *Book) Sessions(ctx context.Context, f SessionFilter) (sessions []Session, err error) {
	_, sessions, err = b.SessionsAt(ctx, f)
	return sessions, err
}

// SessionsAt is Sessions with the database's time, which made their leases.
func (b *Book) SessionsAt(ctx context.Context, f SessionFilter) (at Time, sessions []Session, err error) {
	if err := checkText("worker", f.Worker); err != nil {
		return at, nil, err
	}
	err = b.read(ctx, "listing workers", func(v View) (err error) {
		sessions, err = v.Sessions(ctx, f)
		at = v.Now()
		return err
	})
	return at, sessions, err
}

// Effects lists a page of the ledger.
func (b *Book) Effects(ctx context.Context, f EffectFilter) (page Page[Effect], err error) {
	if f.Limit == 0 {
		f.Limit = ListDefault
	}
	if f.Limit < 1 || f.Limit > ListMax {
		return page, Invalid("limit", "wants 1…%d, got %d", ListMax, f.Limit)
	}
	err = b.read(ctx, "listing effects", func(v View) (err error) {
		page, err = v.Effects(ctx, f)
		return err
	})
	return page, err
}

// Key loads what the book knows of a request key.
func (b *Book) Key(ctx context.Context, key string) (k KeyRecord, err error) {
	if err := checkText("key", key); err != nil {
		return k, err
	}
	err = b.read(ctx, "reading a request key", func(v View) (err error) {
		found := false
		if k, found, err = v.Key(ctx, key); err == nil && !found {
			err = Fail(CodeNotFound, "no request key %s", quote(key))
		}
		return err
	})
	return k, err
}

// Setting reads a value of the book itself; see the Setting constants.
func (b *Book) Setting(ctx context.Context, name string) (value string, err error) {
	err = b.read(ctx, "reading a setting", func(v View) (err error) {
		value, err = v.Setting(ctx, name)
		return err
	})
	return value, err
}

// SaveSetting writes a value where it is still was; false when it isn't.
func (b *Book) SaveSetting(ctx context.Context, name, was, value string) (saved bool, err error) {
	err = b.write(ctx, "writing a setting", func(tx Tx) (err error) {
		saved, err = tx.SaveSetting(ctx, name, was, value)
		return err
	})
	return saved, err
}

// Restored tells the book that its database lost commits since the given time:
// the incarnation rises, so that every later generation is above any that was
// handed out and forgotten. A proof of lost commits that was noted
// (SettingBookBehind) is kept with what is told, and alarms nobody any more.
func (b *Book) Restored(ctx context.Context, since Time, by By) (incarnation int64, err error) {
	if err := CheckBy(by); err != nil {
		return 0, err
	}
	err = b.write(ctx, "raising the incarnation", func(tx Tx) error {
		was, err := tx.Setting(ctx, SettingIncarnation)
		if err != nil {
			return err
		}
		if incarnation, err = settingInt(ctx, tx, SettingIncarnation); err != nil {
			return err
		}
		incarnation++
		behind, err := tx.Setting(ctx, SettingBookBehind)
		if err != nil {
			return err
		}
		said := map[string]any{"at": tx.Now(), "since": since, "actor": by.Actor, "reason": by.Reason}
		if behind != "" {
			said["behind"] = behind
			if _, err := tx.SaveSetting(ctx, SettingBookBehind, behind, ""); err != nil {
				return err
			}
		}
		note, err := json.Marshal(said)
		if err != nil {
			return err
		}
		before, err := tx.Setting(ctx, SettingRestored)
		if err != nil {
			return err
		}
		if _, err := tx.SaveSetting(ctx, SettingRestored, before, string(note)); err != nil {
			return err
		}
		_, err = tx.SaveSetting(ctx, SettingIncarnation, was, Counter(incarnation))
		return err
	})
	return incarnation, err
}
