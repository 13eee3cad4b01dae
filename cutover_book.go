package daybook

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"slices"
	"time"
)

// CutoverView is a View that reads cutovers and their items.
type CutoverView interface {
	// Cutover loads one; in a write it is locked until the transaction ends, so
	// that no job moves while the phase changes. Not found is false.
	Cutover(ctx context.Context, name string) (Cutover, bool, error)
	// Cutovers lists all, in the order in which they were made.
	Cutovers(ctx context.Context) ([]Cutover, error)
	// ItemsOf loads every item of these ids, by id and occurrence.
	ItemsOf(ctx context.Context, cutover string, ids []string) ([]Item, error)
	// Items lists a page; Old is loaded only when ItemFilter.Whole says so.
	Items(ctx context.Context, f ItemFilter) (Page[Item], error)
	// ItemCounts counts a cutover's items.
	ItemCounts(ctx context.Context, cutover string) ([]ItemCount, error)
}

// CutoverTx is a Tx that writes them.
type CutoverTx interface {
	CutoverView
	// SaveCutover inserts one with Changes 0, or updates it where the record was
	// changed Changes times; else CodeFenced.
	SaveCutover(ctx context.Context, c Cutover) error
	// SaveItems inserts items, or overwrites those of the same cutover, id and
	// occurrence.
	SaveItems(ctx context.Context, cutover string, items []Item) error
}

func (b *Book) noCutovers() error {
	return Fail(CodeRefused, "%s keeps no cutovers", b.store.Describe())
}

func (b *Book) cutoverRead(ctx context.Context, doing string, fn func(CutoverView) error) error {
	return b.read(ctx, doing, func(v View) error {
		if cv, ok := v.(CutoverView); ok {
			return fn(cv)
		}
		return b.noCutovers()
	})
}

// cutoverWrite runs fn with the cutover locked.
func (b *Book) cutoverWrite(ctx context.Context, doing, name string, fn func(Tx, CutoverTx, Cutover) error) error {
	if err := checkText("name", name); err != nil {
		return err
	}
	return b.write(ctx, doing, func(tx Tx) error {
		ct, ok := tx.(CutoverTx)
		if !ok {
			return b.noCutovers()
		}
		c, found, err := ct.Cutover(ctx, name)
		if err != nil {
			return err
		}
		if !found {
			return Fail(CodeNotFound, "no cutover %s", quote(name))
		}
		return fn(tx, ct, c)
	})
}

// Cutover loads one by its name.
func (b *Book) Cutover(ctx context.Context, name string) (c Cutover, err error) {
	if err := checkText("name", name); err != nil {
		return c, err
	}
	err = b.cutoverRead(ctx, "reading a cutover", func(v CutoverView) error {
		found := false
		if c, found, err = v.Cutover(ctx, name); err == nil && !found {
			err = Fail(CodeNotFound, "no cutover %s", quote(name))
		}
		return err
	})
	return c, err
}

// Cutovers lists all of them, over or not.
func (b *Book) Cutovers(ctx context.Context) (list []Cutover, err error) {
	err = b.cutoverRead(ctx, "listing cutovers", func(v CutoverView) error {
		list, err = v.Cutovers(ctx)
		return err
	})
	return list, err
}

// Items lists a page of a cutover's items.
func (b *Book) Items(ctx context.Context, f ItemFilter) (page Page[Item], err error) {
	if err := checkTexts([2]string{"name", f.Cutover}, [2]string{"id", f.ID}); err != nil {
		return page, err
	}
	err = b.cutoverRead(ctx, "listing a cutover's jobs", func(v CutoverView) error {
		page, err = v.Items(ctx, f)
		return err
	})
	return page, err
}

// ItemCounts counts a cutover's items.
func (b *Book) ItemCounts(ctx context.Context, name string) (counts []ItemCount, err error) {
	err = b.cutoverRead(ctx, "counting a cutover's jobs", func(v CutoverView) error {
		counts, err = v.ItemCounts(ctx, name)
		return err
	})
	return counts, err
}

// ItemsOf loads the items of these ids.
func (b *Book) ItemsOf(ctx context.Context, name string, ids []string) (items []Item, err error) {
	err = b.cutoverRead(ctx, "reading a cutover's jobs", func(v CutoverView) error {
		items, err = v.ItemsOf(ctx, name, ids)
		return err
	})
	return items, err
}

