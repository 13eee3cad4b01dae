package storetest

import (
	"fmt"
	"time"

	"github.com/daybookdev/daybook"
)

var contractOfReview = []test{
	{"Review counts what is safe to retry, and why the rest is not", reviewCounts},
	{"Review of many revivals refuses a row that changed", reviveStale},
	{"Review of a revival says what the revival does", reviewIsTrue},
}

// reviewed sets jobs aside: four plain ones, two with charge open, one with charge
// and mail open, one whose lost handler happened, and one of another queue.
func reviewed(w *world) (f daybook.Filter, ids map[string]daybook.ID) {
	w.Helper()
	queue := w.fresh()
	ids = map[string]daybook.ID{}
	s := w.session("w")
	aside := func(name string, effects ...string) {
		ids[name] = w.enqueue(daybook.Request{Queue: queue, Kind: "k", Args: []byte(`{}`)})
		got, err := w.book.Claim(w.ctx, daybook.ClaimRequest{Session: s.ID, Queues: []string{queue}})
		w.ok(err)
		j := got.Jobs[0]
		for _, e := range effects {
			_, err := w.book.BeginEffect(w.ctx, j.ID, owner(j), daybook.Begin{Name: e, Policy: daybook.PolicyAsk})
			w.ok(err)
		}
		_, err = w.book.Fail(w.ctx, j.ID, owner(j), daybook.Failure{Permanent: true}, nil)
		w.ok(err)
	}
	for i := range 4 {
		aside(fmt.Sprint("plain ", i))
	}
	aside("charge 1", "charge")
	aside("charge 2", "charge")
	aside("both", "charge", "mail")
	ids["happened"] = w.enqueue(daybook.Request{Queue: queue, Kind: "k", Args: []byte(`{}`), OnLost: daybook.LostSetAside})
	_, err := w.book.Claim(w.ctx, daybook.ClaimRequest{Queues: []string{queue},
		SessionRequest: daybook.SessionRequest{Worker: "dies", Lease: time.Second}})
	w.ok(err)
	w.clock.advance(2 * time.Second)
	w.reconcile(daybook.Sure)
	stays := daybook.Verdict{Happened: true, Stay: true}
	_, err = w.book.Settle(w.ctx, ids["happened"], daybook.HandlerEffect, stays, someone)
	w.ok(err)
	return daybook.Filter{Queue: queue}, ids
}

func reviewCounts(w *world) {
	f, _ := reviewed(w)
	r, err := w.book.Review(w.ctx, f)
	w.ok(err)
	same(w, "matched", r.Matched, int64(8))
	same(w, "safe", r.Safe, int64(4))
	why := map[string]daybook.Unsafe{}
	for _, u := range r.Unsafe {
		why[u.Why] = u
	}
	same(w, "reasons", len(why), 3)
	charge := why["effect charge (ask) is open"]
	same(w, "with charge open", charge.Jobs, int64(3))
	same(w, "which keeps it", charge.Open, true)
	same(w, "with mail open", why["effect mail (ask) is open"].Jobs, int64(1))
	happened := why["the work happened, a person said"]
	same(w, "happened", happened.Jobs, int64(1))
	same(w, "which a person may overrule", happened.Open, false)
	same(w, "the most first", r.Unsafe[0].Why, charge.Why)
	f.Kind = "other"
	r, err = w.book.Review(w.ctx, f)
	w.ok(err)
	same(w, "of another kind", r.Matched, int64(0))
	f.Kind, f.Reason = "", daybook.ReasonPermanent
	r, err = w.book.Review(w.ctx, f)
	w.ok(err)
	same(w, "by reason", r.Matched, int64(7))
	f.Reason, f.State = "", daybook.Cancelled
	r, err = w.book.Review(w.ctx, f)
	w.ok(err)
	same(w, "cancelled", r.Matched, int64(0))
	_, err = w.book.Review(w.ctx, daybook.Filter{State: daybook.Waiting})
	w.refused(err, daybook.CodeInvalid)
}

func reviewIsTrue(w *world) {
	f, ids := reviewed(w)
	f.State = daybook.SetAside
	before := w.counts()
	answer, err := w.book.Decide(w.ctx, daybook.Bulk{Move: daybook.MoveRevive, Filter: f, By: someone})
	w.ok(err)
	same(w, "revived", answer.Done, int64(4))
	same(w, "with an open effect", answer.Refused[daybook.CodeEffectOpen], int64(3))
	same(w, "not safe", answer.Refused[daybook.CodeRefused], int64(1))
	w.stands(ids["plain 0"], daybook.Waiting)
	w.stands(ids["happened"], daybook.SetAside)
	answer, err = w.book.Decide(w.ctx, daybook.Bulk{Move: daybook.MoveRevive, Filter: f, By: someone, Unsafe: true})
	w.ok(err)
	same(w, "revived when told to", answer.Done, int64(1))
	w.stands(ids["happened"], daybook.Waiting)
	w.stands(ids["both"], daybook.SetAside)
	same(w, "accepted", w.counts().Accepted, before.Accepted)
}

// reviveStale saves two revivals, one of which was made of a row that has changed
// since: neither takes hold.
func reviveStale(w *world) {
	f, ids := reviewed(w)
	first, second := w.locked(ids["plain 0"]), w.locked(ids["plain 1"])
	both := func() error {
		return w.try(func(tx daybook.Tx) error {
			var changes []daybook.Change
			for _, j := range []daybook.Job{first, second} {
				c, err := j.Revive(someone, tx.Now())
				if err != nil {
					return err
				}
				changes = append(changes, c)
			}
			return tx.Save(w.ctx, changes)
		})
	}
	_, err := w.book.Cancel(w.ctx, second.ID, someone, false)
	w.ok(err)
	w.refused(both(), daybook.CodeFenced)
	w.stands(first.ID, daybook.SetAside)
	_, err = w.book.Revive(w.ctx, second.ID, someone)
	w.ok(err)
	got, err := w.book.Claim(w.ctx, daybook.ClaimRequest{Queues: []string{f.Queue},
		SessionRequest: daybook.SessionRequest{Worker: "w"}})
	w.ok(err)
	_, err = w.book.Fail(w.ctx, second.ID, owner(got.Jobs[0]), daybook.Failure{Permanent: true}, nil)
	w.ok(err)
	w.refused(both(), daybook.CodeFenced) // it looks the same, and is another generation
	w.stands(first.ID, daybook.SetAside)
	second = w.locked(second.ID)
	w.ok(both())
	w.stands(first.ID, daybook.Waiting)
	w.stands(second.ID, daybook.Waiting)
}
