package daybook

import (
	"bytes"
	"time"
)

// The rules by which an old system's jobs are accounted for. They are pure: a
// cutover's engine reads the old store, these decide, and the book records.

// seen is what a look at the old store changes in an item that is known. since is
// when the look began: what it shows is no older than that, and may be no newer.
func (i Item) seen(o OldJob, since, now Time) Item {
	if i.Term != TermStill {
		return i // its place is settled; the sweep decides about a late copy
	}
	if o.State != OldOwnerLost { // of a lost owner the last sign that was seen counts, when its own has run out
		i.OwnerSeen = 0
	}
	i.Last, i.SeenAt, i.MissedAt, i.GoneAt, i.ChangedAt = o.State, max(i.SeenAt, since), 0, 0, now
	if o.Owner != "" || o.State != OldOwnerLost { // nor who it was
		i.Owner = o.Owner
	}
	if o.OwnerSeen != 0 {
		i.OwnerSeen = now.Add(-o.OwnerSilent) // by the book's clock, as all that it is compared with
	}
	i.Old = &o // some systems forget it when its owner dies
	if o.State == OldDone {
		i.Old = nil
	}
	return i
}

// newItem is an item at its first sight.
func newItem(o OldJob, occurrence int, arrived bool, since, now Time) Item {
	i := Item{ID: o.Name(), Occurrence: occurrence, Nth: o.Nth, Hash: o.Hash(), First: o.State, Term: TermStill,
		Arrived: arrived, Class: o.Class, FirstAt: now}
	return i.seen(o, since, now)
}

// Sighted decides where a job that a look which began at since saw in the old store
// belongs among the items of the same id: it is one of them when its hash is the
// same, else a new one. Equal ones without an id are one while they lie there, where
// nobody can tell them apart, and one each when they are taken: the first of them is
// the one that was seen. It answers the item to save.
func Sighted(known []Item, o OldJob, gated bool, since, now Time) Item {
	hash, free := o.Hash(), -1
	for n, i := range known {
		switch {
		case i.Hash != hash:
		case i.Nth == o.Nth:
			return i.seen(o, since, now)
		case o.Nth != 0 && i.free() && (free < 0 || known[free].Term != TermStill):
			free = n
		}
	}
	if free >= 0 {
		i := known[free]
		i.Nth = o.Nth
		return i.seen(o, since, now)
	}
	return newItem(o, len(known), gated, since, now)
}

// free reports whether a job without an id that was taken may be this one.
func (i Item) free() bool {
	return i.Nth == 0 && (i.Term == TermStill || i.Term == TermFinished && !i.Proved)
}

// Arrive decides about a job that was taken out of the old store into the held
// list. One that is known, all of it equal, is not taken in again. One of a known
// id that is different is, for a person to look at, and so is one that was
// thought to have ended only because it was nowhere.
func Arrive(known []Item, o OldJob, gated bool, now Time) (i Item, take bool) {
	i = Sighted(known, o, gated, now, now)
	switch {
	case i.Term == TermStill:
		i.Asked = i.Occurrence > 0 && i.Nth == 0 // old systems use ids again
		return i, true
	case i.Term == TermFinished && !i.Proved: // it was only nowhere to be seen
		i.Asked = true
		return i, true
	}
	if !i.heldSince(o) {
		i.Again++
	}
	i.ChangedAt = now
	return i, false
}

// heldSince reports whether it is the very copy in the held list that was recorded
// before: who recorded it was killed before it was dropped there, or another mover was
// quicker. It didn't come again.
func (i Item) heldSince(o OldJob) bool {
	return i.Old != nil && len(o.Raw) > 0 && bytes.Equal(i.Old.Raw, o.Raw)
}

// taken is the item of a job that became one of the book.
func (i Item) taken(o OldJob, j Job, place int64, now Time) Item {
	i.Job, i.Place, i.ChangedAt, i.Old = j.ID, place, now, &o
	switch {
	case j.OpenEffect != "" || i.Asked:
		i.Term = TermOpen
	case j.State == SetAside:
		i.Term = TermDead
	default:
		i.Term = TermMoved
	}
	return i
}

// Fate is what became of a job that old workers had in hand when the gate closed.
type Fate string

// The fates.
const (
	FateWait     Fate = "wait"     // its owner lives and has it, or may
	FateFinished Fate = "finished" // done, and the old system says so
	FateGone     Fate = "gone"     // its owner lived on and no longer has it: it ended
	FateLost     Fate = "lost"     // its owner died with it
	FateSweep    Fate = "sweep"    // it went back to where a sweep takes it
)

// Look is what one look at the old store knows beside where a job is.
type Look struct {
	At         Time          // before it asked who lives: who died by then, and was silent for long enough, is known
	OwnerLives bool          // the job's last owner was alive in this look
	Patience   time.Duration // how long an owner of that system may be silent and yet live
	Slip       time.Duration // how long a hand may have a job before a look shows it
	Deaths     []Death       // of workers that died without a farewell
}

// FateOf judges one: found is where the old store has it now.
func (i Item) FateOf(found OldJob, l Look) Fate {
	switch found.State {
	case OldDone:
		return FateFinished
	case OldWaiting, OldLater, OldRetrying, OldDead, OldBlocked:
		return FateSweep
	case OldOwned:
		return FateWait
	case OldOwnerLost:
		return FateLost
	}
	owned := i.Last == OldOwned || i.Last == OldOwnerLost
	patience, known := Time(l.Patience.Microseconds()), Time((l.Patience + l.Slip).Microseconds())
	switch { // it is nowhere
	case i.Last == OldDone:
		return FateFinished // by a record that has run out since
	case i.Last == OldOwnerLost, i.SeenAt-i.OwnerSeen > patience && owned:
		return FateLost // silent when it was last seen with the job
	case l.OwnerLives && owned && l.Slip == 0 && len(found.Body) == 0:
		return FateGone // and in no other's, which would show
	case !l.OwnerLives && owned && i.MissedAt-i.SeenAt > patience:
		return FateLost // nobody looked for too long to say how its owner went
	case l.At-i.MissedAt <= known:
		return FateWait // it may be between two places, or with one whose death nobody knows yet
	case len(found.Body) > 0:
		return FateLost // what ends takes that along, or says how
	case l.Slip > 0 && mayHaveHad(l.Deaths, i, l.Slip):
		return FateLost // it may have been in hands that were never seen with it, given back by others
	}
	return FateGone // it ended by itself: what it hadn't done it would have given back
}