// PlanCutover begins a cutover. From then on until it runs or is over nobody
// claims from its queue here, so the queue must be new, or empty and without
// workers that know of it. A cutover of the same name refuses it, and so does one
// of the same queue, here or there, that isn't over.
func (b *Book) PlanCutover(ctx context.Context, c Cutover, by By) (Cutover, error) {
	if err := errors.Join(c.Check(), CheckBy(by)); err != nil {
		return c, err
	}
	err := b.write(ctx, "planning a cutover", func(tx Tx) error {
		ct, ok := tx.(CutoverTx)
		if !ok {
			return b.noCutovers()
		}
		var err error
		if c.Round, err = freeFor(ctx, ct, c); err != nil {
			return err
		}
		if err := idle(ctx, tx, c.Queue); err != nil {
			return err
		}
		now := tx.Now()
		c.Phase, c.Claims, c.Since = PhasePlan, OldMayClaim, now
		c.Steps = []PhaseStep{{At: now, Phase: PhasePlan, Actor: by.Actor, Reason: by.Reason}}
		if err := tx.SaveQueue(ctx, closedBy(c, now)); err != nil {
			return err
		}
		return ct.SaveCutover(ctx, c)
	})
	return c, err
}

// freeFor refuses a cutover beside another one, and counts how often its old queue
// went back before.
func freeFor(ctx context.Context, v CutoverView, c Cutover) (round int, err error) {
	list, err := v.Cutovers(ctx)
	if err != nil {
		return 0, err
	}
	if len(list) >= CutoversMax {
		return 0, Invalid("name", "at most %d cutovers in one book", CutoversMax)
	}
	for _, other := range list {
		samePlace := other.System == c.System && other.Store == c.Store && other.OldQueue == c.OldQueue
		switch {
		case other.Name == c.Name:
			return 0, Fail(CodeRefused, "there is a cutover %s, in phase %s", c.Name, other.Phase)
		case other.Queue == c.Queue && !other.Phase.Over():
			return 0, Fail(CodeRefused, "cutover %s moves into queue %s and is in phase %s", other.Name, c.Queue, other.Phase)
		case samePlace && !other.Phase.Over():
			return 0, Fail(CodeRefused, "cutover %s moves queue %s of %s already and is in phase %s", other.Name, c.OldQueue,
				c.System, other.Phase)
		case samePlace && other.Phase == PhaseReturned:
			round++
		}
	}
	return round, nil
}

// idle refuses a queue that is in use here: a cutover closes it.
func idle(ctx context.Context, v View, queue string) error {
	page, err := v.Jobs(ctx, Filter{Queue: queue, State: Waiting, Limit: 1})
	if err == nil && len(page.Items) == 0 {
		page, err = v.Jobs(ctx, Filter{Queue: queue, State: Running, Limit: 1})
	}
	if err == nil && len(page.Items) > 0 {
		err = Fail(CodeRefused, "queue %s has jobs here already, such as %s; let them end or name another queue",
			queue, page.Items[0].ID)
	}
	return err
}

// closedBy is the queue while it isn't the book that may claim.
func closedBy(c Cutover, now Time) Queue {
	return Queue{Name: c.Queue, Paused: true, PausedAt: now, PausedBy: c.Holder(),
		PausedReason: "cutover " + c.Name + " is not at the phase in which the book may claim"}
}

// closing is the cutover that keeps a queue paused, if there is one.
func closing(ctx context.Context, tx Tx, queue string) (Cutover, bool, error) {
	ct, ok := tx.(CutoverTx)
	if !ok {
		return Cutover{}, false, nil
	}
	list, err := ct.Cutovers(ctx)
	for _, c := range list {
		if c.Queue == queue && c.Closed() {
			return c, true, err
		}
	}
	return Cutover{}, false, err
}

// AdvanceCutover takes a cutover to its next phase; being there already is no
// error. Coming to the phase in which
// the book may claim lets its queue go, and leaving it closes that again.
func (b *Book) AdvanceCutover(ctx context.Context, name string, to Phase, by By) (next Cutover, err error) {
	if err := CheckBy(by); err != nil {
		return next, err
	}
	err = b.cutoverWrite(ctx, "advancing a cutover", name, func(tx Tx, ct CutoverTx, c Cutover) error {
		if next = c; c.Phase == to {
			return nil
		}
		if next, err = c.To(to, by, tx.Now()); err != nil {
			return err
		}
		if next.Closed() != c.Closed() {
			q := Queue{Name: c.Queue}
			if next.Closed() {
				q = closedBy(next, tx.Now())
			}
			if err := tx.SaveQueue(ctx, q); err != nil {
				return err
			}
		}
		return ct.SaveCutover(ctx, next)
	})
	return next, err
}

