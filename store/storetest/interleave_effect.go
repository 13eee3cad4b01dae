package storetest

import (
	"errors"

	"github.com/daybookdev/daybook"
)

var askBegin = daybook.Begin{Name: "charge", Policy: daybook.PolicyAsk}

// ownerWrite is one of an owner's writes, by its name.
func ownerWrite(name string) func(w *world, j daybook.Job) error {
	for _, write := range ownerWrites {
		if write.name == name {
			return write.do
		}
	}
	return nil
}

// during makes a change in one transaction, and has another process begin
// something when all is written and nothing committed; it returns what that
// something answers, which can't be before the commit.
func (w *world) during(change func(tx daybook.Tx) error, meanwhile func() error) error {
	w.Helper()
	answer := make(chan error)
	w.write(func(tx daybook.Tx) error {
		if err := change(tx); err != nil {
			return err
		}
		began := make(chan bool)
		go func() {
			close(began)
			answer <- meanwhile()
		}()
		<-began
		return nil
	})
	return <-answer
}

// moved carries out a pure move of a job that is locked.
func (w *world) moved(id daybook.ID, move func(j daybook.Job, now daybook.Time) (daybook.Change, error)) func(
	daybook.Tx) error {
	return func(tx daybook.Tx) error {
		jobs, err := tx.Lock(w.ctx, []daybook.ID{id})
		if err != nil {
			return err
		}
		c, err := move(jobs[0], tx.Now())
		if err != nil {
			return err
		}
		return tx.Save(w.ctx, []daybook.Change{c})
	}
}

// begun carries out a begin of a job's owner.
func (w *world) begun(j daybook.Job) func(daybook.Tx) error {
	return func(tx daybook.Tx) error {
		jobs, err := tx.Lock(w.ctx, []daybook.ID{j.ID})
		if err != nil {
			return err
		}
		e, _, err := tx.Effect(w.ctx, jobs[0], "charge")
		if err != nil {
			return err
		}
		_, write, err := jobs[0].BeginEffect(owner(j), e, askBegin, tx.Now())
		if err != nil {
			return err
		}
		return tx.SaveEffect(w.ctx, jobs[0], write)
	}
}

// effectWhileEnded: an owner's begin, and its finish, that meet the end of its
// claim, whoever ends it. An insert-select that only reads the job let an old
// owner begin an effect after its replacement.
func effectWhileEnded(w *world) {
	other := w.again()
	for _, m := range runningMoves {
		if m.name == "cancel" {
			continue // it ends nothing
		}
		for _, finish := range []bool{false, true} {
			j := w.running(daybook.Request{})
			if finish {
				w.write(w.begun(j))
			}
			if finish && m.name == "complete" {
				_, err := w.book.Complete(w.ctx, j.ID, owner(j), nil)
				w.refused(err, daybook.CodeEffectOpen)
				w.ok(w.failedForGood(j))
				continue
			}
			err := w.during(w.moved(j.ID, m.move), func() error {
				return ownerWrite(map[bool]string{false: "begin", true: "finish"}[finish])(other, j)
			})
			if daybook.CodeOf(err) != daybook.CodeFenced {
				w.Errorf("after %s: got %v, want fenced", m.name, err)
			}
			e, found := w.ledger(j.ID, "charge")
			same(w, m.name+": the effect is there", found, finish)
			if finish {
				same(w, m.name+": it is", e.State, daybook.EffectIsOpen)
				same(w, m.name+": late words", len(e.Late), 1)
			}
			if w.job(j.ID).State == daybook.Waiting { // out of the next claim's way
				_, err := w.book.Cancel(w.ctx, j.ID, someone, false)
				w.ok(err)
			}
		}
	}
}

// completeWhileBegun: a completion that comes while the same owner begins an
// effect doesn't pass it by.
func completeWhileBegun(w *world) {
	other := w.again()
	j := w.running(daybook.Request{})
	err := w.during(w.begun(j), func() error {
		_, err := other.book.Complete(w.ctx, j.ID, owner(j), nil)
		return err
	})
	w.refused(err, daybook.CodeEffectOpen)
	w.stands(j.ID, daybook.Running)
	w.ok(w.failedForGood(j))
}

// loseWhileBegun: the effect that is begun while the claim is taken back is the
// next owner's to know.
func loseWhileBegun(w *world) {
	other := w.again()
	j := w.running(daybook.Request{OnLost: daybook.LostSetAside})
	w.ok(w.during(w.begun(j), func() error {
		_, _, err := other.book.EndExpiredSessions(w.ctx, daybook.AtOnce)
		return err
	}))
	w.lapse()
	lost := w.stands(j.ID, daybook.SetAside)
	same(w, "open effect", lost.OpenEffect, "charge")
	_, found := w.ledger(j.ID, daybook.HandlerEffect)
	same(w, "an effect of the whole handler", found, false)
	_, err := w.book.Settle(w.ctx, j.ID, "charge", daybook.Verdict{}, someone)
	w.ok(err)
}

// settleWhileClaimed: a person judges what a new owner is about to decide.
func settleWhileClaimed(w *world) {
	other := w.again()
	id := w.openEffect(func(j daybook.Job) error {
		_, err := w.book.Release(w.ctx, j.ID, owner(j), 0)
		return err
	})
	s := w.session("next")
	err := w.during(w.moved(id, func(j daybook.Job, now daybook.Time) (daybook.Change, error) {
		return j.Claim(daybook.Grant{Session: s}, now)
	}), func() error {
		_, err := other.book.Settle(w.ctx, id, "charge", daybook.Verdict{Happened: true}, someone)
		return err
	})
	w.refused(err, daybook.CodeRefused)
	e, _ := w.ledger(id, "charge")
	same(w, "the effect", e.State, daybook.EffectIsOpen)
	w.ok(w.failedForGood(w.locked(id)))
}

// reviveWhileSettled: a revival that waits for the verdict goes by it.
func reviveWhileSettled(w *world) {
	other := w.again()
	id := w.openEffect(w.failedForGood)
	err := w.during(func(tx daybook.Tx) error {
		e, _, err := tx.Effect(w.ctx, w.jobIn(tx, id), "charge")
		if err != nil {
			return err
		}
		return w.moved(id, func(j daybook.Job, now daybook.Time) (daybook.Change, error) {
			return j.Settle(e, daybook.Verdict{}, someone, now)
		})(tx)
	}, func() error {
		_, err := other.book.Revive(w.ctx, id, someone)
		return err
	})
	if err != nil && daybook.CodeOf(err) != daybook.CodeEffectOpen {
		w.Errorf("got %v, want a revival or effect_open", err)
	}
	if err != nil { // it came first
		_, err = other.book.Revive(w.ctx, id, someone)
		w.ok(err)
	}
	w.stands(id, daybook.Waiting)
}

// lateWhilePruned: what a late owner says of a job that is going leaves nothing
// behind.
func lateWhilePruned(w *world) {
	other := w.again()
	for _, name := range []string{"begin", "finish"} {
		j := w.running(daybook.Request{})
		again := w.replace(j, w.session("next"), nil)
		w.complete(again)
		w.clock.advance(daybook.RetentionDefault)
		err := w.during(func(tx daybook.Tx) error {
			jobs, err := tx.Lock(w.ctx, []daybook.ID{j.ID})
			if err != nil {
				return err
			}
			return tx.Prune(w.ctx, jobs)
		}, func() error { return ownerWrite(name)(other, j) })
		if !errors.Is(err, daybook.ErrNotFound) && !errors.Is(err, daybook.ErrFenced) {
			w.Errorf("%s: got %v, want not_found or fenced", name, err)
		}
	}
}
