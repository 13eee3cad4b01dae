package daybook

import (
	"slices"
	"strings"
	"time"
)

// Death is a worker of an old system that ended without a farewell. Its times
// have the book's clock.
type Death struct {
	Worker string `json:"worker"`
	Seen   Time   `json:"seen_at,omitzero"` // its last sign of life, which tells what it had then; 0 is not known
	Found  Time   `json:"found_at"`         // the first look that found it silent for too long
}

// MayHaveHad reports whether a job that no look has shown in this worker's hand may
// have been in it when it died. It wasn't when it lay elsewhere, or was another's
// by that one's own word, after the death was found. Nor was it when it had gone
// well before the worker's last sign of life, for had it been in that hand, the
// sign would have shown it. slip is how long a hand may have a job before it shows.
func (d Death) MayHaveHad(i Item, slip time.Duration) bool {
	elsewhere := i.SeenAt
	if i.Last == OldOwned {
		elsewhere = i.OwnerSeen // who has it may give it back at any time after that
	}
	return elsewhere <= d.Found && (i.GoneAt == 0 || i.GoneAt > d.Seen.Add(-slip))
}

func mayHaveHad(deaths []Death, i Item, slip time.Duration) bool {
	return slices.ContainsFunc(deaths, func(d Death) bool { return d.MayHaveHad(i, slip) })
}

// BlamedOn is the worker whose death has the item lost: its owner, or the first that
// may have had it. "" is nobody that is known.
func (i Item) BlamedOn(l Look) string {
	for _, d := range l.Deaths {
		if i.Owner != "" && d.of(i.Owner, i.OwnerSeen) {
			return d.Worker
		}
	}
	for _, d := range l.Deaths {
		if d.MayHaveHad(i, l.Slip) {
			return d.Worker
		}
	}
	return i.Owner
}

// of reports whether this is the death of an owner that was last seen alive then.
// Who spoke again died another time. The next sign of one that was found silent
// comes after that, and one sign isn't timed twice the same.
func (d Death) of(owner string, seen Time) bool {
	return (owner == d.Worker || strings.HasPrefix(owner, d.Worker+":")) && seen <= d.Seen+(d.Found-d.Seen)/2
}

// DeathsMax bounds how many deaths a cutover keeps apart.
const DeathsMax = 100

// AddDeath notes one more, unless it is known, and reports whether it wasn't. Of
// too many the two oldest become one, which may have had what either may.
func AddDeath(known []Death, d Death) ([]Death, bool) {
	if slices.ContainsFunc(known, func(k Death) bool { return k.of(d.Worker, d.Seen) }) {
		return known, false
	}
	all := append(slices.Clone(known), d)
	if len(all) > DeathsMax {
		all[1].Seen, all[1].Found = min(all[0].Seen, all[1].Seen), max(all[0].Found, all[1].Found)
		all[1].Worker = "several"
		all = all[1:]
	}
	return all, true
}

// missed is the item after a whole look that began at since, after it was last
// seen, and didn't find it. A job may be between two places for a moment, or in a
// hand that doesn't show it yet: it has gone when a look that began after that
// misses it still.
func (i Item) missed(since Time, slip time.Duration, now Time) Item {
	switch {
	case i.MissedAt == 0:
		i.MissedAt = now
	case since >= i.MissedAt.Add(slip):
		i.GoneAt = now
	}
	i.ChangedAt = now
	return i
}

// Missed says how sure it is that the old system has it no more: 0 is not missed,
// 1 missed by the last look, 2 gone.
func (i Item) Missed() int {
	switch {
	case i.GoneAt != 0:
		return 2
	case i.MissedAt != 0:
		return 1
	}
	return 0
}