// NoteCutover changes a cutover's plan or notes, never its phase.
func (b *Book) NoteCutover(ctx context.Context, name string, change func(*Cutover) error) (next Cutover, err error) {
	err = b.cutoverWrite(ctx, "writing a cutover's notes", name, func(_ Tx, ct CutoverTx, c Cutover) error {
		next = c
		if err := change(&next); err != nil {
			return err
		}
		next.Phase, next.Claims, next.Steps, next.Changes = c.Phase, c.Claims, c.Steps, c.Changes
		return ct.SaveCutover(ctx, next)
	})
	return next, err
}

// SeeOld notes where the old store has these jobs, at most BatchMax of them, and
// answers how many were new. The look began at since, by Clock; 0 is now. gated says
// that it was after the gate.
func (b *Book) SeeOld(ctx context.Context, name string, jobs []OldJob, since Time, gated bool) (
	arrived int, err error) {
	err = b.cutoverWrite(ctx, "noting an old system's jobs", name, func(tx Tx, ct CutoverTx, c Cutover) error {
		arrived = 0
		known, err := itemsBy(ctx, ct, name, jobs)
		if err != nil {
			return err
		}
		from := since
		if from == 0 {
			from = tx.Now()
		}
		var save []Item
		for _, o := range jobs {
			i := Sighted(known[o.Name()], o, gated, from, tx.Now())
			if i.Occurrence == len(known[o.Name()]) {
				arrived++
			}
			if i.Term == TermStill {
				save = append(save, i)
			}
			known[o.Name()] = placed(known[o.Name()], i)
		}
		return ct.SaveItems(ctx, name, save)
	})
	return arrived, err
}

// MissOld notes which items that stand with the old system a whole look that began
// at since didn't find. slip is how long a hand may have a job before a look shows
// it; n is how many items are read at once.
func (b *Book) MissOld(ctx context.Context, name string, since Time, slip time.Duration, n int) error {
	f := ItemFilter{Cutover: name, Term: TermStill, SeenBefore: since, NotGone: true, Whole: true, Limit: n}
	for {
		err := b.cutoverWrite(ctx, "noting what an old system has no more", name, func(tx Tx, ct CutoverTx, _ Cutover) error {
			page, err := ct.Items(ctx, f)
			if err != nil {
				return err
			}
			for k, i := range page.Items {
				page.Items[k] = i.missed(since, slip, tx.Now())
			}
			f.Cursor = page.Cursor
			return ct.SaveItems(ctx, name, page.Items)
		})
		if err != nil || f.Cursor == "" {
			return err
		}
	}
}

// Clock is the time of the book's store, by which its records are.
func (b *Book) Clock(ctx context.Context) (now Time, err error) {
	err = b.read(ctx, "reading the clock", func(v View) error {
		now = v.Now()
		return nil
	})
	return now, err
}

func itemsBy(ctx context.Context, v CutoverView, name string, jobs []OldJob) (map[string][]Item, error) {
	ids := make([]string, 0, len(jobs))
	for _, o := range jobs {
		ids = append(ids, o.Name())
	}
	slices.Sort(ids)
	items, err := v.ItemsOf(ctx, name, slices.Compact(ids))
	known := make(map[string][]Item, len(items))
	for _, i := range items {
		known[i.ID] = append(known[i.ID], i)
	}
	return known, err
}

// placed puts an item to those of its id, in place of itself.
func placed(known []Item, i Item) []Item {
	known = slices.Clone(known)
	if i.Occurrence < len(known) {
		known[i.Occurrence] = i
		return known
	}
	return append(known, i)
}

// Arriving is a job of the old system as it is to be here.
type Arriving struct {
	Old       OldJob
	Request   Request
	Aside     Reason // set aside for this instead of waiting
	OwnerDied bool   // with the open effect handler
	// Twin is the request key under which a producer that writes to both systems
	// entered it here: if there is such a job, all of it equal, it is this one. ""
	// is none.
	Twin string
}

// Arrived is what came of it.
type Arrived struct {
	Item  Item
	Taken bool // it became a job now; else it was known and is where it was
}

// ImportOld records jobs that lie in the old store's held list, or whose owner
// died with them, at most BatchMax: each as a job, held until the cutover runs,
// with its origin. Calling it again changes nothing and answers the same jobs.
func (b *Book) ImportOld(ctx context.Context, name string, jobs []Arriving) (out []Arrived, err error) {
	rings := ringer{}
	err = b.cutoverWrite(ctx, "moving jobs in", name, func(tx Tx, ct CutoverTx, c Cutover) error {
		if out, err = nil, nil; !slices.Contains([]Phase{PhaseMove, PhaseSettle, PhaseRun, PhaseReconcile, PhaseRetire},
			c.Phase) {
			return Fail(CodeRefused, "cutover %s is in phase %s, in which nothing moves in", name, c.Phase)
		}
		i := importer{c: c, tx: tx, now: tx.Now(), place: int64(tx.Now())}
		old := make([]OldJob, len(jobs))
		for n := range jobs {
			old[n] = jobs[n].Old
		}
		if i.known, err = itemsBy(ctx, ct, name, old); err != nil {
			return err
		}
		for _, a := range jobs {
			if err := i.one(ctx, a); err != nil {
				return err
			}
		}
		if err := tx.Save(ctx, i.changes); err != nil {
			return err
		}
		rings.changes(i.changes, i.now)
		out = i.out
		return ct.SaveItems(ctx, name, i.save)
	})
	if err == nil {
		b.ring(ctx, rings)
	}
	return out, err
}

// importer decides about jobs one after the other, each knowing of those before
// it; what it decided is saved at once.
type importer struct {
	c       Cutover
	tx      Tx
	now     Time
	place   int64
	known   map[string][]Item
	changes []Change
	save    []Item
	out     []Arrived
}

func (i *importer) one(ctx context.Context, a Arriving) error {
	id := a.Old.Name()
	item, take := Arrive(i.known[id], a.Old, i.c.EnteredAt(PhaseGate) != 0, i.now)
	if twin, err := i.twinOf(ctx, a); err != nil {
		return err
	} else if take {
		item, take = i.meets(twin, a, item)
	}
	if take {
		change, err := i.arrival(a, item)
		if err != nil {
			return err
		}
		i.changes = append(i.changes, change)
		item = item.taken(a.Old, change.Now, i.place, i.now)
		i.place++
	}
	i.save = append(i.save, item)
	i.known[id] = placed(i.known[id], item)
	i.out = append(i.out, Arrived{Item: item, Taken: take})
	return nil
}

func (i *importer) arrival(a Arriving, item Item) (Change, error) {
	n, err := a.Request.Prepare()
	if err != nil {
		return Change{}, err
	}
	arrival := Arrival{Aside: a.Aside, OwnerDied: a.OwnerDied, Failures: a.Old.Attempts, Error: a.Old.Error,
		Origin: Origin{System: i.c.System, Store: i.c.Store, Queue: i.c.OldQueue, ID: item.ID,
			Occurrence: item.Occurrence, PayloadHash: item.Hash, Round: i.c.Round}}
	// What is set aside isn't held: a run lets go what waits, and a person may send
	// this one there later. Before that the closed queue keeps it.
	if i.c.Claims != BookMayClaim && a.Aside == "" && !a.OwnerDied {
		arrival.HeldBy = i.c.Holder()
	}
	if item.Asked {
		arrival.HeldBy = i.c.Holder() + ":asked"
	}
	return n.Import(arrival, i.now), nil
}

// UnreadableArgs are the args of a job whose body can't be read here: it is
// carried as it is, for a person.
func UnreadableArgs(body []byte) json.RawMessage {
	args, err := json.Marshal(map[string]string{"base64": base64.StdEncoding.EncodeToString(body)})
	if err != nil {
		panic(err) // a map of strings always encodes
	}
	return args
}

// JudgeOld records fates of items that still stood with the old system: which
// it is that ended, and by what evidence. Items whose place is settled stay.
func (b *Book) JudgeOld(ctx context.Context, name string, judged []Item, fates []Fate, note string) error {
	return b.cutoverWrite(ctx, "judging an old system's jobs", name, func(tx Tx, ct CutoverTx, c Cutover) error {
		ids := make([]OldJob, len(judged))
		for n, i := range judged {
			ids[n].ID = i.ID
		}
		known, err := itemsBy(ctx, ct, name, ids)
		if err != nil {
			return err
		}
		var save []Item
		for n, i := range judged {
			now, ok := at(known[i.ID], i.Occurrence)
			if ok && now.Term == TermStill && now.SeenAt == i.SeenAt { // else a newer look has seen it
				save = append(save, now.judged(fates[n], i, note, tx.Now()))
			}
		}
		return ct.SaveItems(ctx, name, save)
	})
}

// HearOld notes what the old system says of items that a person decides about,
// and counts that it was heard. The same note again changes nothing.
func (b *Book) HearOld(ctx context.Context, name string, heard []Item, note string) error {
	return b.cutoverWrite(ctx, "noting a late report", name, func(tx Tx, ct CutoverTx, _ Cutover) error {
		ids := make([]OldJob, len(heard))
		for n, i := range heard {
			ids[n].ID = i.ID
		}
		known, err := itemsBy(ctx, ct, name, ids)
		if err != nil {
			return err
		}
		var save []Item
		for _, i := range heard {
			if now, ok := at(known[i.ID], i.Occurrence); ok && now.Term == TermOpen && now.Note != note {
				now.Note, now.ChangedAt = note, tx.Now()
				now.Again++
				save = append(save, now)
			}
		}
		return ct.SaveItems(ctx, name, save)
	})
}

func at(known []Item, occurrence int) (Item, bool) {
	for _, i := range known {
		if i.Occurrence == occurrence {
			return i, true
		}
	}
	return Item{}, false
}

// judged is the item after its fate; of one that waits or is lost only what who
// judged it found: when it was missed, if it was, and whose death has it lost.
func (i Item) judged(f Fate, by Item, note string, now Time) Item {
	i.ChangedAt = now
	switch f {
	case FateFinished, FateGone:
		i.Term, i.Proved, i.Note, i.Old = TermFinished, f == FateFinished, note, nil
		if i.Proved {
			i.Last = OldDone // its record was found, in the judge's own look
		}
	case FateWait:
		if i.MissedAt == 0 {
			i.MissedAt = by.MissedAt
		}
	case FateLost:
		i.Died = by.Died
	}
	return i
}

// ReturnOld marks up to n jobs as going back to the old system, the last taken
// first, and answers their items with what the old system needs. A job that ran
// here, or that a person ended, stays the book's: it is answered by kept.
// Items that are going back already come first, so that a rollback goes on
// where it stopped.
func (b *Book) ReturnOld(ctx context.Context, name string, n int, by By) (going []Item, kept []Item, err error) {
	err = b.cutoverWrite(ctx, "giving jobs back", name, func(tx Tx, ct CutoverTx, c Cutover) error {
		going, kept = nil, nil
		if c.Phase != PhaseReturning {
			return Fail(CodeRefused, "cutover %s is in phase %s, not returning", name, c.Phase)
		}
		page, err := ct.Items(ctx, ItemFilter{Cutover: name, Term: TermReturning, Backward: true, Whole: true, Limit: n})
		if going = page.Items; err != nil || len(going) > 0 {
			return err
		}
		return b.sendBack(ctx, tx, ct, c, n, by, &going, &kept)
	})
	return going, kept, err
}

func (b *Book) sendBack(ctx context.Context, tx Tx, ct CutoverTx, c Cutover, n int, by By, going, kept *[]Item) error {
	var items []Item
	for _, t := range []Term{TermMoved, TermDead} {
		page, err := ct.Items(ctx, ItemFilter{Cutover: c.Name, Term: t, Backward: true, Whole: true, Limit: n})
		if err != nil {
			return err
		}
		if items = page.Items; len(items) > 0 {
			break
		}
	}
	ids := make([]ID, len(items))
	for i := range items {
		ids[i] = items[i].Job
	}
	jobs, err := tx.Lock(ctx, ids)
	if err != nil {
		return err
	}
	var changes []Change
	for k, i := range items {
		change, err := jobs[k].GoBack(by, tx.Now())
		i.ChangedAt = tx.Now()
		if jobs[k].ID.IsZero() || err != nil {
			i.Term, i.Old = TermKept, nil
			*kept = append(*kept, i)
		} else {
			changes = append(changes, change)
			i.Term = TermReturning
			*going = append(*going, i)
		}
		items[k] = i
	}
	if err := tx.Save(ctx, changes); err != nil {
		return err
	}
	return ct.SaveItems(ctx, c.Name, items)
}

// Returned notes that the old system has these again.
func (b *Book) Returned(ctx context.Context, name string, items []Item) error {
	return b.cutoverWrite(ctx, "noting what went back", name, func(tx Tx, ct CutoverTx, c Cutover) error {
		for k := range items {
			items[k].Term, items[k].ChangedAt, items[k].Old = TermReturned, tx.Now(), nil
		}
		return ct.SaveItems(ctx, name, items)
	})
}
